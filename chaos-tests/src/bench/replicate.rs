//! Durable submissions against what else makes bytes durable on this machine: etcd's puts of the same size, and a plain
//! file. Rounds are interleaved, and only ratios of one round are compared: the machine is never twice the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use prost::Message as _;

use super::etcd::{Etcd, Puts};
use super::load::{self, submissions_a_second};
use super::rows::{Figures, middle, rate};
use super::{disk, submit};
use crate::client::{fresh_mark, job, script};
use crate::lab::Lab;

/// How long each side of a round is measured.
const SPAN: Duration = Duration::from_secs(3);
/// Clients at once, and what is asked of the ratio to etcd.
const CLIENTS: [(usize, f64); 4] = [(1, 0.9), (16, 1.0), (64, 1.0), (256, 0.7)];

/// Measures `rounds` rounds at each number of clients.
///
/// # Errors
/// When a cluster does not start, or a call fails.
///
/// # Panics
/// When a cluster does not come up.
pub fn replicate(figures: &mut Figures, rounds: usize) -> Result<()> {
    let _lock = xtask::cluster_lock();
    let lab = Lab::start(submit::plan(Vec::new()))?;
    let etcd = Etcd::start(lab.folder())?;
    match &etcd {
        Some(etcd) => eprintln!("measured against {}", etcd.version),
        None => xtask::not_available("no etcd is installed (Debian: apt-get install etcd-server)"),
    }
    let payload = fresh_mark(0).map(|mark| proto::v1::SubmitRequest {
        mark: Some(mark),
        job: Some(job("load", "a", 1, 0)),
        launch: Some(script("true")),
    })?;
    let size = payload.encoded_len();
    figures.add("payload", f64::from(u32::try_from(size).context("a small payload")?), "bytes");
    for (clients, target) in CLIENTS {
        let mut seen = Seen::default();
        for _ in 0..rounds {
            seen.one_round(&lab, etcd.as_ref(), clients, size)?;
        }
        seen.tell(figures, clients, target);
    }
    Ok(())
}

/// What one number of clients saw, a value a round.
#[derive(Default)]
struct Seen {
    ours: Vec<f64>,
    theirs: Vec<f64>,
    plain: Vec<f64>,
}

impl Seen {
    fn one_round(&mut self, lab: &Lab, etcd: Option<&Etcd>, clients: usize, size: usize) -> Result<()> {
        self.ours.push(submissions_a_second(lab, clients, SPAN)?);
        if let Some(etcd) = etcd {
            self.theirs.push(puts_a_second(lab, etcd, clients, size)?);
        }
        self.plain.push(disk::appends_a_second(lab.folder(), SPAN / 3)?);
        Ok(())
    }

    fn tell(&self, figures: &mut Figures, clients: usize, target: f64) {
        figures.add(format!("durable submissions, {clients} clients"), middle(&self.ours), "1/s");
        if !self.theirs.is_empty() {
            figures.add(format!("etcd's puts, {clients} clients"), middle(&self.theirs), "1/s");
            let ratio = middle(&ratios(&self.ours, &self.theirs));
            figures.at_least(
                format!("submissions to etcd's puts, {clients} clients"),
                ratio,
                "ratio",
                target,
            );
        }
        let ratio = middle(&ratios(&self.ours, &self.plain));
        figures.add(format!("submissions to plain appends, {clients} clients"), ratio, "ratio");
    }
}

fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

/// As [`submissions_a_second`], for etcd: as many connections, each to the leader.
fn puts_a_second(lab: &Lab, etcd: &Etcd, clients: usize, size: usize) -> Result<f64> {
    let connections: Vec<Puts> = lab.block_on(etcd.to_leader(load::CALLERS))?;
    let (count, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..clients)
        .map(|n| {
            let mut puts = connections[n % connections.len()].clone();
            let (count, is_over) = (Arc::clone(&count), Arc::clone(&is_over));
            lab.handle().spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    // New keys, as each submission is a new job.
                    let key = fresh_mark(0)?.id;
                    let value = vec![7; size.saturating_sub(key.len())];
                    puts.put(key, value).await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let (before, begun) = (count.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(SPAN);
    let (after, took) = (count.load(Ordering::Relaxed), begun.elapsed());
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        lab.block_on(task).context("a client ended")??;
    }
    ensure!(after > before, "etcd acknowledged nothing");
    Ok(rate(after - before, took))
}
