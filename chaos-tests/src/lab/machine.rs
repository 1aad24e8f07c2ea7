//! A machine of a replica's own, as far as its clocks go: a boot id, a boot clock that counts from that boot, a wall
//! clock that may be wrong. The machine that the tests run on keeps its clocks.
//!
//! The product knows nothing of this: it reads its clocks as always. The boot clock is moved by a time namespace, the
//! boot id by a file that is mounted over it in a mount namespace, and the wall clock by a library that is loaded before
//! the C library (`wall.c`). All of it needs root and a Linux that has time namespaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// Mounts the boot id and becomes the program.
const BECOME: &str = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;

/// How long such a machine has been up when its process starts, in seconds.
const UP_S: u64 = 60;

/// One boot of a machine.
#[derive(Debug, Clone)]
pub struct Machine {
    boot_id: PathBuf,
    wall: PathBuf,
    wall_ahead_s: i64,
}

impl Machine {
    /// Boots one whose files are in `folder`; its wall clock is wrong by `wall_ahead_s`.
    ///
    /// # Errors
    /// With why this machine cannot have others in it.
    pub fn boot(folder: &Path, wall_ahead_s: i64) -> Result<Self> {
        let id = fs::read_to_string("/proc/sys/kernel/random/uuid").context("no random id")?;
        let boot_id = folder.join(format!("boot-{}", id.trim()));
        fs::write(&boot_id, &id).context("failed to write a boot id")?;
        Ok(Self { boot_id, wall: library(folder)?, wall_ahead_s })
    }

    /// Returns why processes cannot be put into machines of their own here, if they cannot.
    #[must_use]
    pub fn missing(folder: &Path) -> Option<String> {
        Self::boot(folder, 86_400)
            .and_then(|machine| machine.try_out())
            .err()
            .map(|error| format!("{error:#}"))
    }

    /// Returns the command that runs `program` on this machine.
    ///
    /// # Errors
    /// When this machine does not say how long it has been up.
    pub fn command(&self, program: &Path) -> Result<Command> {
        let uptime = fs::read_to_string("/proc/uptime").context("no uptime")?;
        let up: u64 = uptime.split('.').next().unwrap_or_default().parse().context("no uptime")?;
        let ahead = i64::try_from(UP_S)? - i64::try_from(up)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--time", "--boottime", &ahead.to_string(), "sh", "-c", BECOME]);
        command.arg(&self.boot_id).arg(program);
        command.env("LD_PRELOAD", &self.wall).env("BURSAR_LAB_WALL_AHEAD_S", self.wall_ahead_s.to_string());
        Ok(command)
    }

    fn try_out(&self) -> Result<()> {
        let mut command = self.command(Path::new("sh"))?;
        command.args(["-c", "cat /proc/sys/kernel/random/boot_id /proc/uptime; date +%s"]);
        let said = command.output().context("no machines in this one: unshare")?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let mut lines = text.lines();
        let boot_id = fs::read_to_string(&self.boot_id).context("the boot id is gone")?;
        let has_boot_id = lines.next() == Some(boot_id.trim());
        let has_uptime =
            lines.next().is_some_and(|line| line.starts_with(&format!("{UP_S}.")) || line.starts_with("61."));
        let now = std::time::UNIX_EPOCH.elapsed().context("the wall clock is before 1970")?.as_secs();
        let has_wall =
            lines.next().and_then(|line| line.parse::<u64>().ok()).is_some_and(|at| at > now + 80_000);
        anyhow::ensure!(
            has_boot_id && has_uptime && has_wall,
            "no machines in this one: {text}{}",
            String::from_utf8_lossy(&said.stderr).trim()
        );
        Ok(())
    }
}

/// Builds the library that moves the wall clock.
fn library(folder: &Path) -> Result<PathBuf> {
    let built = folder.join("wall.so");
    if built.exists() {
        return Ok(built);
    }
    let source = folder.join("wall.c");
    fs::write(&source, include_str!("wall.c")).context("failed to write wall.c")?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).arg(&source).arg("-ldl");
    let said = cc.output().context("no library for the wall clock: cc")?;
    anyhow::ensure!(
        said.status.success(),
        "no library for the wall clock: {}",
        String::from_utf8_lossy(&said.stderr)
    );
    Ok(built)
}
