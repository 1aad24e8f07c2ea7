use std::path::PathBuf;

use shim::format::{self, Fields, Status};

use crate::support::{Case, preempt};

/// A freezer of the first cgroup version: KILL waits there until it is thawed, like for a process that hangs in a driver.
struct Freezer(PathBuf);

impl Freezer {
    fn new(name: &str) -> Option<Self> {
        let path = PathBuf::from("/sys/fs/cgroup/freezer").join(name);
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn freeze(&self, pid: i32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("it enters");
        std::fs::write(self.0.join("freezer.state"), "FROZEN").expect("it freezes");
    }

    fn thaw(&self) {
        std::fs::write(self.0.join("freezer.state"), "THAWED").expect("it thaws");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_can_not_be_ended_is_named_once_and_proven_gone_only_when_it_is() {
    let mut case = Case::new("echo ready; exec sleep 1000");
    let Some(freezer) = Freezer::new(&case.spec.mark) else {
        println!("not available: this machine has no freezer of cgroup version 1 to hang a process in");
        return;
    };
    case.spec.unkillable_ms = 300;
    case.launch();
    case.said("ready");
    let pid = case.record().main.pid;
    freezer.freeze(pid);
    case.stop(&preempt(0));
    let told = case.until("the words", || case.bytes(format::UNKILLABLE));
    let what = Fields::parse(&told).unwrap().text(format::WHAT).unwrap();
    assert!(what.contains(&format!("process {pid} (")) && what.contains(", state D in "), "{what}");
    assert!(case.bytes(format::EXIT).is_none() && case.bytes(format::EMPTY).is_none());
    // Its watcher may die over it; the next one goes on and does not say it again.
    crate::support::kill(case.record().shim.pid);
    case.until("the nurse has it", || (case.shim("--nurse") == 0).then_some(()));
    freezer.thaw();
    let exit = case.exit();
    assert!(matches!(exit.status, Status::Signal(_) | Status::Unknown(_)), "{:?}", exit.status);
    assert!(exit.noticed);
    case.emptied();
}
