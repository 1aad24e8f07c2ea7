//! Proposing entries.

use std::sync::Arc;

use openraft::errors::{ClientWriteError, RaftError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Replica, leader_of};
use crate::propose::Error;
use crate::raft::types::Command;
use crate::record::Blob;
use crate::room::Room;

/// The largest entry.
const ENTRY_MAX: usize = 512 << 10;
/// Proposals that may wait at once, and their bytes in KiB.
const WAITING_MAX: usize = 8192;
const WAITING_KIB: usize = 16 << 10;

/// The machine's answer to a proposal, and where the entry lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The entry's index.
    pub index: u64,
    /// The entry's term.
    pub term: u64,
    /// What the machine answered.
    pub bytes: Vec<u8>,
}

/// Bounds what waits for the disk and for other replicas.
pub(super) struct InFlight {
    proposals: Arc<Semaphore>,
    kib: Arc<Semaphore>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { proposals: Arc::new(Semaphore::new(WAITING_MAX)), kib: Arc::new(Semaphore::new(WAITING_KIB)) }
    }
}

impl InFlight {
    fn take(&self, bytes: usize) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), Error> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let proposal = Arc::clone(&self.proposals).try_acquire_owned();
        let room = Arc::clone(&self.kib).try_acquire_many_owned(kib);
        proposal.ok().zip(room.ok()).ok_or(Error::Overloaded)
    }
}

impl Replica {
    /// Proposes an entry and returns the machine's answer once a quorum holds it durably and this replica's
    /// machine has applied it. Must be called on the leader.
    ///
    /// # Errors
    ///
    /// Each error says whether the entry may still take effect, see [`Error`].
    pub async fn propose(&self, payload: impl Into<Vec<u8>>) -> Result<Answer, Error> {
        self.propose_within(payload.into(), &[Room::Ample]).await
    }

    /// Proposes an entry as [`Replica::propose`] does, and is still taken when the disk is nearly full: for what
    /// must be recorded, such as facts that cannot be had again.
    ///
    /// # Errors
    ///
    /// Each error says whether the entry may still take effect, see [`Error`].
    pub async fn propose_from_reserve(&self, payload: impl Into<Vec<u8>>) -> Result<Answer, Error> {
        self.propose_within(payload.into(), &[Room::Ample, Room::Scarce]).await
    }

    async fn propose_within(&self, payload: Vec<u8>, taken_with: &[Room]) -> Result<Answer, Error> {
        let bytes = payload.len();
        if bytes > ENTRY_MAX {
            return Err(Error::TooLarge { bytes, max: ENTRY_MAX });
        }
        let Some((_, raft)) = self.inner.running() else {
            return Err(Error::NotLeader { leader: None });
        };
        let room = self.inner.stores().map_or(Room::Ample, |stores| stores.gauge.room());
        if self.inner.status.borrow().is_leader() && !taken_with.contains(&room) {
            return Err(Error::DiskFull { is_scarce: room == Room::Scarce });
        }
        let _room = self.inner.in_flight.take(bytes)?;
        match raft.client_write(Command(Blob(payload.into()))).await {
            Ok(written) => Ok(Answer {
                index: written.log_id.index,
                term: written.log_id.leader_id.term,
                bytes: written.data.0,
            }),
            Err(RaftError::Fatal(_)) => Err(Error::Stopped),
            Err(RaftError::APIError(error)) => Err(match error {
                ClientWriteError::ForwardToLeader(forward) => {
                    Error::NotLeader { leader: leader_of(&raft, &forward) }
                }
                ClientWriteError::LogEntryDiscarded(forward) => {
                    Error::Unknown { leader: leader_of(&raft, &forward) }
                }
                // Neither is asked for here.
                ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_) => {
                    Error::NotLeader { leader: None }
                }
            }),
        }
    }
}
