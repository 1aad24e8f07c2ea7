//! Fetching what is missing from peers: the newest part first, a window at a time, gone on with after a restart.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use scheduler_core::id::ClusterId;

use super::ask::{coverage_of, others};
use super::error::Error;
use super::files::{self, Role};
use super::frame;
use super::handle::Inner;
use super::segment::{self, HEADER};
use super::shape::Range;
use super::tail::{Tail, length};
use crate::peers::Client;
use crate::shared::Shared;

/// How long a peer may take for a part.
const PATIENCE: Duration = Duration::from_secs(10);
/// What nobody had is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(20);
/// What is asked for again soon: peers that did not answer.
const SOON: Duration = Duration::from_secs(1);
/// Fetching leaves the disk and the link to others: a pause after each part of about 1 MiB.
const PAUSE: Duration = Duration::from_millis(20);

/// What a round of fetching came to.
enum Round {
    /// Nothing is missing.
    Whole,
    /// Something was fetched, or found to be gone for good.
    Progress,
    /// Not everybody answered, and those who did have nothing.
    Unknown,
    /// Everybody answered, and nobody has it.
    Nowhere,
}

/// Fetches what is missing for as long as the replica runs.
pub async fn run(shared: Arc<Shared>) {
    let inner = Arc::clone(shared.history.inner());
    remove_stale_parts(&inner);
    let mut stopping = shared.stopping.subscribe();
    loop {
        let wait = match round(&shared, &inner).await {
            Ok(Round::Progress) => continue,
            Ok(Round::Whole | Round::Nowhere) => AGAIN,
            Ok(Round::Unknown) => SOON,
            Err(cause) => {
                tracing::error!(cause = cause.report(), "history that is missing could not be fetched");
                SOON
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = inner.look.notified() => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        if inner.is_closed() {
            return;
        }
    }
}

/// Removes parts that no hole begins with any more.
fn remove_stale_parts(inner: &Inner) {
    let Ok(found) = files::list(&inner.dir) else { return };
    let holes = inner.shape().holes();
    for (from, role) in found {
        if role == Role::Part && !holes.iter().any(|hole| hole.has(from)) {
            let _ = files::remove(&files::path(&inner.dir, from, role));
        }
    }
}

async fn round(shared: &Shared, inner: &Arc<Inner>) -> Result<Round, Error> {
    let (hole, cluster) = {
        let shape = inner.shape();
        let mut holes = shape.holes();
        // What nobody had is asked for last.
        holes.sort_by_key(|hole| {
            let is_nowhere = shape.nowhere.iter().any(|none| none.and(*hole).is_some());
            (!is_nowhere, hole.through)
        });
        (holes.pop(), shape.cluster)
    };
    let (Some(hole), Some(cluster)) = (hole, cluster) else { return Ok(Round::Whole) };
    let Some(mut peers) = others(shared) else { return Ok(Round::Unknown) };
    let all = peers.len();
    let mut answers = Vec::new();
    for peer in &mut peers {
        if let Some(reply) = coverage_of(peer).await.filter(|reply| reply.cluster == cluster.as_bytes()) {
            answers.push((peer.clone(), reply));
        }
    }
    let window = inner.bounds.window.max(1);
    let newest = Range::new(hole.from.max(hole.through / window * window), hole.through);
    let mut best: Option<(Range, Client)> = None;
    for (peer, reply) in &answers {
        for has in reply.ranges.iter().map(|range| Range::of_wire(*range)) {
            // A part of an older window will do if nobody has anything of the newest.
            let Some(has) = has.and(hole) else { continue };
            let of_last = Range::new(has.from.max(has.through / window * window), has.through);
            let part = has.and(newest).unwrap_or(of_last);
            if best.as_ref().is_none_or(|(best, _)| (best.through, part.from) < (part.through, best.from)) {
                best = Some((part, peer.clone()));
            }
        }
    }
    match best {
        Some((part, peer)) => {
            let is_more = fetch_part(inner, cluster, part, peer).await?;
            Ok(if is_more { Round::Progress } else { Round::Unknown })
        }
        None if all == 0 || answers.len() == all => Ok(nowhere(inner, hole, &answers)),
        None => Ok(Round::Unknown),
    }
}

/// Everybody answered, and nobody has a hole's part. What all let go on purpose is gone on purpose here too.
fn nowhere(inner: &Inner, hole: Range, answers: &[(Client, v1::HistoryCoverageReply)]) -> Round {
    let mut shape = inner.shape();
    let floor = answers.iter().map(|(_, reply)| reply.floor).min().unwrap_or(0).min(hole.through + 1);
    if hole.from == shape.floor && floor > hole.from {
        shape.floor = floor;
        shape.forget_healed();
        shape.touch();
        drop(shape);
        inner.shape_changed();
        return Round::Progress;
    }
    if !shape.nowhere.contains(&hole) {
        tracing::error!(from = hole.from, through = hole.through, "no replica has this part of history");
        shape.nowhere.push(hole);
    }
    Round::Nowhere
}

/// Fetches one part from one peer; `false` if the peer gave nothing.
async fn fetch_part(
    inner: &Arc<Inner>,
    cluster: ClusterId,
    part: Range,
    mut peer: Client,
) -> Result<bool, Error> {
    let opening = Arc::clone(inner);
    let mut writer = blocking(move || Part::open(&opening, cluster, part)).await?;
    while writer.next() <= part.through {
        let asked = v1::FetchHistoryRequest {
            cluster: cluster.as_bytes().to_vec(),
            from: writer.next(),
            through: part.through,
            skip: writer.skip,
        };
        let Ok(Ok(reply)) = tokio::time::timeout(PATIENCE, peer.fetch_history(asked)).await else { break };
        let reply = reply.into_inner();
        if reply.frames.is_empty() && reply.through.is_none() {
            break;
        }
        writer = blocking(move || writer.take(&reply)).await?;
        tokio::time::sleep(PAUSE).await;
    }
    if writer.next() == part.from {
        return Ok(false);
    }
    let sealing = Arc::clone(inner);
    blocking(move || writer.seal(&sealing)).await?;
    Ok(true)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Closed)?
}

/// A segment that is being fetched.
struct Part {
    path: PathBuf,
    file: File,
    tail: Tail,
    through: u64,
    /// Frames of the next entry that are here already.
    skip: u32,
    /// Those frames.
    open: Vec<u8>,
}

impl Part {
    /// Goes on with what was fetched before.
    fn open(inner: &Inner, cluster: ClusterId, range: Range) -> Result<Self, Error> {
        let path = files::path(&inner.dir, range.from, Role::Part);
        let file = files::open_or_make(&path)?;
        let content = fs::read(&path).map_err(Error::io("read", &path))?;
        let mut tail = Tail::at(range.from);
        if segment::check_header(&content, Some(cluster), range.from).is_ok() {
            let walk = segment::walk(&content);
            let run = walk.runs.first().map(Vec::as_slice).unwrap_or_default();
            let is_first = run.first().is_some_and(|(_, at)| length(at.start) == HEADER);
            let run = if is_first { run } else { &[] };
            for (_, at) in run.iter().take_while(|(index, _)| *index <= range.through) {
                tail.push_frames(content.get(at.clone()).unwrap_or_default())
                    .map_err(|cause| Error::damaged(&path, cause.to_string()))?;
            }
        } else {
            file.set_len(0).map_err(Error::io("cut", &path))?;
            file.write_all_at(&segment::header(cluster, range.from), 0).map_err(Error::io("write", &path))?;
        }
        tail.bytes = tail.bytes.max(HEADER);
        file.set_len(tail.bytes).map_err(Error::io("cut", &path))?;
        Ok(Self { path, file, tail, through: range.through, skip: 0, open: Vec::new() })
    }

    fn next(&self) -> u64 {
        self.tail.next
    }

    /// Takes a reply, every frame of it checked.
    fn take(mut self, reply: &v1::FetchHistoryReply) -> Result<Self, Error> {
        let bad = |what: &str| Error::damaged(&self.path, format!("what a peer sent of it: {what}"));
        if blake3::hash(&reply.frames).as_bytes().as_slice() != reply.digest.as_slice() {
            return Err(bad("its digest does not match"));
        }
        let mut whole = Vec::new();
        let mut offset = 0;
        while offset < reply.frames.len() {
            let frame = frame::open(&reply.frames[offset..]).map_err(|cause| bad(&cause.to_string()))?;
            let label = frame.label;
            if label.index < self.tail.next || label.index > self.through {
                return Err(bad("an entry is not one that was asked for"));
            }
            self.open.extend_from_slice(&reply.frames[offset..offset + frame.length]);
            self.skip += 1;
            offset += frame.length;
            if label.is_last {
                let at = self.tail.bytes;
                self.tail.push_frames(&self.open).map_err(|cause| bad(&cause.to_string()))?;
                whole.push((at, std::mem::take(&mut self.open)));
                self.skip = 0;
            }
        }
        for (at, frames) in whole {
            self.file.write_all_at(&frames, at).map_err(Error::io("write", &self.path))?;
        }
        if let Some(through) = reply.through {
            self.tail.next = self.tail.next.max(through.min(self.through) + 1);
        }
        Ok(self)
    }

    /// Makes what was fetched a segment of this history.
    fn seal(self, inner: &Inner) -> Result<(), Error> {
        let Some((end, sealed)) = segment::close(&self.tail) else { return Ok(()) };
        let write = self.file.write_all_at(&end, self.tail.bytes);
        write.and_then(|()| self.file.set_len(sealed.bytes)).map_err(Error::io("write", &self.path))?;
        if let Err(cause) = files::sync(&self.file, &self.path) {
            // The next sync of this file would prove nothing: it is fetched anew.
            files::remove(&self.path)?;
            return Err(cause);
        }
        let surgery = inner.surgery();
        let range = sealed.range;
        let is_missing = inner.shape().holes().iter().any(|hole| hole.and(range) == Some(range));
        if !is_missing {
            return files::remove(&self.path);
        }
        let path = files::path(&inner.dir, range.from, Role::Sealed);
        fs::rename(&self.path, &path).map_err(Error::io("rename", &self.path))?;
        files::sync_dir(&inner.dir)?;
        let mut shape = inner.shape();
        tracing::info!(from = range.from, through = range.through, "history was fetched from a peer");
        shape.segments.insert(range.from, sealed);
        shape.touch();
        shape.forget_healed();
        drop(shape);
        drop(surgery);
        inner.shape_changed();
        Ok(())
    }
}
