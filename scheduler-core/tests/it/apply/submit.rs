//! What a submission can get wrong, and what it is told.

use scheduler_core::command::{ApplyBudgets, Code, Command};
use scheduler_core::job::{HeldBy, Phase};
use scheduler_core::settings::Settings;
use scheduler_core::spec::{ContractDefaults, Request, TermSource, Tier, Turn};
use scheduler_core::unit::{GpuCount, Span};

use crate::world::{World, label, name, person, request, submission, tree};

/// Submits as bob what `change` makes of a good request, and shows the refusal: code, what, fix.
fn check(change: impl FnOnce(&mut Request), code: Code, expected: &str) {
    let mut world = World::new();
    world.node("n1", 8);
    world.node("n2", 4);
    let mut asked = request(1);
    change(&mut asked);
    let refused = world.apply(person("bob"), submission(asked)).expect_err("it is refused");
    assert_eq!((refused.code, format!("{} / {}", refused.what, refused.fix).as_str()), (code, expected));
}

#[test]
fn every_refusal_says_what_to_type_instead() {
    check(
        |r| r.min_runtime = None,
        Code::NoTier,
        "the job says neither how long it must be protected nor that it is unallocated \
         / --min-runtime DURATION (at most 8h), or --unallocated",
    );
    check(
        |r| r.min_runtime = Some(Span::from_hours(9)),
        Code::AboveCap,
        "the minimum runtime of 9h is above the cap of 8h \
         / --min-runtime 8h and checkpoints: after it the job runs on while it may",
    );
    check(
        |r| r.time_limit = Some(Span::from_mins(30)),
        Code::AboveTimeLimit,
        "the minimum runtime of 1h is longer than the time limit of 30m \
         / --min-runtime 30m, or raise the time limit",
    );
    check(
        |r| r.budget = String::from("lang/pots"),
        Code::UnknownBudget,
        "there is no budget `lang/pots` / did you mean `lang/post`?",
    );
    check(
        |r| r.budget = String::from("none"),
        Code::NoAllocation,
        "budget `none` has no share, so it can pay for no protection \
         / --unallocated, another budget, or ask its owner for a share",
    );
    check(
        |r| r.shape.gpus_per_node = GpuCount::new(16),
        Code::ImpossibleShape,
        "no node has 16 GPUs, and no whole nodes make that up / ask for what a node has; the nearest: \
         8 x NVIDIA H100 80GB HBM3, 64 cores, 512 GiB (such as `n1`); \
         4 x NVIDIA H100 80GB HBM3, 32 cores, 256 GiB (such as `n2`)",
    );
    check(
        |r| r.cluster = Some(name("mian")),
        Code::ImpossibleShape,
        "no node is in cluster `mian` / leave --cluster out, or name one of: main",
    );
    check(
        |r| r.shape.nodes = 9,
        Code::ImpossibleShape,
        "the job asks for 9 nodes with 1 GPU each / ask for at most 2 nodes of this kind",
    );
    check(
        |r| r.grace = Some(Span::from_mins(11)),
        Code::BadSpec,
        "the grace of 11m is above the longest, 10m / save more often, so that a notice is enough",
    );
}

#[test]
fn refusals_by_code_alone() {
    fn code(change: impl FnOnce(&mut Request)) -> Code {
        let mut world = World::new();
        world.node("n1", 8);
        let mut asked = request(1);
        change(&mut asked);
        world.refused(person("bob"), submission(asked))
    }
    assert_eq!(code(|r| r.budget = String::from("lang")), Code::InnerBudget);
    assert_eq!(code(|r| r.budget = String::from("vision")), Code::NotAllowed);
    assert_eq!(code(|r| r.shape.gpus_per_node = GpuCount::new(0)), Code::BadSpec);
    assert_eq!(code(|r| r.shape.gpu_type = Some(label("a100"))), Code::ImpossibleShape);
    assert_eq!(code(|r| r.shape.cpus = Some(65)), Code::ImpossibleShape);
    assert_eq!(code(|r| r.checkpoint_every = Some(Span::from_millis(u64::MAX))), Code::BadSpec);
    assert_eq!(code(|r| r.time_limit = Some(Span::ZERO)), Code::BadSpec);
    assert_eq!(code(|r| r.signal = Some(9)), Code::BadSpec);
    assert_eq!(code(|r| r.requeue_code = Some(0)), Code::BadSpec);
}

#[test]
fn shapes_wait_while_no_node_is_known_and_are_judged_against_down_nodes_too() {
    let mut world = World::new();
    world.submit("bob", request(16));
    let node = world.node("n1", 8);
    world.must(crate::world::REPLICA, Command::NodeUnreachable { node });
    let mut asked = request(8);
    asked.shape.gpu_type = Some(label("h100"));
    world.submit("bob", asked);
    assert_eq!(world.refused(person("bob"), submission(request(16))), Code::ImpossibleShape);
}

#[test]
fn more_gpus_than_a_node_has_become_whole_nodes_of_one_pool() {
    let mut world = World::new();
    let shape = |world: &mut World, gpus| {
        let job = world.submit("bob", request(gpus));
        let shape = &world.job(job).terms.shape;
        (shape.nodes, shape.gpus_per_node.get())
    };
    for node in ["n1", "n2", "n3"] {
        world.node(node, 8);
    }
    assert_eq!(shape(&mut world, 8), (1, 8));
    assert_eq!(shape(&mut world, 16), (2, 8));
    assert_eq!(shape(&mut world, 24), (3, 8));
    for impossible in [9, 12, 32] {
        assert_eq!(world.refused(person("bob"), submission(request(impossible))), Code::ImpossibleShape);
    }
    let mut two = request(6);
    two.shape.nodes = 2;
    let job = world.submit("bob", two);
    assert_eq!(world.job(job).terms.shape.nodes, 2);
}

#[test]
fn the_nearest_owner_that_set_a_default_says_it() {
    let mut world = World::new();
    let mut root = tree();
    root.defaults =
        ContractDefaults { min_runtime: Some(Span::from_hours(2)), resumable: Some(true), time_limit: None };
    root.children[0].children[0].defaults.min_runtime = Some(Span::ZERO);
    let base = world.state.meta.tree;
    let budgets = ApplyBudgets { root, base, reason: String::from("defaults"), at: None };
    world.must(person("ada"), Command::ApplyBudgets(budgets));
    let silent = |budget: &str| Request {
        budget: String::from(budget),
        min_runtime: None,
        resumable: None,
        ..request(1)
    };
    let job = world.submit("bob", silent("lang/post"));
    let terms = &world.job(job).terms;
    assert_eq!((terms.tier, terms.tier_source), (Tier::Free, TermSource::BudgetDefault));
    assert_eq!((terms.resumable, terms.resumable_source), (true, TermSource::BudgetDefault));
    assert_eq!(terms.grace, Span::from_secs(15));
    let job = world.submit("bob", silent("lab/lang/pre"));
    let terms = &world.job(job).terms;
    assert_eq!((terms.tier, terms.min_runtime), (Tier::Funded, Span::from_hours(2)));
    assert_eq!(terms.grace, Span::from_secs(120));
    let job = world.submit("bob", request(1));
    assert_eq!(world.job(job).terms.tier_source, TermSource::Submission);
}

#[test]
fn short_jobs_go_first_unless_they_say_otherwise() {
    let mut world = World::new();
    let mut turn = |minimum, limit: Option<u64>, said| {
        let mut asked = request(1);
        asked.min_runtime = Some(Span::from_mins(minimum));
        asked.time_limit = limit.map(Span::from_mins);
        asked.turn = said;
        let job = world.submit("bob", asked);
        world.job(job).terms.turn
    };
    assert_eq!(turn(15, Some(30), None), Turn::First);
    assert_eq!(turn(15, Some(30), Some(Turn::Last)), Turn::Last);
    assert_eq!(turn(16, Some(30), None), Turn::Normal);
    assert_eq!(turn(15, Some(31), None), Turn::Normal);
    assert_eq!(turn(15, None, None), Turn::Normal);
}

#[test]
fn live_jobs_are_bounded_and_what_nodes_read_is_kept_once() {
    let mut world = World::with(Settings { live_jobs_max: 2, ..Settings::default() });
    let first = world.submit("bob", request(1));
    let mut held = request(1);
    held.is_held = true;
    let held = world.submit("bob", held);
    assert!(matches!(world.phase(held), Phase::Held { by: HeldBy::Person { .. }, .. }));
    assert_eq!(world.state.launches.values().map(|launch| launch.jobs).collect::<Vec<_>>(), [2]);
    assert_eq!(world.refused(person("bob"), submission(request(1))), Code::Full);
    world.cancel("bob", first, "").expect("it is bob's");
    world.submit("bob", request(1));
    // The account is the principal's, never the request's.
    assert_eq!(world.job(held).account.as_str(), "bob");
}
