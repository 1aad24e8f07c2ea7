use core::cmp::Ordering;

use super::history::{MOST, START, path, pool, tree};
use crate::decision::UseOf;
use crate::id::BudgetId;
use crate::ledger::invariants::{
    check_occupancy, check_occupancy_change, check_tree_change, check_tree_sums,
};
use crate::ledger::{Books, Class, PoolBooks, Run};
use crate::spec::Tier;
use crate::table::Table;
use crate::unit::{ChargeMillis, GpuCount, MilliGpus, Span, Timestamp};

const HOUR: Span = Span::from_hours(1);
const WEEK: Span = Span::from_hours(168);
const LEAF: BudgetId = BudgetId::new(3);

fn at(mins: u64) -> Timestamp {
    START.plus(Span::from_mins(mins))
}

/// Books of a pool with eight idle GPUs.
fn books() -> Books {
    let mut books = Books::default();
    books.gpus_added(&pool(), GpuCount::new(8), Class::Idle, START);
    books
}

fn with_run(tier: Tier, act: impl FnOnce(Run<'_>)) {
    let (pool, path) = (pool(), path(LEAF));
    let (rate, protection) = (MilliGpus::new(8000), Span::from_hours(2));
    act(Run { pool: &pool, path: &path, tier, rate, protection, go: None, started: None });
}

fn use_at(books: &Books, budget: BudgetId, tier: Tier, now: Timestamp) -> UseOf {
    books.use_of(budget, &pool(), tier, &tree(), WEEK, now)
}

fn of(budget: u32, charged: u128, set_aside: u128, allocation: u128) -> UseOf {
    let [charged, set_aside, allocation] = [charged, set_aside, allocation].map(ChargeMillis::new);
    UseOf { budget: BudgetId::new(budget), charged, set_aside, allocation }
}

#[test]
fn a_burst_raises_use_before_anything_ran() {
    for tier in [Tier::Funded, Tier::Free] {
        with_run(tier, |run| {
            let mut books = books();
            let before = use_at(&books, LEAF, tier, at(1));
            books.placed(&run);
            let after = use_at(&books, LEAF, tier, at(1));
            assert_eq!(after.cmp_use(&before), Ordering::Greater, "{tier:?}");
            assert_eq!(use_at(&books, BudgetId::new(0), tier, at(1)).set_aside, after.set_aside);
            assert_eq!(use_at(&books, BudgetId::new(2), tier, at(1)).set_aside, ChargeMillis::ZERO);
        });
    }
}

#[test]
fn set_aside_declines_from_the_start_and_charge_takes_its_place() {
    with_run(Tier::Funded, |run| {
        let mut books = books();
        books.placed(&run);
        books.go(&run, at(0), at(0));
        let run = Run { go: Some(at(0)), ..run };
        let whole = ChargeMillis::of(run.rate, run.protection);
        assert_eq!(use_at(&books, LEAF, Tier::Funded, at(5)).set_aside, whole);
        books.started(&run, at(10), at(10));
        for (mins, left) in [(10, 120), (40, 90), (130, 0), (500, 0)] {
            let now = use_at(&books, LEAF, Tier::Funded, at(mins));
            assert_eq!(now.set_aside, ChargeMillis::of(run.rate, Span::from_mins(left)));
            assert_eq!(now.charged, ChargeMillis::of(run.rate, Span::from_mins(mins)));
        }
    });
}

#[test]
fn what_was_not_used_of_a_protection_leaves_with_the_end() {
    with_run(Tier::Funded, |run| {
        let mut books = books();
        books.placed(&run);
        books.go(&run, at(0), at(0));
        books.started(&Run { go: Some(at(0)), ..run }, at(0), at(0));
        books.ended(&Run { go: Some(at(0)), started: Some(at(0)), ..run }, at(30), at(45));
        let now = use_at(&books, LEAF, Tier::Funded, at(45));
        assert_eq!(now.set_aside, ChargeMillis::ZERO);
        assert_eq!(now.charged, ChargeMillis::of(run.rate, Span::from_mins(30)));
    });
}

#[test]
fn a_launch_that_failed_before_its_go_leaves_no_charge() {
    with_run(Tier::Funded, |run| {
        let mut books = books();
        books.placed(&run);
        books.ended(&run, at(3), at(3));
        let now = use_at(&books, LEAF, Tier::Funded, at(4));
        assert_eq!((now.charged, now.set_aside), (ChargeMillis::ZERO, ChargeMillis::ZERO));
    });
}

#[test]
fn a_live_attempt_of_the_free_tier_counts_at_least_an_hour() {
    with_run(Tier::Free, |run| {
        let mut books = books();
        books.placed(&run);
        books.go(&run, at(0), at(0));
        for (mins, counted) in [(0, 60), (20, 60), (60, 60), (90, 90)] {
            let now = use_at(&books, LEAF, Tier::Free, at(mins));
            assert_eq!(now.booked(), ChargeMillis::of(run.rate, Span::from_mins(counted)).get());
        }
        books.ended(&Run { go: Some(at(0)), ..run }, at(20), at(20));
        let now = use_at(&books, LEAF, Tier::Free, at(21));
        assert_eq!(now.booked(), ChargeMillis::of(run.rate, Span::from_mins(20)).get());
    });
}

#[test]
fn charge_leaves_the_window_by_the_millisecond() {
    with_run(Tier::Funded, |run| {
        let mut books = books();
        books.placed(&run);
        books.go(&run, at(0), at(0));
        books.ended(&Run { go: Some(at(0)), ..run }, at(60), at(60));
        let charged = |now: Timestamp| use_at(&books, LEAF, Tier::Funded, now).charged;
        let all = ChargeMillis::of(run.rate, HOUR);
        assert_eq!(charged(at(0).plus(WEEK)), all);
        let later = charged(at(0).plus(WEEK).plus(Span::from_millis(1)));
        assert_eq!(later.get(), all.get() - u128::from(run.rate.get()));
        assert_eq!(charged(at(60).plus(WEEK)), ChargeMillis::ZERO);
    });
}

#[test]
fn a_young_pool_counts_a_whole_window_at_its_mean_capacity() {
    let mut books = books();
    let capacity = |books: &Books, now| books.pool(&pool()).map(|books| books.capacity(WEEK, now).get());
    let week_of = |gpus: u128| Some(gpus * 1000 * u128::from(WEEK.as_millis()));
    assert_eq!(capacity(&books, START), week_of(8));
    assert_eq!(capacity(&books, at(10)), week_of(8));
    books.gpus_added(&pool(), GpuCount::new(8), Class::Idle, at(30));
    assert_eq!(capacity(&books, at(60)), week_of(12));
    books.reclass(&pool(), GpuCount::new(8), Class::Idle, Class::Unavailable, at(60));
    assert_eq!(capacity(&books, at(120)), week_of(10));
    let unavailable = at(60).plus(WEEK);
    assert_eq!(capacity(&books, unavailable), week_of(8));
}

#[test]
fn without_capacity_everybody_is_alike() {
    let mut books = Books::default();
    let uses = |books: &Books, now| [2, 3].map(|id| use_at(books, BudgetId::new(id), Tier::Funded, now));
    let [b, a1] = uses(&books, START);
    assert_eq!((b.cmp_ratio(&a1), b.cmp_use(&a1), b.per_mille()), (Ordering::Equal, Ordering::Less, Some(0)));
    books.gpus_added(&pool(), GpuCount::new(8), Class::Unavailable, START);
    let [b, a1] = uses(&books, at(5));
    assert_eq!((b.cmp_ratio(&a1), b.cmp_use(&a1), b.per_mille()), (Ordering::Equal, Ordering::Less, Some(0)));
}

#[test]
fn lower_use_goes_first_then_more_headroom_then_the_older_budget() {
    let check = |first: UseOf, second: UseOf| {
        assert_eq!(first.cmp_use(&second), Ordering::Less, "{first:?} before {second:?}");
        assert_eq!(second.cmp_use(&first), Ordering::Greater);
        assert_eq!(first.cmp_use(&first), Ordering::Equal);
    };
    check(of(2, 10, 0, 100), of(1, 11, 0, 100));
    check(of(2, 10, 0, 100), of(1, 0, 11, 100));
    // Nothing used: the one with more to use.
    check(of(2, 0, 0, 200), of(1, 0, 0, 100));
    // Over its share: the one that is less over it.
    check(of(2, 150, 0, 100), of(1, 300, 0, 200));
    check(of(1, 5, 5, 100), of(2, 10, 0, 100));
    // Worth nothing: after everyone, however little it used.
    check(of(2, 1000, 0, 1), of(1, 0, 0, 0));
    check(of(2, 1, 0, 0), of(1, 2, 0, 0));
}

#[test]
fn use_is_compared_exactly_however_large() {
    let big = u128::MAX / 2;
    assert_eq!(of(1, big, 0, big).cmp_ratio(&of(2, big - 1, 0, big)), Ordering::Greater);
    assert_eq!(of(1, big, 0, big).cmp_ratio(&of(2, big - 1, 0, big - 1)), Ordering::Equal);
    assert_eq!(of(1, big - 1, 0, big).cmp_ratio(&of(2, big - 2, 0, big - 1)), Ordering::Greater);
    assert_eq!(of(1, u128::MAX, 1, u128::MAX).cmp_ratio(&of(2, 1, 0, 1)), Ordering::Equal);
}

#[test]
fn old_books_keep_few_breakpoints() {
    with_run(Tier::Funded, |run| {
        let mut books = books();
        for n in 0..5000 {
            let (go, end) =
                (START.plus(Span::from_millis(n * 1000)), START.plus(Span::from_millis(n * 1000 + 500)));
            books.placed(&run);
            books.go(&run, go, go);
            books.ended(&Run { go: Some(go), ..run }, end, end);
        }
        let charge = |books: &Books, now| use_at(books, LEAF, Tier::Funded, now).charged;
        let (now, all) = (at(84), ChargeMillis::of(run.rate, Span::from_millis(2_500_000)));
        books.thin(WEEK, MOST, (Timestamp::ZERO, now));
        // 24 minutes of them are older than an hour; those have two points each, the three accounts alike.
        assert!(books.points() <= 3 * (2 * 25 + 7200) + 2, "{} breakpoints", books.points());
        assert_eq!(charge(&books, now), all);
        books.thin(WEEK, MOST, (Timestamp::ZERO, at(1000)));
        assert!(books.points() <= 3 * 2 * 85 + 2, "{} breakpoints", books.points());
        assert_eq!(charge(&books, at(1000)), all);
        let gone = at(100).plus(WEEK).plus(HOUR).plus(HOUR);
        books.thin(WEEK, MOST, (Timestamp::ZERO, gone));
        assert!(books.points() <= 5, "{} breakpoints", books.points());
        assert_eq!(charge(&books, gone), ChargeMillis::ZERO);
    });
}

#[test]
fn books_that_do_not_add_up_are_named() {
    let good = books();
    let mut bad = good.clone();
    bad.gpus_added(&pool(), GpuCount::new(2), Class::Overhead, at(1));
    let pieces = |books: &Books| {
        let pool = books.pool(&pool()).expect("it has GPUs");
        (pool.class_curves().clone(), pool.installed_curve().clone(), pool.accounts().clone())
    };
    let (classes, _, accounts) = pieces(&bad);
    let (_, installed, _) = pieces(&good);
    let broken = PoolBooks::from_parts(Some(START), installed, classes, accounts, Table::default());
    let broken = Books::from_parts([(pool(), broken.into())].into_iter().collect(), good.merged());
    let words = check_occupancy(&broken, at(2)).expect_err("two GPUs too many");
    assert_eq!(words, "pool main: 10 GPUs and 1080000 GPU-ms in classes, 8 and 960000 in all");
    assert!(check_occupancy_change(&good, &broken, at(2)).is_err());

    with_run(Tier::Funded, |run| {
        let mut books = good.clone();
        books.placed(&Run { path: &run.path[..2], ..run });
        books.go(&Run { path: &run.path[1..], ..run }, at(1), at(1));
        let words = check_tree_change(&good, &books, &tree(), at(2)).expect_err("the root was left out");
        assert!(words.starts_with("pool main: Funded account of budget "), "{words}");
        assert!(check_tree_sums(&books, &tree(), at(2)).is_err());
    });
}
