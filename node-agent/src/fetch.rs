//! Fetching what a job starts with, by hash.

use std::time::Duration;

use proto::v1;
use proto::v1::agent_link_client::AgentLinkClient;
use scheduler_core::id::SpecHash;
use scheduler_core::spec::Launch;
use tokio::sync::mpsc;
use tonic::Request;
use tonic::transport::Channel;

use crate::link::bearer;

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of a fetch.
#[derive(Debug)]
pub struct Fetched {
    /// What was asked for.
    pub hash: SpecHash,
    /// The spec, or why there is none yet.
    pub result: Result<Launch, String>,
}

/// Starts a fetch; its result comes to `to`.
pub fn start(
    mut replica: AgentLinkClient<Channel>,
    credential: &str,
    hash: SpecHash,
    to: mpsc::Sender<Fetched>,
) {
    let mut request = Request::new(v1::FetchLaunchRequest { hash: hash.as_bytes().to_vec() });
    request.metadata_mut().insert("authorization", bearer(credential));
    tokio::spawn(async move {
        let result = match tokio::time::timeout(PATIENCE, replica.fetch_launch(request)).await {
            Ok(Ok(reply)) => check(hash, &reply.into_inner().launch),
            Ok(Err(status)) => Err(status.message().to_owned()),
            Err(_) => Err("no replica answered in time".to_owned()),
        };
        let _ = to.send(Fetched { hash, result }).await;
    });
}

/// Takes bytes for the spec only if they are what the hash says.
fn check(hash: SpecHash, bytes: &[u8]) -> Result<Launch, String> {
    if blake3::hash(bytes).as_bytes() != hash.as_bytes() {
        return Err("a replica sent another specification than asked for".to_owned());
    }
    proto::decode_launch(bytes).map_err(|error| error.to_string())
}
