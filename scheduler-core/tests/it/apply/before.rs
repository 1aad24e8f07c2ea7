//! What jobs wait for before they stand in line: a moment, and the ends of others.

use scheduler_core::command::{Code, Command, JobWord};
use scheduler_core::explain;
use scheduler_core::id::JobId;
use scheduler_core::job::{End, HeldBy, Phase};
use scheduler_core::lifecycle::forget;
use scheduler_core::plan::Links;
use scheduler_core::settings::Settings;
use scheduler_core::spec::{After, Asks, Request, Wants};
use scheduler_core::unit::Span;

use crate::world::{World, person, request, submission};

fn word(job: JobId) -> JobWord {
    JobWord { job, reason: String::new() }
}

fn held_by(world: &World, job: JobId) -> Option<HeldBy> {
    match world.phase(job) {
        Phase::Held { by, .. } => Some(by.clone()),
        Phase::Waiting { .. } | Phase::Live(_) | Phase::Ended { .. } => None,
    }
}

fn waiting(never: Option<JobId>) -> Option<HeldBy> {
    Some(HeldBy::Dependency { never })
}

fn after(jobs: &[(JobId, Wants)]) -> Request {
    let after = jobs.iter().map(|(job, wants)| After { job: *job, task: None, wants: *wants }).collect();
    Request { asks: Asks { after, ..Asks::default() }, ..request(1) }
}

/// Runs a job to its end with that code.
fn run(world: &mut World, job: JobId, code: u8) {
    let node = *world.state.nodes.keys().next().expect("there is a node");
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, scheduler_core::agent::RankEvent::Started);
    world.exit(node, attempt, code);
    world.report(node, attempt, scheduler_core::agent::RankEvent::Freed);
}

fn is_replayed(world: &World) {
    assert_eq!(world.replayed().digest(), world.state.digest());
}

#[test]
fn a_job_stands_in_line_from_its_begin_on_by_time_alone() {
    let mut world = World::new();
    let begin = world.now.plus(Span::from_hours(2));
    let later =
        world.submit("bob", Request { asks: Asks { begin: Some(begin), ..Asks::default() }, ..request(1) });
    let now = world.submit("bob", request(1));
    assert_eq!(held_by(&world, later), Some(HeldBy::Begin { until: begin }));
    assert_eq!(world.state.line.len(), 1);
    world.wait(Span::from_hours(2)).submit("bob", request(1));
    assert_eq!(*world.phase(later), Phase::Waiting { since: begin });
    // At the place of its submission.
    let line: Vec<JobId> = world.state.line.keys().map(|place| place.job).take(2).collect();
    assert_eq!(line, [later, now]);
    is_replayed(&world);
}

#[test]
fn a_person_starts_it_earlier_or_holds_it_beyond() {
    let mut world = World::new();
    let begin = world.now.plus(Span::from_hours(2));
    let asked = || Request { asks: Asks { begin: Some(begin), ..Asks::default() }, ..request(1) };
    let (early, held) = (world.submit("bob", asked()), world.submit("bob", asked()));
    world.must(person("bob"), Command::Release(word(early)));
    assert_eq!(held_by(&world, early), None);
    world.must(person("bob"), Command::Hold(word(held)));
    world.must(person("bob"), Command::Release(word(held)));
    assert_eq!(held_by(&world, held), Some(HeldBy::Begin { until: begin }), "its begin still holds it");
    world.must(person("bob"), Command::Hold(word(held)));
    world.wait(Span::from_hours(3)).submit("bob", request(1));
    assert!(matches!(held_by(&world, held), Some(HeldBy::Person { .. })));
    world.must(person("bob"), Command::Release(word(held)));
    assert_eq!(held_by(&world, held), None);
    is_replayed(&world);
}

#[test]
fn a_begin_that_cannot_be_is_refused() {
    let mut world = World::new();
    let at = |begin| Request { asks: Asks { begin: Some(begin), ..Asks::default() }, ..request(1) };
    let past = at(world.now.minus(Span::from_mins(6)));
    assert_eq!(world.refused(person("bob"), submission(past)), Code::BadSpec);
    let far = at(world.now.plus(Span::from_hours(24 * 366)));
    assert_eq!(world.refused(person("bob"), submission(far)), Code::BadSpec);
    // A moment ago it was still to come.
    let late = at(world.now.minus(Span::from_secs(2)));
    let job = world.submit("bob", late);
    assert_eq!(held_by(&world, job), None);
}

#[test]
fn a_job_waits_for_others_to_end_or_to_complete() {
    let mut world = World::new();
    world.node("n1", 8);
    let (good, bad) = (world.submit("bob", request(1)), world.submit("bob", request(1)));
    let any = world.submit("bob", after(&[(good, Wants::End), (bad, Wants::End)]));
    let ok = world.submit("bob", after(&[(good, Wants::Success)]));
    let never = world.submit("bob", after(&[(good, Wants::Success), (bad, Wants::Success)]));
    let chain = world.submit("bob", after(&[(never, Wants::Success), (ok, Wants::End)]));
    for job in [any, ok, never, chain] {
        assert_eq!(held_by(&world, job), waiting(None));
    }
    run(&mut world, good, 0);
    assert_eq!([any, ok, never].map(|job| held_by(&world, job)), [waiting(None), None, waiting(None)]);
    run(&mut world, bad, 3);
    assert_eq!([any, never].map(|job| held_by(&world, job)), [None, waiting(Some(bad))]);
    assert_eq!(held_by(&world, chain), waiting(None), "a held job has not ended");
    // It is told, with the way out; and that way works.
    let why =
        explain::job(&world.state, &Links::all_ready(&world.state), never, world.now).expect("it is there");
    assert!(why.sentence.contains("failed") && why.sentence.contains("job release"), "{}", why.sentence);
    world.must(person("bob"), Command::Release(word(never)));
    assert_eq!(held_by(&world, never), None);
    assert!(world.cancel("bob", never, "").is_ok());
    assert_eq!(held_by(&world, chain), waiting(Some(never)), "who is cancelled has not completed");
    assert!(world.cancel("bob", chain, "").is_ok());
    assert!(world.state.dependents.is_empty());
    is_replayed(&world);
}

#[test]
fn how_a_job_ended_that_left_state_counts_as_long_as_it_is_known() {
    let settings = Settings { allow_simulated: true, keep_ended: Span::from_mins(1), ..Settings::default() };
    let mut world = World::with(settings);
    world.node("n1", 8);
    let (good, bad) = (world.submit("bob", request(1)), world.submit("bob", request(1)));
    run(&mut world, good, 0);
    run(&mut world, bad, 1);
    world.wait(Span::from_hours(24)).submit("bob", request(1));
    assert_eq!(world.state.jobs.get(&good), None);
    let ok = world.submit("bob", after(&[(good, Wants::Success), (bad, Wants::End)]));
    let never = world.submit("bob", after(&[(bad, Wants::Success)]));
    assert_eq!([ok, never].map(|job| held_by(&world, job)), [None, waiting(Some(bad))]);
    assert_eq!(forget::result(&world.state, bad).map(|(end, _)| end), Some(End::Failed));
    world.wait(Span::from_hours(8 * 24));
    assert_eq!(world.refused(person("bob"), submission(after(&[(bad, Wants::End)]))), Code::BadSpec);
    is_replayed(&world);
}

#[test]
fn nobody_waits_for_himself_for_what_is_not_there_or_for_too_many() {
    let mut world = World::with(Settings { dependencies_max: 3, ..Settings::default() });
    let first = world.submit("bob", request(1));
    let next = world.state.meta.next_job;
    for job in [JobId::new(0), next, JobId::new(next.get() + 7)] {
        assert_eq!(world.refused(person("bob"), submission(after(&[(job, Wants::End)]))), Code::BadSpec);
    }
    let twice = after(&[(first, Wants::End), (first, Wants::Success)]);
    assert_eq!(world.refused(person("bob"), submission(twice)), Code::BadSpec);
    let many: Vec<(JobId, Wants)> = (0..65).map(|_| (first, Wants::End)).collect();
    assert_eq!(world.refused(person("bob"), submission(after(&many))), Code::BadSpec);
    for _ in 0..3 {
        world.submit("bob", after(&[(first, Wants::End)]));
    }
    assert_eq!(world.refused(person("bob"), submission(after(&[(first, Wants::End)]))), Code::Full);
    assert!(world.cancel("bob", first, "").is_ok());
    assert_eq!(world.state.line.len(), 3, "all that waited for it are in line");
    is_replayed(&world);
}

#[test]
fn what_waits_for_both_waits_for_the_later() {
    let mut world = World::new();
    let first = world.submit("bob", request(1));
    let begin = world.now.plus(Span::from_hours(1));
    let mut asked = after(&[(first, Wants::End)]);
    asked.asks.begin = Some(begin);
    let job = world.submit("bob", asked);
    assert_eq!(held_by(&world, job), waiting(None));
    assert!(world.cancel("bob", first, "").is_ok());
    assert_eq!(held_by(&world, job), Some(HeldBy::Begin { until: begin }));
    world.wait(Span::from_hours(1)).submit("bob", request(1));
    assert_eq!(held_by(&world, job), None);
}
