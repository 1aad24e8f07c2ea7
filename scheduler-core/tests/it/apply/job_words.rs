//! What people say about jobs: hold, release, requeue; who may, and what it does.

use scheduler_core::agent::{EndedBy, Order, RankEvent, assignments};
use scheduler_core::command::{Code, Command, JobWord};
use scheduler_core::id::{JobId, NodeId};
use scheduler_core::job::{AttemptEnd, End, Exit, HeldBy, Phase, StopCause};
use scheduler_core::unit::Span;

use super::taking::share;
use crate::world::{World, ended, name, person, request};

fn word(job: JobId, reason: &str) -> JobWord {
    JobWord { job, reason: String::from(reason) }
}

fn held_by(world: &World, job: JobId) -> Option<HeldBy> {
    match world.phase(job) {
        Phase::Held { by, .. } => Some(by.clone()),
        _ => None,
    }
}

fn by(who: &str, reason: &str) -> Option<HeldBy> {
    Some(HeldBy::Person { who: name(who), reason: String::from(reason) })
}

#[test]
fn a_held_job_is_out_of_line_and_released_at_its_place() {
    let mut world = World::new();
    let first = world.submit("bob", request(1));
    world.wait(Span::from_secs(1)).submit("bob", request(1));
    world.must(person("bob"), Command::Hold(word(first, "")));
    assert_eq!(held_by(&world, first), by("bob", ""));
    assert_eq!(world.state.line.len(), 1);
    world.wait(Span::from_hours(1)).must(person("bob"), Command::Release(word(first, "")));
    assert_eq!(world.state.line.keys().next().map(|place| place.job), Some(first));
    assert_eq!(world.refused(person("bob"), Command::Release(word(first, ""))), Code::Stale);
}

#[test]
fn a_word_about_somebody_elses_job_needs_a_right_and_a_reason() {
    let mut world = World::new();
    let job = world.submit("bob", request(1));
    for command in [Command::Hold, Command::Release, Command::Requeue] {
        assert_eq!(world.refused(person("mallory"), command(word(job, "so"))), Code::NotAllowed);
        assert_eq!(world.refused(person("eve"), command(word(job, "so"))), Code::NotAllowed);
        assert_eq!(world.refused(person("ada"), command(word(job, " "))), Code::BadSpec);
        assert_eq!(world.refused(person("bob"), command(word(JobId::new(99), ""))), Code::NotFound);
    }
}

#[test]
fn what_somebody_above_its_user_held_its_user_does_not_release() {
    let mut world = World::new();
    let job = world.submit("bob", request(1));
    world.must(person("bob"), Command::Hold(word(job, "")));
    world.must(person("ada"), Command::Hold(word(job, "it floods the file system")));
    assert_eq!(held_by(&world, job), by("ada", "it floods the file system"));
    assert_eq!(world.refused(person("bob"), Command::Release(word(job, ""))), Code::NotAllowed);
    assert_eq!(world.refused(person("bob"), Command::Hold(word(job, ""))), Code::Stale);
    world.must(person("ada"), Command::Release(word(job, "fixed")));
    assert!(world.phase(job).is_waiting());
}

#[test]
fn a_running_job_is_not_held_and_one_without_go_gives_its_place_up() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let mut asked = request(1);
    asked.budget = String::from("lang/pre");
    let runs = world.submit("bob", asked);
    let attempt = world.place(runs, node, &[0]);
    assert_eq!(world.refused(person("bob"), Command::Hold(word(runs, ""))), Code::Stale);
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_hours(1));
    let waits = world.submit("bob", request(1));
    let placed = world.start(waits, &[(node, &[0])], &[(attempt, share())]);
    world.must(person("bob"), Command::Hold(word(waits, "later")));
    assert_eq!(held_by(&world, waits), by("bob", "later"));
    assert!(world.state.attempts.get(&placed).is_none());
    assert_eq!(world.job(waits).past[0].ended.cause, AttemptEnd::Preempted);
    assert_eq!(world.job(waits).progress.preemptions, 0, "nobody took anything from it");
}

/// A job of `bob` that runs, or that does not resume.
fn running(resumable: bool) -> (World, NodeId, JobId) {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let mut asked = request(1);
    asked.resumable = Some(resumable);
    let job = world.submit("bob", asked);
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, RankEvent::Started);
    (world, node, job)
}

#[test]
fn a_requeued_job_saves_stops_and_waits_again_also_if_it_does_not_resume() {
    for resumable in [true, false] {
        let (mut world, node, job) = running(resumable);
        let attempt = crate::world::attempt(job, 1);
        world.wait(Span::from_mins(5)).must(person("bob"), Command::Requeue(word(job, "new data")));
        let order = assignments(&world.state, node)[0].order.clone();
        let reason = String::from("to be started again, by bob: new data");
        assert_eq!(order, Order::Stop { reason, grace: Span::from_secs(120), has_notice: true });
        assert_eq!(world.refused(person("bob"), Command::Requeue(word(job, ""))), Code::Stale);
        world.report(node, attempt, ended(Exit::Code(1), EndedBy::Notice));
        assert!(world.phase(job).is_waiting(), "resumable: {resumable}");
        assert_eq!((world.job(job).retries_used, world.job(job).progress.preemptions), (0, 0));
        assert_eq!(world.state.bills.len(), 0, "its own user wanted it");
    }
}

#[test]
fn what_a_person_above_requeues_is_on_the_bill() {
    let (mut world, node, job) = running(true);
    let attempt = crate::world::attempt(job, 1);
    world.wait(Span::from_mins(5)).must(person("ada"), Command::Requeue(word(job, "a leak")));
    world.wait(Span::from_secs(7)).report(node, attempt, ended(Exit::Signal(15), EndedBy::Notice));
    let bill = world.state.bills.values().next().expect("it was not its user's word");
    assert_eq!(bill.cause, scheduler_core::bill::BillCause::Operator);
    assert_eq!((bill.taken_for, bill.is_wasted), (None, Some(false)));
}

#[test]
fn an_exit_before_the_notice_counts_as_what_it_was() {
    let (mut world, node, job) = running(true);
    let attempt = crate::world::attempt(job, 1);
    world.must(person("bob"), Command::Requeue(word(job, "")));
    world.report(node, attempt, ended(Exit::Code(3), EndedBy::Itself));
    assert!(matches!(world.phase(job), Phase::Ended { end: End::Failed, exit: Some(Exit::Code(3)), .. }));
    let (mut world, node, job) = running(true);
    world.must(person("bob"), Command::Requeue(word(job, "")));
    world.report(node, attempt, ended(Exit::Code(0), EndedBy::Itself));
    assert!(matches!(world.phase(job), Phase::Ended { end: End::Completed, .. }));
}

#[test]
fn only_what_runs_is_requeued() {
    let mut world = World::new();
    let job = world.submit("bob", request(1));
    assert_eq!(world.refused(person("bob"), Command::Requeue(word(job, ""))), Code::Stale);
    world.cancel("bob", job, "").expect("it is bob's");
    for command in [Command::Hold, Command::Release, Command::Requeue] {
        assert_eq!(world.refused(person("bob"), command(word(job, ""))), Code::Stale);
    }
}

#[test]
fn a_cancel_goes_before_a_notice_and_the_earlier_kill_holds() {
    for (wait, left) in [(Span::from_secs(10), 30), (Span::from_secs(100), 20)] {
        let (mut world, node, job) = running(true);
        let attempt = crate::world::attempt(job, 1);
        world.must(person("bob"), Command::Requeue(word(job, "")));
        world.wait(wait).cancel("bob", job, "it is wrong").expect("it is bob's");
        let stop = world.attempt(attempt).stop.clone().expect("it stops");
        assert!(matches!(stop.cause, StopCause::Cancel { .. }));
        assert_eq!(stop.killed_at(), world.now.plus(Span::from_secs(left)));
        assert!(matches!(assignments(&world.state, node)[0].order, Order::Stop { has_notice: false, .. }));
        world.report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
        assert!(matches!(world.phase(job), Phase::Ended { end: End::Cancelled, .. }));
    }
}

#[test]
fn a_free_tier_job_waits_after_preemptions_and_nobody_shortens_that() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let mut asked = request(1);
    asked.min_runtime = Some(Span::ZERO);
    let job = world.submit("bob", asked);
    for (preemptions, minutes) in [(1, 2), (2, 4), (3, 8)] {
        let attempt = world.place(job, node, &[0]);
        world.report(node, attempt, RankEvent::Started);
        let taker = world.submit("bob", request(1));
        let taken = [(attempt, scheduler_core::decision::Right::FreeTier)];
        let placed = world.start(taker, &[(node, &[0])], &taken);
        assert_eq!(world.attempt(attempt).stop.as_ref().map(|stop| stop.grace), Some(Span::from_secs(15)));
        world.wait(Span::from_secs(9)).report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
        world.report(node, attempt, RankEvent::Freed);
        let until = world.now.plus(Span::from_mins(minutes));
        assert_eq!(held_by(&world, job), Some(HeldBy::Backoff { until }));
        assert_eq!(world.job(job).progress.preemptions, preemptions);
        for command in [Command::Hold, Command::Release] {
            assert_eq!(world.refused(person("bob"), command(word(job, ""))), Code::Stale);
        }
        world.report(node, placed, RankEvent::Started);
        world.exit(node, placed, 0);
        world.report(node, placed, RankEvent::Freed);
        world.now = until;
        world.submit("bob", request(1));
        assert!(world.phase(job).is_waiting(), "it is tried again by itself");
    }
}
