//! The year, scaled down: fewer jobs, shorter times, smaller bounds, the same laws.

use super::{Churn, Report, churn, settings_of_a_short_year};

fn short_year(seed: u64) -> Report {
    let of = Churn {
        seed,
        jobs: 1_600,
        nodes: 2,
        check_every: 200,
        again_every: 1,
        settings: settings_of_a_short_year(),
    };
    churn(&of, |_, _, _| {}).unwrap_or_else(|broken| panic!("{broken:?}"))
}

#[test]
fn state_stays_bounded_through_a_year_of_churn_and_comes_back_from_every_snapshot() {
    let report = short_year(1);
    let peak = |table: &str| report.peaks.records.get(table).copied().unwrap_or(0);
    assert!(report.checks > 10 && report.entries > 2_000, "{report:?}");
    // The bounds were reached, so it is they that held.
    for (table, least) in
        [("results", 300), ("decisions", 55), ("bills", 20), ("requests", 80), ("ended", 20)]
    {
        assert!(peak(table) >= least, "{} {table}: {report:?}", peak(table));
    }
    assert!(report.peaks.bytes < 4 << 20 && report.peaks.snapshot < 4 << 20, "{report:?}");
}
