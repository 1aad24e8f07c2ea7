//! Pools of several clusters, and what their types of GPU count.

use scheduler_core::agent::RankEvent;
use scheduler_core::command::{Code, Command, DrainNode, NodeWord, SetPool};
use scheduler_core::decision::Dropped;
use scheduler_core::id::Name;
use scheduler_core::ledger::{Class, PoolBooks};
use scheduler_core::node::Urgency;
use scheduler_core::plan::{Links, plan};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, GpuCount, Span, Weight};

use crate::lab::{NOW, planned, state};
use crate::random::{Random, lab_with_gangs};
use crate::world::{BEGIN, TERM, World, label, name, person, request, submission};

fn weight(milli: u32) -> Weight {
    Weight::from_milli(milli).expect("a weight")
}

fn set(pool: &str, clusters: &[&str], weights: &[(&str, u32)]) -> Command {
    Command::SetPool(SetPool {
        pool: name(pool),
        clusters: clusters.iter().map(|text| name(text)).collect(),
        weights: weights.iter().map(|(kind, milli)| (label(kind), weight(*milli))).collect(),
    })
}

fn books<'a>(state: &'a State, pool: &str) -> &'a PoolBooks {
    state.books.pool(&name(pool)).expect("it has had GPUs")
}

#[test]
fn charge_is_rate_by_time_with_the_weight_and_set_aside_too() {
    let mut world = World::new();
    let node = world.node("n1", 8);
    world.must(person("ada"), set("main", &[], &[("h100", 1_500)]));
    let job = world.submit("bob", request(4));
    let attempt = world.place(job, node, &[0, 1, 2, 3]);
    assert_eq!(world.attempt(attempt).rate.get(), 6_000);
    let leaf = world.job(job).budget;
    let aside = |world: &World| {
        let account = books(&world.state, "main").account(leaf, Tier::Funded).expect("it is charged");
        account.set_aside(world.now).get()
    };
    assert_eq!(aside(&world), 6_000 * 3_600_000);
    world.wait(Span::from_secs(1)).report(node, attempt, RankEvent::Started);
    world.wait(Span::from_secs(10));
    assert_eq!(aside(&world), 6_000 * 3_590_000);
    // Another weight is for whoever starts from now on: what runs keeps its rate.
    world.must(person("ada"), set("main", &[], &[("h100", 250)]));
    let other = world.submit("bob", request(1));
    let second = world.place(other, node, &[4]);
    assert_eq!((world.attempt(attempt).rate.get(), world.attempt(second).rate.get()), (6_000, 250));
    world.wait(Span::from_secs(9)).exit(node, attempt, 0);
    assert_eq!(world.job(job).charged, ChargeMillis::new(6_000 * 20_000));
    assert_eq!(world.replayed().digest(), world.state.digest());
}

#[test]
fn the_dominant_share_is_of_what_the_node_counts() {
    let mut world = World::new();
    let node = world.node("n1", 8);
    world.must(person("ada"), set("main", &[], &[("h100", 2_000)]));
    // One GPU and all the cores of eight: eight GPUs.
    let mut asked = request(1);
    asked.shape.cpus = Some(64);
    let job = world.submit("bob", asked);
    let attempt = world.place(job, node, &[0]);
    assert_eq!(world.attempt(attempt).rate.get(), 16_000);
}

#[test]
fn capacity_counts_each_gpu_in_service_by_its_weight_of_the_time() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    world.node("n2", 4);
    let window = Span::from_hours(4);
    let capacity = |world: &World| books(&world.state, "main").capacity(window, world.now).get();
    let hour = 3_600_000_u128;
    world.wait(Span::from_hours(1));
    assert_eq!(capacity(&world), 8_000 * 4 * hour, "the mean of the first hour");
    world.must(person("ada"), set("main", &[], &[("h100", 500)]));
    world.wait(Span::from_hours(1));
    assert_eq!(capacity(&world), (8_000 + 4_000) * 2 * hour);
    world.must(person("ada"), Command::Cordon(NodeWord { node, reason: String::from("a fan") }));
    world.wait(Span::from_hours(2));
    assert_eq!(capacity(&world), (8_000 + 4_000 + 2 * 2_000) * hour);
    // Occupancy knows no weight.
    let pool = books(&world.state, "main");
    assert_eq!(pool.capacity_between(BEGIN, world.now).get(), (8 * 4 - 4 * 2) * 3_600_000);
    assert_eq!(pool.in_class(Class::Unavailable, world.now).time.get(), 4 * 2 * 3_600_000);
}

#[test]
fn a_weight_of_one_is_no_weight() {
    let run = |weights: &[(&str, u32)]| {
        let mut world = World::new();
        let node = world.node("n1", 8);
        world.must(person("ada"), set("main", &[], weights));
        let job = world.submit("bob", request(4));
        let attempt = world.place(job, node, &[0, 1, 2, 3]);
        world.wait(Span::from_secs(1)).report(node, attempt, RankEvent::Started);
        world.wait(Span::from_hours(3)).exit(node, attempt, 0);
        world
    };
    let (plain, one) = (run(&[("a100", 3_000)]), run(&[("h100", 1_000)]));
    assert_eq!(plain.state.books, one.state.books);
    assert_eq!(plain.state.nodes, one.state.nodes);
}

/// Whatever all GPUs count alike: who is placed where, in whose place, and who has which date is the same.
#[test]
fn equal_weights_change_no_decision_and_no_use() {
    let mut decided = 0;
    for seed in 0..400 {
        let text = lab_with_gangs(&mut Random::new(seed));
        let plain = state(&text);
        for milli in [1_000, 2_000, 350_000] {
            let weights = format!("h100:{milli},a100:{milli}");
            let weighed = state(&format!("pool main - {weights}\npool west - {weights}\n{text}"));
            let make = |state: &State| plan(state, &Links::all_ready(state), NOW, TERM);
            let (one, other) = (make(&plain), make(&weighed));
            let show = |plan: &scheduler_core::decision::Plan| crate::lab::show(plan, &plain);
            assert_eq!(show(&one), show(&other), "seed {seed} weight {milli}\n{text}");
            let dates = |plan: &scheduler_core::decision::Plan| plan.dates.clone();
            assert_eq!(dates(&one), dates(&other), "seed {seed} weight {milli}");
            decided += one.decisions.len();
            for pool in ["main", "west"] {
                same_use(&plain, &weighed, (pool, milli), seed);
            }
        }
    }
    assert!(decided > 1_000, "too little happened: {decided}");
}

/// All amounts are in the ratio of the weight; a share of them is rounded down, by less than one part at each level.
fn same_use(plain: &State, weighed: &State, (pool, milli): (&str, u32), seed: u64) {
    let window = plain.meta.settings.window;
    for budget in plain.budgets.keys() {
        let used = |state: &State| {
            state.books.use_of(*budget, &name(pool), Tier::Funded, &state.budgets, window, NOW)
        };
        let (one, other) = (used(plain), used(weighed));
        let times = |amount: u128| amount * u128::from(milli) / 1_000;
        assert_eq!(times(one.booked()), other.booked(), "seed {seed} budget {budget}");
        let off = other.allocation.get().abs_diff(times(one.allocation.get()));
        assert!(off <= 4 * u128::from(milli), "seed {seed} budget {budget}: {off}");
    }
}

#[test]
fn a_job_that_names_a_cluster_stays_in_it_and_others_go_anywhere_in_the_pool() {
    let nodes =
        "pool big east,west\nnode n1 4 h100 cluster=east\nnode n2 4 h100 cluster=west\nbudget a 100\n";
    assert_eq!(planned(&state(&format!("{nodes}job 1 a 2 pool=west"))), "1 on n2:0,1\n");
    let busy = format!("{nodes}runs 9.1 a 4 n2 0-3 for=1h min=2h\n");
    assert_eq!(planned(&state(&format!("{busy}job 1 a 2 pool=west\njob 2 a 2"))), "2 on n1:0,1\n");
    // One line: what a budget has in one cluster counts in the other.
    let uneven = format!("{nodes}budget b 0\nruns 9.1 a 4 n1 0-3 for=20h min=1h\n");
    let lab = state(&uneven.replace("budget a 100", "budget a 50").replace("budget b 0", "budget b 50"));
    assert_eq!(lab.books.pools().keys().map(Name::as_str).collect::<Vec<_>>(), ["big"]);
}

#[test]
fn a_gang_never_leaves_its_cluster() {
    let nodes = "pool big east,west\nnode n1 2 h100 cluster=east\nnode n2 2 h100 cluster=west\n\
                 node n3 2 h100 cluster=east\nnode n4 2 h100 cluster=west\nbudget a 100\n";
    assert_eq!(planned(&state(&format!("{nodes}job 1 a 2x2"))), "1 on n1:0,1 n3:0,1\n");
    assert_eq!(planned(&state(&format!("{nodes}job 1 a 2x2 pool=west"))), "1 on n2:0,1 n4:0,1\n");
    assert_eq!(planned(&state(&format!("{nodes}job 1 a 3x1"))), "", "no cluster has three nodes");
    // One is taken in each cluster: the free tier gives way where two nodes are together.
    let busy =
        format!("{nodes}runs 8.1 a 2 n1 0-1 for=1h min=2h\nruns 9.1 a 2 n4 0-1 for=1h free\njob 1 a 2x2");
    assert_eq!(planned(&state(&busy)), "1 on n2:0,1 n4:0,1 takes 9.1\n");
    let full =
        format!("{nodes}runs 8.1 a 2 n1 0-1 for=1h min=2h\nruns 9.1 a 2 n4 0-1 for=1h min=3h\njob 1 a 2x2");
    let lab = state(&full);
    let plan = plan(&lab, &Links::all_ready(&lab), NOW, TERM);
    let scheduler_core::decision::Step::Issue(promise) = &plan.dates[0].step else {
        panic!("a date is issued")
    };
    let cluster = |at: usize| &lab.nodes.get(&promise.on[at].0).expect("a known node").cluster;
    assert_eq!(
        (cluster(0), cluster(1)),
        (&name("east"), &name("east")),
        "free in an hour there, in two in the west"
    );

    let mut world = World::new();
    let (n1, n2) = (world.node_in("east", "n1", 2), world.node_in("west", "n2", 2));
    let n3 = world.node_in("east", "n3", 2);
    world.must(person("ada"), set("big", &["east", "west"], &[]));
    let mut asked = request(2);
    asked.shape.nodes = 2;
    let job = world.submit("bob", asked.clone());
    assert_eq!(world.try_start(job, &[(n1, &[0, 1]), (n2, &[0, 1])], &[]), Some(Dropped::WrongShape));
    assert_eq!(world.try_start(job, &[(n1, &[0, 1]), (n3, &[0, 1])], &[]), None);
    asked.shape.nodes = 3;
    assert_eq!(world.refused(person("bob"), submission(asked)), Code::ImpossibleShape);
}

#[test]
fn a_cluster_moves_when_nothing_is_on_it_and_what_was_charged_stays_where_it_was() {
    let mut world = World::new();
    let (n1, n2) = (world.node_in("east", "n1", 4), world.node_in("west", "n2", 4));
    let job = world.submit("bob", request(2));
    let attempt = world.place(job, n1, &[0, 1]);
    world.wait(Span::from_secs(1)).report(n1, attempt, RankEvent::Started);
    let make = || set("big", &["east", "west"], &[("h100", 2_000)]);
    assert_eq!(world.refused(person("ada"), make()), Code::Conflict);
    assert_eq!(world.refused(person("bob"), make()), Code::NotAllowed);
    world.wait(Span::from_secs(9)).exit(n1, attempt, 0);
    assert_eq!(world.refused(person("ada"), make()), Code::Conflict, "its GPUs are not proven empty yet");
    world.wait(Span::from_secs(1)).report(n1, attempt, RankEvent::Freed);
    let waiting = world.submit("bob", request(3));
    assert_eq!(world.job(waiting).wants, [name("east"), name("west")]);
    world.must(person("ada"), make());
    assert_eq!(world.job(waiting).wants, [name("big")]);
    let charged = |world: &World, pool: &str| {
        let account = books(&world.state, pool).account(world.job(waiting).budget, Tier::Funded);
        account.map_or(0, |account| account.charged_ever(world.now).get())
    };
    assert_eq!((charged(&world, "east"), charged(&world, "big")), (2_000 * 10_000, 0));
    let gpus = |world: &World, pool: &str| books(&world.state, pool).installed(world.now).count;
    assert_eq!((gpus(&world, "east"), gpus(&world, "big")), (GpuCount::new(0), GpuCount::new(8)));
    assert_eq!(books(&world.state, "big").capacity(Span::from_millis(1), world.now).get(), 16_000);
    // A cluster is in one pool; and back: each in the pool of its own name.
    assert_eq!(world.refused(person("ada"), set("other", &["west"], &[])), Code::Conflict);
    world.wait(Span::from_secs(1)).must(person("ada"), set("big", &[], &[]));
    assert_eq!((gpus(&world, "east"), gpus(&world, "west"), gpus(&world, "big")), {
        (GpuCount::new(4), GpuCount::new(4), GpuCount::new(0))
    });
    let pool = |world: &World, node| world.state.nodes.get(&node).expect("it joined").pool.clone();
    assert_eq!((pool(&world, n1), pool(&world, n2)), (name("east"), name("west")));
    assert_eq!(world.replayed().digest(), world.state.digest());
}

#[test]
fn what_is_out_of_service_counts_nothing_whatever_its_weight_was_or_becomes() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let job = world.submit("bob", request(4));
    let attempt = world.place(job, node, &[0, 1, 2, 3]);
    world.wait(Span::from_secs(1)).report(node, attempt, RankEvent::Started);
    let drain = DrainNode { node, urgency: Urgency::Normal, begins_at: None, reason: String::from("a fan") };
    world.must(person("ada"), Command::Drain(drain));
    world.wait(Span::from_secs(9)).exit(node, attempt, 0);
    let ended = world.now;
    // The weights change between the end and the late word that the GPUs are empty: out of service since before.
    world.wait(Span::from_secs(5)).must(person("ada"), set("main", &[], &[("h100", 3_000)]));
    world.wait(Span::from_secs(5)).report_at(node, attempt, RankEvent::Freed, ended);
    world.wait(Span::from_secs(1)).must(person("ada"), set("main", &[], &[]));
    let word = NodeWord { node, reason: String::from("done") };
    world.wait(Span::from_secs(1)).must(person("ada"), Command::Undrain(word));
    let pool = books(&world.state, "main");
    assert_eq!(pool.capacity(Span::from_millis(1), world.now).get(), 0, "it is back just now");
    assert_eq!(pool.in_service(), GpuCount::new(4));
}
