//! Writes: proposed here if this replica leads, else passed on to the leader; repeated while an election goes on.
//!
//! A repetition is safe, since each write carries a request id and `apply` answers a known id as the first time. So a
//! leader's death costs no client a failed call, as long as another leads within the call's time.

use std::time::Duration;

use proto::v1;
use proto::v1::forward_reply::Reply;
use raft_store::{Member, propose};
use scheduler_core::command::{Answer, Code, Command, Entry, Outcome, Rejection, RequestMark};
use scheduler_core::id::{BodyHash, LogIndex, RequestId};
use scheduler_core::principal::Actor;
use scheduler_core::unit::Timestamp;
use tonic::Status;

use crate::clock::Deadline;
use crate::limits::Kind;
use crate::refusal;
use crate::shared::Shared;

/// How long one try at another replica may take.
const ONE_TRY: Duration = Duration::from_secs(2);
/// How long to wait for something to change before the next try.
const PAUSE: Duration = Duration::from_millis(25);
/// What a client is told to wait when the leader is full.
const FULL_AGAIN: Duration = Duration::from_millis(200);

/// A write that was applied.
#[derive(Debug, Clone)]
pub struct Written {
    /// By which entry.
    pub index: LogIndex,
    /// What it did.
    pub outcome: Outcome,
}

/// One try.
#[derive(Debug)]
pub enum Tried {
    /// It was applied, and answered so.
    Applied(LogIndex, Box<Answer>),
    /// The leader will not take it now; nothing was done.
    Refused(Rejection),
    /// Nothing is known to be done: another replica leads, perhaps this one.
    Elsewhere(Option<Member>),
}

/// Makes a request's mark from the client's and the body that it sent.
///
/// # Errors
/// When the mark is missing or its id has the wrong length.
pub fn mark<M: prost::Message>(
    sent: Option<&v1::RequestMark>,
    call: &'static str,
    body: &M,
) -> Result<RequestMark, Status> {
    let sent = sent.ok_or_else(|| refusal::missing("mark"))?;
    let id = RequestId::from_slice(&sent.id)
        .ok_or_else(|| refusal::bad(&proto::Error::bad("mark.id", "it is 16 random bytes")))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(call.as_bytes());
    hasher.update(&[0]);
    hasher.update(&body.encode_to_vec());
    let body = BodyHash::new(*hasher.finalize().as_bytes());
    Ok(RequestMark { id, made_at: Timestamp::from_millis(sent.made_at), body })
}

/// Writes, and answers what `apply` answered.
///
/// # Errors
/// A refusal as a status; `no leader` when none was there by the deadline.
pub async fn write(
    shared: &Shared,
    actor: Actor,
    mark: Option<RequestMark>,
    command: Command,
    deadline: Deadline,
) -> Result<Written, Status> {
    let entry = Entry { time: Timestamp::ZERO, actor, via: Some(shared.replica()), request: mark, command };
    let mut standing = shared.log.watch();
    loop {
        standing.mark_unchanged();
        let tried = match tokio::time::timeout(deadline.left(), anywhere(shared, &entry)).await {
            Ok(tried) => tried,
            Err(_) => return Err(refusal::no_leader()),
        };
        match tried {
            Tried::Applied(index, answer) => {
                let outcome = (*answer).map_err(|rejection| refusal::status(&rejection))?;
                return Ok(Written { index, outcome });
            }
            Tried::Refused(rejection) => return Err(refusal::try_again(&rejection, FULL_AGAIN)),
            Tried::Elsewhere(_) if deadline.is_over() => return Err(refusal::no_leader()),
            Tried::Elsewhere(_) => {
                let pause = PAUSE.min(deadline.left());
                let _ = tokio::time::timeout(pause, standing.changed()).await;
            }
        }
    }
}

/// Tries once: here if this replica leads, else at the leader.
pub async fn anywhere(shared: &Shared, entry: &Entry) -> Tried {
    let standing = shared.standing();
    if standing.is_leader() {
        return here(shared, entry.clone()).await;
    }
    match standing.leader {
        Some(leader) => there(shared, entry, leader).await,
        None => Tried::Elsewhere(None),
    }
}

/// Proposes an entry at this replica.
pub async fn here(shared: &Shared, mut entry: Entry) -> Tried {
    if matches!(entry.command, Command::Found(_)) && shared.views.now().state.meta.cluster.is_none() {
        shared.clock.found();
    }
    let Some(now) = shared.clock.now() else {
        // Nothing vouches for cluster time yet; it is being asked for.
        return Tried::Elsewhere(None);
    };
    if matches!(entry.command, Command::Submit(_))
        && let Err(rejection) = shared.disk.admit()
    {
        return Tried::Refused(rejection);
    }
    entry.time = now.max(shared.views.now().state.meta.time);
    let bytes = proto::encode_entry(&entry);
    let kind = match entry.command {
        Command::Submit(_) => Kind::Submission,
        _ => Kind::Other,
    };
    let _room = match shared.proposals.room(kind, bytes.len()) {
        Ok(room) => room,
        Err(rejection) => return Tried::Refused(rejection),
    };
    let proposed = match kind {
        Kind::Submission => shared.log.propose(bytes).await,
        Kind::Other => shared.log.propose_from_reserve(bytes).await,
    };
    match proposed {
        Ok(answer) => match proto::decode_answer(&answer.bytes) {
            Ok(decoded) => Tried::Applied(LogIndex::new(answer.index), Box::new(decoded)),
            Err(cause) => {
                tracing::error!(%cause, index = answer.index, "an answer of this replica cannot be read");
                Tried::Refused(Rejection::new(
                    Code::Internal,
                    "the answer is lost".to_owned(),
                    "",
                    String::new(),
                ))
            }
        },
        Err(propose::Error::NotLeader { leader } | propose::Error::Unknown { leader }) => {
            Tried::Elsewhere(leader)
        }
        Err(propose::Error::Stopped) => Tried::Elsewhere(None),
        Err(cause @ (propose::Error::Overloaded | propose::Error::TooLarge { .. })) => {
            Tried::Refused(Rejection::new(Code::Full, cause.to_string(), "nothing was done", String::new()))
        }
        Err(cause @ propose::Error::DiskFull { .. }) => Tried::Refused(Rejection::new(
            Code::Full,
            cause.to_string(),
            "nothing was done",
            "tell an operator; it goes on by itself once there is room".to_owned(),
        )),
    }
}

/// Passes an entry on to the leader.
async fn there(shared: &Shared, entry: &Entry, leader: Member) -> Tried {
    let Some(mut client) = shared.peers.at(&leader.peer_addr) else {
        return Tried::Elsewhere(None);
    };
    let call = client.forward(v1::ForwardRequest { entry: proto::encode_entry(entry) });
    let mut standing = shared.log.watch();
    // One that no longer leads may never answer: its machine may be gone.
    let deposed = standing.wait_for(|now| now.leader.as_ref().is_some_and(|now| now.id != leader.id));
    let reply = tokio::select! {
        called = tokio::time::timeout(ONE_TRY, call) => match called {
            Ok(Ok(reply)) => reply.into_inner().reply,
            Ok(Err(cause)) => {
                tracing::debug!(%cause, leader = %leader.id, "the leader could not be asked");
                None
            }
            Err(_) => None,
        },
        _ = deposed => None,
    };
    match reply {
        Some(Reply::Applied(applied)) => match proto::decode_answer(&applied.answer) {
            Ok(answer) => Tried::Applied(LogIndex::new(applied.index), Box::new(answer)),
            Err(cause) => {
                tracing::warn!(%cause, "the leader's answer cannot be read");
                Tried::Elsewhere(None)
            }
        },
        Some(Reply::Refused(refused)) => {
            let code = u16::try_from(refused.code).ok().and_then(Code::of).unwrap_or(Code::Full);
            Tried::Refused(Rejection { code, what: refused.what, why: refused.why, fix: refused.fix })
        }
        Some(Reply::NotLeading(_)) | None => Tried::Elsewhere(None),
    }
}
