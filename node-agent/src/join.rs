//! Becoming a node: a one-time token for a number and a credential that the agent made itself.

use std::time::Duration;

use proto::v1;
use proto::v1::agent_link_client::AgentLinkClient;
use tonic::Code;

use crate::config::Config;
use crate::dial;
use crate::journal::{self, Identity, Joined, Journal};

/// Pause between two rounds over all replicas.
const PAUSE: Duration = Duration::from_millis(500);

/// Why an agent can't become a node.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory belongs to no node, and no token was given.
    #[error("this data directory belongs to no node: start the agent with a join token and a name")]
    NoToken,
    /// The control plane refused.
    #[error("joining was refused: {0}")]
    Refused(String),
    /// No random numbers.
    #[error("failed to make a credential")]
    Random(#[source] getrandom::Error),
    /// The journal can't be used.
    #[error("failed to use the journal")]
    Journal(#[source] journal::Error),
    /// A replica answered what can't be.
    #[error("a replica's answer to joining is not valid")]
    Answer,
}

/// Returns who this agent is, joining first if it is nobody yet. Tries until a replica answers: an unreachable control plane
/// is no error.
///
/// # Errors
///
/// The control plane refused, or the journal can't be used.
pub async fn identify(config: &Config, journal: &Journal) -> Result<(Identity, Joined), Error> {
    let known = journal.identity().map_err(Error::Journal)?;
    if let Some(identity) = &known
        && let Some(joined) = identity.joined
    {
        return Ok((identity.clone(), joined));
    }
    let join = config.join.as_ref().ok_or(Error::NoToken)?;
    // Kept before it is used: after a crash the same credential repeats the same join.
    let mut identity = match known {
        Some(identity) => identity,
        None => Identity { credential: credential()?, machine: machine()?, joined: None },
    };
    journal.keep_identity(&identity).map_err(Error::Journal)?;
    let request = v1::JoinRequest {
        token: join.token.trim().to_owned(),
        name: join.name.clone(),
        machine: identity.machine.clone(),
        credential_hash: blake3::hash(identity.credential.as_bytes()).as_bytes().to_vec(),
    };
    let joined = ask(config, request).await?;
    identity.joined = Some(joined);
    journal.keep_identity(&identity).map_err(Error::Journal)?;
    Ok((identity, joined))
}

async fn ask(config: &Config, request: v1::JoinRequest) -> Result<Joined, Error> {
    loop {
        for server in &config.servers {
            let Ok(channel) = dial::connect(server).await else { continue };
            match AgentLinkClient::new(channel).join(request.clone()).await {
                Ok(reply) => return joined(reply.into_inner()),
                Err(status) if is_final(status.code()) => {
                    return Err(Error::Refused(status.message().to_owned()));
                }
                Err(status) => tracing::info!(%server, code = ?status.code(), "joining is tried again"),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether asking again can't help.
fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::Unimplemented
    )
}

fn joined(reply: v1::JoinReply) -> Result<Joined, Error> {
    let cluster = <[u8; 16]>::try_from(reply.cluster.as_slice()).map_err(|_| Error::Answer)?;
    Ok(Joined { node: reply.node, cluster, epoch: reply.epoch })
}

fn credential() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The machine's own id, or a random one kept in the journal where the machine has none.
fn machine() -> Result<String, Error> {
    let own = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let own = own.trim();
    if own.len() >= 16 && own.len() <= 64 && own.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(own.to_owned());
    }
    Ok(credential()?[..32].to_owned())
}
