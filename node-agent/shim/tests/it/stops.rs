use shim::format::{Stage, Status, Stop};

use crate::support::{Case, cancel, preempt};

/// A job that says when it got which signal, and goes on.
const STUBBORN: &str =
    "trap 'echo term' TERM; trap 'echo usr1' USR1; echo ready; while :; do sleep 1000 & wait; done";

#[test]
fn cancel_asks_first() {
    let case = Case::new("trap 'exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done");
    case.launch();
    case.said("ready");
    case.stop(&cancel(0, 600_000));
    let exit = case.exit();
    assert_eq!((exit.status, exit.asked.as_deref()), (Status::Code(9), Some("cancel")));
    assert_eq!((exit.generation, exit.noticed), (Some(1), false));
    case.emptied();
}

#[test]
fn who_ignores_term_is_ended_when_the_grace_is_over() {
    let case = Case::new("trap '' TERM; echo ready; while :; do sleep 1000; done");
    case.launch();
    case.said("ready");
    case.stop(&cancel(0, 200));
    assert_eq!(case.exit().status, Status::Signal(libc::SIGKILL));
    case.emptied();
}

#[test]
fn a_second_order_shortens_and_never_lengthens() {
    let case = Case::new(STUBBORN);
    case.launch();
    case.said("ready");
    case.stop(&cancel(0, 600_000));
    case.said("term");
    case.stop(&Stop { generation: 2, ..cancel(700_000, 900_000) });
    case.stop(&Stop { generation: 3, kind: "now".to_owned(), ..cancel(0, 0) });
    let exit = case.exit();
    assert_eq!((exit.status, exit.asked.as_deref()), (Status::Signal(libc::SIGKILL), Some("now")));
    case.emptied();
}

#[test]
fn an_older_order_changes_nothing() {
    let case = Case::new(STUBBORN);
    case.launch();
    case.said("ready");
    case.stop(&Stop { generation: 5, ..cancel(0, 600_000) });
    case.said("term");
    case.stop(&Stop { generation: 4, ..cancel(0, 0) });
    // The shim takes orders in turn: once it has taken this one it has seen, and passed over, the one before.
    case.stop(&Stop { generation: 6, kind: "preempt".to_owned(), ..cancel(600_000, 600_000) });
    crate::support::kill(case.record().main.pid);
    let exit = case.exit();
    assert_ne!(exit.generation, Some(4));
}

#[test]
fn a_notice_reaches_only_those_who_can_hear_it() {
    // The child of the shell has no handler: USR1 would be its death.
    let case = Case::new(
        "trap 'echo usr1' USR1; sleep 1000 & child=$!; echo ready; wait; kill -0 $child && echo lives; wait",
    );
    case.launch();
    case.said("ready");
    case.stop(&preempt(600_000));
    case.said("lives");
    let phase = case.phase().unwrap();
    assert_eq!((phase.stage, phase.noticed), (Stage::Noticing, true));
    let notice = case.text("notice");
    assert!(notice.starts_with("{\"reason\":\"preempted for 7.1\",\"deadline\":"), "{notice}");
    assert!(notice.contains("\"left_s\":60"), "{notice}");
    crate::support::kill(case.record().main.pid);
    assert!(case.exit().noticed);
}

#[test]
fn whoever_is_left_keeps_the_grace_of_a_stop() {
    // The shell obeys TERM at once; its child needs a moment to save.
    let case = Case::new(
        "(trap 'sleep 0.3; echo saved; exit' TERM; echo ready; while :; do sleep 1000 & wait $!; done) & wait",
    );
    case.launch();
    case.said("ready");
    case.stop(&cancel(0, 600_000));
    assert_eq!(case.exit().status, Status::Signal(libc::SIGTERM));
    case.emptied();
    assert!(case.text("job/stdout").contains("saved"));
}

#[test]
fn the_time_limit_gives_notice_asks_and_ends() {
    let mut case = Case::new(STUBBORN);
    // Seconds between notice, end and kill: the job has to say each before the next comes.
    case.spec.time_limit_ms = Some(4_000);
    case.spec.grace_ms = 2_000;
    case.spec.limit_kill_ms = 2_000;
    case.launch();
    let exit = case.exit();
    case.emptied();
    assert_eq!((exit.status, exit.asked.as_deref()), (Status::Signal(libc::SIGKILL), Some("limit")));
    assert!(!exit.noticed, "the notice of a limit is not that of a stop");
    assert_eq!(case.text("job/stdout").lines().take(3).collect::<Vec<_>>(), ["ready", "usr1", "term"]);
    let ran = exit.ended_ms - exit.started_ms.unwrap();
    assert!(ran >= 6_000, "the limit came {ran} ms after the start");
}

#[test]
fn any_end_after_the_notice_is_its_end_and_an_end_before_it_is_not() {
    for (script, status) in [
        ("trap 'exit 0' USR1", Status::Code(0)),
        ("trap 'exit 9' USR1", Status::Code(9)),
        ("trap 'kill -SEGV $$' USR1", Status::Signal(libc::SIGSEGV)),
    ] {
        let case = Case::new(&format!("{script}; echo ready; while :; do sleep 1000 & wait; done"));
        case.launch();
        case.said("ready");
        case.stop(&preempt(600_000));
        let exit = case.exit();
        assert_eq!((exit.status, exit.noticed), (status, true));
    }
    let case = Case::new("echo ready; exec sleep 1000");
    case.launch();
    case.said("ready");
    crate::support::kill(case.record().main.pid);
    case.exit();
    case.stop(&preempt(600_000));
    case.emptied();
    assert!(!case.exit().noticed);
}

#[test]
fn who_ignores_everything_is_gone_when_the_grace_is_over() {
    let ignores = "trap '' USR1 TERM; (trap '' USR1 TERM; while :; do sleep 1000; done) & \
                   setsid sh -c \"trap '' USR1 TERM; while :; do sleep 1000; done\" & echo ready; wait";
    for case in [Some(Case::new(ignores)), Case::new(ignores).grouped()] {
        let Some(case) = case else {
            println!("not available: this machine gives no cgroup v2 directory");
            continue;
        };
        case.launch();
        case.said("ready");
        let seen = shim::sys::boot_ms();
        case.stop(&Stop { kill_after_ms: 500, ..preempt(300) });
        let exit = case.exit();
        assert_eq!((exit.status, exit.noticed), (Status::Signal(libc::SIGKILL), true));
        assert!(exit.ended_ms >= seen + 500, "the whole grace was its own");
        case.emptied();
    }
}

#[test]
fn who_outlives_its_main_process_has_time_to_save_and_not_the_whole_grace() {
    let case = Case::new(
        "(trap 'sleep 0.3; echo saved; exit' USR1; trap '' TERM; echo ready; while :; do sleep 1000 & wait $!; done) & \
         trap 'exit 3' USR1; wait",
    );
    case.launch();
    case.said("ready");
    case.stop(&preempt(600_000));
    let exit = case.exit();
    assert_eq!((exit.status, exit.noticed), (Status::Code(3), true));
    case.emptied();
    assert!(case.text("job/stdout").contains("saved"));
}

#[test]
fn a_stop_with_no_time_for_a_notice_is_still_its_end() {
    let case = Case::new(STUBBORN);
    case.launch();
    case.said("ready");
    case.stop(&Stop { kill_after_ms: 0, ..preempt(0) });
    let exit = case.exit();
    assert_eq!((exit.status, exit.noticed), (Status::Signal(libc::SIGKILL), true));
    case.emptied();
}

#[test]
fn a_job_that_begins_to_listen_late_hears_its_notice_all_the_same() {
    let script = "echo deaf; while [ ! -e $HEAR ]; do sleep 0.02; done; trap 'echo usr1' USR1; echo ready; \
                  while :; do sleep 1000 & wait; done";
    let mut case = Case::new(script);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let go = folder.path().join("hear");
    case.spec.env.push([b"HEAR=", go.as_os_str().as_encoded_bytes()].concat());
    case.launch();
    case.said("deaf");
    case.stop(&preempt(600_000));
    case.until("the notice", || case.phase().filter(|phase| phase.noticed));
    std::fs::write(&go, "").expect("ours");
    case.said("usr1");
    case.stop(&Stop { generation: 2, ..cancel(0, 0) });
    case.emptied();
    assert_eq!(case.text("job/stdout").lines().filter(|line| *line == "usr1").count(), 1);
}

#[test]
fn a_notice_comes_also_after_that_of_the_time_limit() {
    let mut case = Case::new(STUBBORN);
    case.spec.time_limit_ms = Some(3_600_000);
    case.spec.grace_ms = 3_600_000;
    case.launch();
    case.said("usr1");
    assert_eq!(case.phase().map(|phase| (phase.stage, phase.noticed)), Some((Stage::Noticing, false)));
    assert!(case.text("notice").contains("time limit"));
    case.stop(&preempt(600_000));
    case.until("the phase", || case.phase().filter(|phase| phase.noticed));
    case.until("the notice", || case.text("notice").contains("preempted for 7.1").then_some(()));
    case.stop(&Stop { generation: 2, ..cancel(0, 0) });
    assert!(case.exit().noticed, "a cancel after it takes the notice not back");
    case.emptied();
}

#[test]
fn a_notice_that_prevents_the_launch_is_its_end() {
    let case = Case::new("echo run");
    case.stop(&preempt(600_000));
    case.launch();
    let exit = case.exit();
    assert_eq!((exit.started_ms, exit.noticed), (None, true));
}

#[test]
fn who_is_stopped_or_frozen_goes_on_for_term() {
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let case = Case::new(script);
    case.launch();
    case.said("ready");
    // SAFETY: no pointers; the pid is of a process that this test started.
    unsafe { libc::kill(case.record().main.pid, libc::SIGSTOP) };
    case.stop(&Stop { kill_after_ms: 600_000, ..preempt(200) });
    assert_eq!(case.exit().status, Status::Code(9));
    case.emptied();
    let Some(case) = Case::new(script).grouped() else {
        println!("not available: this machine gives no cgroup v2 directory");
        return;
    };
    case.launch();
    case.said("ready");
    let group = case.spec.group().expect("it has one").to_owned();
    std::fs::write(group.join("cgroup.freeze"), "1").expect("it freezes");
    case.stop(&Stop { kill_after_ms: 600_000, ..preempt(200) });
    assert_eq!(case.exit().status, Status::Code(9));
    case.emptied();
    case.until("the group is gone", || (!group.exists()).then_some(()));
}

#[test]
fn what_leaves_tree_session_and_environment_is_still_in_its_group() {
    let script = "(setsid env -i /bin/sleep 1000 &) ; echo ready; while :; do sleep 1000 & wait; done";
    let Some(case) = Case::new(script).grouped() else {
        println!("not available: this machine gives no cgroup v2 directory");
        return;
    };
    case.launch();
    case.said("ready");
    crate::support::kill(case.record().shim.pid);
    let marked = |pid: &i32| shim::procs::has_mark(*pid, &case.spec.mark);
    let left = case.until("the sleeper", || case.members().into_iter().find(|pid| !marked(pid)));
    case.until("the nurse has it", || (case.shim("--nurse") == 0).then_some(()));
    crate::support::kill(case.record().main.pid);
    case.emptied();
    assert!(
        shim::procs::process(left).is_none_or(|sleeper| sleeper.ended),
        "the sleeper went with the group"
    );
}
