//! Leaders killed, one after the other.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::load::{self, Clock};
use super::rows::{Figures, quantile};
use super::writers::{WRITERS, Writers};
use crate::client::{Client, Failed, job, script};
use crate::lab::{ADMIN, DEADLINE, Lab, Plan, Timing, alive, send, try_until};

/// Kills the leader `rounds` times and measures until the next write is acknowledged; then stops the leader's process
/// a quarter as often, and as often lets it hand over.
///
/// # Errors
/// When the cluster does not start, or a round does not end.
///
/// # Panics
/// When the cluster does not come back.
pub fn failover(figures: &mut Figures, rounds: usize) -> Result<()> {
    let _lock = xtask::cluster_lock();
    let mut plan = Plan { nodes: vec![8], timing: Timing::FAST, tree: load::tree(), ..Plan::usual() };
    plan.principals = (0..load::CALLERS).map(load::caller).collect();
    let mut lab = Lab::start(plan)?;
    // All GPUs are taken: what is submitted waits, and no process distorts the figures.
    let (_, gate) = lab.submit_gated(ADMIN, &["--budget", "a", "--gpus", "8", "--min-runtime", "8h"])?;
    let process = gate.running();

    let writers = Writers::start(&lab)?;
    let probe = lab.client(&load::caller(WRITERS))?;
    let clock = lab.block_on(Clock::read(&probe))?;
    let (mut writes, mut links, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        let seen = one_round(&mut lab, &probe, &clock)?;
        match seen.write {
            Ok(took) => writes.push(took),
            Err(error) => failed.push(error),
        }
        links.push(seen.link);
        if round % 10 == 0 {
            eprintln!("{round} of {rounds} rounds");
        }
    }
    let mut stops = Vec::new();
    for _ in 0..rounds.div_ceil(4) {
        match one_stop(&lab, &probe, &clock)? {
            Ok(took) => stops.push(took),
            Err(error) => failed.push(error),
        }
    }
    let mut hand_overs = Vec::new();
    for _ in 0..rounds.div_ceil(4) {
        match one_hand_over(&lab, &probe, &clock)? {
            Ok(took) => hand_overs.push(took),
            Err(error) => failed.push(error),
        }
    }
    let others = writers.end(&lab)?;
    let count = |n: usize| u32::try_from(n).map_or(f64::INFINITY, f64::from);
    figures.add("leaders killed", count(rounds), "count");
    figures.at_most("leader killed to next acknowledged write, p50", quantile(&writes, 50), "ms", 600.0);
    figures.at_most("leader killed to next acknowledged write, p99", quantile(&writes, 99), "ms", 1_000.0);
    figures.at_most("leader killed to next acknowledged write, max", quantile(&writes, 100), "ms", 2_000.0);
    figures.add("leaders stopped (SIGSTOP)", count(stops.len()), "count");
    figures.add("leader stopped to next acknowledged write, p50", quantile(&stops, 50), "ms");
    figures.at_most("leader stopped to next acknowledged write, p99", quantile(&stops, 99), "ms", 1_500.0);
    figures.add("planned hand-overs", count(hand_overs.len()), "count");
    figures.add("longest write across a hand-over, p50", quantile(&hand_overs, 50), "ms");
    figures.at_most("longest write across a hand-over, p99", quantile(&hand_overs, 99), "ms", 100.0);
    figures.at_most("leader killed to agent linked again, p99", quantile(&links, 99), "ms", 10_000.0);
    figures.at_most("failed calls", count(failed.len() + others.failed), "count", 0.0);
    figures.add("writes acknowledged meanwhile", count(others.acknowledged), "count");
    figures.at_most("jobs that ended with a leader", if alive(process) { 0.0 } else { 1.0 }, "count", 0.0);
    for error in failed {
        eprintln!("failed: {error}");
    }
    lab.check();
    Ok(())
}

struct Seen {
    write: Result<Duration, Failed>,
    link: Duration,
}

fn one_round(lab: &mut Lab, probe: &Client, clock: &Clock) -> Result<Seen> {
    let leader = lab.leader();
    // A client that last spoke to the leader is the one that notices.
    let client = probe.from_replica(leader);
    let request = clock.request(job("probe", "a", 1, 0), script("true"))?;
    let killed = Instant::now();
    lab.replicas[leader].kill();
    let write = lab.block_on(client.submit(&request)).map(|_| killed.elapsed());
    let nodes = u32::try_from(lab.agents.len()).context("few nodes")?;
    let linked = try_until(DEADLINE, || {
        let view = lab.block_on(client.status()).ok()?;
        (view.agents_connected == nodes).then(|| killed.elapsed())
    });
    let link = linked.context("the agent does not come back")?;
    let parts = lab.parts.clone();
    lab.replicas[leader].start(&parts)?;
    caught_up(lab, &client, leader)?;
    Ok(Seen { write, link })
}

/// Stops the leader's process, measures, and lets it go on. A client that last spoke to it has an answer when it has
/// asked another replica.
fn one_stop(lab: &Lab, probe: &Client, clock: &Clock) -> Result<Result<Duration, Failed>> {
    let leader = lab.leader();
    let pid = lab.replicas[leader].pid().context("the leader runs")?;
    let client = probe.from_replica(leader);
    let request = clock.request(job("probe", "a", 1, 0), script("true"))?;
    let stopped = Instant::now();
    send(pid, Signal::STOP);
    let write = lab.block_on(client.submit(&request)).map(|_| stopped.elapsed());
    send(pid, Signal::CONT);
    caught_up(lab, &client, leader)?;
    Ok(write)
}

/// Lets the leader hand over while a client writes, one call after the other, until one that began with the next leader
/// is acknowledged; returns the longest.
fn one_hand_over(lab: &Lab, probe: &Client, clock: &Clock) -> Result<Result<Duration, Failed>> {
    let admin = lab.client(ADMIN)?;
    lab.block_on(async {
        let mut moves = pin!(admin.transfer_leader());
        let (mut longest, mut is_over) = (Duration::ZERO, false);
        loop {
            let began_after = is_over;
            let request = clock.request(job("probe", "a", 1, 0), script("true"))?;
            let began = Instant::now();
            let mut write = pin!(probe.submit(&request));
            let written = loop {
                tokio::select! {
                    written = &mut write => break written,
                    moved = &mut moves, if !is_over => match moved {
                        Ok(_) => is_over = true,
                        Err(error) => return Ok(Err(error)),
                    }
                }
            };
            if let Err(error) = written {
                return Ok(Err(error));
            }
            longest = longest.max(began.elapsed());
            if began_after {
                return Ok(Ok(longest));
            }
        }
    })
}

/// Waits until a replica has what the others have.
fn caught_up(lab: &Lab, client: &Client, replica: usize) -> Result<()> {
    let caught_up = try_until(DEADLINE, || {
        let newest = lab.block_on(client.status()).ok()?.as_of?.index;
        let own = lab.block_on(client.status_at(replica)).ok()?.as_of?.index;
        (own + 50 >= newest).then_some(())
    });
    caught_up.context("a replica does not catch up")
}
