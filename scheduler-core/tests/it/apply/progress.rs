//! What jobs report of their progress, and what follows: protection of later attempts, and bills.

use scheduler_core::agent::{EndedBy, Fault, RankEvent};
use scheduler_core::bill::{BillCause, Restart};
use scheduler_core::command::{Command, Saved};
use scheduler_core::decision::{Basis, Right};
use scheduler_core::id::{AttemptId, JobId, NodeId};
use scheduler_core::job::{Exit, Phase};
use scheduler_core::principal::Actor;
use scheduler_core::spec::Request;
use scheduler_core::unit::{GpuMillis, Span, Timestamp};

use super::taking::share;
use crate::world::{World, ended, launch_failed, request};

fn says(
    world: &mut World,
    node: NodeId,
    attempt: AttemptId,
    saved: Option<Timestamp>,
    signed: Option<Timestamp>,
) {
    let saves = vec![Saved { attempt, saved_at: saved, signed_at: signed }];
    world.must(Actor::Agent(node), Command::Saves { node, saves });
}

fn saves(world: &mut World, node: NodeId, attempt: AttemptId) {
    let now = world.now;
    says(world, node, attempt, Some(now), None);
}

/// A job runs on one GPU of a node, since now.
fn running(asked: Request) -> (World, NodeId, AttemptId) {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", asked);
    let attempt = starts(&mut world, node, job);
    (world, node, attempt)
}

fn starts(world: &mut World, node: NodeId, job: JobId) -> AttemptId {
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, RankEvent::Started);
    attempt
}

/// A job of another budget takes the node's GPU; returns it once the victim has left after `grace`.
fn is_taken(world: &mut World, node: NodeId, victim: AttemptId, grace: Span) -> AttemptId {
    let mut asked = request(1);
    asked.budget = String::from("lang/pre");
    let taker = world.submit("bob", asked);
    let placed = world.start(taker, &[(node, &[0])], &[(victim, share())]);
    world.wait(grace).report(node, victim, ended(Exit::Code(0), EndedBy::Notice));
    world.report(node, victim, RankEvent::Freed);
    placed
}

/// The taker's job ends, and the node is free again.
fn leaves(world: &mut World, node: NodeId, taker: AttemptId) {
    world.report(node, taker, RankEvent::Started);
    world.exit(node, taker, 0);
    world.report(node, taker, RankEvent::Freed);
}

#[test]
fn checkpoints_are_kept_if_newer_and_of_the_attempts_own_time() {
    let (mut world, node, attempt) = running(request(1));
    let started = world.now;
    world.wait(Span::from_mins(10));
    let now = world.now;
    says(&mut world, node, attempt, Some(now.plus(Span::from_millis(1))), None);
    assert_eq!(world.attempt(attempt).saved_at, None, "of the future");
    says(&mut world, node, attempt, Some(started.minus(Span::from_hours(1))), None);
    assert_eq!(world.attempt(attempt).saved_at, Some(started));
    says(&mut world, node, attempt, Some(now), None);
    says(&mut world, node, attempt, Some(now.minus(Span::from_mins(2))), None);
    assert_eq!(world.attempt(attempt).saved_at, Some(now), "an older one changes nothing");
    let progress = &world.job(attempt.job).progress;
    assert_eq!(progress.saved, Some((attempt.no, now)));
    assert_eq!(progress.intervals, [Span::from_mins(10)]);
    assert_eq!(
        (progress.restarts.as_slice(), world.attempt(attempt).signed_at),
        (&[][..], Some(started)),
        "a first run resumes nothing"
    );
    let other = world.node("n2", 1);
    world.wait(Span::from_mins(1));
    let later = world.now;
    says(&mut world, other, attempt, Some(later), None);
    assert_eq!(world.attempt(attempt).saved_at, Some(now), "it is not there");
}

#[test]
fn the_last_nine_intervals_count_and_at_most_the_declared_one() {
    let mut asked = request(1);
    asked.checkpoint_every = Some(Span::from_mins(30));
    let (mut world, node, attempt) = running(asked);
    assert_eq!(world.job(attempt.job).usual_interval(), Some(Span::from_mins(30)));
    saves(&mut world, node, attempt);
    for minutes in [90, 10, 10, 10, 10, 20, 20, 20, 20, 20, 40] {
        world.wait(Span::from_mins(minutes));
        saves(&mut world, node, attempt);
    }
    let job = world.job(attempt.job);
    assert_eq!(job.progress.intervals.len(), 9);
    assert_eq!(job.usual_interval(), Some(Span::from_mins(20)));
    for _ in 0..9 {
        world.wait(Span::from_mins(50));
        saves(&mut world, node, attempt);
    }
    assert_eq!(world.job(attempt.job).usual_interval(), Some(Span::from_mins(30)));
}

#[test]
fn the_first_sign_of_a_later_run_measures_the_restart() {
    let (mut world, node, first) = running(Request { retries: 1, ..request(1) });
    world.exit(node, first, 3);
    world.report(node, first, RankEvent::Freed);
    let attempt = world.start(first.job, &[(node, &[0])], &[]);
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_mins(3));
    let signed = world.now;
    world.wait(Span::from_mins(20));
    let now = world.now;
    says(&mut world, node, attempt, Some(now), Some(signed));
    let progress = &world.job(attempt.job).progress;
    assert_eq!(progress.restarts, [Span::from_mins(3)]);
    assert_eq!(progress.usual_restart(Span::from_mins(5)), Span::from_mins(3));
    assert_eq!(world.attempt(attempt).signed_at, Some(signed));
}

#[test]
fn the_newest_checkpoint_comes_with_the_exit() {
    let (mut world, node, attempt) = running(request(1));
    world.wait(Span::from_mins(9));
    let saved_at = Some(world.now);
    let exit = RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at };
    world.wait(Span::from_mins(1)).report(node, attempt, exit);
    assert_eq!(world.attempt(attempt).saved_at, saved_at);
    world.report(node, attempt, RankEvent::Freed);
    assert_eq!(world.job(attempt.job).past[0].saved_at, saved_at);
}

#[test]
fn a_later_attempt_is_protected_until_it_could_save_once_more() {
    let protection = |asked: Request, restart: Option<u64>, saves_at: &[u64]| {
        let (mut world, node, first) = running(asked);
        assert_eq!(world.attempt(first).protection, world.job(first.job).terms.min_runtime);
        world.wait(Span::from_hours(9));
        let taker = is_taken(&mut world, node, first, Span::from_secs(9));
        leaves(&mut world, node, taker);
        let attempt = starts(&mut world, node, first.job);
        let started = world.now;
        world.wait(Span::from_hours(9));
        if let Some(minutes) = restart {
            says(&mut world, node, attempt, None, Some(started.plus(Span::from_mins(minutes))));
        }
        for minutes in saves_at {
            says(&mut world, node, attempt, Some(started.plus(Span::from_mins(*minutes))), None);
        }
        let taker = is_taken(&mut world, node, attempt, Span::from_secs(9));
        leaves(&mut world, node, taker);
        let attempt = world.place(attempt.job, node, &[0]);
        world.attempt(attempt).protection
    };
    let asked = |minimum: u64, every: Option<u64>| {
        let mut asked = request(1);
        asked.min_runtime = Some(Span::from_mins(minimum));
        asked.checkpoint_every = every.map(Span::from_mins);
        asked
    };
    let mins = Span::from_mins;
    // Nothing is known: five minutes for the restart, and the grace.
    assert_eq!(protection(asked(1, None), None, &[]), mins(7));
    assert_eq!(protection(asked(60, None), None, &[]), mins(60));
    assert_eq!(protection(asked(1, Some(30)), None, &[]), mins(37));
    // Measured: three minutes to the first sign, and 20 between checkpoints, at most the declared 15.
    assert_eq!(protection(asked(1, None), Some(3), &[10, 30, 50]), mins(25));
    assert_eq!(protection(asked(1, Some(15)), Some(3), &[10, 30, 50]), mins(20));
    // At most the cap.
    assert_eq!(protection(asked(1, Some(600)), None, &[]), Span::from_hours(8));
}

#[test]
fn a_bill_has_what_was_lost_since_the_last_checkpoint_and_the_restart() {
    let (mut world, node, attempt) = running(request(1));
    let started = world.now;
    says(&mut world, node, attempt, None, Some(started));
    world.wait(Span::from_hours(2));
    saves(&mut world, node, attempt);
    let saved = world.now;
    world.wait(Span::from_mins(20));
    let noticed = world.now;
    let taker = is_taken(&mut world, node, attempt, Span::from_mins(1));
    let key = (world.now, attempt);
    let bill = world.state.bills.get(&key).expect("it gave way").clone();
    assert_eq!((bill.age, bill.basis, bill.saved_at), (Span::from_mins(21), Basis::Reported, Some(saved)));
    let guess = Span::from_mins(5);
    assert_eq!((bill.restart, bill.cause), (Restart::Expected(guess), BillCause::Share));
    assert_eq!((bill.noticed_at, bill.taken_for, bill.is_wasted), (noticed, Some(taker), None));
    assert_eq!(bill.lost(), GpuMillis::new(26 * 60_000));
    world.report(node, taker, RankEvent::Started);
    assert_eq!(world.state.bills.get(&key).expect("it is kept").is_wasted, Some(false));
    world.exit(node, taker, 0);
    world.report(node, taker, RankEvent::Freed);
    // What the restart really took is known with the next attempt's first sign.
    let next = starts(&mut world, node, attempt.job);
    world.wait(Span::from_mins(4));
    let now = world.now;
    says(&mut world, node, next, None, Some(now));
    let bill = world.state.bills.get(&key).expect("it is kept");
    assert_eq!(bill.restart, Restart::Measured(Span::from_mins(4)));
    assert_eq!(bill.lost(), GpuMillis::new(25 * 60_000));
    // A week later it leaves.
    world.wait(Span::from_hours(7 * 24)).submit("bob", request(1));
    assert!(world.state.bills.is_empty());
}

#[test]
fn without_reports_a_bill_is_an_upper_bound_and_says_so() {
    let bill = |every: Option<u64>, resumable: bool| {
        let mut asked = request(1);
        asked.checkpoint_every = every.map(Span::from_mins);
        asked.resumable = Some(resumable);
        let (mut world, node, attempt) = running(asked);
        world.wait(Span::from_hours(2));
        is_taken(&mut world, node, attempt, Span::from_mins(1));
        let bill = world.state.bills.values().next().expect("it gave way").clone();
        (bill.age, bill.basis, bill.restart)
    };
    let guess = Restart::Expected(Span::from_mins(5));
    assert_eq!(bill(None, true), (Span::from_mins(121), Basis::Unknown, guess));
    assert_eq!(bill(Some(30), true), (Span::from_mins(30), Basis::Declared, guess));
    assert_eq!(bill(Some(180), true), (Span::from_mins(121), Basis::Declared, guess));
    assert_eq!(bill(Some(30), false), (Span::from_mins(121), Basis::Unknown, Restart::None));
}

#[test]
fn what_the_leader_knew_when_it_chose_is_evidence() {
    let (mut world, node, attempt) = running(request(1));
    world.wait(Span::from_hours(2));
    let saved = world.now.minus(Span::from_mins(7));
    let mut asked = request(1);
    asked.budget = String::from("lang/pre");
    let taker = world.submit("bob", asked);
    let mut start = world.start_of(taker, &[(node, &[0])], &[(attempt, share())]);
    start.takes[0].price.saved_at = Some(saved);
    let plan = crate::world::plan(vec![start]);
    world.must(crate::world::REPLICA, Command::Adopt(plan));
    assert_eq!(world.attempt(attempt).saved_at, Some(saved));
    world.wait(Span::from_secs(60)).report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
    let bill = world.state.bills.values().next().expect("it gave way");
    assert_eq!((bill.age, bill.basis), (Span::from_mins(8), Basis::Reported));
}

#[test]
fn a_taker_that_never_starts_by_its_own_fault_wasted_it_and_a_cancelled_one_did_not() {
    let wasted = |how: &dyn Fn(&mut World, NodeId, AttemptId)| {
        let (mut world, node, attempt) = running(request(1));
        world.wait(Span::from_hours(2));
        let taker = is_taken(&mut world, node, attempt, Span::from_mins(1));
        how(&mut world, node, taker);
        let bill = world.state.bills.values().next().expect("it gave way").clone();
        bill.is_wasted
    };
    let fails = |fault| move |world: &mut World, node, taker| world.report(node, taker, launch_failed(fault));
    assert_eq!(wasted(&fails(Fault::Node)), Some(true));
    assert_eq!(wasted(&fails(Fault::Job { code: 127 })), Some(true));
    let cancelled = |world: &mut World, node, taker: AttemptId| {
        world.cancel("bob", taker.job, "").expect("it is bob's");
        world.report(node, taker, ended(Exit::Unknown, EndedBy::Stop));
    };
    assert_eq!(wasted(&cancelled), Some(false));
    assert_eq!(wasted(&|_, _, _| {}), None);
}

#[test]
fn a_bill_that_comes_after_its_takers_end_knows_that_end() {
    let (mut world, node, attempt) = running(request(1));
    world.wait(Span::from_hours(2));
    let mut asked = request(1);
    asked.budget = String::from("lang/pre");
    let taker = world.submit("bob", asked);
    let placed = world.start(taker, &[(node, &[0])], &[(attempt, share())]);
    world.report(node, placed, launch_failed(Fault::Job { code: 127 }));
    world.wait(Span::from_secs(9)).report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
    let bill = world.state.bills.values().next().expect("it gave way");
    assert_eq!((bill.taken_for, bill.is_wasted), (Some(placed), Some(true)));
}

#[test]
fn a_preemption_in_the_free_tier_is_billed_as_that() {
    let mut asked = request(1);
    asked.min_runtime = Some(Span::ZERO);
    let (mut world, node, attempt) = running(asked);
    world.wait(Span::from_mins(2));
    let taker = world.submit("bob", request(1));
    world.start(taker, &[(node, &[0])], &[(attempt, Right::FreeTier)]);
    world.wait(Span::from_secs(5)).report(node, attempt, ended(Exit::Signal(15), EndedBy::Notice));
    let bill = world.state.bills.values().next().expect("it gave way");
    assert_eq!((bill.cause, bill.tier), (BillCause::FreeTier, scheduler_core::spec::Tier::Free));
    assert!(matches!(world.phase(attempt.job), Phase::Held { .. }));
}

#[test]
fn an_exit_before_the_notice_is_no_preemption_and_has_no_bill() {
    let (mut world, node, attempt) = running(request(1));
    world.wait(Span::from_hours(2));
    let mut asked = request(1);
    asked.budget = String::from("lang/pre");
    let taker = world.submit("bob", asked);
    world.start(taker, &[(node, &[0])], &[(attempt, share())]);
    world.report(node, attempt, ended(Exit::Code(0), EndedBy::Itself));
    assert!(world.state.bills.is_empty());
    assert_eq!(world.job(attempt.job).progress.preemptions, 0);
}
