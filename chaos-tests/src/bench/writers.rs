//! Clients that write all the time, beside what a bench measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::load::{self, Clock};
use crate::client::{job, script};
use crate::lab::Lab;

/// Between two writes of a client that writes throughout.
const PACE: Duration = Duration::from_millis(20);
/// Clients that write throughout.
pub(super) const WRITERS: usize = 4;

/// Clients that write all the time.
pub(super) struct Writers {
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<Result<()>>>,
}

/// What they saw.
pub(super) struct Wrote {
    pub acknowledged: usize,
    pub failed: usize,
}

impl Writers {
    pub(super) fn start(lab: &Lab) -> Result<Self> {
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

    pub(super) fn end(self, lab: &Lab) -> Result<Wrote> {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            lab.block_on(task).context("a writer ended")??;
        }
        let wrote = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Ok(Wrote { acknowledged: wrote(&self.acknowledged), failed: wrote(&self.failed) })
    }
}
