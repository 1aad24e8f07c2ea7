//! Placements out of a backlog, and processes found again.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::load::{backlog, caller};
use super::memory::{own_mib, resident_mib};
use super::rows::{Figures, quantile, rate};
use super::scripted::{Life, Scripted};
use crate::lab::{ADMIN, Agent, DEADLINE, Lab, alive, children, parent, try_until};

/// Returns how many placements a second were adopted while a backlog of `count` jobs went through.
fn placements_a_second(lab: &Lab, count: usize) -> Result<f64> {
    let client = lab.client(&caller(0))?;
    let ended = try_until(DEADLINE * 3, || {
        let view = lab.block_on(client.status()).ok()?;
        (view.jobs_waiting == 0 && view.jobs_running == 0).then_some(())
    });
    ended.context("the backlog does not end")?;
    let jobs = lab.block_on(client.jobs())?;
    let ours = jobs.iter().filter(|job| job.name == "backlog");
    let mut placed: Vec<u64> = ours.flat_map(|job| job.attempts.iter().map(|a| a.placed_at)).collect();
    placed.sort_unstable();
    // The newest ones: those of this backlog.
    let placed = placed.split_off(placed.len().saturating_sub(count));
    ensure!(placed.len() == count, "{} of {count} jobs were placed", placed.len());
    let span = placed[count - 1] - placed[0];
    Ok(rate(count - 1, Duration::from_millis(span)))
}

/// Measures with agents, shims and processes.
///
/// # Errors
/// When the backlog does not go through.
pub fn real(figures: &mut Figures, lab: &mut Lab, count: usize) -> Result<()> {
    lab.agents.iter_mut().for_each(Agent::kill);
    backlog(lab, count, "true", DEADLINE * 3)?;
    let parts = lab.parts.clone();
    lab.agents.iter_mut().try_for_each(|agent| agent.start(&parts))?;
    let rate = placements_a_second(lab, count)?;
    figures.at_least("placements adopted from a backlog, real processes", rate, "1/s", 100.0);
    Ok(())
}

/// Measures with agents that report every start and end at once.
///
/// # Errors
/// When the backlog does not go through.
pub fn null(figures: &mut Figures, lab: &mut Lab, count: usize) -> Result<()> {
    const NODES: usize = 16;
    lab.agents.iter_mut().for_each(Agent::kill);
    backlog(lab, count, "true", DEADLINE * 3)?;
    let nodes = (0..NODES).map(|n| Scripted::join(lab, n, Life::Short)).collect::<Result<Vec<_>>>()?;
    let rate = placements_a_second(lab, count)?;
    figures.at_least("placements adopted from a backlog, null executor", rate, "1/s", 500.0);
    drop(nodes);
    Ok(())
}

/// Measures an agent's restart with all its GPUs occupied, and what agent and shim need.
///
/// # Errors
/// When the agent does not come back.
///
/// # Panics
/// When a job does not start.
pub fn restart(figures: &mut Figures, lab: &mut Lab, rounds: usize) -> Result<()> {
    let flags = ["--budget", "a", "--min-runtime", "8h"];
    let gates = (0..8).map(|_| lab.submit_gated(ADMIN, &flags)).collect::<Result<Vec<_>>>()?;
    let processes: Vec<_> = gates.iter().map(|(_, gate)| gate.running()).collect();
    let client = lab.client(ADMIN)?;
    let parts = lab.parts.clone();
    let connected = |lab: &Lab, wanted: bool| {
        let seen = try_until(DEADLINE, || {
            let view = lab.block_on(client.status()).ok()?;
            ((view.agents_connected == view.agents) == wanted).then_some(())
        });
        seen.context("an agent does not come or go")
    };
    connected(lab, true)?;
    let agent = lab.agents[0].pid().context("the agent runs")?;
    let probes: f64 = children(agent).into_iter().filter_map(|pid| own_mib(pid).ok()).sum();
    figures.at_most("agent with 8 GPUs, resident", resident_mib(agent)?, "MiB", 20.0);
    figures.add("its probe, its own pages", probes, "MiB");
    let shim = parent(processes[0].pid).context("a job has a shim")?;
    figures.at_most("shim, anonymous or private dirty", own_mib(shim)?, "MiB", 2.0);
    let mut times = Vec::new();
    for _ in 0..rounds {
        lab.agents[0].kill();
        connected(lab, false)?;
        let begun = Instant::now();
        lab.agents[0].start(&parts)?;
        connected(lab, true)?;
        times.push(begun.elapsed());
    }
    ensure!(processes.iter().all(|process| alive(*process)), "a job ended with its agent");
    ensure!(gates.iter().all(|(_, gate)| gate.runs().len() == 1), "a job was started twice");
    figures.at_most("agent started to all 8 jobs re-adopted, p99", quantile(&times, 99), "ms", 1_000.0);
    gates.iter().for_each(|(_, gate)| gate.open(0));
    Ok(())
}
