//! The dry run says what the next plan would do, and does nothing.

use scheduler_core::agent::RankEvent;
use scheduler_core::command::{Code, Command, Outcome, Submit};
use scheduler_core::id::{JobId, LogIndex, Term};
use scheduler_core::plan::{Links, plan};
use scheduler_core::report::{DryRun, Expected, dry_run};
use scheduler_core::spec::Request;
use scheduler_core::unit::{GpuCount, Span};

use crate::world::{World, person, request, submission};

fn submit(request: Request) -> Submit {
    match submission(request) {
        Command::Submit(submit) => submit,
        other => panic!("a submission is one, not {other:?}"),
    }
}

/// Asks, checks that nothing was changed, then submits for real: the next plan must say the same.
fn check(world: &mut World, request: &Request) -> DryRun {
    let before = world.state.digest();
    let links = Links::all_ready(&world.state);
    let asked = dry_run(&world.state, &links, &person("bob"), &submit(request.clone()), world.now)
        .expect("it is accepted");
    assert_eq!(world.state.digest(), before, "a dry run changes nothing");
    assert_eq!((asked.as_of, asked.at), (world.state.meta.index, world.now));
    let Outcome::Submitted { job } = world.must(person("bob"), submission(request.clone())) else {
        panic!("a submission is answered with a number")
    };
    assert_eq!((asked.job, &asked.terms), (job, &world.job(job).terms));
    let real = plan(&world.state, &links, world.now, Term::new(0));
    let start = real.decisions.into_iter().find(|start| start.job == job);
    let explained = scheduler_core::explain::job(&world.state, &links, job, world.now).expect("it is there");
    match &asked.expected {
        Expected::Starts { start: expected, .. } => assert_eq!(start.as_ref(), Some(&**expected)),
        Expected::Waits(expected) => {
            assert_eq!(start, None);
            assert_eq!(**expected, explained);
        }
    }
    asked
}

fn wanted(gpus: u32) -> Request {
    request(gpus)
}

#[test]
fn what_would_start_says_where() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let found = check(&mut world, &wanted(3));
    let Expected::Starts { start, victims } = found.expected else { panic!("there are four idle GPUs") };
    assert_eq!((start.on[0].0, start.on[0].1.len(), victims.len()), (node, 3, 0));
}

#[test]
fn what_would_wait_says_why_and_from_when_on_it_might_not() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let first = world.submit("bob", wanted(4));
    let first = world.place(first, node, &[0, 1, 2, 3]);
    world.report(node, first, RankEvent::Started);
    world.wait(Span::from_mins(20));
    let found = check(&mut world, &wanted(1));
    let Expected::Waits(why) = found.expected else { panic!("all GPUs are protected") };
    assert_eq!(why.reasons[0].token.as_str(), "waiting.protection");
    assert_eq!(why.earliest, Some(world.now.plus(Span::from_mins(40))));
    assert_eq!(why.place.as_ref().map(|place| place.place), Some(1));
}

#[test]
fn what_would_take_others_says_whom_by_which_right_and_at_which_price() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let free = world.submit("bob", Request { min_runtime: Some(Span::ZERO), ..wanted(3) });
    let free = world.place(free, node, &[0, 1, 2]);
    world.report(node, free, RankEvent::Started);
    world.wait(Span::from_mins(30));
    let found = check(&mut world, &wanted(4));
    let Expected::Starts { victims, .. } = found.expected else { panic!("the free tier makes way") };
    assert_eq!(
        victims[0].sentence,
        format!(
            "{free} of lang/post gives way with 3 GPUs: it was in the free tier, which gives way to funded jobs; \
             counted as 0.25 GPU-h: 0 s lost and 5 min to start again at 3 GPUs"
        )
    );
}

#[test]
fn what_would_be_held_says_so() {
    let mut world = World::new();
    world.node("n1", 4);
    let found = check(&mut world, &Request { is_held: true, ..wanted(1) });
    let Expected::Waits(why) = found.expected else { panic!("it is held") };
    assert_eq!(why.reasons[0].token.as_str(), "held.user");
}

#[test]
fn every_refusal_is_the_real_one() {
    let mut world = World::new();
    world.node("n1", 4);
    let refused = |world: &World, who: &str, request: Request| {
        let links = Links::all_ready(&world.state);
        dry_run(&world.state, &links, &person(who), &submit(request), world.now).expect_err("it is refused")
    };
    let bad = [
        ("bob", Request { min_runtime: Some(Span::from_hours(9)), ..wanted(1) }, Code::AboveCap),
        ("bob", wanted(5), Code::ImpossibleShape),
        ("bob", Request { budget: "lang".to_owned(), ..wanted(1) }, Code::InnerBudget),
        ("mallory", wanted(1), Code::NotAllowed),
        ("bob", Request { min_runtime: None, ..wanted(1) }, Code::NoTier),
    ];
    for (who, request, code) in bad {
        let asked = refused(&world, who, request.clone());
        assert_eq!(asked.code, code);
        assert_eq!(world.apply(person(who), submission(request)), Err(asked));
    }
}

#[test]
fn a_number_is_what_the_job_would_take_if_nobody_came_first() {
    let mut world = World::new();
    world.node("n1", 1);
    let links = Links::all_ready(&world.state);
    let ask = |world: &World| {
        let mut request = wanted(1);
        request.shape.gpus_per_node = GpuCount::new(1);
        dry_run(&world.state, &links, &person("bob"), &submit(request), world.now)
            .expect("it is accepted")
            .job
    };
    let first = ask(&world);
    assert_eq!(ask(&world), first, "nothing was taken");
    world.submit("bob", wanted(1));
    assert_eq!(ask(&world), JobId::new(first.get() + 1));
    assert!(world.state.meta.index > LogIndex::new(0));
}
