//! What replicas hold, compared.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::cluster::{ADMIN, Lab};
use super::wait::{DEADLINE, try_until, until};
use crate::work::{lines_in, overlaps};

/// What one replica says it has applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Up to which entry.
    pub index: u64,
    /// The digest of the state there.
    pub digest: String,
}

impl Lab {
    /// Waits until all replicas have applied the same entries, and returns what each has then.
    ///
    /// # Panics
    /// When they do not come to the same index, or one has fallen silent.
    pub fn standings(&self) -> Vec<Standing> {
        self.try_standings(DEADLINE).expect("all replicas come to the same entries in time")
    }

    /// As [`Lab::standings`]; `None` when it does not come about in `patience`.
    pub fn try_standings(&self, patience: Duration) -> Option<Vec<Standing>> {
        let client = self.client(ADMIN).expect("the admin's context is there");
        try_until(patience, || {
            let mut standings = Vec::new();
            for n in 0..self.replicas.len() {
                let view = self.block_on(client.status_at(n)).ok()?;
                standings.push(Standing { index: view.as_of?.index, digest: view.digest });
            }
            standings.windows(2).all(|pair| pair[0].index == pair[1].index).then_some(standings)
        })
    }

    /// Returns which replicas said that they lead, by term; from all that they ever logged.
    pub fn leaders(&self) -> BTreeMap<u64, BTreeSet<u64>> {
        let mut leaders = BTreeMap::<u64, BTreeSet<u64>>::new();
        for replica in &self.replicas {
            for line in replica.log().lines() {
                let term = line.split_once(" leads term=").and_then(|(_, rest)| rest.split(' ').next());
                if let Some(term) = term.and_then(|term| term.parse().ok()) {
                    leaders.entry(term).or_default().insert(replica.id);
                }
            }
        }
        leaders
    }

    /// Checks what has to hold at rest whatever happened before: replicas that applied the same hold the same, every
    /// GPU is in one class, no invariant was broken, and by the processes' own journals no GPU was ever with two
    /// attempts at once.
    ///
    /// # Panics
    /// When it does not hold.
    pub fn check(&self) {
        let standings = self.standings();
        assert!(standings.windows(2).all(|pair| pair[0].digest == pair[1].digest), "{standings:#?}");
        let admin = self.client(ADMIN).expect("the admin's context is there");
        let view = until("a leader is there", || self.block_on(admin.status()).ok());
        assert_eq!(view.safe_mode, None);
        for pool in &view.pools {
            let sum = pool.protected
                + pool.interruptible
                + pool.free_tier
                + pool.idle
                + pool.unavailable
                + pool.changing;
            assert_eq!(sum, pool.gpus, "{pool:?}");
        }
        let lines = lines_in(self.folder()).expect("the journals are ours and stay");
        assert_eq!(overlaps(&lines), [] as [String; 0], "GPUs were with two attempts at once");
    }
}
