//! Lesson 25 of PEERS 3, and what is known before an edit of 16: users of other schedulers cannot tell minutes from hours, learn only after they submitted that a
//! job can never fit, cannot try rules before they hold, and have no budgets over time.

use scheduler_core::agent::RankEvent;
use scheduler_core::command::{Code, Command, Submit};
use scheduler_core::future::{Likely, Question, Range, likely};
use scheduler_core::id::JobId;
use scheduler_core::plan::Links;
use scheduler_core::report::{Change, Then, dry_run, edit, what_if};
use scheduler_core::spec::Request;
use scheduler_core::unit::{Share, Span};

use crate::rounds::{round, two_budgets};
use crate::story;
use crate::world::{World, person, request, submission};

/// Who waits for a job that had its GPUs for ten minutes and ends after so long at the latest.
fn waits_behind(limit: Span) -> (World, JobId) {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let min_runtime = Some(Span::from_mins(20));
    let runs = world.submit("bob", Request { time_limit: Some(limit), min_runtime, ..request(4) });
    let attempt = world.place(runs, node, &[0, 1, 2, 3]);
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_mins(10));
    // Of the same budget: it takes nothing.
    let waits = world.submit("bob", request(4));
    round(&mut world);
    (world, waits)
}

fn asked(world: &World, job: JobId) -> Likely {
    let question = Question { job, seed: 1, futures: 40, horizon: Span::from_hours(24) };
    let links = Links::all_ready(&world.state);
    likely(&world.state, &links, &question, world.now, |_| true).expect("it stands in line")
}

#[test]
fn lesson_25_minutes_are_told_from_hours() {
    let (soon, first) = waits_behind(Span::from_mins(30));
    let Range::Between { to, .. } = asked(&soon, first).range() else { panic!("it starts in minutes") };
    assert!(to <= soon.now.plus(Span::from_mins(21)), "{to:?}");
    let (late, second) = waits_behind(Span::from_hours(20));
    let (Range::Between { to, .. } | Range::From { from: to }) = asked(&late, second).range() else {
        panic!("it has a range")
    };
    assert!(to > late.now.plus(Span::from_hours(1)), "{to:?}");
    // And beside the range a bound that is kept: its date.
    let bound = |world: &World, job: JobId| {
        let date = world.state.dates.iter().find(|((of, _), _)| *of == job).expect("it has a date");
        date.1.promise.at.since(world.now)
    };
    // An older job of its own budget stays for the cap at most.
    assert_eq!((bound(&soon, first), bound(&late, second)), (Span::from_hours(8), Span::from_hours(8)));
}

#[test]
fn lesson_25_what_can_never_fit_is_known_before_it_is_submitted() {
    let mut world = World::new();
    world.node("n1", 4);
    world.node("n2", 2);
    let before = world.state.digest();
    let Command::Submit(submit) = submission(request(8)) else { panic!("a submission is one") };
    let asks = |submit: &Submit| {
        dry_run(&world.state, &Links::all_ready(&world.state), &person("bob"), submit, world.now)
    };
    let refused = asks(&submit).expect_err("no node has eight");
    assert_eq!(refused.code, Code::ImpossibleShape);
    assert!(refused.fix.contains("n1") && refused.fix.contains("n2"), "the two nearest: {refused:?}");
    assert_eq!(world.state.digest(), before, "nothing was submitted");
    let Command::Submit(submit) = submission(request(4)) else { panic!("a submission is one") };
    assert!(asks(&submit).is_ok());
}

#[test]
fn lesson_25_rules_are_tried_before_they_hold() {
    let mut world = two_budgets([50, 50], 4);
    let runs = world.submit("bob", Request { budget: String::from("a"), ..request(4) });
    let node = *world.state.nodes.keys().next().expect("there is one");
    let attempt = world.place(runs, node, &[0, 1, 2, 3]);
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_hours(3));
    let waits = world.submit("bob", Request { budget: String::from("b"), ..request(4) });
    let before = world.state.digest();
    let links = Links::all_ready(&world.state);
    let try_with = |share: u32| {
        let share = Share::from_ppm(share * 10_000).expect("at most the whole");
        let change = Change::Share(String::from("a"), share);
        what_if(&world.state, &links, waits, &[change], world.now).expect("it waits")
    };
    // a used three hours of four GPUs: 3.6 % of half of a week, within the margin of nothing; 18 % of a tenth.
    assert!(matches!(try_with(50).then, Then::Waits(_)), "as it is");
    let tried = try_with(10);
    assert!(matches!(tried.now, Then::Waits(_)) && matches!(tried.then, Then::Starts { .. }), "{tried:?}");
    assert_eq!(world.state.digest(), before, "and nothing was changed");
}

#[test]
fn lesson_25_a_budget_is_worth_time_not_a_number_of_gpus() {
    // Four GPUs for a day are 96 GPU-hours of the 336 that half of a week is worth; whoever used nothing goes first then,
    // and after a week nobody remembers.
    story::check(
        "budget a 50
         budget b 50
         node n1 4
         submit x a 4 min=8h lasts=24h
         run 25h
         x ended completed
         use a 28
         submit y a 4 min=1h lasts=1h
         submit z b 4 min=1h lasts=1h
         run 30m
         z runs
         y waits
         run 2h
         y ended completed
         run 8d
         use a 0",
    );
}

#[test]
fn lesson_16_a_cut_share_is_shown_before_it_holds_with_whom_it_exposes() {
    let mut story = story::check(
        "window 24h
         budget a 50
         budget b 50
         node n1 4
         submit old a 4 min=60m
         run 30m
         submit new b 4 min=60m
         run 1m
         new waits",
    );
    // a has used and set aside 4 GPU-hours of 48, less than the margin; of a share of 5 % that is most of it.
    let shown = |story: &story::Story| {
        let mut file = story.root();
        file.children[0].share = Share::from_ppm(50_000).expect("a share");
        let mut pools = edit(&story.world.state, &file, story.world.now).expect("it may be cut");
        let pool = pools.pop().expect("there is one");
        let named = |id| scheduler_core::budget::path(&story.world.state, id).len() == 2;
        assert!(pool.shifts.iter().all(|shift| shift.may && named(shift.from) && shift.from < shift.to));
        let shifts = pool.shifts.iter().map(|shift| (shift.attempts, shift.gpus, shift.waiting));
        (pool.protected_gpus, shifts.collect::<Vec<_>>())
    };
    assert_eq!(shown(&story), (4, vec![]), "who is protected stays so, whatever the edit");
    story.tell("run 31m\nold runs\nnew waits");
    assert_eq!(shown(&story), (0, vec![(1, 4, 1)]), "then it may be taken for the job that waits");
    story.tell("share a 5\nrun 5m\nnew runs\nold waits\ntakes 1");
}
