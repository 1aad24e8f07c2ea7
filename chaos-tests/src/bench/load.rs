//! Many clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use proto::v1::{JobRequest, Launch, SubmitRequest};

use super::rows::rate;
use crate::client::{Client, fresh_mark, job, script};
use crate::lab::Lab;

/// Principals that the clients are of: a replica takes 64 calls of one at a time.
pub const CALLERS: usize = 8;

/// Returns the name of a caller.
pub fn caller(n: usize) -> String {
    format!("caller-{n}")
}

/// Returns a tree whose leaf `a` all callers may submit to.
pub fn tree() -> String {
    let members: Vec<String> = (0..CALLERS).map(caller).collect();
    format!(
        "name: lab\nowner: ops\nchildren:\n  - {{ name: a, share: 100, members: [{}] }}\n",
        members.join(", ")
    )
}

/// Cluster time, as this process carries it from one greeting on.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    time: u64,
    read: Instant,
}

impl Clock {
    /// Reads it.
    ///
    /// # Errors
    /// When no replica answers.
    pub async fn read(client: &Client) -> Result<Self> {
        let asked = Instant::now();
        let hello = client.hello().await?;
        // It was read on the way: in the middle, as far as anyone knows.
        Ok(Self { time: hello.cluster_time_at, read: asked + asked.elapsed() / 2 })
    }

    /// Returns the cluster time at a moment.
    #[must_use]
    pub fn at(&self, moment: Instant) -> u64 {
        let passed = moment.saturating_duration_since(self.read).as_millis();
        self.time.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Returns a submission that is made now.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn request(&self, job: JobRequest, launch: Launch) -> Result<SubmitRequest> {
        let mark = fresh_mark(self.at(Instant::now()))?;
        Ok(SubmitRequest { mark: Some(mark), job: Some(job), launch: Some(launch) })
    }
}

/// Returns how many submissions a second `clients` callers have acknowledged when each sends its next one after the
/// last one's answer; a second of warming up is not counted.
///
/// # Errors
/// When a call fails.
pub fn submissions_a_second(lab: &Lab, clients: usize, span: Duration) -> Result<f64> {
    let (count, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let leader = lab.leader();
    let callers = (0..CALLERS).map(|n| lab.client(&caller(n))).collect::<Result<Vec<_>>>()?;
    let clock = lab.block_on(Clock::read(&callers[0]))?;
    let tasks: Vec<_> = (0..clients)
        .map(|n| {
            let client = callers[n % CALLERS].from_replica(leader);
            let (count, is_over) = (Arc::clone(&count), Arc::clone(&is_over));
            lab.handle().spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    client.submit(&clock.request(job("load", "a", 1, 0), script("true"))?).await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let (before, begun) = (count.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(span);
    let (after, took) = (count.load(Ordering::Relaxed), begun.elapsed());
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        lab.block_on(task).context("a client ended")??;
    }
    ensure!(after > before, "nothing was acknowledged");
    Ok(rate(after - before, took))
}

/// Submits `count` jobs of one GPU in the free tier as fast as 64 callers can, for at most so long.
///
/// # Errors
/// When a call fails.
pub fn backlog(lab: &Lab, count: usize, line: &str, patience: Duration) -> Result<()> {
    fill(lab, count, &job("backlog", "a", 1, 0), &script(line), patience)
}

/// Submits `count` equal jobs as fast as 64 callers can, for at most so long.
///
/// # Errors
/// When a call fails.
pub fn fill(lab: &Lab, count: usize, job: &JobRequest, launch: &Launch, patience: Duration) -> Result<()> {
    const AT_ONCE: usize = 64;
    let leader = lab.leader();
    let callers = (0..CALLERS).map(|n| lab.client(&caller(n))).collect::<Result<Vec<_>>>()?;
    let clock = lab.block_on(Clock::read(&callers[0]))?;
    let (next, begun) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let tasks: Vec<_> = (0..AT_ONCE)
        .map(|n| {
            let (client, next) = (callers[n % CALLERS].from_replica(leader), Arc::clone(&next));
            let (job, launch) = (job.clone(), launch.clone());
            lab.handle().spawn(async move {
                while next.fetch_add(1, Ordering::Relaxed) < count && begun.elapsed() < patience {
                    client.submit(&clock.request(job.clone(), launch.clone())?).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        lab.block_on(task).context("a client ended")??;
    }
    Ok(())
}
