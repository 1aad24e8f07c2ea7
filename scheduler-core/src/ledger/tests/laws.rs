use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::history::{History, LEAVES, MOST, START, Step, What, pool, steps, tree};
use crate::budget::ROOT;
use crate::id::BudgetId;
use crate::ledger::invariants::{
    check_occupancy, check_occupancy_change, check_tree_change, check_tree_sums,
};
use crate::ledger::{Account, Books, Class, Curve, PoolBooks, SetAside};
use crate::spec::Tier;
use crate::table::{Table, digest_of};
use crate::unit::{Span, Timestamp};

const BUDGETS: [u32; 5] = [0, 1, 2, 3, 4];
const TIERS: [Tier; 2] = [Tier::Funded, Tier::Free];
/// What a reported charge may be off by at the trailing edge where breakpoints were merged.
const STEP: Span = Span::from_mins(1);

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 128,
        rng_seed: RngSeed::Fixed(0x1ed9e),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn charged(history: &History, budget: BudgetId, tier: Tier, window: Span) -> u128 {
    let account = history.books.pool(&pool()).and_then(|books| books.account(budget, tier));
    account.map_or(0, |account| account.charged(window, history.now).get())
}

fn check_totals(history: &History) -> Result<(), TestCaseError> {
    let books = history.books.pool(&pool());
    check_occupancy(&history.books, history.now).map_err(TestCaseError::fail)?;
    check_tree_sums(&history.books, &tree(), history.now).map_err(TestCaseError::fail)?;
    for budget in BUDGETS.map(BudgetId::new) {
        for tier in TIERS {
            let account = books.and_then(|books| books.account(budget, tier));
            let ever = account.map_or(0, |account| account.charged_ever(history.now).get());
            prop_assert_eq!(ever, history.charged(budget, tier, START), "charge of {} {:?}", budget, tier);
            let aside = account.map_or(0, |account| account.set_aside(history.now).get());
            prop_assert_eq!(aside, history.set_aside(budget, tier), "set aside of {} {:?}", budget, tier);
        }
    }
    for (class, (count, time)) in history.classes() {
        let tally = books.expect("a class was used").in_class(class, history.now);
        prop_assert_eq!(i128::from(tally.count.get()), count, "GPUs in {:?}", class);
        prop_assert_eq!(i128::from(tally.time.get()), time, "time in {:?}", class);
    }
    Ok(())
}

/// A breakpoint is never a guess, however late the reports and however often breakpoints were merged.
fn check_breakpoints(history: &History) -> Result<(), TestCaseError> {
    for (_, books) in history.books.pools().iter() {
        for (&(budget, tier), account) in books.accounts().iter() {
            for (&at, &total) in account.curve().points().iter() {
                prop_assert_eq!(
                    total,
                    history.charged_until(budget, tier, at),
                    "{} {:?} at {:?}",
                    budget,
                    tier,
                    at
                );
            }
        }
    }
    Ok(())
}

fn end_everything(history: &mut History) {
    for which in 0..history.attempts.len() {
        history.step(&Step { dt: 1, late: 0, which, what: What::Ended });
    }
    for which in 0..history.attempts.len() {
        history.step(&Step { dt: 1, late: 0, which, what: What::Freed });
    }
}

proptest! {
    #![proptest_config(config())]

    /// Steps of seconds: all breakpoints are there, so every window is exact.
    #[test]
    fn charge_in_the_window_is_the_sum_over_intervals(steps in steps(20_000, 60_000), window in 1..3_600_000u64) {
        let window = Span::from_millis(window);
        let mut history = History::new(window);
        for step in &steps {
            history.step(step);
            check_totals(&history)?;
            let from = history.now.minus(window);
            for budget in BUDGETS.map(BudgetId::new) {
                for tier in TIERS {
                    prop_assert_eq!(charged(&history, budget, tier, window), history.charged(budget, tier, from));
                }
            }
        }
    }

    /// Steps of up to an hour over days, reports up to three hours late, breakpoints merged: totals stay exact, and
    /// the trailing edge is off by at most a step.
    #[test]
    fn merging_keeps_totals_exact_and_the_window_within_a_step(steps in steps(3_600_000, 10_800_000)) {
        let window = Span::from_hours(12);
        let mut history = History::new(window);
        for step in &steps {
            history.step(step);
            check_totals(&history)?;
            let from = history.now.minus(window);
            let slack = u128::from(history.rate_max) * u128::from(STEP.as_millis());
            for budget in BUDGETS.map(BudgetId::new) {
                for tier in TIERS {
                    let (booked, summed) = (charged(&history, budget, tier, window), history.charged(budget, tier, from));
                    prop_assert!(booked.abs_diff(summed) <= slack, "{booked} booked, {summed} summed, {slack} allowed");
                }
            }
        }
        check_breakpoints(&history)?;
    }

    /// Many breakpoints a minute, then merged in several ways: the window is off by at most the longest step.
    #[test]
    fn few_breakpoints_are_enough(
        steps in steps(3000, 9000),
        window_mins in 1..90u64,
        lates in prop::collection::vec(any::<u64>(), 90),
    ) {
        let window = Span::from_mins(window_mins);
        let mut history = History::new(Span::from_hours(3));
        for step in &steps {
            history.step(step);
        }
        history.now = history.now.plus(Span::from_mins(61));
        history.books.thin(Span::from_hours(3), MOST, (Timestamp::ZERO, history.now));
        check_breakpoints(&history)?;
        let after_an_hour = history.books.points();
        let slack = u128::from(history.rate_max) * u128::from(STEP.as_millis());
        for budget in BUDGETS.map(BudgetId::new) {
            let summed = history.charged(budget, Tier::Funded, history.now.minus(window));
            prop_assert!(charged(&history, budget, Tier::Funded, window).abs_diff(summed) <= slack);
        }
        let most = after_an_hour / 2;
        history.books.bound(most, Span::from_hours(3), history.now);
        check_breakpoints(&history)?;
        let (curves, recent) = history.books.curves(history.now.minus(Span::from_mins(2)));
        prop_assert!(history.books.points() <= most.max(4 * curves) + recent);
        // Reports from the time whose breakpoints were merged, each at another moment.
        for (which, late) in (0..history.attempts.len()).zip(&lates) {
            let late = late % history.now.since(START).as_millis().max(1);
            history.step(&Step { dt: 7, late, which, what: What::Ended });
            check_totals(&history)?;
            check_breakpoints(&history)?;
        }
    }

    /// Each change keeps the laws by itself, merging included: checked by what it touched.
    #[test]
    fn every_change_adds_up(steps in steps(600_000, 3_600_000)) {
        let mut history = History::new(Span::from_hours(2));
        check_occupancy_change(&Books::default(), &history.books, history.now).map_err(TestCaseError::fail)?;
        for step in &steps {
            let before = history.books.clone();
            history.step(step);
            check_occupancy_change(&before, &history.books, history.now).map_err(TestCaseError::fail)?;
            check_tree_change(&before, &history.books, &tree(), history.now).map_err(TestCaseError::fail)?;
        }
    }

    /// A snapshot holds the parts; what is made from them is the same, to its digest.
    #[test]
    fn books_made_from_their_parts_are_the_same(steps in steps(600_000, 3_600_000)) {
        let mut history = History::new(Span::from_hours(2));
        for step in &steps {
            history.step(step);
        }
        let again = from_parts(&history.books);
        prop_assert_eq!(&again, &history.books);
        prop_assert_eq!(digest_of(&again), digest_of(&history.books));
    }

    #[test]
    fn what_is_set_aside_returns_to_exactly_nothing(steps in steps(600_000, 3_600_000)) {
        let mut history = History::new(Span::from_hours(24));
        for step in &steps {
            history.step(step);
        }
        end_everything(&mut history);
        check_totals(&history)?;
        for (_, books) in history.books.pools().iter() {
            for (_, account) in books.accounts().iter() {
                prop_assert_eq!(account.set_aside(history.now).get(), 0);
                prop_assert_eq!(account.aside().fixed().get(), 0);
                prop_assert!(account.aside().ends().is_empty());
                prop_assert_eq!(account.rate().get(), 0);
            }
            for class in [Class::Handover, Class::Overhead] {
                prop_assert_eq!(books.in_class(class, history.now).count.get(), 0);
            }
        }
    }

    /// Use asked for a moment that no entry has reached yet is what it will be if nothing happens until then.
    #[test]
    fn use_needs_no_timer(steps in steps(600_000, 600_000), ahead in 0..20_000_000u64) {
        let mut history = History::new(Span::from_hours(24));
        for step in &steps {
            history.step(step);
        }
        let use_at = |books: &Books, now: Timestamp| {
            BUDGETS.map(|id| books.use_of(BudgetId::new(id), &pool(), Tier::Funded, &tree(), history.window, now))
        };
        let later = history.now.plus(Span::from_millis(ahead));
        let foreseen = use_at(&history.books, later);
        history.books.thin(history.window, MOST, (Timestamp::ZERO, history.now));
        prop_assert_eq!(foreseen.map(|u| u.set_aside), use_at(&history.books, later).map(|u| u.set_aside));
        history.now = later;
        for (id, foreseen) in BUDGETS.iter().zip(foreseen) {
            prop_assert_eq!(foreseen.set_aside.get(), history.set_aside(BudgetId::new(*id), Tier::Funded));
        }
    }

    #[test]
    fn allocation_is_share_of_capacity_and_never_exceeds_the_parents(steps in steps(60_000, 60_000), window in 1..3_600_000u64) {
        let window = Span::from_millis(window);
        let mut history = History::new(window);
        for step in &steps {
            history.step(step);
            let now = history.now;
            let Some(books) = history.books.pool(&pool()) else {
                continue;
            };
            let worth = |id: u32| books.allocation(BudgetId::new(id), (&tree(), &pool()), window, now).get();
            prop_assert!(worth(1) + worth(2) <= worth(0));
            prop_assert!(worth(3) + worth(4) <= worth(1));
            let since = books.since().expect("a pool in the books has had GPUs");
            let age = now.since(since);
            if !age.is_zero() {
                let measured = u128::try_from(history.in_service(now.minus(window).max(since))).expect("not below zero");
                let span = u128::from(window.min(age).as_millis());
                let capacity = measured * 1000 * u128::from(window.as_millis()) / span;
                prop_assert_eq!(worth(0), capacity);
                prop_assert_eq!(worth(1), capacity * 600_000 / 1_000_000);
                prop_assert_eq!(worth(3), worth(1) * 700_001 / 1_000_000);
            }
        }
    }

    /// The same report, early or late, leaves the same figures.
    #[test]
    fn a_late_report_leaves_the_books_as_if_it_had_come_in_time(steps in steps(20_000, 1), delay in 1..600_000u64) {
        let mut early = History::new(Span::from_hours(1));
        for step in &steps {
            early.step(step);
        }
        let mut late = History::new(Span::from_hours(1));
        for step in &steps {
            late.step(step);
        }
        let ended = early.now;
        end_now(&mut early);
        early.now = early.now.plus(Span::from_millis(delay));
        late.now = late.now.plus(Span::from_millis(delay));
        end_at(&mut late, ended);
        for budget in BUDGETS.map(BudgetId::new) {
            for tier in TIERS {
                for window in [delay / 2, delay, delay * 2, 3_600_000] {
                    let window = Span::from_millis(window);
                    prop_assert_eq!(charged(&early, budget, tier, window), charged(&late, budget, tier, window));
                }
            }
        }
        for (class, tally) in early.books.pool(&pool()).into_iter().flat_map(|books| books.by_class(early.now)) {
            prop_assert_eq!(late.books.pool(&pool()).map(|books| books.in_class(class, late.now)), Some(tally));
        }
    }
}

fn from_parts(books: &Books) -> Books {
    let again = |curve: &Curve| {
        let points: Table<_, _> = curve.points().iter().rev().map(|(at, total)| (*at, *total)).collect();
        Curve::from_parts(points, curve.rate())
    };
    let account = |account: &Account| {
        let aside = account.aside();
        let ends = aside.ends().iter().map(|(end, rate)| (*end, *rate)).collect();
        Account::from_parts(
            again(account.curve()),
            SetAside::from_parts(aside.fixed(), ends, aside.horizon()),
        )
    };
    let pool = |pool: &PoolBooks| {
        let classes = pool.class_curves().iter().map(|(class, curve)| (*class, again(curve))).collect();
        let accounts = pool.accounts().iter().map(|(key, of)| (*key, account(of).into())).collect();
        let demand = pool.demand_curves().iter().map(|(budget, curve)| (*budget, again(curve))).collect();
        PoolBooks::from_parts(pool.since(), again(pool.installed_curve()), classes, accounts, demand)
    };
    let pools = books.pools().iter().map(|(name, of)| (name.clone(), pool(of).into())).collect();
    Books::from_parts(pools, books.merged())
}

fn end_now(history: &mut History) {
    let now = history.now;
    end_at(history, now);
}

fn end_at(history: &mut History, at: Timestamp) {
    let late = history.now.since(at).as_millis();
    for which in 0..history.attempts.len() {
        history.step(&Step { dt: 0, late, which, what: What::Ended });
    }
}

#[test]
fn leaves_are_below_the_root() {
    for leaf in LEAVES {
        assert_eq!(super::history::path(BudgetId::new(leaf)).first(), Some(&ROOT));
    }
}
