//! How replicas talk: gRPC over one HTTP/2 connection a purpose (replication, heartbeats and votes, snapshots).
//!
//! Every call carries the shared secret, checked before its body is read, and the addressed cluster and replica,
//! checked before anything is done: a replica never answers for another, nor for another cluster.

mod gate;
mod link;
mod service;
pub(crate) mod wire;

pub(crate) use self::link::{Client, Link, Links, Purpose};
pub(crate) use self::service::Handler;

use std::convert::Infallible;
use std::fmt;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::service::interceptor::InterceptedService;

/// The versions of the protocol that this code speaks.
pub(crate) const VERSION_MIN: u32 = 1;
/// The newest of them.
pub(crate) const VERSION_MAX: u32 = 1;
/// The largest message that is accepted; sent ones stay far below.
const MESSAGE_MAX: usize = 128 << 20;

type Server = wire::raft_server::RaftServer<Handler>;

/// The service to mount on the listener for other replicas.
#[derive(Clone)]
pub struct PeerService {
    inner: InterceptedService<Server, gate::Gate>,
}

impl fmt::Debug for PeerService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerService")
    }
}

impl NamedService for PeerService {
    const NAME: &'static str = <Server as NamedService>::NAME;
}

impl Service<http::Request<Body>> for PeerService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answering = self.inner.call(request);
        Box::pin(async move { Ok(answering.await?.map(Body::new)) })
    }
}

/// Builds the service of one replica.
pub(crate) fn service(handler: Handler, secret: &crate::PeerSecret) -> PeerService {
    let server = wire::raft_server::RaftServer::new(handler)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    PeerService { inner: InterceptedService::new(server, gate::Gate::new(secret)) }
}
