//! Leaders killed, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::load::{self, Clock};
use super::rows::{Figures, quantile};
use crate::client::{Client, Failed, job, script};
use crate::lab::{ADMIN, DEADLINE, Lab, Plan, Timing, alive, send, try_until};

/// Between two writes of a client that writes throughout.
const PACE: Duration = Duration::from_millis(20);
/// Clients that write throughout.
const WRITERS: usize = 4;

/// Kills the leader `rounds` times and measures until the next write is acknowledged; then stops and hands over a
/// quarter as often.
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
    let others = writers.end(&lab)?;
    let count = |n: usize| u32::try_from(n).map_or(f64::INFINITY, f64::from);
    figures.add("leaders killed", count(rounds), "count");
    figures.at_most("leader killed to next acknowledged write, p50", quantile(&writes, 50), "ms", 600.0);
    figures.at_most("leader killed to next acknowledged write, p99", quantile(&writes, 99), "ms", 1_000.0);
    figures.at_most("leader killed to next acknowledged write, max", quantile(&writes, 100), "ms", 2_000.0);
    figures.add("leaders stopped (SIGSTOP)", count(stops.len()), "count");
    figures.add("leader stopped to next acknowledged write, p50", quantile(&stops, 50), "ms");
    figures.at_most("leader stopped to next acknowledged write, p99", quantile(&stops, 99), "ms", 1_500.0);
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

/// Waits until a replica has what the others have.
fn caught_up(lab: &Lab, client: &Client, replica: usize) -> Result<()> {
    let caught_up = try_until(DEADLINE, || {
        let newest = lab.block_on(client.status()).ok()?.as_of?.index;
        let own = lab.block_on(client.status_at(replica)).ok()?.as_of?.index;
        (own + 50 >= newest).then_some(())
    });
    caught_up.context("a replica does not catch up")
}

/// Clients that write all the time.
struct Writers {
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<Result<()>>>,
}

/// What they saw.
struct Wrote {
    acknowledged: usize,
    failed: usize,
}

impl Writers {
    fn start(lab: &Lab) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (acknowledged, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = Vec::new();
        for n in 0..WRITERS {
            let client = lab.client(&load::caller(n))?.from_replica(n);
            let clock = lab.block_on(Clock::read(&client))?;
            let (is_over, acknowledged, failed) =
                (Arc::clone(&is_over), Arc::clone(&acknowledged), Arc::clone(&failed));
            tasks.push(lab.handle().spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    match client.submit(&clock.request(job("write", "a", 1, 0), script("true"))?).await {
                        Ok(_) => acknowledged.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            eprintln!("failed: {error}");
                            failed.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                    tokio::time::sleep(PACE).await;
                }
                Ok(())
            }));
        }
        Ok(Self { is_over, acknowledged, failed, tasks })
    }

    fn end(self, lab: &Lab) -> Result<Wrote> {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            lab.block_on(task).context("a writer ended")??;
        }
        let wrote = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Ok(Wrote { acknowledged: wrote(&self.acknowledged), failed: wrote(&self.failed) })
    }
}
