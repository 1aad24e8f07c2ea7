//! An operator's word about cluster time, and the leader's.

use scheduler_core::command::{Code, Command, Entry, Outcome, ResumeTime, SetTime, TimeSource};
use scheduler_core::invariants::check_all;
use scheduler_core::report::passed_over;
use scheduler_core::unit::{Span, Timestamp};

use crate::world::{REPLICA, World, mark, person, request, submission};

fn set(to: Option<Timestamp>) -> Command {
    Command::SetTime(SetTime { to, reason: String::from("by my watch") })
}

fn resumed(from: TimeSource) -> Command {
    Command::ResumeTime(ResumeTime { from, what: String::from("nobody knew") })
}

#[test]
fn time_is_set_forward_by_operators_with_a_reason_and_never_back() {
    let mut world = World::new();
    let ahead = world.now.plus(Span::from_hours(2));
    assert_eq!(world.refused(person("bob"), set(Some(ahead))), Code::NotAllowed);
    assert_eq!(world.refused(REPLICA, set(Some(ahead))), Code::NotAllowed);
    let silent = Command::SetTime(SetTime { to: Some(ahead), reason: String::from(" ") });
    assert_eq!(world.refused(person("ada"), silent), Code::BadSpec);
    world.must(person("ada"), set(Some(ahead)));
    assert_eq!(world.state.meta.time, ahead);
    let back = world.apply(person("ada"), set(Some(ahead.minus(Span::from_millis(1))))).expect_err("back");
    assert!(back.code == Code::BadSpec && back.fix.contains("slewed"), "{back:?}");
    let far = ahead.plus(Span::MAX).plus(Span::from_hours(1));
    assert_eq!(world.refused(person("ada"), set(Some(far))), Code::BadSpec);
    assert_eq!(world.state.meta.time, ahead);
    assert_eq!(world.replayed().digest(), world.state.digest());
}

#[test]
fn alarm_stays_until_an_operator_says_what_time_it_is() {
    let mut world = World::new();
    assert_eq!(world.refused(person("ada"), resumed(TimeSource::LastEntry)), Code::NotAllowed);
    world.must(REPLICA, resumed(TimeSource::Agents));
    world.must(REPLICA, resumed(TimeSource::WallClock));
    assert!(world.state.meta.time_alarm.is_none());
    world.must(REPLICA, resumed(TimeSource::LastEntry));
    world.must(REPLICA, resumed(TimeSource::Agents));
    assert!(world.state.meta.time_alarm.is_some());
    let before = world.now;
    world.must(person("ada"), set(None));
    assert!(world.state.meta.time_alarm.is_none());
    assert_eq!((world.state.meta.time, world.state.meta.time_jump), (before, None));
}

#[test]
fn request_under_way_when_time_is_set_is_as_young_as_it_was_and_done_once() {
    let mut world = World::new();
    let entry = |id: u8, made_at: Timestamp, now: Timestamp| Entry {
        time: now,
        actor: person("bob"),
        request: Some(mark(id, made_at, 1)),
        via: None,
        command: submission(request(1)),
    };
    let made_at = world.now;
    let done = world.entry(entry(1, made_at, world.now));
    world.wait(Span::from_mins(1));
    let ahead = world.now.plus(Span::from_hours(30));
    world.must(person("ada"), set(Some(ahead)));
    world.now = ahead.plus(Span::from_mins(1));
    assert_eq!(world.entry(entry(1, made_at, world.now)), done, "its answer is still known");
    let another = world.entry(entry(2, made_at, world.now));
    assert!(
        matches!(another, Ok(Outcome::Submitted { .. })),
        "made before the step, two minutes ago: {another:?}"
    );
    world.wait(Span::from_mins(4));
    let old = world.entry(entry(3, made_at, world.now)).expect_err("six minutes old");
    assert_eq!(old.code, Code::Expired);
    world.wait(Span::from_mins(5));
    assert_eq!(world.entry(entry(1, made_at, world.now)).expect_err("forgotten").code, Code::Expired);
    check_all(&world.state).expect("everything holds");
}

#[test]
fn preview_names_what_a_step_of_time_ends_and_the_step_does_it() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let mut asked = request(2);
    asked.min_runtime = Some(Span::from_hours(1));
    let short = world.submit("bob", asked.clone());
    let short = world.place(short, node, &[0, 1]);
    asked.min_runtime = Some(Span::from_hours(4));
    let long = world.submit("bob", asked);
    let long = world.place(long, node, &[2, 3]);
    for attempt in [short, long] {
        world.report(node, attempt, scheduler_core::agent::RankEvent::Started);
    }
    world.wait(Span::from_mins(10));
    let to = world.now.plus(Span::from_hours(2));
    let passed = passed_over(&world.state, world.now, to);
    let names: Vec<_> = passed.ended.iter().map(|cut| cut.attempt).collect();
    assert_eq!((names, passed.shortened), (vec![short], 1));
    assert_eq!(passed.booked.get(), 4 * 2 * 3_600_000);
    world.must(person("ada"), set(Some(to)));
    assert!(!world.attempt(short).is_protected(world.state.meta.time));
    assert!(world.attempt(long).is_protected(world.state.meta.time));
    check_all(&world.state).expect("the books tile the time that was passed over");
    assert_eq!(world.replayed().digest(), world.state.digest());
}
