use alloc::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{Boxed, Inline, Store, Table};

#[derive(Debug, Clone)]
enum Op {
    Insert(u16, u32),
    Update(u16, u32),
    Remove(u16),
    RemoveRange(u16, u16),
    Freeze,
}

fn op() -> impl Strategy<Value = Op> {
    // Few keys, so that they meet; and runs of rising keys, so that chunks split at the end and in the middle.
    prop_oneof![
        6 => (0..600u16, any::<u32>()).prop_map(|(k, v)| Op::Insert(k, v)),
        2 => (0..600u16, any::<u32>()).prop_map(|(k, v)| Op::Update(k, v)),
        3 => (0..600u16).prop_map(Op::Remove),
        1 => (0..600u16, 1..150u16).prop_map(|(k, n)| Op::RemoveRange(k, n)),
        1 => Just(Op::Freeze),
    ]
}

fn history() -> impl Strategy<Value = Vec<Op>> {
    let rising =
        (0..300u16).prop_map(|n| (0..n).map(|k| Op::Insert(k * 2, u32::from(k))).collect::<Vec<_>>());
    (rising, prop::collection::vec(op(), 0..300)).prop_map(|(mut rising, ops)| {
        rising.extend(ops);
        rising
    })
}

fn run<S: Store<u32>>(op: &Op, table: &mut Table<u16, u32, S>, model: &mut BTreeMap<u16, u32>) {
    match op {
        Op::Insert(k, v) => assert_eq!(table.insert(*k, *v), model.insert(*k, *v)),
        Op::Update(k, v) => {
            let (mine, theirs) = (table.get_mut(k), model.get_mut(k));
            assert_eq!(mine, theirs);
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                (*mine, *theirs) = (*v, *v);
            }
        }
        Op::Remove(k) => assert_eq!(table.remove(k), model.remove(k)),
        Op::RemoveRange(from, n) => {
            for k in *from..from.saturating_add(*n) {
                assert_eq!(table.remove(&k), model.remove(&k));
            }
        }
        Op::Freeze => {}
    }
}

fn same<S: Store<u32>>(table: &Table<u16, u32, S>, model: &BTreeMap<u16, u32>) {
    assert_eq!(table.len(), model.len());
    assert_eq!(table.is_empty(), model.is_empty());
    assert!(table.iter().eq(model.iter()));
    assert!(table.iter().rev().eq(model.iter().rev()));
    assert_eq!(table.first(), model.first_key_value());
    assert_eq!(table.last(), model.last_key_value());
    for branch in table.spine.iter().flat_map(|group| &group.items) {
        assert_eq!(Some(branch.last), branch.chunk.items.last().map(|(key, _)| *key));
    }
    for k in (0..620).step_by(7) {
        assert_eq!(table.get(&k), model.get(&k));
        assert_eq!(table.at_or_before(&k), model.range(..=k).next_back());
        assert_eq!(
            table.after(&k),
            model.range((core::ops::Bound::Excluded(k), core::ops::Bound::Unbounded)).next()
        );
        assert!(table.range(k..k + 90).eq(model.range(k..k + 90)));
        assert!(table.range(..=k).eq(model.range(..=k)));
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 96,
        rng_seed: RngSeed::Fixed(0x7ab1e),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn table_is_an_ordered_map_and_a_clone_stays_as_it_was(ops in history()) {
        is_a_map::<Inline>(&ops);
        is_a_map::<Boxed>(&ops);
    }

    #[test]
    fn touched_names_every_change_whatever_happened(ops in history(), more in prop::collection::vec(op(), 0..20)) {
        names_every_change::<Inline>(&ops, &more);
        names_every_change::<Boxed>(&ops, &more);
    }

    #[test]
    fn digest_depends_on_the_records_alone(ops in history()) {
        prop_assert_eq!(digest_of_its_records::<Inline>(&ops), digest_of_its_records::<Boxed>(&ops));
    }
}

/// Groups are long: their ends are met only in a table of thousands.
#[test]
fn neighbours_are_found_over_the_ends_of_groups() {
    let mut table: Table<u16, u32> = (0..20_000).step_by(4).map(|k| (k, u32::from(k))).collect();
    let mut model: BTreeMap<u16, u32> = table.iter().map(|(k, v)| (*k, *v)).collect();
    assert!(table.spine.len() > 2);
    // The last of each chunk goes, and what comes between.
    let ends: Vec<u16> = table.chunks().filter_map(|chunk| chunk.items.last().map(|(k, _)| *k)).collect();
    for (end, at) in ends.iter().zip(0_u32..) {
        assert_eq!(table.remove(end), model.remove(end));
        if at % 3 == 0 {
            assert_eq!(table.insert(end + 1, at), model.insert(end + 1, at));
        }
    }
    for k in 0..20_010 {
        assert_eq!(table.get(&k), model.get(&k));
        assert_eq!(table.at_or_before(&k), model.range(..=k).next_back());
        assert_eq!(table.after(&k), model.range(k + 1..).next());
    }
    same(&table, &model);
}

fn is_a_map<S: Store<u32>>(ops: &[Op]) {
    let (mut table, mut model) = (Table::<u16, u32, S>::default(), BTreeMap::new());
    let mut frozen = Vec::new();
    for op in ops {
        run(op, &mut table, &mut model);
        if matches!(op, Op::Freeze) {
            frozen.push((table.clone(), model.clone(), table.digest()));
        }
    }
    same(&table, &model);
    for (table, model, digest) in &frozen {
        same(table, model);
        assert_eq!(table.digest(), *digest);
    }
}

fn names_every_change<S: Store<u32>>(ops: &[Op], more: &[Op]) {
    let (mut table, mut model) = (Table::<u16, u32, S>::default(), BTreeMap::new());
    for op in ops {
        run(op, &mut table, &mut model);
    }
    let (earlier, before) = (table.clone(), model.clone());
    for op in more {
        run(op, &mut table, &mut model);
    }
    let touched: BTreeMap<u16, u32> = table.touched_since(&earlier).map(|(k, v)| (*k, *v)).collect();
    for (k, v) in model.iter().filter(|(k, v)| before.get(k) != Some(v)) {
        assert_eq!(touched.get(k), Some(v));
    }
    // And the other way round: what is not there any more, or was another.
    let gone: BTreeMap<u16, u32> = earlier.touched_since(&table).map(|(k, v)| (*k, *v)).collect();
    for (k, v) in before.iter().filter(|(k, v)| model.get(k) != Some(v)) {
        assert_eq!(gone.get(k), Some(v));
    }
}

fn digest_of_its_records<S: Store<u32>>(ops: &[Op]) -> u64 {
    let (mut table, mut model) = (Table::<u16, u32, S>::default(), BTreeMap::new());
    for op in ops {
        run(op, &mut table, &mut model);
        if matches!(op, Op::Freeze) {
            // Fills the cached sums, so that a stale one would show.
            table.digest();
        }
    }
    let rising: Table<u16, u32, S> = model.iter().map(|(k, v)| (*k, *v)).collect();
    let falling: Table<u16, u32, S> = model.iter().rev().map(|(k, v)| (*k, *v)).collect();
    assert_eq!(table.digest(), rising.digest());
    assert_eq!(table.digest(), falling.digest());
    assert!(table == rising && table == falling);
    if let Some((&k, &v)) = model.iter().next() {
        let mut other = rising.clone();
        other.insert(k, v.wrapping_add(1));
        assert_ne!(table.digest(), other.digest());
        assert!(table != other);
    }
    table.digest()
}

#[test]
fn of_large_records_only_the_changed_one_is_named() {
    let mut table: Table<u32, u32, Boxed> = (0..2_000).map(|n| (n, n)).collect();
    let earlier = table.clone();
    table.insert(7, 70);
    *table.get_mut(&1_500).expect("it is there") = 1;
    let touched: Vec<u32> = table.touched_since(&earlier).map(|(k, _)| *k).collect();
    assert_eq!(touched, [7, 1_500]);
}

#[test]
fn a_table_that_shrank_has_a_short_spine() {
    let mut table: Table<u32, u32> = (0..64_000).map(|k| (k, k)).collect();
    for k in (0..64_000).filter(|k| k % 64 != 0) {
        table.remove(&k);
    }
    assert_eq!(table.len(), 1000);
    let (chunks, groups) = (table.chunks().count(), table.spine.len());
    assert!(chunks < 150 && groups < 10, "{chunks} chunks in {groups} groups for 1,000 records");
}

#[test]
fn touched_names_every_changed_record_and_little_else() {
    let mut table: Table<u32, u32> = (0..2_000).map(|n| (n, n)).collect();
    let earlier = table.clone();
    assert_eq!(table.touched_since(&earlier).count(), 0);
    table.insert(7, 70);
    table.remove(&1_000);
    table.insert(3_000, 1);
    let touched: Vec<u32> = table.touched_since(&earlier).map(|(k, _)| *k).collect();
    assert!(touched.contains(&7) && touched.contains(&3_000), "{touched:?}");
    assert!(touched.len() <= 3 * 65, "{}", touched.len());
    let mut small: Table<u32, u32> = Table::default();
    let none = small.clone();
    small.insert(1, 1);
    assert_eq!(small.touched_since(&none).count(), 1);
}

#[test]
fn a_large_table_is_a_map_whatever_order_it_grew_and_shrank_in() {
    use std::collections::BTreeMap;
    let mut table: Table<u32, u32> = Table::default();
    let mut model = BTreeMap::new();
    let mut seed = 9u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed >> 8
    };
    for step in 0..60_000u32 {
        let key = next() % 20_000;
        let is_shrinking = step % 20_000 > 12_000;
        if is_shrinking && next() % 8 > 0 {
            assert_eq!(table.remove(&key), model.remove(&key));
        } else {
            assert_eq!(table.insert(key, step), model.insert(key, step));
        }
        if step % 997 == 0 {
            let probe = next() % 20_000;
            assert_eq!(table.len(), model.len());
            assert!(table.iter().eq(model.iter()));
            assert!(table.range(probe..probe + 300).eq(model.range(probe..probe + 300)));
            assert_eq!(table.at_or_before(&probe), model.range(..=probe).next_back());
            assert_eq!(table.after(&probe), model.range(probe + 1..).next());
            assert_eq!((table.first(), table.last()), (model.first_key_value(), model.last_key_value()));
            assert_eq!(table.get(&probe), model.get(&probe));
            let earlier = table.clone();
            let digest = table.digest();
            table.insert(probe, 1);
            assert_eq!(earlier.digest(), digest, "a clone is frozen");
            let touched: Vec<u32> = table.touched_since(&earlier).map(|(k, _)| *k).collect();
            assert!(touched.contains(&probe) && touched.len() <= 66, "{}", touched.len());
            model.insert(probe, 1);
        }
    }
    let again: Table<u32, u32> = model.iter().map(|(k, v)| (*k, *v)).collect();
    assert_eq!(again.digest(), table.digest());
}

#[test]
fn every_write_counts_and_no_reading() {
    let mut table: Table<u32, u32> = (0..500).map(|n| (n, n)).collect();
    let before = table.writes();
    let copy = table.clone();
    assert!(table.get(&3).is_some() && table.get_mut(&1_000).is_none() && table.remove(&1_000).is_none());
    assert_eq!((table.writes(), copy.writes()), (before, before));
    table.insert(3, 4);
    let after_insert = table.writes();
    *table.get_mut(&3).expect("it is there") = 3;
    let after_change = table.writes();
    table.remove(&3);
    assert!(before < after_insert && after_insert < after_change && after_change < table.writes());
    assert_eq!(copy.writes(), before);
    table.insert(3, 3);
    assert_eq!(table, copy, "how often it was written is no part of what it is");
    assert_eq!(table.digest(), copy.digest());
}
