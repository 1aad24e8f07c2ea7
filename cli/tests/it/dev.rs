//! A development cluster leaves nothing behind, however it ends, and is there for everybody.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Dev, until};

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A job that ignores every request to end, and has a child that left its session and its parent.
const STUBBORN: &str = "trap '' INT TERM HUP; (setsid sleep 600 &); while :; do sleep 1; done";

#[test]
fn ctrl_c_ends_jobs_and_parts_and_leaves_no_file_and_no_context() {
    let _alone = xtask::cluster_lock();
    let home = home();
    super::check(home.path(), &["context", "add", "lab", "--servers", "127.0.0.1:1"], 0, "");
    let mut dev = Dev::up(home.path());
    let (stubborn, plain) = (dev.job("stubborn", STUBBORN), dev.job("plain", "exec sleep 600"));
    let processes = dev.processes();
    assert!(processes.contains(&stubborn) && processes.contains(&plain), "{processes:?}");
    assert!(processes.len() >= 10, "three replicas, an agent, its probe, two shims, two jobs: {processes:?}");
    assert_eq!(dev.left().len(), 1);
    dev.press_ctrl_c();
    assert_eq!(dev.wait().code(), Some(0), "{}", dev.log());
    let left: Vec<_> = processes.iter().filter(|process| process.is_alive()).collect();
    assert!(left.is_empty(), "{left:?}\n{}", dev.log());
    assert_eq!(dev.left(), [] as [PathBuf; 0]);
    let contexts = dev.json(&["context", "list"]);
    assert_eq!(contexts["contexts"].as_array().map(Vec::len), Some(1), "{contexts}");
    assert_eq!(contexts["contexts"][0]["selected"], true, "the one from before is back: {contexts}");
}

#[test]
fn ctrl_c_while_it_comes_up_leaves_nothing_either() {
    let _alone = xtask::cluster_lock();
    let home = home();
    let mut dev = Dev::start(home.path());
    until("its first replica", || (dev.processes().len() > 1).then_some(()));
    let processes = dev.processes();
    dev.press_ctrl_c();
    assert_eq!(dev.wait().code(), Some(0), "{}", dev.log());
    let left: Vec<_> = processes.iter().filter(|process| process.is_alive()).collect();
    assert!(left.is_empty(), "{left:?}\n{}", dev.log());
    assert_eq!(dev.left(), [] as [PathBuf; 0]);
    assert_eq!(dev.run(&["context", "list", "-o", "name"]), "");
}

#[test]
fn what_a_killed_one_left_is_cleared_by_the_next() {
    let _alone = xtask::cluster_lock();
    let home = home();
    let mut first = Dev::up(home.path());
    let job = first.job("stubborn", STUBBORN);
    let processes = first.processes();
    let folder = first.left();
    first.kill();
    assert!(job.is_alive(), "nobody's death ends a job");
    let mut second = Dev::up(home.path());
    let left: Vec<_> = processes.iter().filter(|process| process.is_alive()).collect();
    assert!(left.is_empty(), "{left:?}\n{}", second.log());
    assert!(second.log().contains("of a development cluster that was killed"), "{}", second.log());
    assert!(folder.iter().all(|folder| !folder.exists()), "{folder:?}\n{}", second.log());
    second.processes();
    second.press_ctrl_c();
    assert_eq!(second.wait().code(), Some(0), "{}", second.log());
    assert_eq!(second.left(), [] as [PathBuf; 0]);
}

/// Nobody's account on every Linux.
const ORDINARY: u32 = 65_534;

#[test]
fn an_ordinary_user_has_it_as_root_has() {
    if !rustix::process::geteuid().is_root() {
        // Then the tour is an ordinary user's already.
        return;
    }
    let _alone = xtask::cluster_lock();
    let place = home();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let folder = place.path().join("home");
    fs::create_dir(&folder).expect("a folder");
    chown(&folder, Some(ORDINARY), Some(ORDINARY)).expect("root may");
    // The build's own folder may be closed to others.
    let copy = |from: &Path| {
        let to = place.path().join(from.file_name().expect("a file"));
        fs::copy(from, &to).expect("a copy");
        to
    };
    let bursar = copy(Path::new(env!("CARGO_BIN_EXE_bursar")));
    let (shim, library) = (copy(xtask::built::shim()), copy(xtask::built::fake_nvml()));
    let mut command = Command::new(bursar);
    command.args(["dev", "--shim"]).arg(shim).arg("--fake-nvml").arg(library);
    command.args(["tour", "--only", "a,c,d,h", "--rounds", "1"]).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", &folder).env("XDG_CONFIG_HOME", &folder);
    command.uid(ORDINARY).gid(ORDINARY).current_dir(&folder).stdin(Stdio::null());
    let output = command.output().expect("bursar runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("all as it should be"), "{out}");
}
