use shim::format::{Stage, Status, Stop};

use crate::support::{Case, cancel};

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
    case.stop(&Stop { notice: true, kind: "preempt".to_owned(), ..cancel(600_000, 601_000) });
    case.said("lives");
    let phase = case.phase().unwrap();
    assert_eq!((phase.stage, phase.noticed), (Stage::Noticing, true));
    assert!(case.text("notice").contains("reason=preempt: asked by alice"));
    crate::support::kill(case.record().main.pid);
    assert!(case.exit().noticed);
}

#[test]
fn a_checkpoint_after_the_notice_ends_the_grace() {
    let case = Case::new(
        "cd \"$JOB\"; echo old > checkpoint; trap 'echo new > c; mv c checkpoint' USR1; trap 'exit 7' TERM; \
         echo ready; while :; do sleep 1000 & wait; done",
    );
    let mut case = case;
    case.spec.env.push(format!("JOB={}", case.path().join("job").display()).into_bytes());
    case.launch();
    case.said("ready");
    case.stop(&Stop { notice: true, kind: "preempt".to_owned(), ..cancel(600_000, 601_000) });
    let exit = case.exit();
    assert_eq!((exit.status, exit.noticed), (Status::Code(7), true));
    case.emptied();
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
    case.spec.time_limit_ms = Some(1_000);
    case.spec.grace_ms = 500;
    case.spec.limit_kill_ms = 200;
    case.launch();
    let exit = case.exit();
    case.emptied();
    assert_eq!((exit.status, exit.asked.as_deref()), (Status::Signal(libc::SIGKILL), Some("limit")));
    assert!(!exit.noticed, "the notice of a limit is not that of a stop");
    assert_eq!(case.text("job/stdout").lines().take(3).collect::<Vec<_>>(), ["ready", "usr1", "term"]);
    let ran = exit.ended_ms - exit.started_ms.unwrap();
    assert!(ran >= 1_200, "the limit came {ran} ms after the start");
}
