//! Runs, and the tables that are made from them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use simulator::measure::{Known, Measures};
use simulator::report::{Value, figure_of};
use simulator::scenario::{Load, Scenario, shipped};
use simulator::sweep::{self, Case, Ran, Variant};

/// Three seeds a row, everywhere.
pub const SEEDS: u64 = 3;

/// The key of a figure, and the heading of its column.
pub type Column = (&'static str, &'static str);

/// What budgets and jobs got.
pub const GOT: [Column; 14] = [
    ("offered_load", "offered load"),
    ("demand_mean", "demand, mean"),
    ("owed_mean", "owed"),
    ("owed_worst", "worst"),
    ("owed_95", "≥ 95 %"),
    ("occupancy", "occupied"),
    ("free_share", "free tier"),
    ("debug_p90_ms", "debug p90"),
    ("wait_p50_ms", "p50"),
    ("wait_p90_ms", "p90"),
    ("wait_large_p90_ms", "64+ p90"),
    ("head_longest_ms", "head max"),
    ("head_bound_ms", "its bound"),
    ("head_over", "over bound"),
];

/// What it cost.
pub const COST: [Column; 12] = [
    ("preemptions_per_1000_gpu_h", "preempted per 1,000 GPU-h"),
    ("lost_funded_gpu_h", "lost, funded"),
    ("lost_funded", "of funded time"),
    ("lost_free_gpu_h", "lost, free tier"),
    ("lost_free", "of free time"),
    ("wasted", "wasted"),
    ("most_preempted", "most preempted, funded"),
    ("most_preempted_free", "most preempted, free tier"),
    ("flips", "flips"),
    ("dates", "dates"),
    ("dates_moved_by_node", "moved by a node"),
    ("dates_moved_otherwise", "moved otherwise"),
];

/// Runs with everything that a run depends on: what was run once in this process is not run again.
#[derive(Default)]
pub struct Runs {
    traces: PathBuf,
    made: RefCell<BTreeMap<String, Vec<Measures>>>,
}

/// Runs of one row: how it is called, and one run a seed.
pub type Row = (String, Vec<Measures>);

impl Runs {
    /// Looks for traces in a folder.
    pub fn of(traces: PathBuf) -> Self {
        Self { traces, ..Self::default() }
    }

    /// Returns where traces are.
    pub fn traces(&self) -> &Path {
        &self.traces
    }

    /// Runs a scenario once, with some settings.
    pub fn once(&self, scenario: &Scenario, variant: Variant) -> Result<Ran> {
        let policy = String::from("bursar");
        let case = Case { scenario, folder: self.traces(), seed: scenario.seed, policy, variant };
        Ok(sweep::one(&case, &mut |_| ())?)
    }

    /// Runs a scenario under a policy with some settings, once a seed.
    pub fn make(&self, scenario: &Scenario, policy: &str, variant: &Variant) -> Result<Vec<Measures>> {
        let key = format!("{scenario:?} {policy} {variant:?}");
        if let Some(made) = self.made.borrow().get(&key) {
            return Ok(made.clone());
        }
        let case = |seed: u64| Case {
            scenario,
            folder: &self.traces,
            seed: scenario.seed + seed,
            policy: policy.to_owned(),
            variant: variant.clone(),
        };
        let cases: Vec<Case<'_>> = (0..SEEDS).map(case).collect();
        let made = sweep::all(&cases, None, &|_, _| (), &|at, ran| {
            eprintln!("  {} of {SEEDS}: {} {policy} {variant:?}", at + 1, scenario.name);
            ran.measures
        })?;
        self.made.borrow_mut().insert(key, made.clone());
        Ok(made)
    }
}

/// Returns a shipped scenario with another demand.
pub fn real(name: &str, demand: f64) -> Result<Scenario> {
    let scenario = shipped(name).with_context(|| format!("`{name}` does not ship"))??;
    Ok(Scenario { load: Load::Demand(demand), ..scenario })
}

/// Writes a table: a row for each, a column for each figure.
pub fn table(text: &mut String, first: &str, columns: &[Column], rows: &[Row]) -> Result<()> {
    let headings: Vec<&str> = columns.iter().map(|(_, heading)| *heading).collect();
    writeln!(text, "\n| {first} | {} |", headings.join(" | "))?;
    writeln!(text, "| --- |{}", " ---: |".repeat(columns.len()))?;
    for (name, runs) in rows {
        let cells: Vec<String> = columns.iter().map(|(key, _)| cell(key, runs)).collect();
        writeln!(text, "| {name} | {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// Puts the values of several seeds together, as `compare` does: means, and the worst of what must not happen.
fn cell(key: &str, runs: &[Measures]) -> String {
    let Some(figure) = figure_of(key) else { return format!("no figure `{key}`") };
    let runs: Vec<&Measures> = runs.iter().collect();
    match figure.over(&runs) {
        Value::Job(job) => job.map_or_else(|| "-".into(), |job| format!("{} times", job.times)),
        // Means of counts; a tenth is more than they are worth.
        Value::Times(Some(times)) if is_count(key) => format!("{times:.0}"),
        value => value.shown(),
    }
}

fn is_count(key: &str) -> bool {
    ["flips", "dates", "dates_moved_by_node", "jobs", "jobs_waiting"].contains(&key)
}

/// Writes the waits of funded jobs by size, a column for each row.
pub fn by_size(text: &mut String, rows: &[Row]) -> Result<()> {
    let mut sizes: Vec<String> = Vec::new();
    for waits in rows.iter().flat_map(|(_, runs)| runs).flat_map(|run| &run.waits) {
        if waits.of == "funded" && !sizes.contains(&waits.gpus) {
            sizes.push(waits.gpus.clone());
        }
    }
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    writeln!(
        text,
        "\nWaits of funded jobs by size, p50 / p90 from submission to first start; `>` where a job still waited at the end of a run.\n"
    )?;
    writeln!(text, "| GPUs | {} |", names.join(" | "))?;
    writeln!(text, "| --- |{}", " ---: |".repeat(names.len()))?;
    for size in sizes {
        let cells: Vec<String> = rows.iter().map(|(_, runs)| waits(runs, &size)).collect();
        writeln!(text, "| {size} | {} |", cells.join(" | "))?;
    }
    Ok(())
}

fn waits(runs: &[Measures], size: &str) -> String {
    let of = |which: fn(&simulator::measure::Waits) -> Option<Known>| {
        let known = runs.iter().filter_map(|run| run.waits_of("funded", size).and_then(which));
        Value::Time(mean(&known.collect::<Vec<_>>())).shown()
    };
    format!("{} / {}", of(|waits| waits.p50), of(|waits| waits.p90))
}

/// Returns the mean of times of which some may be lower bounds.
fn mean(times: &[Known]) -> Option<Known> {
    let sum: u64 = times.iter().map(|time| time.ms).sum();
    let ms = sum.checked_div(u64::try_from(times.len()).ok()?)?;
    Some(Known { ms, is_at_least: times.iter().any(|time| time.is_at_least) })
}
