//! The example that people copy keeps its word: a kill at any moment loses no more than since the last save.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use xtask::built::workspace_root;
use xtask::not_available;

/// A folder of this test's own, removed when it passes.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("bursar-example-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary directory is writable");
    folder
}

fn train(folder: &Path, step_ms: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(workspace_root().join("examples/train.py")).arg("--dir").arg(folder);
    command.args(["--steps", "200", "--save-every", "20", "--step-ms", step_ms]);
    command
}

fn has_python() -> bool {
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

/// Starts a slow run and waits, by its own output, until it has saved at step 40.
fn started(folder: &Path) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child =
        train(folder, "5").stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("python3 was found");
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
fn a_run_told_to_stop_saves_and_leaves_without_claiming_to_be_done() {
    if !has_python() {
        return;
    }
    let folder = folder("told");
    let (mut child, mut lines) = started(&folder);
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let left = lines.find(|line| line.starts_with("leaving at step ")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    let (first, _) = finish(&folder);
    assert_eq!(first.strip_prefix("resumed at step "), left.strip_prefix("leaving at step "));
    std::fs::remove_dir_all(&folder).unwrap();
}
