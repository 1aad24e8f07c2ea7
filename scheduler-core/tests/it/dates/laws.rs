//! The laws of dates over random histories.

use scheduler_core::unit::Span;

use super::court::{Court, Tally};
use crate::world::BEGIN;

/// Seeds that once broke a law: each with whether nodes fail, and the short lane in parts per million.
const KEPT: &[(u64, bool, u32)] = &[];
/// Names seeds to run besides, as in `1000..1020`.
const SEEDS: &str = "BURSAR_DATES_SEEDS";

fn run(seed: u64, is_rough: bool, lane: u32) -> Tally {
    let told = Told(seed, is_rough, lane);
    let mut court = Court::new(seed, is_rough, lane);
    court.until(BEGIN.plus(Span::from_hours(4 * 24)));
    drop(told);
    court.tally
}

struct Told(u64, bool, u32);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the history that broke a law: ({}, {}, {})", self.0, self.1, self.2);
        }
    }
}

fn runs(seeds: impl Iterator<Item = u64>, is_rough: bool, lane: u32) -> Tally {
    crate::story::plant();
    let mut sum = Tally::default();
    for seed in seeds {
        let one = run(seed, is_rough, lane);
        sum.dates += one.dates;
        sum.claims += one.claims;
        sum.moves += one.moves;
        sum.drops += one.drops;
        sum.starts += one.starts;
        sum.firsts += one.firsts;
        sum.backfills += one.backfills;
        sum.chained += one.chained;
        sum.by_lane += one.by_lane;
    }
    sum
}

#[test]
fn dates_are_kept_and_the_first_goes_within_its_bound() {
    let sum = runs(0..12, false, 0);
    assert!(sum.dates > 50 && sum.claims > 10 && sum.backfills > 10, "too little happened: {sum:?}");
}

#[test]
fn dates_move_by_nodes_that_fail_and_by_nothing_else() {
    let sum = runs(500..512, true, 0);
    assert!(sum.dates > 50 && sum.moves > 5, "too little happened: {sum:?}");
}

#[test]
fn dates_are_kept_and_the_first_goes_within_its_bound_with_a_short_lane() {
    let sum = runs(800..812, false, 200_000);
    assert!(sum.dates > 50 && sum.claims > 10 && sum.by_lane > 10, "too little happened: {sum:?}");
}

#[test]
fn histories_that_once_broke_a_law_of_dates_keep_it() {
    for (seed, is_rough, lane) in KEPT {
        run(*seed, *is_rough, *lane);
    }
    if let Some((first, last)) = std::env::var(SEEDS).ok().and_then(|text| {
        let (first, last) = text.split_once("..")?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }) {
        println!("calm: {:?}", runs(first..last, false, 0));
        println!("calm, with a lane: {:?}", runs(first..last, false, 200_000));
        println!("rough: {:?}", runs(first..last, true, 0));
    }
}
