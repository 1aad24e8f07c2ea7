//! The shared secret on every call.

use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::PeerSecret;

const KEY: &str = "bursar-peer-secret-bin";

/// Refuses calls without the secret, before their body is read.
#[derive(Clone)]
pub(crate) struct Gate {
    expected: blake3::Hash,
}

impl Gate {
    pub(super) fn new(secret: &PeerSecret) -> Self {
        Self { expected: blake3::hash(secret.bytes()) }
    }
}

impl Interceptor for Gate {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let shown = request.metadata().get_bin(KEY).and_then(|value| value.to_bytes().ok());
        // Comparing hashes takes the same time wherever they differ.
        let known = shown.is_some_and(|shown| blake3::hash(&shown) == self.expected);
        if known {
            Ok(request)
        } else {
            Err(Status::unauthenticated("this call does not carry the cluster's peer secret"))
        }
    }
}

/// Adds the secret to every call.
#[derive(Clone)]
pub(crate) struct Key {
    secret: PeerSecret,
}

impl Key {
    pub(super) fn new(secret: &PeerSecret) -> Self {
        Self { secret: secret.clone() }
    }
}

impl Interceptor for Key {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert_bin(KEY, MetadataValue::from_bytes(self.secret.bytes()));
        Ok(request)
    }
}
