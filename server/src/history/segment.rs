//! Segment files: a header, frames, and once it is sealed a footer that says what is in it.
//!
//! ```text
//! magic 8   format u32   cluster 16   from u64   crc32 u32   frames …   footer frame   footer's offset u64   end 8
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use prost::Message as _;
use proto::history::v1 as wire;
use scheduler_core::id::ClusterId;

use super::error::Error;
use super::frame::{self, Kind, Label};
use super::shape::{Range, Segment};
use super::tail::{Block, Mention, Tail, length};

/// Bytes before the first frame.
pub(super) const HEADER: u64 = 40;
/// A place to begin reading at is noted about so often, in bytes.
pub(super) const SPARSE: u64 = 64 << 10;

const MAGIC: [u8; 8] = *b"BURSHIST";
const END: [u8; 8] = *b"HISTEND\0";
const TRAILER: u64 = 16;
const FORMAT: u32 = 1;

/// What a sealed segment's footer says.
#[derive(Debug, Clone)]
pub(super) struct Map {
    pub(super) segment: Segment,
    pub(super) blocks: Vec<Block>,
    pub(super) mentions: Vec<Mention>,
    /// Where the frames of records end.
    pub(super) end: u64,
}

/// Returns the header of a segment's file.
pub(super) fn header(cluster: ClusterId, from: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(FORMAT.to_le_bytes());
    out.extend(cluster.as_bytes());
    out.extend(from.to_le_bytes());
    let sum = frame::checksum(&out, &[]);
    out.extend(sum.to_le_bytes());
    out
}

/// Checks a header: that it is one, of this history, beginning at `from`.
pub(super) fn check_header(bytes: &[u8], cluster: Option<ClusterId>, from: u64) -> Result<ClusterId, String> {
    let head = bytes.get(..36).ok_or("its beginning is missing")?;
    if head[..8] != MAGIC || bytes.get(36..40) != Some(&frame::checksum(head, &[]).to_le_bytes()) {
        return Err("its beginning is none of a segment".to_owned());
    }
    let format = frame::u32_at(head, 8);
    if format != FORMAT {
        return Err(format!("it has format {format}, this version reads {FORMAT}"));
    }
    let found = ClusterId::from_slice(&head[12..28]).ok_or("its beginning is none of a segment")?;
    if cluster.is_some_and(|cluster| cluster != found) {
        return Err(format!("it is of another control plane ({found})"));
    }
    let begins = frame::u64_at(head, 28);
    if begins != from {
        return Err(format!("it begins at entry {begins}, its name says {from}"));
    }
    Ok(found)
}

/// Returns what follows the frames of a segment that covers `tail`'s range, and the segment.
pub(super) fn close(tail: &Tail) -> Option<(Vec<u8>, Segment)> {
    let range = tail.range()?;
    let at = tail.bytes.max(HEADER);
    let mut mentions = tail.mentions.clone();
    mentions.sort_unstable();
    mentions.dedup();
    let footer = wire::Footer {
        range: Some(range.to_wire()),
        records: tail.records,
        first_ms: tail.first_ms,
        last_ms: tail.last_ms,
        digest: tail.hasher.finalize().as_bytes().to_vec(),
        blocks: tail
            .blocks
            .iter()
            .map(|b| wire::Block { index: b.index, time_ms: b.time_ms, offset: b.offset })
            .collect(),
        jobs: mentions.iter().map(|mention| mention.job).collect(),
        job_offsets: mentions.iter().map(|mention| mention.offset).collect(),
        job_left: mentions.iter().map(|mention| mention.is_left).collect(),
    };
    let label = Label { kind: Kind::Footer, is_last: true, index: range.through, time_ms: tail.last_ms };
    let mut out = Vec::new();
    frame::seal(label, &footer.encode_to_vec(), &mut out);
    out.extend(at.to_le_bytes());
    out.extend(END);
    let segment = Segment {
        range,
        records: tail.records,
        first_ms: tail.first_ms,
        last_ms: tail.last_ms,
        bytes: at + length(out.len()),
        digest: *tail.hasher.finalize().as_bytes(),
        jobs: mentions.first().map(|mention| mention.job).zip(mentions.last().map(|mention| mention.job)),
    };
    Some((out, segment))
}

/// Reads a sealed segment's footer, and checks its header.
pub(super) fn map(path: &Path, file: &File, cluster: Option<ClusterId>, from: u64) -> Result<Map, Error> {
    let damaged = |what: &str| Error::damaged(path, what);
    let read = |at: u64, bytes: u64| {
        let mut buffer = vec![0; usize::try_from(bytes).map_err(|_| damaged("it is too long"))?];
        file.read_exact_at(&mut buffer, at).map_err(Error::io("read", path))?;
        Ok::<_, Error>(buffer)
    };
    let bytes = file.metadata().map_err(Error::io("look at", path))?.len();
    if bytes < HEADER + TRAILER {
        return Err(damaged("it is cut short"));
    }
    check_header(&read(0, HEADER)?, cluster, from).map_err(|what| Error::damaged(path, what))?;
    let trailer = read(bytes - TRAILER, TRAILER)?;
    let end = frame::u64_at(&trailer, 0);
    if trailer[8..] != END || end < HEADER || end > bytes - TRAILER {
        return Err(damaged("its end is missing"));
    }
    let content = read(end, bytes - TRAILER - end)?;
    let frame = frame::open(&content).map_err(|cause| damaged(&cause.to_string()))?;
    if frame.label.kind != Kind::Footer || frame.length != content.len() {
        return Err(damaged("its end is none of a segment"));
    }
    let footer = wire::Footer::decode(frame.payload).map_err(|_| damaged("its end cannot be decoded"))?;
    of_footer(footer, bytes, end).ok_or_else(|| damaged("its end contradicts itself"))
}

fn of_footer(footer: wire::Footer, bytes: u64, end: u64) -> Option<Map> {
    let mentions = footer.jobs.iter().zip(&footer.job_offsets).zip(&footer.job_left);
    let mentions: Vec<Mention> = mentions
        .map(|((job, offset), left)| Mention { job: *job, offset: *offset, is_left: *left })
        .collect();
    let blocks = footer.blocks.iter();
    let blocks = blocks.map(|b| Block { index: b.index, time_ms: b.time_ms, offset: b.offset }).collect();
    let segment = Segment {
        range: Range::of_wire(footer.range?),
        records: footer.records,
        first_ms: footer.first_ms,
        last_ms: footer.last_ms,
        bytes,
        digest: footer.digest.try_into().ok()?,
        jobs: mentions.first().map(|mention| mention.job).zip(mentions.last().map(|mention| mention.job)),
    };
    Some(Map { segment, blocks, mentions, end })
}

/// Whole entries in a row, as a damaged file has them.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Runs of entries between damage: where each entry's frames are.
    pub(super) runs: Vec<Vec<(u64, std::ops::Range<usize>)>>,
    /// Where the first bad frame begins, or an entry that is not whole; none if there is none.
    pub(super) bad_at: Option<usize>,
}

/// Looks for whole entries in a file's content, footers left out. Every frame is checked.
pub(super) fn walk(bytes: &[u8]) -> Walk {
    let mut walk = Walk { runs: vec![Vec::new()], bad_at: None };
    let mut at = usize::try_from(HEADER).expect("a small number");
    // Where the entry began whose frames are being read.
    let mut open: Option<(u64, usize)> = None;
    let mut newest = None;
    // Behind damage: whether the next frame begins an entry is not known, since what went may be its beginning.
    let mut is_lost = false;
    while at < bytes.len() {
        let frame = match frame::open(&bytes[at..]) {
            Ok(frame) if frame.label.kind == Kind::Footer => break,
            Ok(frame) if newest.is_none_or(|newest| frame.label.index > newest) => frame,
            Ok(_) | Err(_) => {
                walk.bad(open.map_or(at, |(_, start)| start));
                (open, is_lost) = (None, true);
                match frame::claimed_length(&bytes[at..]).filter(|length| at + length < bytes.len()) {
                    Some(length) => at += length,
                    None => return walk,
                }
                continue;
            }
        };
        let index = frame.label.index;
        if is_lost && frame.label.kind != Kind::Told {
            is_lost = !frame.label.is_last;
            at += frame.length;
            continue;
        }
        is_lost = false;
        if let Some((of, start)) = open
            && of != index
        {
            walk.bad(start);
            open = None;
        }
        let (_, start) = *open.get_or_insert((index, at));
        at += frame.length;
        if frame.label.is_last {
            walk.runs.last_mut().expect("there is always one").push((index, start..at));
            (open, newest) = (None, Some(index));
        }
    }
    if let Some((_, start)) = open {
        walk.bad(start);
    }
    walk
}

impl Walk {
    fn bad(&mut self, at: usize) {
        self.bad_at.get_or_insert(at);
        if self.runs.last().is_some_and(|run| !run.is_empty()) {
            self.runs.push(Vec::new());
        }
    }
}
