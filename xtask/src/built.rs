//! The programs that tests start, built once per process by cargo.
//!
//! Cargo gives a test the path of its own package's programs only. Whole-process tests need `bursar`, the shim
//! and the fake NVML library of other packages, in the profile and target directory that the test runs from.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Returns the path of `bursar`, built now if it is stale.
///
/// # Panics
///
/// With cargo's own messages when the build fails.
pub fn bursar() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| expect_built(&BURSAR))
}

/// Returns the path of `bursar-shim`, built now if it is stale.
///
/// # Panics
///
/// With cargo's own messages when the build fails.
pub fn shim() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| expect_built(&SHIM))
}

/// Returns the path of `libbursar_fake_nvml.so`, built now if it is stale.
///
/// # Panics
///
/// With cargo's own messages when the build fails.
pub fn fake_nvml() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| expect_built(&FAKE_NVML))
}

/// What to ask cargo for, and which of the files it reports is meant.
struct Wanted {
    /// Arguments that select the target.
    ///
    /// Programs are selected out of the whole workspace: cargo then unites features as `cargo test --workspace`
    /// does, and finds its own work done instead of compiling the dependencies a second time.
    select: &'static [&'static str],
    /// The target's name in cargo's messages.
    target: &'static str,
    /// Whether the file is a shared library and not a program.
    is_library: bool,
}

const BURSAR: Wanted =
    Wanted { select: &["--workspace", "--bin", "bursar"], target: "bursar", is_library: false };
const SHIM: Wanted =
    Wanted { select: &["--workspace", "--bin", "bursar-shim"], target: "bursar-shim", is_library: false };
const FAKE_NVML: Wanted =
    Wanted { select: &["--package", "fake-nvml", "--lib"], target: "bursar_fake_nvml", is_library: true };

fn expect_built(wanted: &Wanted) -> PathBuf {
    Place::of_this_process()
        .and_then(|place| build(wanted, &place))
        .unwrap_or_else(|e| panic!("{}: {e:#}", wanted.target))
}

/// Where cargo puts what it builds: target directory, profile and, when cross-compiling, the target triple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    target_dir: PathBuf,
    triple: Option<String>,
    profile: String,
}

impl Place {
    /// Returns the place that the running program was built into.
    ///
    /// # Errors
    ///
    /// When the program cannot find its own path.
    pub fn of_this_process() -> Result<Self> {
        let exe = std::env::current_exe().context("failed to find the running program's own path")?;
        let target_dir = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => absolute(&dir)?,
            None => workspace_root().join("target"),
        };
        Ok(Self::of(&exe, &target_dir))
    }

    /// Reads the profile off `exe`; a program from elsewhere gets the development profile in `fallback`.
    fn of(exe: &Path, fallback: &Path) -> Self {
        let dir = exe.parent().unwrap_or(Path::new(""));
        let dir = match dir.file_name() {
            Some(name) if name == "deps" || name == "examples" => dir.parent().unwrap_or(dir),
            _ => dir,
        };
        let Some((above, profile)) = dir.parent().zip(dir.file_name().and_then(|n| n.to_str())) else {
            return Self::development(fallback);
        };
        // Cargo marks a target directory, and not the directory of a triple inside it, with this file.
        let is_target = |dir: &Path| dir.join(".rustc_info.json").exists() || dir == fallback;
        if is_target(above) {
            return Self { target_dir: above.into(), triple: None, profile: profile_name(profile) };
        }
        match above.parent().zip(above.file_name().and_then(|n| n.to_str())) {
            Some((target_dir, triple)) if is_target(target_dir) => Self {
                target_dir: target_dir.into(),
                triple: Some(triple.into()),
                profile: profile_name(profile),
            },
            _ => Self::development(fallback),
        }
    }

    fn development(target_dir: &Path) -> Self {
        Self { target_dir: target_dir.into(), triple: None, profile: "dev".into() }
    }

    /// Returns the same place with another profile.
    pub fn with_profile(mut self, profile: &str) -> Self {
        self.profile = profile.into();
        self
    }

    /// Returns the target directory.
    pub fn target_dir(&self) -> &Path {
        &self.target_dir
    }
}

/// Cargo's directory `debug` belongs to the profile `dev`; every other directory bears its profile's name.
fn profile_name(dir: &str) -> String {
    if dir == "debug" { "dev".into() } else { dir.into() }
}

fn absolute(dir: &OsString) -> Result<PathBuf> {
    std::path::absolute(dir).with_context(|| format!("failed to resolve {}", Path::new(dir).display()))
}

/// Returns the root of the workspace.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A command that runs cargo in the workspace, free of what the cargo above us told us about our own package.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|p| name.starts_with(p));
        if is_ours || name == "CARGO_CRATE_NAME" || name == "OUT_DIR" || name == "LD_LIBRARY_PATH" {
            command.env_remove(name);
        }
    }
    command
}

/// Builds `wanted` in `place` and returns its file. One build at a time per target directory.
fn build(wanted: &Wanted, place: &Place) -> Result<PathBuf> {
    let _lock = build_lock(&place.target_dir)?;
    let mut command = cargo();
    command
        .args(["build", "--message-format=json-render-diagnostics"])
        .args(["--profile", &place.profile])
        .args(wanted.select)
        .arg("--target-dir")
        .arg(&place.target_dir);
    if let Some(triple) = &place.triple {
        command.args(["--target", triple]);
    }
    let output = command.stdin(Stdio::null()).output().context("failed to start cargo")?;
    if !output.status.success() {
        bail!("cargo build failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let messages = String::from_utf8(output.stdout).context("cargo's messages are not UTF-8")?;
    artifact(&messages, wanted).with_context(|| format!("cargo built no {}", wanted.target))
}

/// Builds `bursar`, the shim and the fake library in `place`, and returns their paths in this order.
///
/// # Errors
///
/// With cargo's own messages when a build fails.
pub fn all(place: &Place) -> Result<[PathBuf; 3]> {
    Ok([build(&BURSAR, place)?, build(&SHIM, place)?, build(&FAKE_NVML, place)?])
}

fn build_lock(target_dir: &Path) -> Result<File> {
    std::fs::create_dir_all(target_dir)
        .with_context(|| format!("failed to make {}", target_dir.display()))?;
    let path = target_dir.join("xtask-built.lock");
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(&path)
        .with_context(|| format!("failed to open {}", path.display()))?;
    file.lock().with_context(|| format!("failed to lock {}", path.display()))?;
    Ok(file)
}

/// The part of cargo's messages that is read here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn artifact(messages: &str, wanted: &Wanted) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.reason == "compiler-artifact")
        .find_map(|message| {
            let target = message.target.filter(|target| target.name == wanted.target)?;
            if wanted.is_library {
                let is_shared = |file: &PathBuf| file.extension().is_some_and(|e| e == "so" || e == "dylib");
                return message.filenames.into_iter().find(is_shared);
            }
            message.executable.filter(|_| target.kind.iter().any(|kind| kind == "bin"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_read_off_the_program_s_own_path() {
        let target = Path::new("/w/target");
        let of = |exe: &str| Place::of(Path::new(exe), target);
        assert_eq!(of("/w/target/debug/deps/it-1").profile, "dev");
        assert_eq!(of("/w/target/debug/xtask").profile, "dev");
        assert_eq!(of("/w/target/release/deps/it-1").profile, "release");
        let cross = of("/w/target/aarch64-unknown-linux-gnu/debug/deps/it-1");
        assert_eq!(cross.triple.as_deref(), Some("aarch64-unknown-linux-gnu"));
        assert_eq!(cross.target_dir, target);
        assert_eq!(of("/usr/bin/xtask"), Place::development(target));
    }

    #[test]
    fn artifact_is_taken_by_target_and_kind() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"bursar","kind":["lib"]},"filenames":["/t/libbursar.rlib"],"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"bursar","kind":["bin"]},"filenames":["/t/bursar"],"executable":"/t/bursar"}
{"reason":"compiler-artifact","target":{"name":"bursar_fake_nvml","kind":["cdylib","rlib"]},"filenames":["/t/libbursar_fake_nvml.rlib","/t/libbursar_fake_nvml.so"],"executable":null}
{"reason":"build-finished","success":true}"#;
        assert_eq!(artifact(messages, &BURSAR), Some("/t/bursar".into()));
        assert_eq!(artifact(messages, &FAKE_NVML), Some("/t/libbursar_fake_nvml.so".into()));
        assert_eq!(artifact(messages, &SHIM), None);
    }
}
