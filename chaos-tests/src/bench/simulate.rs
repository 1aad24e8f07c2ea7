//! A month of 1,024 GPUs at three times the demand, in virtual time.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use scheduler_core::unit::Span;
use simulator::scenario::{Duration, shipped};
use simulator::sweep::{self, Case};

use super::rows::{Figures, rate};
use crate::lab::memory_kib;

/// What is run.
const SCENARIO: &str = "month-at-3x";
/// The target of DESIGN 10 is for so many days.
const MONTH: u64 = 30;

/// Runs so many days on one thread.
///
/// # Errors
/// When the scenario does not run.
pub fn simulate(figures: &mut Figures, days: usize) -> Result<()> {
    let days = u64::try_from(days)?;
    let mut scenario = shipped(SCENARIO).with_context(|| format!("`{SCENARIO}` does not ship"))??;
    scenario.length = Some(Duration(Span::from_hours(24 * days)));
    if let simulator::scenario::Jobs::Made(streams) = &mut scenario.jobs {
        // As many jobs as the days need, and some.
        streams.iter_mut().for_each(|made| {
            made.count = made.count.saturating_mul(u32::try_from(days.div_ceil(MONTH)).unwrap_or(1))
        });
    }
    let folder = Path::new(".");
    let case = Case {
        scenario: &scenario,
        folder,
        seed: scenario.seed,
        policy: "bursar".into(),
        variant: Vec::new(),
    };
    let (begun, mut told) = (Instant::now(), Instant::now());
    let ran = sweep::one(&case, &mut |progress| {
        if told.elapsed().as_secs() >= 10 {
            told = Instant::now();
            let day = progress.now.since(progress.begin).as_millis() / 86_400_000;
            eprintln!("day {day} of {days}, {} jobs", progress.submitted);
        }
    })?;
    let took = begun.elapsed();
    let record = &ran.record;
    let mut whole = |figure: &str, value: usize, unit: &str| {
        figures.add(figure, value.to_string().parse().unwrap_or(f64::INFINITY), unit);
    };
    whole("days", usize::try_from(days)?, "d");
    whole("GPUs", record.nodes.iter().map(|node| node.gpus as usize).sum(), "count");
    whole("jobs", record.jobs.len(), "count");
    whole("attempts", record.attempts.len(), "count");
    whole("preemptions", record.preemptions.len(), "count");
    whole("rounds", usize::try_from(record.rounds)?, "count");
    whole("entries", usize::try_from(record.entries)?, "count");
    // Below that the jobs ran out, and it was another month than the one that is promised.
    let demand = ran.measures.load.demand_mean_ratio.unwrap_or(f64::NAN);
    figures.at_least("demand at a moment, mean", demand, "times", 2.9);
    if days == MONTH {
        figures.at_most("took, measures included", took.as_secs_f64(), "s", 30.0);
    } else {
        figures.add("took, measures included", took.as_secs_f64(), "s");
    }
    figures.add("entries a second", rate(usize::try_from(record.entries)?, took), "1/s");
    let own = i32::try_from(std::process::id()).context("a process id")?;
    let peak = memory_kib(own, "status", &["VmHWM"]).context("this process's own memory")?;
    figures.at_most(
        "most resident, this whole process",
        (peak >> 10).to_string().parse().unwrap_or(f64::INFINITY),
        "MiB",
        1_024.0,
    );
    figures.at_most(
        "heads over the bound",
        ran.measures.heads.over.to_string().parse().unwrap_or(f64::INFINITY),
        "count",
        0.0,
    );
    figures.at_most(
        "dates moved otherwise than by a node",
        record.dates.iter().map(|date| f64::from(date.moves_otherwise)).sum(),
        "count",
        0.0,
    );
    Ok(())
}
