//! Makes `docs/findings.md`: real traces under ours and under other policies, and sweeps of settings.
//!
//! `cargo xtask findings` runs it. The traces are others' and not part of the repository: `BURSAR_TRACES` names their
//! folder (docs/users/traces.md says where they come from).

mod toy;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use simulator::measure::Measures;
use simulator::report::{FIGURES, Value};
use simulator::scenario::{Load, Scenario, TRACES, shipped};
use simulator::sweep::{self, Case, Variant};

/// What stands before and after the tables, written by people who looked at them.
const BEFORE: &str = include_str!("before.md");
const AFTER: &str = include_str!("after.md");

const REAL: [&str; 2] = ["helios-venus", "philly"];
const SEEDS: u64 = 3;
/// Sweeps have many rows, and others' policies take their time.
const SWEEP_SEEDS: u64 = 2;
const POLICY_SEEDS: u64 = 1;

/// Who is compared.
const POLICIES: [&str; 4] = ["bursar", "fifo", "levels", "slurm"];

/// The figures of the main tables, with their headings, and how seeds are put together.
const MAIN: [(&str, &str, Over); 16] = [
    ("offered_load", "offered load", Over::Mean),
    ("demand_mean", "demand, mean", Over::Mean),
    ("owed_mean", "owed", Over::Mean),
    ("owed_worst", "worst", Over::Least),
    ("owed_95", "≥ 95 %", Over::First),
    ("occupancy", "occupied", Over::Mean),
    ("free_share", "free tier", Over::Mean),
    ("debug_p90_ms", "debug p90", Over::Mean),
    ("wait_p50_ms", "p50", Over::Mean),
    ("wait_p90_ms", "p90", Over::Mean),
    ("wait_large_p90_ms", "64+ p90", Over::Mean),
    ("head_longest_ms", "head max", Over::Most),
    ("head_over", "over bound", Over::Most),
    ("preemptions_per_1000_gpu_h", "preempted per 1,000 GPU-h", Over::Mean),
    ("lost_funded", "lost, funded", Over::Mean),
    ("wasted", "wasted", Over::Most),
];

/// And of the sweeps.
const SWEPT: [(&str, &str, Over); 9] = [
    ("owed_mean", "owed", Over::Mean),
    ("owed_worst", "worst", Over::Least),
    ("occupancy", "occupied", Over::Mean),
    ("debug_p90_ms", "debug p90", Over::Mean),
    ("wait_p90_ms", "p90", Over::Mean),
    ("wait_large_p90_ms", "64+ p90", Over::Mean),
    ("head_longest_ms", "head max", Over::Most),
    ("lost_funded", "lost, funded", Over::Mean),
    ("flips", "flips", Over::Mean),
];

/// What is swept: the first value is the default.
const SWEEPS: [(&str, &[&str]); 10] = [
    ("window", &["7d", "1d", "14d"]),
    ("cap", &["8h", "2h", "4h", "16h"]),
    ("margin_ppm", &["100000", "0", "20000", "200000"]),
    ("dates", &["yes", "no"]),
    ("more_dates_ppm", &["0", "100000"]),
    ("date_margin", &["2h", "50ms"]),
    ("free_grace", &["15s", "120s"]),
    ("short_later", &["no", "yes"]),
    ("short_lane_ppm", &["0", "100000"]),
    ("burst_limit_pct", &["0", "200"]),
];

/// How the runs of several seeds become one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Mean,
    Most,
    Least,
    First,
}

/// A part of the page.
type Part = fn(&mut String, &Path) -> Result<()>;

fn main() -> Result<()> {
    let out: PathBuf = std::env::args().nth(1).unwrap_or_else(|| "docs/findings.md".into()).into();
    let traces = std::env::var_os(TRACES).map(PathBuf::from);
    let traces =
        traces.with_context(|| format!("{TRACES} names no folder with traces; see docs/users/traces.md"))?;
    let mut text = String::from(BEFORE);
    let parts: [(&str, Part); 4] =
        [("demand", demand), ("sweeps", sweeps), ("policies", policies), ("toy", toy::toy)];
    for (name, part) in parts {
        eprintln!("{name}");
        part(&mut text, &traces)?;
        // A run takes long: what is there is worth keeping.
        std::fs::write(out.with_extension("part"), &text)?;
    }
    text.push_str(AFTER);
    std::fs::remove_file(out.with_extension("part"))?;
    std::fs::write(&out, text).with_context(|| format!("cannot write {}", out.display()))
}

fn real(name: &str, demand: f64) -> Result<Scenario> {
    let scenario = shipped(name).with_context(|| format!("`{name}` does not ship"))??;
    Ok(Scenario { load: Load::Demand(demand), ..scenario })
}

/// Runs a scenario with all seeds under each of the policies and variants; returns the runs of each, in order.
fn runs(
    scenario: &Scenario,
    folder: &Path,
    policies: &[&str],
    variants: &[Variant],
    seeds: u64,
) -> Result<Vec<Vec<Measures>>> {
    let mut cases = Vec::new();
    for policy in policies {
        for variant in variants {
            for seed in 0..seeds {
                cases.push(Case {
                    scenario,
                    folder,
                    seed: scenario.seed + seed,
                    policy: (*policy).to_owned(),
                    variant: variant.clone(),
                });
            }
        }
    }
    let made = sweep::all(&cases, None, &|_, _| (), &|at, ran| {
        eprintln!("  {} of {}", at + 1, cases.len());
        ran.measures
    })?;
    Ok(made.chunks(usize::try_from(seeds)?).map(<[Measures]>::to_vec).collect())
}

fn demand(text: &mut String, traces: &Path) -> Result<()> {
    let mut rows = Vec::new();
    let mut waits = Vec::new();
    for name in REAL {
        for demand in [2.0, 3.0] {
            let mut made = runs(&real(name, demand)?, traces, &["bursar"], &[Variant::new()], SEEDS)?;
            let made = made.pop().context("runs")?;
            let named = format!("{name}, demand {demand}");
            waits.extend(made.first().map(|run| (named.clone(), run.clone())));
            rows.push((named, made));
        }
    }
    writeln!(text, "\n## Demand two and three times the supply\n")?;
    table(text, "trace", &MAIN, &rows)?;
    writeln!(text, "\n### Waits of funded jobs by size, first seed\n")?;
    by_size(text, &waits)
}

fn by_size(text: &mut String, runs: &[(String, Measures)]) -> Result<()> {
    let mut sizes = Vec::new();
    for (_, run) in runs {
        for waits in run.waits.iter().filter(|waits| waits.of == "funded") {
            if !sizes.contains(&waits.gpus) {
                sizes.push(waits.gpus.clone());
            }
        }
    }
    let mut grid: BTreeMap<(usize, usize), String> = BTreeMap::new();
    for (column, (_, run)) in runs.iter().enumerate() {
        for (row, size) in sizes.iter().enumerate() {
            if let Some(waits) = run.waits_of("funded", size) {
                let shown = |known| Value::Time(known).shown();
                grid.insert((row, column), format!("{} / {}", shown(waits.p50), shown(waits.p90)));
            }
        }
    }
    let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    writeln!(text, "| GPUs | {} |", names.join(" | "))?;
    writeln!(text, "| --- |{}", " ---: |".repeat(names.len()))?;
    for (row, size) in sizes.iter().enumerate() {
        let cells: Vec<&str> =
            (0..runs.len()).map(|column| grid.get(&(row, column)).map_or("-", String::as_str)).collect();
        writeln!(text, "| {size} | {} |", cells.join(" | "))?;
    }
    writeln!(
        text,
        "\np50 / p90 from submission to first start; `>` where a job still waited at the end of the run."
    )?;
    Ok(())
}

fn policies(text: &mut String, traces: &Path) -> Result<()> {
    for name in REAL {
        let made = runs(&real(name, 3.0)?, traces, &POLICIES, &[Variant::new()], POLICY_SEEDS)?;
        let rows: Vec<_> = POLICIES.iter().map(|name| (*name).to_owned()).zip(made).collect();
        writeln!(text, "\n## Policies: {name} at demand 3\n")?;
        table(text, "policy", &MAIN, &rows)?;
    }
    Ok(())
}

fn sweeps(text: &mut String, traces: &Path) -> Result<()> {
    writeln!(text, "\n## Sweeps: {} at demand 3, one setting at a time\n", REAL[1])?;
    let scenario = real(REAL[1], 3.0)?;
    for (key, values) in SWEEPS {
        if scheduler_core::settings::Kind::of(key).is_none() {
            writeln!(text, "\n`{key}`: this build has no such setting.")?;
            continue;
        }
        eprintln!(" {key}");
        let variants: Vec<Variant> =
            values.iter().map(|value| vec![(key.to_owned(), (*value).to_owned())]).collect();
        let made = runs(&scenario, traces, &["bursar"], &variants, SWEEP_SEEDS)?;
        let named = values
            .iter()
            .enumerate()
            .map(|(at, value)| format!("{value}{}", if at == 0 { " (default)" } else { "" }));
        let rows: Vec<_> = named.zip(made).collect();
        writeln!(text)?;
        table(text, &format!("`{key}`"), &SWEPT, &rows)?;
    }
    Ok(())
}

fn table(
    text: &mut String,
    first: &str,
    figures: &[(&str, &str, Over)],
    rows: &[(String, Vec<Measures>)],
) -> Result<()> {
    let headings: Vec<&str> = figures.iter().map(|(_, heading, _)| *heading).collect();
    writeln!(text, "| {first} | {} |", headings.join(" | "))?;
    writeln!(text, "| --- |{}", " ---: |".repeat(figures.len()))?;
    for (name, runs) in rows {
        let cells: Vec<String> = figures.iter().map(|(key, _, over)| cell(key, *over, runs)).collect();
        writeln!(text, "| {name} | {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// Puts the values of several seeds together: means of ratios and times, the worst of what must not happen.
#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn cell(key: &str, over: Over, runs: &[Measures]) -> String {
    let Some(figure) = FIGURES.iter().find(|figure| figure.key == key) else { return "-".into() };
    let values: Vec<Value> = runs.iter().map(figure.value).collect();
    let numbers: Vec<f64> = values.iter().filter_map(number).collect();
    if numbers.len() < values.len() || over == Over::First {
        return values.first().map_or_else(|| "-".into(), Value::shown);
    }
    let number = match over {
        Over::Mean => numbers.iter().sum::<f64>() / numbers.len() as f64,
        Over::Most => numbers.iter().copied().fold(f64::MIN, f64::max),
        Over::Least | Over::First => numbers.iter().copied().fold(f64::MAX, f64::min),
    };
    like(&values, number)
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Ratio(ratio) | Value::Times(ratio) => *ratio,
        Value::Time(known) => known.as_ref().map(|known| known.ms as f64),
        Value::Count(count) | Value::GpuTime(count) => Some(*count as f64),
        Value::Job(_) | Value::Of(..) => None,
    }
}

/// Shows a number as the values that it was made from are shown; a lower bound among them makes it one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "none is negative or large")]
fn like(values: &[Value], number: f64) -> String {
    let is_at_least =
        values.iter().any(|value| matches!(value, Value::Time(Some(known)) if known.is_at_least));
    match values.first() {
        Some(Value::Ratio(_)) => Value::Ratio(Some(number)).shown(),
        Some(Value::Times(_)) => Value::Times(Some(number)).shown(),
        Some(Value::Time(Some(_))) => {
            let mean = simulator::measure::Known { ms: number as u64, is_at_least };
            Value::Time(Some(mean)).shown()
        }
        Some(Value::GpuTime(_)) => Value::GpuTime(number as u64).shown(),
        _ => Value::Count(number.round() as u64).shown(),
    }
}
