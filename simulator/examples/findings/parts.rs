//! What is run on real traces: demands, settings, policies, and each trace once.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use simulator::scenario::{Scenario, shipped};
use simulator::sweep::Variant;

use crate::rows::{COST, Column, GOT, Row, Runs, by_size, real, table};

/// The traces that everything is run on.
pub const REAL: [&str; 2] = ["helios-venus", "philly"];

/// Who is compared.
const POLICIES: [&str; 4] = ["bursar", "fifo", "levels", "slurm"];

/// The figures of sweeps.
const SWEPT: [Column; 12] = [
    ("owed_mean", "owed"),
    ("owed_worst", "worst"),
    ("occupancy", "occupied"),
    ("free_share", "free tier"),
    ("debug_p90_ms", "debug p90"),
    ("wait_p90_ms", "p90"),
    ("wait_large_p90_ms", "64+ p90"),
    ("head_longest_ms", "head max"),
    ("lost_funded_gpu_h", "lost, funded"),
    ("lost_funded", "of funded time"),
    ("flips", "flips"),
    ("dates_moved_otherwise", "dates moved"),
];

/// What is swept, on which trace at demand 3: the first value is the default.
pub const SWEEPS: [(&str, &str, &[&str]); 13] = [
    ("philly", "date_margin", &["2h", "50ms", "15m", "30m", "45m", "1h"]),
    ("helios-venus", "date_margin", &["2h", "50ms", "15m", "30m", "1h"]),
    ("philly", "margin_ppm", &["100000", "0", "20000", "200000"]),
    ("philly", "dates", &["yes", "no"]),
    ("philly", "more_dates_ppm", &["0", "100000"]),
    ("philly", "cap", &["8h", "2h", "4h", "16h"]),
    ("philly", "window", &["7d", "1d", "14d"]),
    ("philly", "free_grace", &["15s", "120s"]),
    ("philly", "short_later", &["no", "yes"]),
    ("philly", "short_lane_ppm", &["0", "100000"]),
    ("philly", "burst_limit_pct", &["0", "200"]),
    ("philly", "restart_guess", &["5m", "1m", "1h"]),
    ("philly", REPORTS, &["yes", "no"]),
];

/// Not a setting: whether processes report their checkpoints, by which the price of a preemption is known.
const REPORTS: &str = "checkpoints reported";

/// The other traces that ship, each run once as its scenario says.
const OTHERS: [&str; 5] = ["acme-kalos", "openb", "eagle", "nasa-ipsc", "anl-intrepid"];

const OTHER: [Column; 11] = [
    ("jobs", "jobs"),
    ("jobs_waiting", "still waiting"),
    ("offered_load", "offered load"),
    ("owed_mean", "owed"),
    ("owed_worst", "worst"),
    ("occupancy", "occupied"),
    ("wait_p50_ms", "p50"),
    ("wait_p90_ms", "p90"),
    ("head_over_unexplained", "heads over bound"),
    ("wasted", "wasted"),
    ("dates_moved_otherwise", "dates moved"),
];

/// Two and three times the demand.
pub fn demand(runs: &Runs) -> Result<String> {
    let mut rows: Vec<Row> = Vec::new();
    for name in REAL {
        for demand in [2.0, 3.0] {
            let made = runs.make(&real(name, demand)?, "bursar", &Variant::new())?;
            rows.push((format!("{name}, demand {demand}"), made));
        }
    }
    let mut text = String::from("## Demand two and three times the supply\n");
    table(&mut text, "trace", &GOT, &rows)?;
    writeln!(text, "\nWhat it cost:")?;
    table(&mut text, "trace, cost", &COST, &rows)?;
    by_size(&mut text, &rows)?;
    Ok(text)
}

/// All policies on one trace.
pub fn policies(runs: &Runs, name: &str) -> Result<String> {
    let scenario = real(name, 3.0)?;
    let row = |policy: &&str| Ok(((*policy).to_owned(), runs.make(&scenario, policy, &Variant::new())?));
    let rows: Vec<Row> = POLICIES.iter().map(row).collect::<Result<_>>()?;
    let mut text = format!("## Policies: {name} at demand 3\n");
    table(&mut text, &format!("policy, {name}"), &GOT, &rows)?;
    writeln!(text, "\nWhat it cost:")?;
    table(&mut text, &format!("policy, {name}, cost"), &COST, &rows)?;
    by_size(&mut text, &rows)?;
    Ok(text)
}

/// One setting on one trace.
pub fn sweep(runs: &Runs, (name, key, values): (&str, &str, &[&str])) -> Result<String> {
    let scenario = real(name, 3.0)?;
    let mut rows: Vec<Row> = Vec::new();
    for (at, value) in values.iter().enumerate() {
        // The default is a run without the setting: all sweeps share it.
        let (scenario, variant) = match (key, at) {
            (_, 0) => (scenario.clone(), Variant::new()),
            (REPORTS, _) => (unreported(&scenario), Variant::new()),
            _ => (scenario.clone(), vec![(key.to_owned(), (*value).to_owned())]),
        };
        let named = format!("{value}{}", if at == 0 { " (default)" } else { "" });
        rows.push((named, runs.make(&scenario, "bursar", &variant)?));
    }
    let mut text = format!("### `{key}`, {name}\n");
    table(&mut text, &format!("{key}, {name}"), &SWEPT, &rows)?;
    Ok(text)
}

fn unreported(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.models.checkpoints.report = false;
    scenario
}

/// Each of the other traces, once.
pub fn others(runs: &Runs) -> Result<String> {
    let mut rows: Vec<Row> = Vec::new();
    let mut left_out = Vec::new();
    for name in OTHERS {
        let scenario = shipped(name).with_context(|| format!("`{name}` does not ship"))??;
        eprintln!("  {name}");
        let ran = runs.once(&scenario, Variant::new())?;
        left_out.push((name, ran.prepared.skipped, ran.prepared.too_big));
        rows.push((name.to_owned(), vec![ran.measures]));
    }
    let mut text = String::from(
        "## The other traces, once each\n\nAs their scenarios say (0.9 offered, mostly on fewer machines than the original; three of them are no GPU traces), one seed: \
         they are here to show that the formats are read and the promises kept, not for figures.\n",
    );
    table(&mut text, "trace, once", &OTHER, &rows)?;
    text.push('\n');
    for (name, skipped, too_big) in left_out {
        writeln!(
            text,
            "- {name}: {skipped} rows left out by the import, {too_big} jobs too large for these machines."
        )?;
    }
    text.push_str(&with_short_cap(runs)?);
    Ok(text)
}

/// Two traces of machines where one or two jobs are most of a budget: what stands between it and what it is owed.
fn with_short_cap(runs: &Runs) -> Result<String> {
    let mut rows: Vec<Row> = Vec::new();
    for (name, cap) in
        [("eagle", "8h"), ("eagle", "2h"), ("eagle", "30m"), ("nasa-ipsc", "8h"), ("nasa-ipsc", "30m")]
    {
        let scenario = shipped(name).with_context(|| format!("`{name}` does not ship"))??;
        let variant = vec![("cap".to_owned(), cap.to_owned())];
        eprintln!("  {name}, cap {cap}");
        rows.push((format!("{name}, cap {cap}"), vec![runs.once(&scenario, variant)?.measures]));
    }
    let mut text = String::from(
        "\nIs it others' protection that stands between the worst budget and what it is owed? The same with a shorter cap: on \
         eagle it is, on nasa-ipsc it hardly is (there jobs of half the machine and more wait the longest).\n",
    );
    table(&mut text, "trace, once", &OTHER, &rows)?;
    Ok(text)
}
