//! Calls to other replicas beside Raft: writes passed on, logs read through them, how they stand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proto::v1;
use proto::v1::peer_client::PeerClient;
use scheduler_core::cluster_time::BootTime;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::clock;

/// The longest message between replicas.
pub const MESSAGE_MAX: usize = 16 << 20;
const CONNECT: Duration = Duration::from_millis(500);
const KEY: &str = "bursar-peer";

/// What proves that a caller is a replica of the same cluster: derived from the peers' secret, which itself is not
/// sent here.
#[derive(Clone)]
pub struct Pass {
    value: MetadataValue<Ascii>,
    hash: blake3::Hash,
}

impl Pass {
    /// Derives the pass.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        let derived = blake3::Hash::from_bytes(blake3::derive_key("bursar peer calls v1", secret));
        let text = derived.to_hex();
        let value = MetadataValue::try_from(text.as_str()).expect("hexadecimal digits are plain text");
        Self { value, hash: blake3::hash(text.as_bytes()) }
    }

    /// Whether a call's metadata carries the pass.
    #[must_use]
    pub fn is_shown(&self, metadata: &MetadataMap) -> bool {
        let shown = metadata.get(KEY).map(|value| blake3::hash(value.as_bytes()));
        // Hashes compare in the same time wherever they differ.
        shown.is_some_and(|shown| shown == self.hash)
    }
}

impl Interceptor for Pass {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(KEY, self.value.clone());
        Ok(request)
    }
}

/// Refuses calls of whoever is no replica of this cluster.
#[derive(Clone)]
pub struct Gate(pub Pass);

impl Interceptor for Gate {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        if self.0.is_shown(request.metadata()) {
            Ok(request)
        } else {
            Err(Status::unauthenticated("this listener is for the cluster's replicas"))
        }
    }
}

/// A client of another replica.
pub type Client = PeerClient<InterceptedService<Channel, Pass>>;

/// Connections to other replicas, one an address, made when first needed.
pub struct Peers {
    pass: Pass,
    channels: Mutex<HashMap<String, Channel>>,
}

impl Peers {
    /// Makes an empty set.
    #[must_use]
    pub fn new(pass: Pass) -> Self {
        Self { pass, channels: Mutex::default() }
    }

    /// Returns a client of the replica at `host:port`; `None` if that is no address.
    #[must_use]
    pub fn at(&self, addr: &str) -> Option<Client> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if !channels.contains_key(addr) {
            let endpoint = Endpoint::from_shared(format!("http://{addr}")).ok()?;
            let channel = endpoint.connect_timeout(CONNECT).tcp_nodelay(true).connect_lazy();
            channels.insert(addr.to_owned(), channel);
        }
        let channel = channels.get(addr)?.clone();
        let client = PeerClient::with_interceptor(channel, self.pass.clone());
        Some(client.max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(MESSAGE_MAX))
    }

    /// Asks several replicas how they stand, all at once; those that don't answer in time are left out.
    pub async fn standings(
        self: &Arc<Self>,
        addrs: Vec<String>,
        patience: Duration,
    ) -> Vec<(String, v1::StandingReply)> {
        let mut asked = tokio::task::JoinSet::new();
        for addr in addrs {
            let peers = Arc::clone(self);
            asked.spawn(async move {
                let mut client = peers.at(&addr)?;
                let call = client.standing(v1::StandingRequest {});
                let reply = tokio::time::timeout(patience, call).await.ok()?.ok()?;
                Some((addr, reply.into_inner()))
            });
        }
        asked.join_all().await.into_iter().flatten().collect()
    }
}

/// What another replica's clocks said, and between which moments of this machine's boot clock.
#[derive(Debug, Clone)]
pub struct Clocks {
    /// What.
    pub reply: v1::ClocksReply,
    /// When it was asked.
    pub sent: BootTime,
    /// When it had answered.
    pub received: BootTime,
}

impl Peers {
    /// Asks several replicas what their clocks say, all at once; those that don't answer in time are left out.
    pub async fn clocks(
        self: &Arc<Self>,
        addrs: Vec<String>,
        with_claims: bool,
        patience: Duration,
    ) -> Vec<Clocks> {
        let mut asked = tokio::task::JoinSet::new();
        for addr in addrs {
            let peers = Arc::clone(self);
            asked.spawn(async move {
                let mut client = peers.at(&addr)?;
                let sent = clock::boot();
                let call = client.clocks(v1::ClocksRequest { with_claims });
                let reply = tokio::time::timeout(patience, call).await.ok()?.ok()?;
                Some(Clocks { reply: reply.into_inner(), sent, received: clock::boot() })
            });
        }
        asked.join_all().await.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_passes_the_gate() {
        let ours = Pass::new(&[7; 32]);
        let show = |pass: &Pass| pass.clone().call(Request::new(())).unwrap();
        assert!(Gate(ours.clone()).call(show(&ours)).is_ok());
        assert!(Gate(ours.clone()).call(show(&Pass::new(&[8; 32]))).is_err());
        assert!(Gate(ours).call(Request::new(())).is_err());
    }
}
