//! Plain rows for a terminal: whoever prints them decides on lines and colours.

use std::collections::BTreeSet;

use super::figures::{FIGURES, figure_of};
use super::words;
use crate::measure::{Measures, Waits};

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// What it shows; empty where that is plain from around it.
    pub title: String,
    /// Its columns. A unit stands in brackets where the cells have none.
    pub headers: Vec<String>,
    /// Its rows, as long as `headers`.
    pub rows: Vec<Vec<String>>,
    /// What a reader should know, a line each.
    pub notes: Vec<String>,
}

/// The figures in the columns of [`table`], with their headers.
const COMPARED: [(&str, &str); 10] = [
    ("owed_mean", "OWED TIME DELIVERED"),
    ("owed_worst", "WORST BUDGET"),
    ("owed_95", "95% OR MORE"),
    ("debug_p90_ms", "WAIT p90 debug"),
    ("wait_p90_ms", "WAIT p90 funded"),
    ("wait_large_p90_ms", "WAIT p90 >=64 GPUs"),
    ("head_longest_ms", "HEAD longest"),
    ("preemptions_per_1000_gpu_h", "PREEMPTED per 1,000 GPU-h"),
    ("lost_funded", "LOST funded"),
    ("occupancy", "OCCUPANCY"),
];

/// Compares runs, one a row. Runs that only their seed tells apart are one row: the mean of each figure, or the worst seed
/// where the figure is about the worst.
#[must_use]
pub fn table(runs: &[Measures]) -> Table {
    let (first, names) = names(runs);
    let mut rows: Vec<(String, Vec<&Measures>)> = Vec::new();
    for (run, name) in runs.iter().zip(names) {
        match rows.iter_mut().find(|(of, _)| *of == name) {
            Some((_, seeds)) => seeds.push(run),
            None => rows.push((name, vec![run])),
        }
    }
    let most_seeds = rows.iter().map(|(_, seeds)| seeds.len()).max().unwrap_or(0);
    let mut headers = vec![first];
    headers.extend(COMPARED.iter().map(|(_, header)| (*header).to_owned()));
    let shown = rows.into_iter().map(|(name, seeds)| {
        let cells =
            COMPARED.iter().filter_map(|(key, _)| figure_of(key)).map(|figure| match seeds.as_slice() {
                [run] => (figure.value)(run).shown(),
                seeds => figure.over(seeds).shown(),
            });
        std::iter::once(name).chain(cells).collect()
    });
    let mut table = Table { title: headline(runs), headers, rows: shown.collect(), notes: notes(runs) };
    if most_seeds > 1 {
        let worst = "the worst seed of WORST BUDGET, 95% OR MORE and HEAD longest";
        table.notes.insert(0, format!("Mean of {most_seeds} seeds; {worst}."));
    }
    table
}

/// All figures of one or several runs: one a row, with the runs beside each other.
#[must_use]
pub fn figures(runs: &[Measures]) -> Table {
    let (_, names) = names(runs);
    let has_seeds = runs.iter().any(|run| run.run.seed != runs[0].run.seed);
    let names = runs.iter().zip(names).map(|(run, name)| match has_seeds {
        true => format!("{name} seed {}", run.run.seed),
        false => name,
    });
    let headers = std::iter::once("FIGURE".to_owned()).chain(names).collect();
    let rows = FIGURES.iter().map(|figure| {
        let values = runs.iter().map(|run| (figure.value)(run).shown());
        std::iter::once(figure.name.to_owned()).chain(values).collect()
    });
    Table { title: headline(runs), headers, rows: rows.collect(), notes: notes(runs) }
}

/// The details of one run: leaves, waits, the bill, room.
#[must_use]
pub fn details(run: &Measures) -> Vec<Table> {
    vec![leaves(run), waits(run), bill(run), classes(run)]
}

/// Returns what the runs have in common, in a line.
fn headline(runs: &[Measures]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let run = &first.run;
    let seeds: BTreeSet<u64> = runs.iter().map(|run| run.run.seed).collect();
    let seeds = match seeds.len() {
        1 => format!("seed {}", run.seed),
        many => format!("{many} seeds"),
    };
    let count = match runs.len() {
        1 => String::new(),
        many => format!(", {many} runs"),
    };
    let length = words::length(run.end_ms.saturating_sub(run.begin_ms));
    let (jobs, gpus) = (words::grouped(first.jobs.submitted), words::grouped(run.gpus));
    format!("{}: {length}, {jobs} jobs, {gpus} GPUs, {seeds}{count}", run.scenario)
}

/// Returns the header of the names' column, and what tells each run from the others, but for its seed.
fn names(runs: &[Measures]) -> (String, Vec<String>) {
    let differ = |of: fn(&Measures) -> String| runs.iter().map(of).collect::<BTreeSet<_>>().len() > 1;
    let scenarios = differ(|run| run.run.scenario.clone());
    let policies = differ(|run| run.run.policy.clone()) || runs.iter().all(|run| run.run.variant.is_empty());
    let name = |run: &Measures| {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(scenarios.then(|| run.run.scenario.clone()));
        parts.extend(policies.then(|| run.run.policy.clone()));
        parts.extend(run.run.variant.iter().cloned());
        if !policies && run.run.variant.is_empty() {
            parts.push("as in the scenario".to_owned());
        }
        parts.join(" ")
    };
    let header = if policies && !scenarios { "POLICY" } else { "RUN" };
    (header.to_owned(), runs.iter().map(name).collect())
}

fn notes(runs: &[Measures]) -> Vec<String> {
    let mut notes = Vec::new();
    let is_open = |run: &Measures| run.waits.iter().any(|waits| waits.not_over > 0);
    if runs.iter().any(is_open) {
        notes.push(
            "> a lower bound: some waits were not over when the run ended, or the job was withdrawn.".into(),
        );
    }
    for run in runs {
        let over = run.heads.over - run.heads.over_with_reason;
        if over > 0 {
            let bound = words::span(run.heads.bound_ms);
            notes.push(format!("{}: {over} waits at the head broke the bound of {bound}.", run.run.policy));
        }
        if run.classes.held_twice_gpu_ms > 0 {
            notes.push(format!("{}: GPUs were held twice: its figures mean nothing.", run.run.policy));
        }
    }
    notes.push("Direction is reliable, exact size is not.".to_owned());
    notes
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), words::percent)
}

fn headers(headers: &[&str]) -> Vec<String> {
    headers.iter().map(|header| (*header).to_owned()).collect()
}

/// Owed and delivered by leaf.
pub(super) fn leaves(run: &Measures) -> Table {
    let rows = run.delivery.leaves.iter().map(|leaf| {
        let used = run.used.iter().find(|used| used.budget == leaf.budget);
        let use_mean =
            used.and_then(|used| used.mean_ratio).map_or_else(|| "-".to_owned(), |m| format!("{m:.2}"));
        vec![
            leaf.budget.clone(),
            words::hours(leaf.allocation_gpu_ms),
            words::hours(leaf.demand_gpu_ms),
            words::hours(leaf.owed_gpu_ms),
            words::hours(leaf.delivered_gpu_ms),
            ratio(leaf.period_ratio),
            ratio(leaf.strict_ratio),
            use_mean,
            words::hours(leaf.free_gpu_ms),
        ]
    });
    Table {
        title: "Owed and delivered".to_owned(),
        headers: headers(&[
            "BUDGET",
            "ALLOCATION [GPU-h]",
            "DEMAND [GPU-h]",
            "OWED [GPU-h]",
            "DELIVERED [GPU-h]",
            "OF OWED",
            "HOUR BY HOUR",
            "USE mean",
            "FREE TIER [GPU-h]",
        ]),
        rows: rows.collect(),
        notes: vec![
            "Owed = min(allocation of the hour, demand), added up. A budget may get more than it is owed."
                .into(),
        ],
    }
}

/// Waits by size, tier and leaf.
pub(super) fn waits(run: &Measures) -> Table {
    let time = |time: Option<_>| time.map_or_else(|| "-".to_owned(), words::known);
    let row = |waits: &Waits| {
        vec![
            waits.of.clone(),
            waits.gpus.clone(),
            words::grouped(waits.jobs),
            words::grouped(waits.not_over),
            time(waits.p50),
            time(waits.p90),
            time(waits.p99),
            time(waits.longest),
        ]
    };
    Table {
        title: "Waits for the first start".to_owned(),
        headers: headers(&["OF", "GPUS", "JOBS", "NOT OVER", "p50", "p90", "p99", "LONGEST"]),
        rows: run.waits.iter().filter(|waits| waits.jobs > 0).map(row).collect(),
        notes: vec!["> a lower bound: a wait that is not over counts with what it was so far.".to_owned()],
    }
}

/// The bill by cause and tier.
pub(super) fn bill(run: &Measures) -> Table {
    let cells = |of: &str, tier: &str, cost: &crate::measure::Cost| {
        vec![
            of.to_owned(),
            tier.to_owned(),
            words::grouped(cost.preemptions),
            cost.per_1000_gpu_h.map_or_else(|| "-".to_owned(), |n| format!("{n:.2}")),
            words::hours(cost.lost_gpu_ms),
            ratio(cost.lost_ratio),
        ]
    };
    let causes = run.bill.causes.iter().map(|row| cells(&row.cause, &row.tier, &row.cost));
    let tiers = run.bill.tiers.iter().map(|row| cells("any", &row.tier, &row.cost));
    let total = std::iter::once(cells("any", "both", &run.bill.total));
    Table {
        title: "The bill".to_owned(),
        headers: headers(&[
            "CAUSE",
            "TIER",
            "PREEMPTIONS",
            "PER 1,000 GPU-h",
            "LOST [GPU-h]",
            "LOST of the tier's delivered",
        ]),
        rows: causes.chain(tiers).chain(total).collect(),
        notes: vec![format!("Wasted: {}. Flips: {}.", run.bill.wasted, run.bill.flips)],
    }
}

/// GPU time by class.
pub(super) fn classes(run: &Measures) -> Table {
    let classes = &run.classes;
    let parts = [
        ("funded, protected", classes.protected_gpu_ms),
        ("funded, interruptible", classes.funded_gpu_ms.saturating_sub(classes.protected_gpu_ms)),
        ("free tier", classes.free_gpu_ms),
        ("handover", classes.handover_gpu_ms),
        ("overhead", classes.overhead_gpu_ms),
        ("idle", classes.idle_gpu_ms),
        ("unavailable", classes.unavailable_gpu_ms),
    ];
    let row = |(name, gpu_ms): (&str, u64)| {
        let part = crate::measure::number::ratio(gpu_ms, classes.total_gpu_ms);
        vec![name.to_owned(), words::hours(gpu_ms), ratio(part)]
    };
    Table {
        title: "GPU time by class".to_owned(),
        headers: headers(&["CLASS", "GPU-h", "OF ALL"]),
        rows: parts.into_iter().map(row).collect(),
        notes: vec!["The classes add up to all GPUs times the whole time.".to_owned()],
    }
}
