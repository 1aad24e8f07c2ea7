//! From a submission to its process.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::time::{ClockId, clock_gettime};

use super::load::{Clock, caller};
use super::rows::{Figures, quantile};
use crate::client::{job, launch};
use crate::lab::{DEADLINE, Lab, try_until};

/// Returns the boot clock, which this process and the jobs share.
pub fn boot_nanos() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// What the job of this measurement does: writes the boot clock into a file, whole.
///
/// # Errors
/// When the file cannot be written.
pub fn stamp(file: &Path) -> Result<()> {
    let now = boot_nanos();
    let fresh = file.with_extension("new");
    fs::write(&fresh, now.to_string()).context("failed to write the stamp")?;
    fs::rename(&fresh, file).context("failed to write the stamp")
}

/// Measures `rounds` times on an idle cluster, by the job's own clock.
///
/// # Errors
/// When a job does not start.
pub fn measure(figures: &mut Figures, lab: &Lab, rounds: usize) -> Result<()> {
    let client = lab.client(&caller(0))?;
    let client = client.from_replica(lab.leader());
    let clock = lab.block_on(Clock::read(&client))?;
    let us = std::env::current_exe().context("failed to find this program's own path")?;
    let us = us.to_str().context("this program's path is no text")?;
    let mut times = Vec::new();
    for round in 0..rounds {
        let file: PathBuf = lab.folder().join(format!("stamp-{round}"));
        let shown = file.to_str().context("the lab's folder has a name that is no text")?;
        let request = clock.request(job("stamp", "a", 1, 0), launch(&[us, "stamp", shown]))?;
        let begun = boot_nanos();
        let number = lab.block_on(client.submit(&request))?;
        let stamp = try_until(DEADLINE, || fs::read_to_string(&file).ok()?.parse::<u64>().ok());
        times.push(Duration::from_nanos(stamp.context("a job does not start")?.saturating_sub(begun)));
        let idle = try_until(DEADLINE, || {
            let has_ended = lab.block_on(client.show(number)).ok()?.state == "ended";
            let pools = lab.block_on(client.status()).ok()?.pools;
            (has_ended && pools.iter().all(|pool| pool.idle == pool.gpus)).then_some(())
        });
        idle.context("a job does not end")?;
    }
    figures.at_most("submission to process start, idle cluster, p50", quantile(&times, 50), "ms", 50.0);
    figures.at_most("submission to process start, idle cluster, p99", quantile(&times, 99), "ms", 250.0);
    Ok(())
}
