//! What processes need.

use anyhow::{Context as _, Result};

use crate::lab::memory_kib;

/// Returns what a process has in memory, in MiB.
///
/// # Errors
/// When it is gone.
pub fn resident_mib(pid: i32) -> Result<f64> {
    mib(memory_kib(pid, "status", &["VmRSS"]), pid)
}

/// Returns what a process has in memory for itself alone, in MiB: anonymous or private dirty pages, whichever are
/// more, for most are both.
///
/// # Errors
/// When it is gone.
pub fn own_mib(pid: i32) -> Result<f64> {
    let figure = |name| memory_kib(pid, "smaps_rollup", &[name]);
    mib(figure("Anonymous").max(figure("Private_Dirty")), pid)
}

fn mib(kib: Option<u64>, pid: i32) -> Result<f64> {
    let kib = kib.with_context(|| format!("process {pid} is gone"))?;
    Ok(u32::try_from(kib).map_or(f64::INFINITY, f64::from) / 1024.0)
}
