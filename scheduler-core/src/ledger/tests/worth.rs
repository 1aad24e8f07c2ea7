//! What grants are worth.

use std::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::history::{START, pool, tree};
use crate::budget::{Budget, ROOT, Slice};
use crate::id::{BudgetId, GrantId};
use crate::ledger::{Books, Class, Run};
use crate::spec::Tier;
use crate::table::Table;
use crate::unit::{GpuCount, MilliGpus, Share, Span, Timestamp};

const A: BudgetId = BudgetId::new(1);
const B: BudgetId = BudgetId::new(2);
const WINDOW: Span = Span::from_millis(10_000);

fn at(ms: u64) -> Timestamp {
    START.plus(Span::from_millis(ms))
}

/// `b` gives `a` so much of the root, in each of the times.
fn granted(grants: &[(u64, u64, u32)]) -> Table<BudgetId, Budget> {
    let mut tree = tree();
    for (n, (from, length, ppm)) in (1..).zip(grants) {
        let slice = Slice {
            grant: GrantId::new(n),
            is_gain: true,
            share: Share::from_ppm(*ppm).expect("small"),
            begins_at: at(*from),
            until: at(from + length),
        };
        tree.get_mut(&A).expect("it is there").slices.push(slice);
        tree.get_mut(&B).expect("it is there").slices.push(Slice { is_gain: false, ..slice });
    }
    tree
}

/// Runs a budget at exactly its share of 1,000 GPUs, whatever that is at each moment, up to `end`.
fn run_at_its_share(books: &mut Books, tree: &Table<BudgetId, Budget>, budget: BudgetId, end: Timestamp) {
    let record = tree.get(&budget).expect("it is there");
    let moments = record.slices.iter().flat_map(|slice| [slice.begins_at, slice.until]);
    let mut moments: Vec<Timestamp> = moments.filter(|moment| *moment < end).chain([START, end]).collect();
    moments.sort_unstable();
    moments.dedup();
    let pool = pool();
    for pair in moments.windows(2) {
        let rate = MilliGpus::new(u64::from(record.share_at(pair[0]).ppm()));
        let path = [ROOT, budget];
        let (tier, protection) = (Tier::Funded, Span::ZERO);
        let run = Run { pool: &pool, path: &path, tier, rate, protection, go: None, started: None };
        books.placed(&run);
        books.go(&run, pair[0], pair[0]);
        books.ended(&Run { go: Some(pair[0]), ..run }, pair[1], pair[1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(0x6ea7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_grant_is_worth_its_own_time_and_is_not_punished_after(
        grants in prop::collection::vec((1..30_000u64, 1..20_000u64, 1..60_000u32), 0..5),
        asked in 10_000..60_000u64,
    ) {
        let tree = granted(&grants);
        let mut books = Books::default();
        books.gpus_added(&pool(), GpuCount::new(1000), Class::Idle, START);
        let now = at(asked);
        for budget in [A, B] {
            run_at_its_share(&mut books, &tree, budget, now);
        }
        // Whoever uses exactly what it has at each moment has used exactly what it is worth, before, in and after.
        for budget in [A, B] {
            let used = books.use_of(budget, &pool(), Tier::Funded, &tree, WINDOW, now);
            prop_assert_eq!(used.charged, used.allocation);
        }
        // Both together are worth what they would be without grants.
        let worth = |tree: &Table<BudgetId, Budget>, id| {
            books.pool(&pool()).expect("it has GPUs").allocation(id, (tree, &pool()), WINDOW, now).get()
        };
        prop_assert_eq!(worth(&tree, A) + worth(&tree, B), worth(&super::history::tree(), A) + worth(&super::history::tree(), B));
    }
}

#[test]
fn a_grant_counts_as_far_as_its_time_is_in_the_window() {
    let mut books = Books::default();
    books.gpus_added(&pool(), GpuCount::new(1000), Class::Idle, START);
    // 10 % more for four seconds of a window of ten, from second 20 on.
    let tree = granted(&[(20_000, 4_000, 100_000)]);
    let of = |ms: u64| {
        let worth = |id| {
            let books = books.pool(&pool()).expect("it has GPUs");
            books.allocation(id, (&tree, &pool()), WINDOW, at(ms)).get() / 1_000_000
        };
        (worth(A), worth(B), worth(BudgetId::new(3)))
    };
    assert_eq!(of(20_000), (6_000, 3_333, 4_200));
    assert_eq!(of(22_000), (6_200, 3_133, 4_340));
    assert_eq!(of(24_000), (6_400, 2_933, 4_480));
    assert_eq!(of(30_000), (6_400, 2_933, 4_480));
    assert_eq!(of(32_000), (6_200, 3_133, 4_340));
    assert_eq!(of(34_000), (6_000, 3_333, 4_200));
}

#[test]
fn in_a_young_pool_the_time_before_it_counts_at_its_mean() {
    let mut books = Books::default();
    books.gpus_added(&pool(), GpuCount::new(1000), Class::Idle, START);
    let tree = granted(&[(0, 2_000, 100_000)]);
    let books = books.pool(&pool()).expect("it has GPUs");
    let worth = |ms| books.allocation(A, (&tree, &pool()), WINDOW, at(ms)).get() / 1_000_000;
    assert_eq!((worth(0), worth(1_000), worth(2_000), worth(5_000)), (6_000, 6_100, 6_200, 6_200));
}
