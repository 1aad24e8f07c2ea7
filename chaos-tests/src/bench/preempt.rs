//! A job that takes another's GPU, on a full cluster with a long line.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use proto::v1::JobRequest;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::load::{self, Clock, caller, fill};
use super::rows::{Figures, quantile};
use super::scripted::{Heard, Life, Scripted};
use crate::client::{Client, job, script};
use crate::lab::{ADMIN, DEADLINE, Lab, Plan, try_until};

const NODES: usize = 128;
/// GPUs of all nodes, each with a job.
const GPUS: usize = 1_024;
/// Jobs that wait behind them all the time.
const LINE: usize = 9_000;
/// How long the line may take to come about.
const FILLING: Duration = Duration::from_secs(300);

/// What one round took.
struct Round {
    /// From the decision to the notice at the node.
    notice: Duration,
    /// From the notice, which the job obeys at once, to the order to run: its GPU is proven empty, and the other's.
    free: Duration,
    /// From the submission to the order to run.
    all: Duration,
}

/// Measures `rounds` preemptions of one GPU, one after the other. Nodes are scripted: jobs leave at their notice, so no
/// grace is in the figures.
///
/// # Errors
/// When the cluster does not come about, or a job does not start.
///
/// # Panics
/// When the cluster does not come up.
pub fn preempt(figures: &mut Figures, rounds: usize) -> Result<()> {
    let _lock = xtask::cluster_lock();
    let lab = Lab::start(plan())?;
    let (heard, mut orders) = unbounded_channel();
    let life = Life::Long { but: "a".to_owned(), heard };
    let nodes = (0..NODES).map(|n| Scripted::join(&lab, n, life.clone())).collect::<Result<Vec<_>>>()?;
    let admin = lab.client(ADMIN)?;
    fill(&lab, GPUS + LINE, &resumable("b"), &script("true"), FILLING)?;
    is_full(&lab, &admin)?;
    let waiting = lab.block_on(admin.status())?.jobs_waiting;
    let count = |n: usize| u32::try_from(n).map_or(f64::INFINITY, f64::from);
    figures.add("GPUs, each with a job", count(GPUS), "count");
    figures.add("waiting jobs", u32::try_from(waiting).map_or(f64::INFINITY, f64::from), "count");

    let client = lab.client(&caller(0))?;
    let client = client.from_replica(lab.leader());
    let clock = lab.block_on(Clock::read(&client))?;
    let mut seen = Vec::new();
    for round in 1..=rounds {
        seen.push(one_round(&lab, &client, &clock, &mut orders)?);
        is_full(&lab, &admin)?;
        if round % 50 == 0 {
            eprintln!("{round} of {rounds} rounds");
        }
    }
    let of = |part: fn(&Round) -> Duration| seen.iter().map(part).collect::<Vec<_>>();
    let parts = [
        ("decision to notice at the node", of(|round| round.notice)),
        ("notice to the GPU's next order to run, without grace", of(|round| round.free)),
    ];
    for (what, times) in &parts {
        figures.add(format!("{what}, p50"), quantile(times, 50), "ms");
        figures.add(format!("{what}, p99"), quantile(times, 99), "ms");
    }
    let all = of(|round| round.all);
    figures.at_most("submission to order to run, taking one GPU, p50", quantile(&all, 50), "ms", 100.0);
    figures.at_most("submission to order to run, taking one GPU, p99", quantile(&all, 99), "ms", 100.0);
    let bill = lab.block_on(admin.bill(None, "cause"))?;
    figures.at_most("wasted preemptions in the window", f64::from(bill.wasted), "count", 0.0);
    lab.check();
    drop(nodes);
    Ok(())
}

/// Two budgets with a half each, and a window so short that the one that has everything is over its share.
fn plan() -> Plan {
    let members: Vec<String> = (0..load::CALLERS).map(caller).collect();
    let members = members.join(", ");
    Plan {
        nodes: Vec::new(),
        principals: (0..load::CALLERS).map(caller).collect(),
        settings: ["window=60s", "grace=2s", "restart_guess=1s"].map(String::from).to_vec(),
        tree: format!(
            "name: lab\nowner: ops\nchildren:\n  - {{ name: a, share: 50, members: [{members}] }}\n  \
             - {{ name: b, share: 50, members: [{members}] }}\n"
        ),
        ..Plan::usual()
    }
}

/// Returns a resumable job of one GPU, protected for a second.
fn resumable(budget: &str) -> JobRequest {
    JobRequest { resumable: Some(true), ..job("one", budget, 1, 1_000) }
}

/// Waits until every GPU is with a job that runs: one that gave way before is protected for a while, all others may be
/// taken.
fn is_full(lab: &Lab, client: &Client) -> Result<()> {
    let full = try_until(DEADLINE, || {
        let pools = lab.block_on(client.status()).ok()?.pools;
        let running = pools.iter().map(|pool| pool.protected + pool.interruptible).sum::<u32>();
        let may_be_taken = pools.iter().any(|pool| pool.interruptible > pool.protected);
        (usize::try_from(running) == Ok(GPUS) && may_be_taken).then_some(())
    });
    full.with_context(|| format!("the cluster is not full: {}", lab.bursar(&["queue"]).out))
}

fn one_round(
    lab: &Lab,
    client: &Client,
    clock: &Clock,
    orders: &mut UnboundedReceiver<Heard>,
) -> Result<Round> {
    while orders.try_recv().is_ok() {}
    let request = clock.request(resumable("a"), script("true"))?;
    let begun = Instant::now();
    let number = lab.block_on(client.submit(&request))?;
    let mut stop = None;
    let run = loop {
        // Made inside, where the runtime is.
        let order = lab.block_on(async {
            let next = tokio::time::timeout(DEADLINE, orders.recv());
            next.await.context("nobody gives way")?.context("no node is left")
        })?;
        match (order.is_run, order.job == number) {
            (true, true) => break order,
            (false, false) => stop = Some(order),
            // The one that gave way, or the next in line, goes on elsewhere.
            (true, false) | (false, true) => {}
        }
    };
    let stop = stop.context("it took nothing")?;
    let view = lab.block_on(client.show(number))?;
    let decided = view.attempts.first().context("it was placed")?.placed_at;
    ensure!(view.attempts.len() == 1, "it was placed twice: {view:#?}");
    Ok(Round {
        notice: Duration::from_millis(clock.at(stop.at).saturating_sub(decided)),
        free: run.at.duration_since(stop.at),
        all: run.at.duration_since(begun),
    })
}
