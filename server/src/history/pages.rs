//! Reading: a page of records, in either direction, from segments and the tail. Every frame is checked as it is read.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use prost::Message as _;
use proto::history::v1::Record;
use scheduler_core::id::LogIndex;

use super::directory;
use super::error::Error;
use super::files::{self, Role};
use super::frame::{self, HEADER as FRAME_HEADER, Kind};
use super::handle::Inner;
use super::query::{Direction, Page, Query};
use super::record;
use super::segment::{self, HEADER};
use super::shape::{Range, Segment, Shape};
use super::tail::{Block, Mention};

/// A page is full with so many bytes of records.
const PAGE: usize = 4 << 20;
/// Files may go while they are read: so often the plan is made again.
const TRIES: u32 = 16;

/// A part of what is to be read.
#[derive(Debug, Clone)]
enum Piece {
    Hole(Range),
    Sealed(Segment),
    Tail { segment: Segment, blocks: Vec<Block>, mentions: Vec<Mention> },
}

/// A file that is being read.
struct Source {
    path: PathBuf,
    file: File,
    /// What it covers; of the tail what it covered when the plan was made.
    range: Range,
    blocks: Vec<Block>,
    mentions: Vec<Mention>,
    end: u64,
}

/// Why a piece could not be read.
enum Stop {
    /// The file is gone, or another: the plan is out of date.
    Again,
    /// The page is full before this index.
    Full(u64),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(cause: Error) -> Self {
        Self::Failed(cause)
    }
}

/// Reads a page.
pub(super) fn read(inner: &Inner, query: &Query) -> Result<Page, Error> {
    for _ in 0..TRIES {
        match attempt(inner, query) {
            Ok(page) => return Ok(page),
            Err(Stop::Again | Stop::Full(_)) => {}
            Err(Stop::Failed(cause)) => return Err(cause),
        }
    }
    Err(Error::damaged(&inner.dir, "its files change faster than they can be read"))
}

fn attempt(inner: &Inner, query: &Query) -> Result<Page, Stop> {
    let mut pieces = plan(&inner.shape(), query);
    if query.direction == Direction::Backward {
        pieces.reverse();
    }
    let mut filling = Filling { query: *query, page: Page::default(), bytes: 0 };
    for piece in pieces {
        let sealed = match &piece {
            Piece::Hole(hole) => return Ok(filling.before_hole(*hole)),
            Piece::Sealed(segment) => Some(segment.clone()),
            Piece::Tail { .. } => None,
        };
        match open(inner, piece).and_then(|source| filling.take(&source)) {
            Ok(()) => {}
            Err(Stop::Full(next)) => {
                filling.page.next = Some(LogIndex::new(next));
                return Ok(filling.page);
            }
            Err(Stop::Failed(Error::Damaged { what, .. })) if sealed.is_some() => {
                if let Some(segment) = sealed {
                    found_damage(inner, &segment, &what)?;
                }
                return Err(Stop::Again);
            }
            Err(stop) => return Err(stop),
        }
    }
    Ok(filling.page)
}

/// Sets a damaged segment aside, unless somebody has already.
pub(super) fn found_damage(inner: &Inner, segment: &Segment, what: &str) -> Result<(), Error> {
    let surgery = inner.surgery();
    let mut shape = inner.shape();
    if shape.segments.get(&segment.range.from) == Some(segment) {
        directory::salvage(&inner.dir, &mut shape, segment, what)?;
    }
    drop(shape);
    drop(surgery);
    inner.shape_changed();
    Ok(())
}

/// Returns the pieces that a query goes through, ascending. What cannot have anything of it is left out.
fn plan(shape: &Shape, query: &Query) -> Vec<Piece> {
    let wanted = Range::new(query.from.get().max(shape.floor), query.through.get());
    let (first, last) = (query.from_time.as_millis(), query.through_time.as_millis());
    let is_in_time = |segment: &Segment| segment.first_ms <= last && segment.last_ms >= first;
    let is_of_job = |segment: &Segment| {
        query
            .job
            .is_none_or(|job| segment.jobs.is_some_and(|(min, max)| min <= job.get() && job.get() <= max))
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for segment in shape.segments.values() {
        let may_have = segment.records > 0 && is_in_time(segment) && is_of_job(segment);
        if may_have && segment.range.and(wanted).is_some() {
            pieces.push(Piece::Sealed(segment.clone()));
        }
    }
    let tail = &shape.tail;
    if let Some(range) = tail.range().filter(|range| tail.records > 0 && range.and(wanted).is_some()) {
        let segment = Segment {
            range,
            records: tail.records,
            first_ms: tail.first_ms,
            last_ms: tail.last_ms,
            bytes: tail.bytes,
            digest: [0; 32],
            jobs: None,
        };
        if is_in_time(&segment) {
            let mentions = if query.job.is_some() { tail.mentions.clone() } else { Vec::new() };
            pieces.push(Piece::Tail { segment, blocks: tail.blocks.clone(), mentions });
        }
    }
    for hole in shape.holes() {
        if let Some(hole) = hole.and(wanted).filter(|hole| is_hole_in_time(shape, *hole, (first, last))) {
            pieces.push(Piece::Hole(hole));
        }
    }
    pieces.sort_by_key(|piece| match piece {
        Piece::Hole(hole) => hole.from,
        Piece::Sealed(segment) | Piece::Tail { segment, .. } => segment.range.from,
    });
    pieces
}

/// Whether what is missing may be of a time: it lies between what is before it and what is behind it.
fn is_hole_in_time(shape: &Shape, hole: Range, (first, last): (u64, u64)) -> bool {
    let parts = || shape.segments.values().filter(|segment| segment.records > 0);
    let before =
        parts().filter(|segment| segment.range.through < hole.from).map(|segment| segment.last_ms).max();
    let behind =
        parts().filter(|segment| segment.range.from > hole.through).map(|segment| segment.first_ms).min();
    let tail = (shape.tail.records > 0 && shape.tail.from > hole.through).then_some(shape.tail.first_ms);
    before.is_none_or(|before| before <= last) && behind.or(tail).is_none_or(|behind| behind >= first)
}

fn open(inner: &Inner, piece: Piece) -> Result<Source, Stop> {
    match piece {
        Piece::Hole(_) => Err(Stop::Again),
        Piece::Sealed(segment) => {
            let path = files::path(&inner.dir, segment.range.from, Role::Sealed);
            let file = files::open(&path)?.ok_or(Stop::Again)?;
            let cluster = inner.shape().cluster;
            let map = segment::map(&path, &file, cluster, segment.range.from)?;
            if map.segment != segment {
                return Err(Error::damaged(path, "it is another than the catalogue names").into());
            }
            let (blocks, mentions, end) = (map.blocks, map.mentions, map.end);
            Ok(Source { path, file, range: segment.range, blocks, mentions, end })
        }
        Piece::Tail { segment, blocks, mentions } => {
            let from = segment.range.from;
            let path = files::path(&inner.dir, from, Role::Open);
            let file = files::open(&path)?.ok_or(Stop::Again)?;
            Ok(Source { path, file, range: segment.range, blocks, mentions, end: segment.bytes })
        }
    }
}

impl Source {
    fn bytes(&self, from: u64, through: u64) -> Result<Vec<u8>, Error> {
        let length = through.checked_sub(from).and_then(|length| usize::try_from(length).ok());
        let mut buffer = vec![0; length.ok_or_else(|| Error::damaged(&self.path, "it contradicts itself"))?];
        self.file.read_exact_at(&mut buffer, from).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::damaged(&self.path, "it is cut short"),
            _ => Error::io("read", &self.path)(cause),
        })?;
        Ok(buffer)
    }

    /// Returns the frame that begins at an offset.
    fn frame(&self, offset: u64) -> Result<Vec<u8>, Error> {
        let header = u64::try_from(FRAME_HEADER).unwrap_or(u64::MAX);
        let head = self.bytes(offset, offset.saturating_add(header))?;
        let length = frame::claimed_length(&head).and_then(|length| u64::try_from(length).ok());
        let length = length.ok_or_else(|| Error::damaged(&self.path, "a frame is longer than any can be"))?;
        self.bytes(offset, offset.saturating_add(length))
    }

    /// Returns the frames of one block.
    fn block(&self, at: usize) -> Result<Vec<u8>, Error> {
        let end = self.blocks.get(at + 1).map_or(self.end, |next| next.offset);
        self.bytes(self.blocks.get(at).map_or(HEADER, |block| block.offset), end)
    }
}

struct Filling {
    query: Query,
    page: Page,
    bytes: usize,
}

impl Filling {
    /// Ends the page before a hole, or with it.
    fn before_hole(mut self, hole: Range) -> Page {
        let is_forward = self.query.direction == Direction::Forward;
        if !self.page.records.is_empty() {
            self.page.next = Some(LogIndex::new(if is_forward { hole.from } else { hole.through }));
            return self.page;
        }
        self.page.hole = Some(hole);
        self.page.next = if is_forward { hole.through.checked_add(1) } else { hole.from.checked_sub(1) }
            .filter(|next| self.query.from.get() <= *next && *next <= self.query.through.get())
            .map(LogIndex::new);
        self.page
    }

    fn take(&mut self, source: &Source) -> Result<(), Stop> {
        if self.query.job.is_some() { self.take_mentions(source) } else { self.take_blocks(source) }
    }

    fn take_blocks(&mut self, source: &Source) -> Result<(), Stop> {
        let (from, through) = (self.query.from.get(), self.query.through.get());
        let (first_ms, last_ms) = (self.query.from_time.as_millis(), self.query.through_time.as_millis());
        let by_index = source.blocks.partition_point(|block| block.index <= from);
        let by_time = source.blocks.partition_point(|block| block.time_ms < first_ms);
        let starts = by_index.max(by_time).saturating_sub(1);
        let ends = source.blocks.partition_point(|b| b.index <= through && b.time_ms <= last_ms);
        let blocks = starts..ends.max(starts);
        let order: Vec<usize> = match self.query.direction {
            Direction::Forward => blocks.collect(),
            Direction::Backward => blocks.rev().collect(),
        };
        for at in order {
            let bytes = source.block(at)?;
            let mut records = self.records(source, &bytes)?;
            if self.query.direction == Direction::Backward {
                records.reverse();
            }
            for record in records {
                self.put(record)?;
            }
        }
        Ok(())
    }

    /// Reads the entries of a block, as far as they are wanted.
    fn records(&self, source: &Source, bytes: &[u8]) -> Result<Vec<Record>, Stop> {
        let mut records: Vec<Record> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let frame =
                frame::open(&bytes[at..]).map_err(|cause| Error::damaged(&source.path, cause.to_string()))?;
            at += frame.length;
            self.merge(source, frame, &mut records)?;
        }
        Ok(records)
    }

    fn take_mentions(&mut self, source: &Source) -> Result<(), Stop> {
        let job = self.query.job.map_or(0, |job| job.get());
        let wants = self.query.wants;
        let (told, left) = (wants.audit || wants.events, wants.jobs || wants.bills);
        let of_job = source.mentions.iter().filter(|mention| mention.job == job);
        let mut offsets: Vec<u64> = of_job
            .filter(|mention| if mention.is_left { left } else { told })
            .map(|mention| mention.offset)
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        let mut records = Vec::new();
        for offset in offsets {
            let bytes = source.frame(offset)?;
            let frame =
                frame::open(&bytes).map_err(|cause| Error::damaged(&source.path, cause.to_string()))?;
            self.merge(source, frame, &mut records)?;
        }
        if self.query.direction == Direction::Backward {
            records.reverse();
        }
        records.into_iter().try_for_each(|record| self.put(record))
    }

    /// Decodes a frame if it is wanted, into the record of its entry.
    fn merge(&self, source: &Source, frame: frame::Frame<'_>, records: &mut Vec<Record>) -> Result<(), Stop> {
        let (label, wants) = (frame.label, self.query.wants);
        let is_wanted = match label.kind {
            Kind::Told => wants.audit || wants.events,
            Kind::Jobs => wants.jobs,
            Kind::Bills => wants.bills,
            Kind::Footer => false,
        };
        let index = LogIndex::new(label.index);
        let is_in = source.range.has(label.index)
            && (self.query.from..=self.query.through).contains(&index)
            && (self.query.from_time.as_millis()..=self.query.through_time.as_millis())
                .contains(&label.time_ms);
        if !is_wanted || !is_in {
            return Ok(());
        }
        let mut part = Record::decode(frame.payload)
            .map_err(|_| Error::damaged(&source.path, frame::Error::Content.to_string()))?;
        (part.index, part.time_ms) = (label.index, label.time_ms);
        record::complete(&mut part);
        if !wants.audit {
            part.audit.clear();
        }
        if !wants.events {
            part.events.clear();
        }
        if let Some(job) = self.query.job {
            record::only_job(&mut part, job);
        }
        let is_empty = part.audit.is_empty()
            && part.events.is_empty()
            && part.left.is_empty()
            && part.forgotten.is_empty();
        if is_empty {
            return Ok(());
        }
        match records.last_mut().filter(|last| last.index == part.index) {
            Some(last) => {
                last.audit.extend(part.audit);
                last.events.extend(part.events);
                last.left.extend(part.left);
                last.forgotten.extend(part.forgotten);
            }
            None => records.push(part),
        }
        Ok(())
    }

    fn put(&mut self, record: Record) -> Result<(), Stop> {
        let is_full = self.page.records.len() >= self.query.most.max(1) || self.bytes >= PAGE;
        if is_full {
            return Err(Stop::Full(record.index));
        }
        self.bytes += record.encoded_len();
        self.page.records.push(record);
        Ok(())
    }
}

/// Returns the digest of all frames in a range; none if some of it is not here.
pub(super) fn digest(inner: &Inner, range: Range) -> Result<Option<blake3::Hash>, Error> {
    let mut hasher = blake3::Hasher::new();
    let mut next = range.from;
    while next <= range.through {
        let Some(part) = frames(inner, Range::new(next, range.through), 0, usize::MAX)? else {
            return Ok(None);
        };
        hasher.update(&part.frames);
        next = match part.through {
            Some(through) => through + 1,
            None => return Ok(None),
        };
    }
    Ok(Some(hasher.finalize()))
}

/// Frames as they are stored.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) frames: Vec<u8>,
    /// Everything asked for up to this index is in it; none if that is no whole entry.
    pub(super) through: Option<u64>,
}

/// Returns frames of a range from its beginning on, `skip` of the first entry left out, about `most` bytes; none if not
/// even the beginning is here.
pub(super) fn frames(inner: &Inner, range: Range, skip: usize, most: usize) -> Result<Option<Raw>, Error> {
    for _ in 0..TRIES {
        let piece = {
            let shape = inner.shape();
            let sealed = shape.segments.values().find(|segment| segment.range.has(range.from)).cloned();
            match (sealed, shape.tail.range()) {
                (Some(segment), _) => Piece::Sealed(segment),
                (None, Some(tail)) if tail.has(range.from) => Piece::Tail {
                    segment: Segment {
                        range: tail,
                        records: shape.tail.records,
                        first_ms: 0,
                        last_ms: 0,
                        bytes: shape.tail.bytes,
                        digest: [0; 32],
                        jobs: None,
                    },
                    blocks: shape.tail.blocks.clone(),
                    mentions: Vec::new(),
                },
                (None, _) => return Ok(None),
            }
        };
        let (sealed, covered, is_empty) = match &piece {
            Piece::Sealed(segment) => (Some(segment.clone()), segment.range, segment.records == 0),
            Piece::Tail { segment, .. } => (None, segment.range, segment.records == 0),
            Piece::Hole(hole) => (None, *hole, true),
        };
        let through = covered.through.min(range.through);
        if is_empty {
            return Ok(Some(Raw { frames: Vec::new(), through: Some(through) }));
        }
        match open(inner, piece).and_then(|source| raw(&source, Range::new(range.from, through), skip, most))
        {
            Ok(raw) => return Ok(Some(raw)),
            Err(Stop::Again | Stop::Full(_)) => {}
            Err(Stop::Failed(Error::Damaged { what, .. })) if sealed.is_some() => {
                if let Some(segment) = sealed {
                    found_damage(inner, &segment, &what)?;
                }
            }
            Err(Stop::Failed(cause)) => return Err(cause),
        }
    }
    Ok(None)
}

fn raw(source: &Source, range: Range, skip: usize, most: usize) -> Result<Raw, Stop> {
    let start = source.blocks.partition_point(|block| block.index <= range.from).saturating_sub(1);
    let mut raw = Raw::default();
    // Frames of the first entry in the range that were seen.
    let mut first: Option<(u64, usize)> = None;
    for at in start..source.blocks.len() {
        let bytes = source.block(at)?;
        let mut offset = 0;
        while offset < bytes.len() {
            let frame = frame::open(&bytes[offset..])
                .map_err(|cause| Error::damaged(&source.path, cause.to_string()))?;
            let (label, frames) = (frame.label, &bytes[offset..offset + frame.length]);
            offset += frame.length;
            if label.index > range.through {
                raw.through = Some(range.through);
                return Ok(raw);
            }
            if label.index < range.from {
                continue;
            }
            let (entry, seen) = first.get_or_insert((label.index, 0));
            if *entry == label.index && *seen < skip {
                *seen += 1;
            } else {
                if raw.frames.len() >= most {
                    return Ok(raw);
                }
                raw.frames.extend_from_slice(frames);
            }
            if label.is_last {
                raw.through = Some(label.index);
            }
        }
    }
    raw.through = Some(range.through);
    Ok(raw)
}
