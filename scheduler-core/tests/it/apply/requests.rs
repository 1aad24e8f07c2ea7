//! The same write twice is one write, on every replica.

use scheduler_core::apply::{apply, next_change};
use scheduler_core::command::{Code, Entry, Outcome};
use scheduler_core::id::{JobId, LogIndex};
use scheduler_core::state::State;
use scheduler_core::unit::Span;

use crate::world::{TERM, World, mark, person, request, submission};

fn entry(world: &World, id: u8, body: u8) -> Entry {
    let request_mark = Some(mark(id, world.now, body));
    let (actor, command) = (person("bob"), submission(request(1)));
    Entry { time: world.now, actor, via: None, request: request_mark, command }
}

#[test]
fn a_retry_gets_the_first_answer_and_another_body_a_conflict() {
    let mut world = World::new();
    let first = entry(&world, 1, 1);
    let submitted = Ok(Outcome::Submitted { job: JobId::new(1) });
    assert_eq!(world.entry(first.clone()), submitted);
    world.wait(Span::from_mins(4));
    assert_eq!(world.entry(Entry { time: world.now, ..first.clone() }), submitted);
    let other = entry(&world, 1, 2);
    assert_eq!(world.entry(other).expect_err("another body").code, Code::Conflict);
    assert_eq!(world.state.jobs.len(), 1);
    // Remembered for ten minutes, and by then the request's own time is too old to be new.
    world.wait(Span::from_mins(6));
    let late = Entry { time: world.now, ..first };
    assert_eq!(world.entry(late).expect_err("forgotten").code, Code::Expired);
    assert!(world.state.requests.is_empty());
    assert_eq!(next_change(&world.state), None);
}

#[test]
fn a_refusal_is_an_answer_too() {
    let mut world = World::new();
    let mut asked = request(1);
    asked.min_runtime = None;
    let mut refused = entry(&world, 1, 1);
    refused.command = submission(asked);
    assert_eq!(world.entry(refused.clone()).expect_err("no tier").code, Code::NoTier);
    assert_eq!(world.entry(refused).expect_err("the same").code, Code::NoTier);
}

#[test]
fn a_request_made_too_far_away_is_expired() {
    let mut world = World::new();
    for (id, made_at, is_taken) in [
        (1, world.now.minus(Span::from_millis(299_999)), true),
        (2, world.now.minus(Span::from_mins(5)), false),
        (3, world.now.plus(Span::from_millis(299_999)), true),
        (4, world.now.plus(Span::from_mins(5)), false),
    ] {
        let request = Some(mark(id, made_at, 1));
        let entry = Entry { request, ..entry(&world, id, 1) };
        assert_eq!(world.entry(entry).is_ok(), is_taken, "request {id}");
    }
}

#[test]
fn one_request_sent_to_two_replicas_is_one_job() {
    let mut world = World::new();
    let sent = entry(&world, 1, 1);
    let first = world.entry(sent.clone());
    let second = world.entry(sent);
    assert_eq!(first, second);
    // Both replicas apply the same log: the other one has both entries too.
    let mut other = State::default();
    let answers: Vec<_> = (1u64..)
        .zip(&world.log)
        .map(|(index, entry)| apply(&mut other, LogIndex::new(index), TERM, entry))
        .collect();
    assert_eq!(answers[answers.len() - 2..], [first, second]);
    assert_eq!(other.digest(), world.state.digest());
    assert_eq!(other.jobs.len(), 1);
}

#[test]
fn time_never_goes_back() {
    let mut world = World::new();
    world.wait(Span::from_secs(10)).submit("bob", request(1));
    let now = world.now;
    world.now = now.minus(Span::from_secs(5));
    let job = world.submit("bob", request(1));
    assert_eq!((world.state.meta.time, world.job(job).submitted_at), (now, now));
}
