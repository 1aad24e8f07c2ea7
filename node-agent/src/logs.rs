//! Log requests that come over the link.

use std::sync::Arc;

use proto::v1;
use scheduler_core::agent::RankId;
use scheduler_core::id::{AttemptId, AttemptNo, JobId, Rank};
use tokio::sync::{Semaphore, mpsc};

use crate::executor::{LogError, LogPart, Stream};
use crate::link::Outbound;

/// The largest part of one answer, in bytes.
const PART_MAX: u64 = 1 << 20;
/// Requests that are read at the same time: a slow file system of one job must not hold up the others for long.
const AT_ONCE: usize = 8;

type Read = dyn Fn(RankId, Stream, u64, u64) -> Result<LogPart, LogError> + Send + Sync;

/// Answers log requests, each on a thread that may block.
pub struct Reader {
    read: Arc<Read>,
    outbound: mpsc::Sender<Outbound>,
    places: Arc<Semaphore>,
}

impl Reader {
    /// Makes a reader whose answers go to the link.
    pub fn new(
        read: impl Fn(RankId, Stream, u64, u64) -> Result<LogPart, LogError> + Send + Sync + 'static,
        outbound: mpsc::Sender<Outbound>,
    ) -> Self {
        Self { read: Arc::new(read), outbound, places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Answers a request when it is read. With too many at once it is answered as failed.
    pub fn read(&self, request: v1::LogRequest) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let busy = v1::LogChunk {
                id: request.id,
                offset: request.offset,
                bytes: Vec::new(),
                ended: false,
                error: Some("too many logs are being read on this node: try again".to_owned()),
            };
            let _ = self.outbound.try_send(Outbound::Log(busy));
            return;
        };
        let (read, outbound) = (Arc::clone(&self.read), self.outbound.clone());
        tokio::task::spawn_blocking(move || {
            let chunk = answer(read.as_ref(), &request);
            drop(place);
            let _ = outbound.try_send(Outbound::Log(chunk));
        });
    }
}

fn answer(read: &Read, request: &v1::LogRequest) -> v1::LogChunk {
    let chunk =
        |bytes, ended, error| v1::LogChunk { id: request.id, offset: request.offset, bytes, ended, error };
    let Some((id, stream)) = wanted(request) else {
        return chunk(Vec::new(), false, Some("the request is not valid".to_owned()));
    };
    match read(id, stream, request.offset, u64::from(request.length).min(PART_MAX)) {
        Ok(part) => chunk(part.bytes, part.is_end, None),
        Err(error) => chunk(Vec::new(), false, Some(error.to_string())),
    }
}

fn wanted(request: &v1::LogRequest) -> Option<(RankId, Stream)> {
    let attempt =
        AttemptId { job: JobId::new(request.job), no: AttemptNo::new(u16::try_from(request.attempt).ok()?) };
    let rank = Rank::new(u16::try_from(request.rank).ok()?);
    let stream = match request.stream() {
        v1::LogStream::Unspecified => return None,
        v1::LogStream::Stdout => Stream::Stdout,
        v1::LogStream::Stderr => Stream::Stderr,
    };
    Some((RankId { attempt, rank }, stream))
}
