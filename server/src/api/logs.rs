//! Logs of jobs, read from the node that has them and followed while the process lives.

use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use scheduler_core::budget;
use scheduler_core::command::{Code, Rejection};
use scheduler_core::id::{AttemptId, AttemptNo, JobId, Name, NodeId};
use scheduler_core::job::Job;
use scheduler_core::state::State;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status};

use super::{Replies, job};
use crate::clock::Deadline;
use crate::links;
use crate::refusal;
use crate::shared::{Admitted, Shared};

/// Bytes that are asked of an agent at once.
const PART: u32 = 256 * 1024;
/// How often a live process's log is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// A node that is not linked anywhere for so long ends a log that is followed; one that is only read, sooner. Agents are
/// back within a second or two of a leader's death.
const PATIENCE: Duration = Duration::from_secs(15);
const PATIENCE_ONCE: Duration = Duration::from_secs(5);
/// A client that takes nothing for so long loses its stream.
const SLOW: Duration = Duration::from_secs(30);
/// Parts on their way to a slow client.
const BUFFER: usize = 4;

/// One rank's log: where it is and what the node has to know.
struct Source {
    node: NodeId,
    request: v1::LogRequest,
    follow: bool,
}

/// Reads or follows a log.
pub async fn logs(
    shared: &Arc<Shared>,
    asked: Request<v1::LogsRequest>,
) -> Result<Replies<v1::LogPart>, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, false).await?;
    let source = source(&read.view.state, &caller.name, &message)?;
    let (out, parts) = mpsc::channel(BUFFER);
    let shared = Arc::clone(shared);
    tokio::spawn(async move { stream(&shared, source, message.offset, &out, caller).await });
    Ok(Box::pin(ReceiverStream::new(parts)))
}

fn source(state: &State, reader: &Name, asked: &v1::LogsRequest) -> Result<Source, Status> {
    let (id, record) = job(state, asked.job)?;
    if !may_read(state, reader, record) {
        return Err(refusal::status(&Rejection::new(
            Code::NotAllowed,
            format!("the logs of job {id} are not yours to read"),
            "they are for its user, the owners of its budget and operators",
            format!("ask `{}`", record.user),
        )));
    }
    let (no, node) = attempt(state, id, record, asked)?;
    let stream = match asked.stream.as_str() {
        "" | "stdout" => v1::LogStream::Stdout,
        "stderr" => v1::LogStream::Stderr,
        _ => return Err(refusal::bad(&proto::Error::bad("stream", "it is stdout or stderr"))),
    };
    let request = v1::LogRequest {
        id: 0,
        job: id.get(),
        attempt: u32::from(no.get()),
        rank: asked.rank,
        stream: stream.into(),
        offset: asked.offset,
        length: PART,
        launch: record.launch.as_bytes().to_vec(),
        account: record.account.as_str().to_owned(),
    };
    Ok(Source { node, request, follow: asked.follow })
}

fn may_read(state: &State, reader: &Name, record: &Job) -> bool {
    record.user == *reader || budget::owns(state, reader, record.budget) || budget::is_operator(state, reader)
}

/// Returns the attempt that is meant, the latest if none is named, and the node of its rank.
fn attempt(
    state: &State,
    id: JobId,
    record: &Job,
    asked: &v1::LogsRequest,
) -> Result<(AttemptNo, NodeId), Status> {
    let nowhere = |what: String| {
        let fix = "it has none until it was placed: see `bursar explain`".to_owned();
        Err(refusal::status(&Rejection::new(Code::NoLog, what, "", fix)))
    };
    let last = record.next_attempt.get().saturating_sub(1);
    let number = match asked.attempt.map(u16::try_from) {
        None => last,
        Some(Ok(number)) => number,
        Some(Err(_)) => 0,
    };
    let no = AttemptNo::new(number);
    let live = state.attempts.get(&AttemptId { job: id, no });
    if let Some(live) = live {
        let placement = live.placements.iter().find(|p| u32::from(p.rank.get()) == asked.rank);
        return match placement {
            Some(placement) => Ok((no, placement.node)),
            None => nowhere(format!("attempt {id}.{no} has no rank {}", asked.rank)),
        };
    }
    match record.past.iter().find(|past| past.no == no) {
        Some(past) => match usize::try_from(asked.rank).ok().and_then(|rank| past.nodes.get(rank)) {
            Some(node) => Ok((no, *node)),
            None => nowhere(format!("attempt {id}.{no} had no rank {}", asked.rank)),
        },
        None if number == 0 => nowhere(format!("job {id} has no attempt yet")),
        None => nowhere(format!("job {id} has no attempt {no}")),
    }
}

/// Sends parts until the end. The caller's place is held as long.
async fn stream(
    shared: &Shared,
    source: Source,
    mut offset: u64,
    out: &mpsc::Sender<Result<v1::LogPart, Status>>,
    _caller: Admitted,
) {
    let patience = if source.follow { PATIENCE } else { PATIENCE_ONCE };
    let mut give_up = Deadline::after(patience);
    let mut stopping = shared.stopping.subscribe();
    while !*stopping.borrow_and_update() {
        let request = v1::LogRequest { offset, ..source.request.clone() };
        let Some(chunk) = links::read_log(shared, source.node, request).await else {
            if give_up.is_over() {
                let _ = send(out, Err(unreachable())).await;
                return;
            }
            tokio::time::sleep(LOOK).await;
            continue;
        };
        give_up = Deadline::after(patience);
        if let Some(error) = chunk.error {
            let _ = send(out, Err(no_log(error))).await;
            return;
        }
        let length = chunk.bytes.len();
        if length > 0 || chunk.ended {
            let part = v1::LogPart {
                offset,
                bytes: chunk.bytes,
                attempt: source.request.attempt,
                ended: chunk.ended,
            };
            if !send(out, Ok(part)).await {
                return;
            }
        }
        offset += u64::try_from(length).unwrap_or(0);
        if chunk.ended || (length == 0 && !source.follow) {
            return;
        }
        if length == 0 {
            let _ = tokio::time::timeout(LOOK, out.closed()).await;
        }
    }
}

async fn send(out: &mpsc::Sender<Result<v1::LogPart, Status>>, part: Result<v1::LogPart, Status>) -> bool {
    matches!(tokio::time::timeout(SLOW, out.send(part)).await, Ok(Ok(())))
}

fn unreachable() -> Status {
    let fix = "try again when `bursar node list` shows it as ready".to_owned();
    let what = "the node that has this log cannot be reached".to_owned();
    refusal::status(&Rejection::new(Code::NoLog, what, "logs stay on the node that wrote them", fix))
}

fn no_log(what: String) -> Status {
    refusal::status(&Rejection::new(Code::NoLog, what, "", String::new()))
}
