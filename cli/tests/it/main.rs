//! `bursar` as people call it: what works without a control plane, and the whole tour with one.

mod dev;
mod offline;
mod simulate;
mod support;
mod tour;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `bursar` with a configuration folder of its own and nothing of ours in its environment.
fn bursar(home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BURSAR_")) {
        command.env_remove(name);
    }
    let command = command.args(args).env("XDG_CONFIG_HOME", home).env("NO_COLOR", "1").current_dir(home);
    command.stdin(Stdio::null()).output().expect("bursar runs")
}

/// Runs `bursar` and looks at its exit code and at a part of what it says.
fn check(home: &Path, args: &[&str], code: i32, says: &str) -> String {
    let output = bursar(home, args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    // Data goes to stdout, talk and errors to stderr.
    let heard = if code == 0 { &out } else { &err };
    assert!(heard.contains(says), "{args:?}\n{out}\n{err}");
    assert!(code == 0 || out.is_empty(), "a failure leaves stdout empty: {args:?}\n{out}");
    out.into_owned()
}
