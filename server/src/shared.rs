//! What the services, the links and the leader's loop of one replica share.

use std::sync::Arc;
use std::time::Duration;

use raft_store::{DiskUse, Replica as Log, Role, Status as Standing};
use scheduler_core::id::{LogIndex, Name, NodeId, ReplicaId, Term};
use scheduler_core::unit::Timestamp;
use tokio::sync::{Semaphore, mpsc, watch};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use crate::addresses::Addresses;
use crate::auth::{self, Caller};
use crate::clock::{Deadline, Moment};
use crate::config::Config;
use crate::disk::Disk;
use crate::events::Events;
use crate::futures::Futures;
use crate::history::History;
use crate::limits::{Calls, Counted, Place, Proposals};
use crate::links::Links;
use crate::peers::Peers;
use crate::refusal;
use crate::setup::Setup;
use crate::time::Clock;
use crate::view::{View, Views};

/// The version that a replica says it has.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Calls with a token that is not known here that may ask the leader at once.
pub const RECHECKS: usize = 8;
/// Views that walk the whole line at once: the others wait, and agents' links and writes have a worker left.
pub const LONG_VIEWS: usize = 2;
/// A reader waits so long for this replica to catch up with what it was just told.
const CATCH_UP: Duration = Duration::from_secs(5);

/// One replica's parts.
pub struct Shared {
    /// What it was told.
    pub config: Config,
    /// Where it is reached.
    pub addresses: Addresses,
    /// The replicated log.
    pub log: Log,
    /// The state, as applied here.
    pub views: Views,
    /// Cluster time.
    pub clock: Arc<Clock>,
    /// What happened.
    pub events: Arc<Events>,
    /// What happened and what left state, for longer.
    pub history: History,
    /// Turns of calls whose token is not known here yet.
    pub rechecks: Semaphore,
    /// Turns of views that walk the whole line.
    pub long_views: Semaphore,
    /// Simulated futures, and how well their ranges held.
    pub futures: Futures,
    /// Turns at the history.
    pub history_reads: Semaphore,
    /// Calls under way.
    pub calls: Arc<Calls>,
    /// Proposals under way.
    pub proposals: Proposals,
    /// The other replicas.
    pub peers: Arc<Peers>,
    /// The agents connected here.
    pub links: Arc<Links>,
    /// Room on disk.
    pub disk: Disk,
    /// What log and snapshots take on disk.
    pub usage: watch::Sender<DiskUse>,
    /// When this process began.
    pub began: Moment,
    /// The setup secret.
    pub setup: Setup,
    /// Set while this replica leads and has applied its own term's first entry.
    pub leading: watch::Sender<Option<Leading>>,
    /// When the last plan of this replica was made, and what it was, in words.
    pub last_plan: watch::Sender<Option<(Timestamp, String)>>,
    /// While this replica leads: since when a round of planning is owed that could start somebody.
    pub undecided: watch::Sender<Option<Timestamp>>,
    /// Set when this replica is about to stop.
    pub stopping: watch::Sender<bool>,
}

/// The leader's loop, as links see it.
#[derive(Debug, Clone)]
pub struct Leading {
    /// The term it leads in.
    pub term: Term,
    /// Since when.
    pub since: Moment,
    /// Where it takes events.
    pub inbox: mpsc::Sender<scheduler_core::leader::Event>,
}

/// A caller that proved who it is, and its call's place.
#[derive(Debug)]
pub struct Admitted {
    /// Who.
    pub name: Name,
    /// Counted until dropped.
    pub place: Place,
}

/// A state to read from.
#[derive(Debug, Clone)]
pub struct Read {
    /// The state and its index.
    pub view: Arc<View>,
    /// Whether a quorum did not confirm that it is the newest.
    pub is_stale: bool,
}

impl Shared {
    /// Returns how this replica's log stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.log.status()
    }

    /// Returns this replica's number; 0 before it has one.
    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        ReplicaId::new(self.log.identity().map_or(0, |identity| identity.replica.get()))
    }

    /// Returns the word for what this replica does.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self.standing().role {
            Role::Uninitialised => "waiting",
            Role::Learner => "learner",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Leader => "leader",
            Role::Removed => "removed",
            Role::Stopped => "stopping",
        }
    }

    /// Admits a person's or a program's call.
    ///
    /// # Errors
    /// Without a token that opens something, or when a limit of calls is reached.
    pub async fn admit(&self, metadata: &MetadataMap) -> Result<Admitted, Status> {
        let mut place = self.calls.enter()?;
        match self.caller(metadata).await? {
            Caller::Principal(name) => {
                place.count_for(Counted::Principal(name.clone()))?;
                Ok(Admitted { name, place })
            }
            Caller::Agent(_) => Err(refusal::not_logged_in()),
        }
    }

    /// Admits an agent's call.
    ///
    /// # Errors
    /// Without a node's credential, or when a limit of calls is reached.
    pub async fn admit_agent(&self, metadata: &MetadataMap) -> Result<(NodeId, Place), Status> {
        let mut place = self.calls.enter()?;
        match self.caller(metadata).await? {
            Caller::Agent(node) => {
                place.count_for(Counted::Agent(node))?;
                Ok((node, place))
            }
            Caller::Principal(_) => Err(refusal::not_logged_in()),
        }
    }

    async fn caller(&self, metadata: &MetadataMap) -> Result<Caller, Status> {
        let shown = auth::bearer(metadata).ok_or_else(refusal::not_logged_in)?;
        if !self.log.is_initialised() {
            return Err(refusal::waiting());
        }
        if let Some(caller) = auth::who(&self.views.now().state, &shown) {
            return Ok(caller);
        }
        // This replica may be behind the entry that made the token. Few at a time: wrong tokens cost the leader little.
        let _turn = self.rechecks.acquire().await.map_err(|_| refusal::no_leader())?;
        if self.log.read_barrier().await.is_err() {
            return Err(refusal::no_leader());
        }
        auth::who(&self.views.now().state, &shown).ok_or_else(refusal::not_logged_in)
    }

    /// Returns a state for a caller to read from: the newest that a quorum confirms, unless a stale one will do.
    ///
    /// # Errors
    /// When no leader can be confirmed, or the caller's token was revoked meanwhile.
    pub async fn read(&self, caller: &Admitted, stale: bool) -> Result<Read, Status> {
        let read =
            if stale { Read { view: self.views.now(), is_stale: true } } else { self.newest().await? };
        let principal = read.view.state.principals.get(&caller.name);
        if principal.is_none_or(|principal| principal.is_revoked) {
            return Err(refusal::not_logged_in());
        }
        Ok(read)
    }

    /// Returns the newest state that a quorum confirms.
    ///
    /// # Errors
    /// When no leader can be confirmed within the patience for writes.
    pub async fn newest(&self) -> Result<Read, Status> {
        let deadline = Deadline::after(self.config.write_patience());
        let mut standing = self.log.watch();
        loop {
            match self.log.read_barrier().await {
                Ok(index) => {
                    let view = self.views.at_least(LogIndex::new(index), CATCH_UP).await;
                    let view = view.ok_or_else(refusal::no_leader)?;
                    return Ok(Read { view, is_stale: false });
                }
                Err(raft_store::read::Error::Stopped) => return Err(refusal::no_leader()),
                Err(cause) if deadline.is_over() => {
                    tracing::debug!(%cause, "a read found no leader");
                    return Err(refusal::no_leader());
                }
                Err(_) => {
                    // Until something changes; a quorum may be slow without any change to be seen.
                    let _ = tokio::time::timeout(Duration::from_millis(50), standing.changed()).await;
                }
            }
        }
    }

    /// Makes a view that may take long, a few at a time, without holding up what else this worker has to do.
    ///
    /// # Errors
    /// When the replica is stopping.
    pub async fn long_view<T>(&self, make: impl FnOnce() -> T) -> Result<T, Status> {
        let _turn = self.long_views.acquire().await.map_err(|_| refusal::no_leader())?;
        Ok(tokio::task::block_in_place(make))
    }

    /// Returns a state that has what a write just did.
    ///
    /// # Errors
    /// When this replica does not catch up in time.
    pub async fn after(&self, index: LogIndex) -> Result<Read, Status> {
        let view = self.views.at_least(index, CATCH_UP).await.ok_or_else(refusal::no_leader)?;
        Ok(Read { view, is_stale: false })
    }
}

/// Returns by when a call has to be answered: what the client allows, less a little for the way back, at most
/// `longest`.
#[must_use]
pub fn deadline<T>(request: &Request<T>, longest: Duration) -> Deadline {
    let allowed =
        request.metadata().get("grpc-timeout").and_then(|value| parse_timeout(value.to_str().ok()?));
    Deadline::after(allowed.map_or(longest, |allowed| longest.min(allowed.mul_f32(0.9))))
}

/// Reads gRPC's timeout: digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number.saturating_mul(3600))),
        "M" => Some(Duration::from_secs(number.saturating_mul(60))),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_clients_are_read() {
        assert_eq!(parse_timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("99999999u"), Some(Duration::from_micros(99_999_999)));
        for text in ["", "S", "5", "5x", "é"] {
            assert_eq!(parse_timeout(text), None, "{text}");
        }
    }
}
