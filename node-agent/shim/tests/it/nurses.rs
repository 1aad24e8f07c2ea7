use shim::format::Status;
use shim::procs;

use crate::support::{Case, cancel, kill};

fn orphan(case: &Case) {
    // Before the phase the job may still wait at its pipe, and ends with the shim.
    case.until("the phase", || case.phase());
    let record = case.record();
    kill(record.shim.pid);
    case.until("the shim is gone", || (!procs::is_alive(record.shim)).then_some(()));
    assert!(procs::is_alive(record.main), "the job lives on without its shim");
}

#[test]
fn a_job_outlives_its_shim_and_a_nurse_keeps_its_exit() {
    let case = Case::new("echo ready; while [ ! -e \"$GO\" ]; do sleep 0.02; done; echo done; exit 37");
    let mut case = case;
    let go = case.path().join("go");
    case.spec.env.push(format!("GO={}", go.display()).into_bytes());
    case.launch();
    case.said("ready");
    orphan(&case);
    case.until("the nurse has it", || (case.shim("--nurse") == 0).then_some(()));
    assert_eq!(case.shim("--nurse"), 10, "one nurse is enough");
    std::fs::write(go, "").unwrap();
    let exit = case.exit();
    case.emptied();
    assert_eq!(exit.writer, "nurse");
    // The kernel tells the code of a process that isn't our child from 6.15 on.
    assert!(
        exit.status == Status::Code(37) || matches!(exit.status, Status::Unknown(_)),
        "never a wrong code: {:?}",
        exit.status
    );
    assert!(case.text("job/stdout").ends_with("done\n"));
}

#[test]
fn a_nurse_carries_out_a_stop_that_was_begun() {
    let case = Case::new("trap 'echo term' TERM; echo ready; while :; do sleep 1000 & wait; done");
    case.launch();
    case.said("ready");
    case.stop(&cancel(0, 8_000));
    case.said("term");
    let seen = case.until("the phase", || case.phase()?.stop_seen_ms);
    orphan(&case);
    case.until("the nurse has it", || (case.shim("--nurse") == 0).then_some(()));
    let exit = case.exit();
    case.emptied();
    assert_eq!(exit.asked.as_deref(), Some("cancel"));
    assert!(exit.ended_ms >= seen + 8_000, "the grace runs on from when the first shim saw the stop");
}

#[test]
fn a_nurse_that_comes_too_late_says_unknown() {
    let case = Case::new("exec sleep 1000");
    case.launch();
    orphan(&case);
    kill(case.record().main.pid);
    case.until("the job is gone", || (!procs::is_alive(case.record().main)).then_some(()));
    assert_eq!(case.shim("--nurse"), 0);
    assert!(matches!(case.exit().status, Status::Unknown(_)));
    case.emptied();
}

#[test]
fn a_shim_that_dies_before_the_go_leaves_nothing() {
    // The child waits at its pipe; the end of the shim is the end of the pipe.
    let case = Case::new("echo run");
    case.write_spec();
    let held = shim::child::Held::fork(case.path(), &case.spec).expect("a child");
    let pid = held.pid;
    drop(held);
    let mut ended = None;
    case.until("the child has ended", || {
        // SAFETY: a null status is allowed; the pid is of this test's own child.
        ended = (unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } == pid).then_some(());
        ended
    });
    assert_eq!(case.text("job/stdout"), "");
}
