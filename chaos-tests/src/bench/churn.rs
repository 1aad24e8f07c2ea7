//! A year of churn, or a part of it.

use std::time::Instant;

use anyhow::{Context as _, Result};
use scheduler_core::settings::Settings;

use super::rows::{Figures, rate};
use crate::churn::{Churn, churn as run};
use crate::lab::memory_kib;

/// Runs so many jobs through a state with the usual bounds and prints how far it is.
///
/// # Errors
/// With the first law that does not hold.
pub fn churn(figures: &mut Figures, jobs: usize) -> Result<()> {
    let jobs = u64::try_from(jobs).context("a number of jobs")?;
    let settings = Settings { allow_simulated: true, ..Settings::default() };
    let of = Churn { seed: 1, jobs, nodes: 16, check_every: 20_000, again_every: 8, settings };
    let begun = Instant::now();
    let mut told = Instant::now();
    let report = run(&of, |submitted, entries, peaks| {
        if told.elapsed().as_secs() >= 10 {
            told = Instant::now();
            let (minutes, bytes) = (begun.elapsed().as_secs() / 60, peaks.bytes >> 10);
            eprintln!(
                "{submitted} of {jobs} jobs, {entries} entries, {minutes} min, state at most {bytes} KiB"
            );
        }
    })?;
    let took = begun.elapsed();
    let whole = |figures: &mut Figures, figure: &str, value: u64, unit: &str| {
        figures.add(figure, value.to_string().parse().unwrap_or(f64::INFINITY), unit);
    };
    whole(figures, "jobs", jobs, "count");
    whole(figures, "days of cluster time", report.span.as_millis() / 86_400_000, "d");
    whole(figures, "entries", report.entries, "count");
    whole(figures, "of these, refused", report.refused, "count");
    whole(figures, "states restored from a snapshot, alike", report.checks, "count");
    figures.add("took", took.as_secs_f64(), "s");
    figures.add("entries a second, checks included", rate(usize::try_from(report.entries)?, took), "1/s");
    for (table, records) in &report.peaks.records {
        whole(figures, &format!("most {table}"), u64::try_from(*records)?, "count");
    }
    whole(figures, "most bytes of all records", u64::try_from(report.peaks.bytes >> 10)?, "KiB");
    whole(figures, "largest snapshot", u64::try_from(report.peaks.snapshot >> 10)?, "KiB");
    let own = i32::try_from(std::process::id()).context("a process id")?;
    let peak = memory_kib(own, "status", &["VmHWM"]).context("this process's own memory")?;
    whole(figures, "most resident, this whole process", peak >> 10, "MiB");
    Ok(())
}
