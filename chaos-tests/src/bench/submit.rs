//! Submissions: how many, how soon, at what cost.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::load::{self, submissions_a_second};
use super::memory::resident_mib;
use super::rows::Figures;
use super::{adopt, disk, start};
use crate::lab::{ADMIN, Lab, Plan};

/// How long each rate is measured.
const SPAN: Duration = Duration::from_secs(5);

/// Measures all figures around submissions; `rounds` of those that are measured one by one.
///
/// # Errors
/// When a cluster does not start, or a call fails.
///
/// # Panics
/// When a cluster does not come up.
pub fn submit(figures: &mut Figures, rounds: usize) -> Result<()> {
    let _lock = xtask::cluster_lock();
    durable(figures)?;
    let mut lab = Lab::start(plan(vec![8]))?;
    start::measure(figures, &lab, rounds)?;
    adopt::restart(figures, &mut lab, rounds.min(30))?;
    lab.settle()?;
    for n in 2..=4 {
        lab.add_node(n, 8)?;
    }
    lab.wait_nodes();
    adopt::real(figures, &mut lab, 400)?;
    adopt::null(figures, &mut lab, 5_000)
}

/// Returns a lab whose callers may all submit to one leaf.
pub(super) fn plan(nodes: Vec<u32>) -> Plan {
    let mut plan = Plan { nodes, tree: load::tree(), ..Plan::usual() };
    plan.principals = (0..load::CALLERS).map(load::caller).collect();
    plan
}

/// Rates of durable submissions without any node, and what a replica needs for a long line.
fn durable(figures: &mut Figures) -> Result<()> {
    const LINE: u64 = 100_000;
    const FILLING: Duration = Duration::from_secs(90);
    let lab = Lab::start(plan(Vec::new()))?;
    let plain = disk::appends_a_second(lab.folder(), SPAN / 2)?;
    figures.add("plain appends with fdatasync, one writer", plain, "1/s");
    for clients in [1, 16, 64, 256] {
        let rate = submissions_a_second(&lab, clients, SPAN)?;
        figures.add(format!("durable submissions, {clients} clients"), rate, "1/s");
        let plain = disk::appends_a_second(lab.folder(), SPAN / 4)?;
        figures.add(format!("the same against plain appends, {clients} clients"), rate / plain, "ratio");
    }
    let admin = lab.client(ADMIN)?;
    let waiting = lab.block_on(admin.status())?.jobs_waiting;
    let more = usize::try_from(LINE.saturating_sub(waiting)).context("a small number")?;
    load::backlog(&lab, more, "true", FILLING)?;
    let waiting = lab.block_on(admin.status())?.jobs_waiting;
    let leader = lab.leader();
    for (n, replica) in lab.replicas.iter().enumerate() {
        let role = if n == leader { "leader" } else { "follower" };
        let pid = replica.pid().context("a replica runs")?;
        let (figure, value) = (format!("{role}, resident, {waiting} waiting jobs"), resident_mib(pid)?);
        match waiting >= LINE {
            true => figures.at_most(figure, value, "MiB", 400.0),
            // Not as long a line as the target is for: this machine is too slow to make it in time.
            false => figures.add(figure, value, "MiB"),
        }
    }
    Ok(())
}
