//! Connections to other replicas, shared by everything that calls them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::gate::Key;
use super::wire::raft_client::RaftClient;
use super::wire::{HelloRequest, Parties, from_known, to_held, to_known};
use super::{MESSAGE_MAX, VERSION_MAX, VERSION_MIN};
use crate::standing::Standing;
use crate::{PeerSecret, ReplicaId, Sending};

/// The client of one connection.
pub(crate) type Client = RaftClient<InterceptedService<Channel, Key>>;

/// What a connection is for; each has its own, so that a full one never holds up heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Log entries.
    Replication,
    /// Heartbeats, votes, hand-overs, reads, invitations.
    Control,
    /// Snapshots.
    Snapshot,
}

const CONNECT: Duration = Duration::from_millis(200);
/// A connection whose other end is silent so long is given up.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// All connections of a replica.
pub(crate) struct Links {
    secret: PeerSecret,
    /// What this replica holds and remembers, for greetings.
    standing: Arc<Standing>,
    /// Where connections live; callers come from other runtimes.
    workers: Handle,
    open: Mutex<BTreeMap<(ReplicaId, String, Purpose), Arc<Link>>>,
    /// Snapshots on their way.
    sending: Mutex<BTreeMap<ReplicaId, Sending>>,
}

/// One connection: made when it is first used, and again when it broke.
pub(crate) struct Link {
    client: Client,
    standing: Arc<Standing>,
    greeted: AtomicBool,
}

impl Links {
    pub(crate) fn new(secret: &PeerSecret, workers: Handle) -> Self {
        let (standing, open, sending) = (Arc::default(), Mutex::default(), Mutex::default());
        Self { secret: secret.clone(), standing, workers, open, sending }
    }

    /// Notes how much of a snapshot has been sent; `None` once it has arrived, or was given up.
    pub(crate) fn sends(&self, to: ReplicaId, progress: Option<Sending>) {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Some(progress) => sending.insert(to, progress),
            None => sending.remove(&to),
        };
    }

    /// Returns how much of a snapshot a replica has been sent, if it is being sent one.
    pub(crate) fn sending(&self, to: ReplicaId) -> Option<Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner).get(&to).copied()
    }

    /// Returns what this replica holds, and what it remembers of the others.
    pub(crate) fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    /// Returns the connection to a replica.
    pub(crate) fn get(&self, to: ReplicaId, peer_addr: &str, purpose: Purpose) -> Result<Arc<Link>, Status> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (to, peer_addr.to_owned(), purpose);
        if let Some(link) = open.get(&key) {
            return Ok(Arc::clone(link));
        }
        let _workers = self.workers.enter();
        let link = Arc::new(Link::new(peer_addr, &self.secret, Arc::clone(&self.standing))?);
        open.insert(key, Arc::clone(&link));
        Ok(link)
    }
}

impl Link {
    fn new(peer_addr: &str, secret: &PeerSecret, standing: Arc<Standing>) -> Result<Self, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{peer_addr}"))
            .map_err(|_| Status::invalid_argument(format!("{peer_addr:?} is not an address of a replica")))?;
        let channel = endpoint
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .connect_lazy();
        let client = RaftClient::with_interceptor(channel, Key::new(secret))
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX);
        Ok(Self { client, standing, greeted: AtomicBool::new(false) })
    }

    /// Returns a client that may be used without a greeting, for an invitation.
    pub(crate) fn stranger(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client once the other end has confirmed who it is. `DataLoss`: the other end remembers more of
    /// this replica than it holds.
    pub(crate) async fn client(&self, parties: Parties) -> Result<Client, Status> {
        if !self.greeted.load(Ordering::Relaxed) {
            self.greet(parties).await?;
            self.greeted.store(true, Ordering::Relaxed);
        }
        Ok(self.client.clone())
    }

    /// Greets the other end. `DataLoss`: it remembers more of this replica than it holds. `PermissionDenied`: this
    /// replica is no member any more.
    pub(crate) async fn greet(&self, parties: Parties) -> Result<(), Status> {
        let hello = HelloRequest {
            address: parties.address(),
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            held: self.standing.own().map(to_held),
            remembered: Some(to_known(self.standing.known(parties.to))),
        };
        let reply = self.client.clone().hello(Request::new(hello)).await?.into_inner();
        if !(VERSION_MIN..=VERSION_MAX).contains(&reply.version) {
            return Err(Status::failed_precondition("the other replica chose a version not spoken here"));
        }
        if self.standing.is_removed_by(reply.removed_by) {
            return Err(Status::permission_denied("this replica has been removed from the cluster"));
        }
        if let Some(what) = self.standing.lacks(parties.from, &from_known(reply.remembered)) {
            return Err(Status::data_loss(format!("replica {} remembers more of it: {what}", parties.to)));
        }
        Ok(())
    }

    /// Learns of a failed call: after a break the next connection is greeted anew.
    pub(crate) fn failed(&self, status: &Status) {
        if matches!(status.code(), Code::Unavailable | Code::FailedPrecondition | Code::Unknown) {
            self.greeted.store(false, Ordering::Relaxed);
        }
    }
}
