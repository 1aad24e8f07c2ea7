//! What was owed and what was delivered: exact, from the curves.

use scheduler_core::agent::RankEvent;
use scheduler_core::budget::find;
use scheduler_core::command::{ApplyBudgets, Command, GrantShare, JobWord};
use scheduler_core::id::{BudgetId, JobId, NodeId};
use scheduler_core::report::{Delivery, Hour, hours, occupancy};
use scheduler_core::spec::Request;
use scheduler_core::unit::{GpuMillis, Share, Span, Timestamp};

use crate::world::{BEGIN, World, name, person, request, tree};

const HOUR: u64 = 3_600_000;

/// A node of ten GPUs; every history begins with a full hour.
fn world() -> (World, NodeId) {
    let mut world = World::new();
    assert_eq!(BEGIN.as_millis() % HOUR, 0);
    let node = world.node("n1", 10);
    (world, node)
}

fn id(world: &World, path: &str) -> BudgetId {
    find(&world.state, path).expect("it is there")
}

fn of(world: &World, path: &str) -> Vec<Hour> {
    hours(&world.state, &name("main"), id(world, path), (BEGIN, world.now))
}

/// Allocation, demand, owed and delivered of each hour, in tenths of a GPU-hour.
fn tenths(world: &World, path: &str) -> Vec<[u64; 4]> {
    let tenth = |time: GpuMillis| {
        assert_eq!(time.get() % (HOUR / 10), 0, "{path}: {time:?}");
        time.get() / (HOUR / 10)
    };
    let row = |hour: &Hour| [hour.allocation, hour.demand, hour.owed, hour.delivered].map(tenth);
    of(world, path).iter().map(row).collect()
}

fn to(budget: &str, gpus: u32) -> Request {
    Request { budget: budget.to_owned(), ..request(gpus) }
}

fn run(world: &mut World, node: NodeId, budget: &str, slots: &[u16]) -> JobId {
    let gpus = u32::try_from(slots.len()).expect("few");
    let job = world.submit("bob", to(budget, gpus));
    let attempt = world.place(job, node, slots);
    world.report(node, attempt, RankEvent::Started);
    job
}

/// Time passes: an entry that changes nothing else.
fn pass(world: &mut World, mins: u64) {
    world.wait(Span::from_mins(mins));
    let word = JobWord { job: JobId::new(90_000), reason: String::new() };
    world.apply(person("bob"), Command::Hold(word)).expect_err("there is no such job");
}

#[test]
fn owed_is_the_lesser_of_allocation_and_demand_in_each_hour() {
    let (mut world, node) = world();
    // `post` wants nothing in the first hour, 8 GPUs in half of the second, and has them in the third; `pre` has 9 all
    // the time until then. Both are worth 3.
    let first = run(&mut world, node, "lang/pre", &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    pass(&mut world, 90);
    let job = world.submit("bob", to("lang/post", 8));
    pass(&mut world, 30);
    let attempt = scheduler_core::id::AttemptId { job: first, no: scheduler_core::id::AttemptNo::new(1) };
    world.exit(node, attempt, 0);
    world.report(node, attempt, RankEvent::Freed);
    world.place(job, node, &[0, 1, 2, 3, 4, 5, 6, 7]);
    pass(&mut world, 60);
    assert_eq!(tenths(&world, "lang/pre"), [[30, 90, 30, 90], [30, 90, 30, 90], [30, 0, 0, 0]]);
    assert_eq!(tenths(&world, "lang/post"), [[30, 0, 0, 0], [30, 40, 30, 0], [30, 80, 30, 80]]);
    // Above them demand is at most what is there.
    assert_eq!(tenths(&world, "lang"), [[60, 90, 60, 90], [60, 95, 60, 90], [60, 80, 60, 80]]);
    assert_eq!(tenths(&world, "lab"), [[100, 90, 90, 90], [100, 95, 95, 90], [100, 80, 80, 80]]);
    // Strictly the second hour is lost; over the whole time the third makes up for it.
    let sum = Delivery::of(&of(&world, "lang/post"));
    assert_eq!((sum.strictly_ppm(), sum.over_period_ppm()), (Some(500_000), Some(1_000_000)));
    let pool = occupancy(&world.state, &name("main"), (BEGIN, world.now));
    assert_eq!((pool.capacity.get(), pool.funded.get()), (30 * HOUR, 26 * HOUR));
    assert_eq!((pool.occupied_ppm(), pool.useful_ppm()), (Some(866_666), Some(866_666)));
}

#[test]
fn a_job_counts_from_line_to_end_and_not_while_it_is_held() {
    let (mut world, node) = world();
    let job = world.submit("bob", to("lang/post", 2));
    pass(&mut world, 60);
    world.must(person("bob"), Command::Hold(JobWord { job, reason: String::new() }));
    pass(&mut world, 60);
    world.must(person("bob"), Command::Release(JobWord { job, reason: String::new() }));
    let attempt = world.place(job, node, &[0, 1]);
    world.report(node, attempt, RankEvent::Started);
    pass(&mut world, 60);
    let demand: Vec<u64> = tenths(&world, "lang/post").iter().map(|row| row[1]).collect();
    assert_eq!(demand, [20, 0, 20]);
    // The end comes late, and is told from the moment on at which it was.
    world.wait(Span::from_mins(60));
    let ended = world.now.minus(Span::from_mins(30));
    let exit = RankEvent::Exited {
        exit: scheduler_core::job::Exit::Code(0),
        by: scheduler_core::agent::EndedBy::Itself,
        saved_at: None,
    };
    world.report_at(node, attempt, exit, ended);
    assert_eq!(tenths(&world, "lang/post")[3], [30, 10, 10, 10]);
}

#[test]
fn the_free_tier_is_neither_owed_nor_demand() {
    let (mut world, node) = world();
    let job = world.submit("bob", Request { min_runtime: Some(Span::ZERO), ..to("lang/post", 4) });
    pass(&mut world, 30);
    let attempt = world.place(job, node, &[0, 1, 2, 3]);
    world.report(node, attempt, RankEvent::Started);
    pass(&mut world, 30);
    assert_eq!(tenths(&world, "lang/post"), [[30, 0, 0, 0]]);
    assert_eq!(of(&world, "lang/post")[0].free, GpuMillis::new(2 * HOUR));
    let pool = occupancy(&world.state, &name("main"), (BEGIN, world.now));
    assert_eq!(pool.free_ppm(), Some(1_000_000));
}

#[test]
fn hours_keep_the_shares_and_grants_that_held_in_them() {
    let (mut world, node) = world();
    run(&mut world, node, "lang/post", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    pass(&mut world, 60);
    let mut root = tree();
    root.children[0].children[0].share = Share::from_ppm(200_000).expect("a share");
    let base = world.state.meta.tree;
    let edit = ApplyBudgets { root, base, reason: "less".into(), at: None };
    world.must(person("ada"), Command::ApplyBudgets(edit));
    pass(&mut world, 60);
    // Half of an hour it has 10 % of the lab more, of what nobody has.
    let grant = GrantShare {
        to: "lang".into(),
        from: None,
        share: Share::from_ppm(100_000).expect("a share"),
        begins_at: Some(world.now.plus(Span::from_mins(30))),
        until: world.now.plus(Span::from_mins(60)),
        reason: "a deadline".into(),
    };
    world.must(person("ada"), Command::Grant(grant));
    pass(&mut world, 120);
    let allocation = |path: &str| -> Vec<u64> { tenths(&world, path).iter().map(|row| row[0]).collect() };
    assert_eq!(allocation("lang"), [60, 60, 65, 60]);
    assert_eq!(allocation("lang/post"), [30, 12, 13, 12]);
    // The order looks at the window with the shares of now, and at the grant for its own time.
    let worth = |path: &str| {
        let books = world.state.books.pool(&name("main")).expect("it has GPUs");
        let window = world.state.meta.settings.window;
        books.allocation(id(&world, path), (&world.state.budgets, &name("main")), window, world.now).get()
    };
    let week = 7 * 24 * 10_u128 * u128::from(HOUR) * 1000;
    assert_eq!(worth("lang"), week * 6 / 10 + u128::from(HOUR) * 500);
}

#[test]
fn rows_add_up_to_the_curves_however_they_are_cut() {
    let mut random = crate::random::Random::new(0x0ed);
    for _ in 0..20 {
        let (mut world, node) = world();
        let mut live = Vec::new();
        for _ in 0..30 {
            world.wait(Span::from_millis(random.below(40 * 60_000)));
            let free: Vec<u16> = (0..10u16)
                .filter(|slot| {
                    let gpus = &world.state.nodes.get(&node).expect("it joined").gpus;
                    gpus[usize::from(*slot)].holder.is_none()
                })
                .collect();
            let leaf = ["lang/post", "lang/pre"][usize::try_from(random.below(2)).expect("small")];
            match random.below(3) {
                0 if !free.is_empty() => {
                    let take = 1 + usize::try_from(random.below(free.len() as u64)).expect("small");
                    let job = run(&mut world, node, leaf, &free[..take]);
                    live.push(scheduler_core::id::AttemptId {
                        job,
                        no: scheduler_core::id::AttemptNo::new(1),
                    });
                }
                1 if !live.is_empty() => {
                    let attempt = live.remove(0);
                    world.exit(node, attempt, 0);
                    world.report(node, attempt, RankEvent::Freed);
                }
                _ => {
                    world.submit("bob", to(leaf, 3));
                }
            }
        }
        check_sums(&world, &mut random);
    }
}

fn check_sums(world: &World, random: &mut crate::random::Random) {
    let whole = world.now.since(BEGIN).as_millis();
    let from = BEGIN.plus(Span::from_millis(random.below(whole)));
    let sums = |path: &str, from: Timestamp| {
        let rows = hours(&world.state, &name("main"), id(world, path), (from, world.now));
        let sum = Delivery::of(&rows);
        assert!(rows.iter().all(|row| row.delivered <= row.demand && row.owed <= row.allocation), "{path}");
        [sum.capacity, sum.demand, sum.delivered].map(GpuMillis::get)
    };
    let books = world.state.books.pool(&name("main")).expect("it has GPUs");
    for path in ["lab", "lang", "lang/post", "lang/pre"] {
        let [capacity, demand, delivered] = sums(path, from);
        assert_eq!(capacity, books.capacity_between(from, world.now).get());
        assert_eq!(demand, books.demanded(id(world, path), from, world.now).get());
        let leaf = |path: &str| {
            let class = scheduler_core::ledger::Class::Occupied {
                budget: id(world, path),
                tier: scheduler_core::spec::Tier::Funded,
            };
            books.time_in_class(class, from, world.now).get()
        };
        let (post, pre) = (leaf("lang/post"), leaf("lang/pre"));
        let wanted = match path {
            "lang/post" => post,
            "lang/pre" => pre,
            _ => post + pre,
        };
        assert_eq!(delivered, wanted, "{path}");
    }
}
