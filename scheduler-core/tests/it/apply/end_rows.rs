//! The table of ends (DESIGN 5), row by row, from what an agent reports to where the job is then.

use scheduler_core::agent::{EndedBy, Fault, RankEvent};
use scheduler_core::command::{Command, JobWord};
use scheduler_core::id::{AttemptId, NodeId};
use scheduler_core::job::{AttemptEnd, End, Exit, Phase};
use scheduler_core::lifecycle::end::RECENT_MAX;
use scheduler_core::principal::Actor;
use scheduler_core::spec::Request;
use scheduler_core::unit::Span;

use super::taking::share;
use crate::world::{World, ended, facts, launch_failed, person, request};

/// Where a job is in the end.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    Waits { retries: u16 },
    Ended(End),
}

fn resumable(is_resumable: bool) -> Request {
    Request { resumable: Some(is_resumable), ..request(1) }
}

/// A job runs on one GPU and is past its protection; something happens.
fn then(asked: Request, happens: impl FnOnce(&mut World, NodeId, AttemptId)) -> Then {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", asked);
    let submitted = world.job(job).submitted_at;
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_hours(1));
    happens(&mut world, node, attempt);
    let record = world.job(job);
    assert_eq!(record.submitted_at, submitted, "it keeps its place");
    match &record.phase {
        Phase::Waiting { .. } => Then::Waits { retries: record.retries_used },
        Phase::Ended { end, .. } => Then::Ended(*end),
        other => panic!("it waits or has ended, not {other:?}"),
    }
}

fn is_taken(world: &mut World, node: NodeId, victim: AttemptId) {
    let mut asked = request(1);
    asked.budget = String::from("lang/pre");
    let taker = world.submit("bob", asked);
    world.start(taker, &[(node, &[0])], &[(victim, share())]);
    world.wait(Span::from_secs(5));
}

const EXITS: [Exit; 5] = [Exit::Code(0), Exit::Code(1), Exit::Code(75), Exit::Signal(15), Exit::Unknown];

#[test]
fn any_end_after_the_notice_of_a_preemption_is_preempted_whatever_the_code() {
    for exit in EXITS {
        let asked = Request { requeue_code: Some(75), ..resumable(true) };
        let then = then(asked, |world, node, attempt| {
            is_taken(world, node, attempt);
            world.report(node, attempt, ended(exit, EndedBy::Notice));
            assert_eq!(world.attempt(attempt).ended.as_ref().map(|e| &e.cause), Some(&AttemptEnd::Preempted));
        });
        assert_eq!(then, Then::Waits { retries: 0 }, "{exit:?}");
    }
}

#[test]
fn a_stop_for_a_preemption_that_needed_no_notice_is_one_too() {
    let then = then(resumable(true), |world, node, attempt| {
        is_taken(world, node, attempt);
        world.report(node, attempt, ended(Exit::Signal(9), EndedBy::Stop));
    });
    assert_eq!(then, Then::Waits { retries: 0 });
}

#[test]
fn an_exit_before_the_notice_counts_by_the_other_rows() {
    for (exit, wanted) in [
        (Exit::Code(0), Then::Ended(End::Completed)),
        (Exit::Code(1), Then::Ended(End::Failed)),
        (Exit::Code(75), Then::Waits { retries: 1 }),
    ] {
        let asked = Request { requeue_code: Some(75), ..resumable(true) };
        let then = then(asked, |world, node, attempt| {
            is_taken(world, node, attempt);
            world.report(node, attempt, ended(exit, EndedBy::Itself));
        });
        assert_eq!(then, wanted, "{exit:?}");
    }
}

#[test]
fn a_notice_that_nobody_committed_is_no_notice() {
    let then = then(resumable(true), |world, node, attempt| {
        world.report(node, attempt, ended(Exit::Code(1), EndedBy::Notice));
    });
    assert_eq!(then, Then::Ended(End::Failed));
}

#[test]
fn exit_0_is_completed() {
    let then = then(request(1), |world, node, attempt| world.exit(node, attempt, 0));
    assert_eq!(then, Then::Ended(End::Completed));
}

#[test]
fn another_exit_or_a_signal_is_failed_and_tried_again_only_with_retries() {
    for exit in [Exit::Code(1), Exit::Signal(9), Exit::Unknown] {
        for (retries, wanted) in [(0, Then::Ended(End::Failed)), (1, Then::Waits { retries: 1 })] {
            let asked = Request { retries, ..request(1) };
            let then = then(asked, |world, node, attempt| {
                world.report(node, attempt, ended(exit, EndedBy::Itself));
            });
            assert_eq!(then, wanted, "{exit:?} with {retries} retries");
        }
    }
}

#[test]
fn the_declared_requeue_code_waits_again_and_counts_as_a_retry() {
    let asked = Request { requeue_code: Some(75), ..request(1) };
    let then = then(asked, |world, node, attempt| world.exit(node, attempt, 75));
    assert_eq!(then, Then::Waits { retries: 1 });
}

#[test]
fn preempted_or_drained_waits_again_if_it_resumes_and_has_ended_if_not() {
    for (is_resumable, wanted) in [(true, Then::Waits { retries: 0 }), (false, Then::Ended(End::Preempted))] {
        let then = then(resumable(is_resumable), |world, node, attempt| {
            is_taken(world, node, attempt);
            world.report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
        });
        assert_eq!(then, wanted, "resumable: {is_resumable}");
    }
}

#[test]
fn a_person_who_requeues_gets_it_started_again_in_any_case() {
    let then = then(resumable(false), |world, node, attempt| {
        let word = JobWord { job: attempt.job, reason: String::new() };
        world.must(person("bob"), Command::Requeue(word));
        world.report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
    });
    assert_eq!(then, Then::Waits { retries: 0 });
}

#[test]
fn a_lost_node_waits_again_if_it_resumes_and_is_not_counted() {
    for (is_resumable, wanted) in [(true, Then::Waits { retries: 0 }), (false, Then::Ended(End::Lost))] {
        let then = then(resumable(is_resumable), |world, node, _| {
            let facts = facts("n1", "boot-2", 1);
            world.must(Actor::Agent(node), Command::NodeFacts { node, facts });
        });
        assert_eq!(then, wanted, "resumable: {is_resumable}");
    }
}

#[test]
fn a_reboot_that_a_shim_found_is_a_lost_node() {
    let then = then(resumable(true), |world, node, attempt| {
        world.report(node, attempt, ended(Exit::Unknown, EndedBy::Reboot));
    });
    assert_eq!(then, Then::Waits { retries: 0 });
}

#[test]
fn the_time_limit_is_timed_out_also_after_its_notice() {
    for exit in EXITS.into_iter().filter(|exit| *exit != Exit::Code(0)) {
        let then = then(request(1), |world, node, attempt| {
            world.report(node, attempt, ended(exit, EndedBy::TimeLimit));
        });
        assert_eq!(then, Then::Ended(End::TimedOut), "{exit:?}");
    }
}

#[test]
fn a_cancel_is_cancelled_however_it_ended() {
    for by in [EndedBy::Stop, EndedBy::Itself, EndedBy::Reboot] {
        let then = then(Request { retries: 3, ..resumable(true) }, |world, node, attempt| {
            world.cancel("bob", attempt.job, "").expect("it is bob's");
            world.report(node, attempt, ended(Exit::Signal(15), by));
        });
        assert_eq!(then, Then::Ended(End::Cancelled), "{by:?}");
    }
}

#[test]
fn gone_without_anybody_seeing_how_is_by_its_stop_if_there_was_one() {
    let gone = |world: &mut World, node, attempt| world.report(node, attempt, RankEvent::Freed);
    assert_eq!(then(resumable(true), gone), Then::Ended(End::Failed));
    let then = then(resumable(true), |world, node, attempt| {
        is_taken(world, node, attempt);
        gone(world, node, attempt);
    });
    assert_eq!(then, Then::Waits { retries: 0 });
}

#[test]
fn a_launch_that_the_node_failed_waits_again_and_one_that_the_job_failed_has_ended() {
    for (fault, is_waiting) in [(Fault::Node, true), (Fault::Job { code: 126 }, false)] {
        let mut world = World::new();
        let node = world.node("n1", 1);
        let job = world.submit("bob", resumable(false));
        let attempt = world.place(job, node, &[0]);
        world.report(node, attempt, launch_failed(fault));
        assert_eq!(world.phase(job).is_waiting(), is_waiting);
        assert_eq!(world.state.nodes.get(&node).expect("known").takes_work(), !is_waiting);
    }
}

#[test]
fn who_gives_way_often_has_not_failed() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let mut asked = request(1);
    asked.min_runtime = Some(Span::from_millis(1));
    let job = world.submit("bob", asked);
    for _ in 0..RECENT_MAX + 5 {
        let attempt = world.place(job, node, &[0]);
        world.report(node, attempt, RankEvent::Started);
        let word = JobWord { job, reason: String::new() };
        world.must(person("bob"), Command::Requeue(word));
        world.report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
        world.report(node, attempt, RankEvent::Freed);
        assert!(world.phase(job).is_waiting());
    }
}
