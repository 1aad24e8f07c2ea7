//! The example that people copy keeps its word: a kill at any moment loses no more than since the last save.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use xtask::built::workspace_root;
use xtask::not_available;

/// A folder of this test's own, removed when it passes.
pub fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("bursar-example-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary directory is writable");
    folder
}

fn train(folder: &Path, step_ms: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(workspace_root().join("examples/train.py")).arg("--dir").arg(folder);
    command.args(["--steps", "200", "--save-steps", "20", "--step-ms", step_ms]);
    for name in ["BURSAR_CHECKPOINT_FILE", "BURSAR_CHECKPOINT_SOCKET", "BURSAR_NOTICE_FILE"] {
        command.env_remove(name);
    }
    command
}

pub fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        not_available("python3, which the training example is written in, is not installed");
    }
    found
}

/// Runs to the end and returns the first and the last line.
fn finish(folder: &Path) -> (String, String) {
    let output = train(folder, "0").output().expect("python3 was found");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("the example prints text");
    let line = |line: Option<&str>| line.expect("the example prints lines").to_owned();
    (line(text.lines().next()), line(text.lines().last()))
}

/// How long a step of a slow run takes, in ms: what is done to it once it has saved at step 40 comes long before its last.
pub const SLOW: &str = "50";

/// Starts a slow run and waits, by its own output, until it has saved at step 40.
fn started(folder: &Path) -> (Child, impl Iterator<Item = String> + use<>) {
    begun(&mut train(folder, SLOW))
}

fn begun(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("python3 was found");
    let output = child.stdout.take().expect("its output is piped");
    let mut lines = BufReader::new(output).lines().map(|line| line.expect("the example prints text"));
    assert!(lines.any(|line| line == "step 40/200 saved"));
    (child, lines)
}

#[test]
fn a_run_killed_in_the_middle_and_resumed_ends_with_the_same_result() {
    if !has_python() {
        return;
    }
    let (whole, cut) = (folder("whole"), folder("cut"));
    let (_, expected) = finish(&whole);
    assert!(expected.starts_with("result "), "{expected}");

    let (mut child, _) = started(&cut);
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    let (first, result) = finish(&cut);
    let resumed_at: u32 = first.strip_prefix("resumed at step ").unwrap().parse().unwrap();
    assert!((40..200).contains(&resumed_at), "{first}");
    assert_eq!(result, expected);
    std::fs::remove_dir_all(&whole).unwrap();
    std::fs::remove_dir_all(&cut).unwrap();
}

#[test]
fn a_run_reports_its_checkpoint_where_it_is_told_to_and_trains_on_where_it_cannot() {
    if !has_python() {
        return;
    }
    let folder = folder("reports");
    let told = folder.join("told");
    let output = train(&folder, "0").env("BURSAR_CHECKPOINT_FILE", &told).output().unwrap();
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&told).unwrap()).unwrap();
    assert_eq!(report["step"], 200);
    assert!(Path::new(report["path"].as_str().unwrap()).is_file(), "{report}");

    let nowhere = folder.join("missing/told");
    std::fs::remove_file(folder.join("checkpoint.json")).unwrap();
    let output = train(&folder, "0").env("BURSAR_CHECKPOINT_FILE", nowhere).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("could not report the checkpoint"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_run_that_gets_its_notice_saves_and_leaves_without_claiming_to_be_done() {
    if !has_python() {
        return;
    }
    for signal in [10, 15] {
        let folder = folder(&format!("told-{signal}"));
        let (mut child, mut lines) = started(&folder);
        let told =
            Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().unwrap();
        assert!(told.success());
        let left = lines.find(|line| line.starts_with("leaving at step ")).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal));
        let (first, _) = finish(&folder);
        assert_eq!(first.strip_prefix("resumed at step "), left.strip_prefix("leaving at step "));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_run_whose_notice_is_only_a_file_saves_and_leaves_too() {
    if !has_python() {
        return;
    }
    let folder = folder("notice");
    let notice = folder.join("notice");
    let (mut child, mut lines) = begun(train(&folder, SLOW).env("BURSAR_NOTICE_FILE", &notice));
    std::fs::write(&notice, "reason=test\n").unwrap();
    assert!(lines.any(|line| line.starts_with("leaving at step ")));
    assert_eq!(child.wait().unwrap().code(), Some(128 + 10));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_run_tells_the_socket_of_each_checkpoint_and_that_it_resumed() {
    if !has_python() {
        return;
    }
    let folder = folder("socket");
    let path = folder.join("s");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let hear = || {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).expect("the run reports");
        serde_json::from_slice::<serde_json::Value>(&bytes[..length]).expect("reports are JSON")
    };
    let (mut child, _lines) = begun(train(&folder, SLOW).env("BURSAR_CHECKPOINT_SOCKET", &path));
    let first = hear();
    assert_eq!(first["step"], 20);
    assert!(
        first["began"].as_f64() <= first["finished"].as_f64() && first["bytes"].as_u64() > Some(0),
        "{first}"
    );
    assert!(Path::new(first["path"].as_str().unwrap()).is_file(), "{first}");
    assert_eq!(hear()["step"], 40);
    child.kill().unwrap();
    child.wait().unwrap();

    let resumed = train(&folder, "0").env("BURSAR_CHECKPOINT_SOCKET", &path).stdout(Stdio::null()).spawn();
    let mut child = resumed.expect("python3 was found");
    let told = std::iter::repeat_with(hear).find(|told| told["resumed"] == true).expect("it says so");
    assert!(told["step"].as_u64() >= Some(40), "{told}");
    assert!(child.wait().unwrap().success());
    std::fs::remove_dir_all(&folder).unwrap();
}
