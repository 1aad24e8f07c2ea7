//! How attempts end, and what becomes of their jobs.

use scheduler_core::agent::{EndedBy, Fault, Order, RankEvent, assignments};
use scheduler_core::command::{Cancel, Code, Command};
use scheduler_core::decision::Dropped;
use scheduler_core::id::{AttemptNo, Generation};
use scheduler_core::job::{AttemptEnd, End, Ended, Exit, HeldBy, Phase, Progress, Stop, StopCause, Terms};
use scheduler_core::lifecycle::end::{ATTEMPTS_MAX, Case, Next, RECENT_MAX, next};
use scheduler_core::settings::Settings;
use scheduler_core::unit::{ChargeMillis, Span, Timestamp};

use crate::world::{World, launch_failed, name, person, request};

/// `resumable`, `retries`, `retries used`, `requeue code`: what the table looks at of a job.
fn terms(resumable: bool, retries: u16, requeue_code: Option<u8>) -> Terms {
    let mut world = World::new();
    let mut asked = request(1);
    (asked.resumable, asked.retries, asked.requeue_code) = (Some(resumable), retries, requeue_code);
    let job = world.submit("bob", asked);
    world.job(job).terms.clone()
}

#[test]
fn the_table_of_ends() {
    let plain = terms(true, 0, None);
    let fixed = terms(false, 0, None);
    let retried = terms(true, 2, Some(75));
    let (progress, settings) = (Progress::default(), Settings::default());
    let ended = |cause, exit| Ended { at: Timestamp::ZERO, cause, exit };
    let exited = |code| ended(AttemptEnd::Exited, Some(Exit::Code(code)));
    let wait = |is_retry| Next::Wait { is_retry };
    let node = || AttemptEnd::LaunchFailedNode(String::from("disk"));
    let job = || AttemptEnd::LaunchFailedJob(String::from("no such program"));
    // job, retries used, nodes that failed it, how it ended, then; and then if it was cancelled before.
    let cancelled = Next::End(End::Cancelled);
    let held = Next::Hold(HeldBy::FailedLaunches { reason: String::from("disk") });
    let rows = [
        (&plain, 0, 0, exited(0), Next::End(End::Completed), Next::End(End::Completed)),
        (&plain, 0, 0, exited(1), Next::End(End::Failed), cancelled.clone()),
        (
            &plain,
            0,
            0,
            ended(AttemptEnd::Exited, Some(Exit::Signal(11))),
            Next::End(End::Failed),
            cancelled.clone(),
        ),
        (
            &plain,
            0,
            0,
            ended(AttemptEnd::Exited, Some(Exit::Unknown)),
            Next::End(End::Failed),
            cancelled.clone(),
        ),
        (&retried, 0, 0, exited(1), wait(true), cancelled.clone()),
        (&retried, 1, 0, exited(1), wait(true), cancelled.clone()),
        (&retried, 2, 0, exited(1), Next::End(End::Failed), cancelled.clone()),
        (&retried, 2, 0, exited(75), wait(true), cancelled.clone()),
        (&plain, 0, 0, exited(75), Next::End(End::Failed), cancelled.clone()),
        (
            &plain,
            0,
            0,
            ended(AttemptEnd::TimeLimit, Some(Exit::Signal(9))),
            Next::End(End::TimedOut),
            Next::End(End::TimedOut),
        ),
        (&plain, 0, 1, ended(node(), None), wait(false), cancelled.clone()),
        (&fixed, 0, 2, ended(node(), None), wait(false), cancelled.clone()),
        (&fixed, 0, 3, ended(node(), None), held, cancelled.clone()),
        (&retried, 0, 0, ended(job(), Some(Exit::Code(127))), Next::End(End::Failed), cancelled.clone()),
        (&plain, 0, 0, ended(AttemptEnd::NodeLost, None), wait(false), cancelled.clone()),
        (&fixed, 0, 0, ended(AttemptEnd::NodeLost, None), Next::End(End::Lost), cancelled.clone()),
        (
            &plain,
            0,
            0,
            ended(AttemptEnd::Stopped, Some(Exit::Code(0))),
            Next::End(End::Failed),
            cancelled.clone(),
        ),
    ];
    let cause = StopCause::Cancel { who: name("bob"), reason: String::new() };
    let stop = Stop { at: Timestamp::ZERO, cause, grace: Span::ZERO };
    for (terms, retries_used, failed_nodes, ended, then, if_cancelled) in rows {
        let attempt = AttemptNo::new(1);
        let case = Case {
            terms,
            progress: &progress,
            settings: &settings,
            retries_used,
            failed_nodes,
            recent: 0,
            attempt,
            had_go: true,
            stop: None,
            ended: &ended,
        };
        assert_eq!(next(&case), then, "{ended:?} with {terms:?}");
        assert_eq!(next(&Case { stop: Some(&stop), ..case }), if_cancelled, "cancelled, {ended:?}");
    }
    // However it ends, a job that starts over and over has failed.
    let ended = exited(75);
    let one = AttemptNo::new(1);
    let case = Case {
        terms: &retried,
        progress: &progress,
        settings: &settings,
        retries_used: 0,
        failed_nodes: 0,
        recent: 0,
        attempt: one,
        had_go: true,
        stop: None,
        ended: &ended,
    };
    assert_eq!(next(&Case { attempt: AttemptNo::new(ATTEMPTS_MAX), ..case }), Next::End(End::Failed));
    assert_eq!(next(&Case { recent: RECENT_MAX - 1, ..case }), wait(true));
    assert_eq!(next(&Case { recent: RECENT_MAX, ..case }), Next::End(End::Failed));
}

#[test]
fn a_job_that_asks_to_be_started_again_at_once_does_not_do_so_for_ever() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let mut asked = request(1);
    asked.requeue_code = Some(75);
    let job = world.submit("bob", asked);
    while world.phase(job).is_waiting() {
        let attempt = world.place(job, node, &[0]);
        world.wait(Span::from_millis(10)).exit(node, attempt, 75);
        world.report(node, attempt, RankEvent::Freed);
    }
    assert!(matches!(world.phase(job), Phase::Ended { end: End::Failed, exit: Some(Exit::Code(75)), .. }));
    assert_eq!(world.job(job).past.len(), RECENT_MAX + 1);
}

#[test]
fn a_launch_that_a_stop_came_before_is_not_held_against_the_node() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    world.cancel("bob", job, "").expect("it is bob's");
    world.report(node, attempt, launch_failed(Fault::Node));
    assert!(matches!(world.phase(job), Phase::Ended { end: End::Cancelled, .. }));
    assert!(world.state.nodes.get(&node).expect("the node is known").takes_work());
}

#[test]
fn a_waiting_job_is_cancelled_at_once_and_a_live_one_by_a_stop() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let (waiting, live) = (world.submit("bob", request(1)), world.submit("bob", request(1)));
    world.cancel("bob", waiting, "").expect("it is bob's");
    assert!(matches!(world.phase(waiting), Phase::Ended { end: End::Cancelled, exit: None, .. }));
    assert_eq!(world.cancel("bob", waiting, "").expect_err("it has ended").code, Code::Stale);

    let attempt = world.place(live, node, &[0]);
    world.report(node, attempt, RankEvent::Started);
    world.cancel("bob", live, "wrong data").expect("it is bob's");
    let items = assignments(&world.state, node);
    let reason = String::from("cancelled by bob: wrong data");
    assert_eq!(
        items[0].order,
        Order::Stop { reason: reason.clone(), grace: Span::from_secs(30), has_notice: false }
    );
    assert_eq!(items[0].generation, Generation::new(2));
    world.cancel("bob", live, "again").expect("asking again changes nothing");
    assert_eq!(assignments(&world.state, node)[0].generation, Generation::new(2));
    let now = Cancel { job: live, is_now: true, reason: String::new() };
    world.must(person("bob"), Command::Cancel(now));
    assert_eq!(
        assignments(&world.state, node)[0].order,
        Order::Stop { reason, grace: Span::ZERO, has_notice: false }
    );
    let event = RankEvent::Exited { exit: Exit::Signal(9), by: EndedBy::Stop, saved_at: None };
    world.report(node, attempt, event);
    assert!(matches!(world.phase(live), Phase::Ended { end: End::Cancelled, .. }));
}

#[test]
fn a_stop_that_nobody_committed_is_no_stop() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    world.report(
        node,
        attempt,
        RankEvent::Exited { exit: Exit::Signal(9), by: EndedBy::Stop, saved_at: None },
    );
    assert!(matches!(world.phase(job), Phase::Ended { end: End::Failed, .. }));
}

#[test]
fn a_retry_waits_at_the_place_of_its_first_submission() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let mut asked = request(1);
    asked.retries = 1;
    let first = world.submit("bob", asked);
    let submitted = world.job(first).submitted_at;
    world.wait(Span::from_secs(9)).submit("bob", request(1));
    let attempt = world.place(first, node, &[0]);
    world.wait(Span::from_secs(1)).exit(node, attempt, 1);
    assert!(world.phase(first).is_waiting());
    assert_eq!((world.job(first).submitted_at, world.job(first).retries_used), (submitted, 1));
    assert_eq!(world.state.line.keys().next().map(|place| place.job), Some(first));
    let second = world.place(first, node, &[1]);
    world.report(node, attempt, RankEvent::Freed);
    world.exit(node, second, 1);
    assert!(matches!(world.phase(first), Phase::Ended { end: End::Failed, .. }));
}

#[test]
fn a_launch_that_its_node_failed_is_not_charged_and_backs_the_node_off() {
    let mut world = World::new();
    let nodes = [world.node("n1", 1), world.node("n2", 1), world.node("n3", 1)];
    let job = world.submit("bob", request(1));
    for (at, node) in (1u8..).zip(nodes) {
        let attempt = world.place(job, node, &[0]);
        world.wait(Span::from_secs(1)).report(node, attempt, launch_failed(Fault::Node));
        let until = world.state.nodes.get(&node).expect("the node is known").backoff_until;
        assert_eq!(until, Some(world.now.plus(Span::from_secs(10))));
        world.report(node, attempt, RankEvent::Freed);
        assert_eq!(world.phase(job).is_waiting(), at < 3);
        if at < 3 {
            let no = world.job(job).next_attempt;
            assert_eq!(world.try_place(job, no, node, &[0]), Some(Dropped::NodeNotReady));
        }
    }
    assert!(matches!(world.phase(job), Phase::Held { by: HeldBy::FailedLaunches { .. }, .. }));
    assert_eq!(world.job(job).charged, ChargeMillis::ZERO);

    // The second failure in a row backs off twice as long; a start ends that.
    let [node, ..] = nodes;
    let other = world.wait(Span::from_secs(10)).submit("bob", request(1));
    let attempt = world.place(other, node, &[0]);
    world.report(node, attempt, launch_failed(Fault::Node));
    world.report(node, attempt, RankEvent::Freed);
    let until = world.state.nodes.get(&node).expect("the node is known").backoff_until;
    assert_eq!(until, Some(world.now.plus(Span::from_secs(20))));
    let attempt = {
        world.wait(Span::from_secs(20));
        world.place(other, node, &[0])
    };
    world.report(node, attempt, RankEvent::Started);
    let record = world.state.nodes.get(&node).expect("the node is known");
    assert_eq!((record.failed_launches, record.backoff_until), (0, None));
}

#[test]
fn a_launch_that_the_job_failed_ends_it() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, launch_failed(Fault::Job { code: 127 }));
    assert!(matches!(world.phase(job), Phase::Ended { end: End::Failed, exit: Some(Exit::Code(127)), .. }));
    assert!(world.state.nodes.get(&node).expect("the node is known").takes_work());
}

#[test]
fn a_report_counts_once_and_only_between_go_and_now() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    world.wait(Span::from_secs(100));
    let attempt = world.place(job, node, &[0]);
    let go = world.now;
    world.report_at(node, attempt, RankEvent::Started, go.minus(Span::from_secs(50)));
    world.wait(Span::from_secs(10));
    world.report_at(node, attempt, RankEvent::Started, world.now);
    assert_eq!(world.state.attempts.get(&attempt).expect("it runs").started_at, Some(go));
    let exit = RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None };
    world.report_at(node, attempt, exit.clone(), world.now.plus(Span::from_hours(9)));
    let charged = world.job(job).charged;
    assert_eq!(charged, ChargeMillis::new(1_000 * 10_000));
    world.wait(Span::from_secs(5)).report(node, attempt, exit);
    world.report(node, attempt, launch_failed(Fault::Node));
    world.report(node, attempt, RankEvent::Freed);
    world.report(node, attempt, RankEvent::Freed);
    assert_eq!((world.job(job).charged, world.job(job).past.len()), (charged, 1));
}
