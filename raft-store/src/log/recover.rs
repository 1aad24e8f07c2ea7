//! Reading the log: all of it at opening, with every check that can be made, and ranges of it later.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use super::keys::{self, RecordKey};
use super::mark::{Mark, MarkFile};
use super::tail::{Tail, next};
use crate::engine::{self, Change, Engine, Pair};
use crate::envelope::{self, Kind, Label};
use crate::record::{self, Entry, Fragment, Position, Vote};

/// Why a log could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The log is not what it must be: it says what is wrong.
    Damaged(String),
    /// The file system refused.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        cause: io::Error,
    },
}

impl From<engine::OpenError> for OpenError {
    fn from(error: engine::OpenError) -> Self {
        match error {
            engine::OpenError::Damaged(what) => Self::Damaged(format!("the log's database: {what}")),
            engine::OpenError::Io(cause) => Self::Io { doing: "open the log's database", cause },
        }
    }
}

/// The records that one key range of the engine holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// The last index in the record.
    pub(super) last: u64,
    /// How many parts it has.
    pub(super) parts: u16,
}

/// What the writer needs to know about the disk.
pub(super) struct Found {
    pub(super) spans: BTreeMap<u64, Span>,
    pub(super) purged: Option<Position>,
    pub(super) mark: MarkFile,
    pub(super) noted: Mark,
}

/// A log that passed every check.
pub(super) struct Recovered {
    pub(super) tail: Tail,
    pub(super) found: Found,
}

/// The format of the database.
const FORMAT: u64 = 1;
const PAGE: usize = 64;

/// Reads and checks everything.
pub(super) fn recover(
    engine: &dyn Engine,
    mark: io::Result<(MarkFile, Mark)>,
    tail_bytes: usize,
) -> Result<Recovered, OpenError> {
    let (mark, noted) = mark.map_err(|cause| match cause.kind() {
        io::ErrorKind::InvalidData => OpenError::Damaged(cause.to_string()),
        _ => OpenError::Io { doing: "open the high-water mark", cause },
    })?;
    check_format(engine, noted)?;
    let purged: Option<Position> = read_meta(engine, keys::PURGED, Kind::Purged)?;
    let vote: Option<Vote> = read_meta(engine, keys::VOTE, Kind::Vote)?;
    if let Some(noted) = noted.vote
        && vote.is_none_or(|vote| vote.is_behind(&noted))
    {
        return damaged(format!("the vote of term {} is missing from the log's database", noted.term));
    }
    let mut tail = Tail::new(tail_bytes);
    tail.restore(purged, vote, noted.committed);
    let spans = read_entries(engine, &mut tail, noted.last)?;
    let last = tail.state().last;
    if let Some(noted) = noted.last
        && next(last) <= noted.index
    {
        return damaged(format!(
            "the log ends at index {} but had reached {noted}: acknowledged entries are missing",
            last.map_or_else(|| "none".to_owned(), |last| last.index.to_string()),
        ));
    }
    let noted = Mark { last, vote, committed: noted.committed };
    Ok(Recovered { tail, found: Found { spans, purged, mark, noted } })
}

/// A database without its format record is new, or has lost everything.
fn check_format(engine: &dyn Engine, noted: Mark) -> Result<(), OpenError> {
    match read_record(engine, keys::FORMAT, Kind::Format)? {
        Some((Label { first: FORMAT, .. }, _)) => Ok(()),
        Some((label, _)) => {
            damaged(format!("the log has format {}, which this version does not know", label.first))
        }
        None if noted.last.is_some() || noted.vote.is_some() => {
            damaged("the log's database is empty but the high-water mark is not".to_owned())
        }
        None => {
            let value = envelope::seal(Label { kind: Kind::Format, first: FORMAT, last: FORMAT }, &[]);
            engine
                .write(vec![Change::Put { key: keys::FORMAT.to_vec(), value }])
                .and_then(|()| engine.sync())
                .map_err(|cause| OpenError::Io { doing: "write the log's format", cause })
        }
    }
}

fn read_record(engine: &dyn Engine, key: &[u8], kind: Kind) -> Result<Option<(Label, Vec<u8>)>, OpenError> {
    let value = engine.get(key).map_err(|cause| OpenError::Io { doing: "read the log's database", cause })?;
    let Some(value) = value else { return Ok(None) };
    match envelope::open(kind, &value) {
        Ok((label, payload)) => Ok(Some((label, payload.to_vec()))),
        Err(error) => damaged(format!("the record {}: {error}", String::from_utf8_lossy(key))),
    }
}

fn read_meta<T: for<'de> serde::Deserialize<'de>>(
    engine: &dyn Engine,
    key: &[u8],
    kind: Kind,
) -> Result<Option<T>, OpenError> {
    let Some((_, payload)) = read_record(engine, key, kind)? else { return Ok(None) };
    match record::decode(&payload) {
        Ok(value) => Ok(Some(value)),
        Err(error) => damaged(format!("the record {}: {error}", String::from_utf8_lossy(key))),
    }
}

/// Reads all entries, checks that they follow each other, and drops leftovers of an interrupted purge.
fn read_entries(
    engine: &dyn Engine,
    tail: &mut Tail,
    noted: Option<Position>,
) -> Result<BTreeMap<u64, Span>, OpenError> {
    let purged = tail.state().purged;
    let mut spans = BTreeMap::new();
    let mut leftovers = Vec::new();
    let mut last_term = 0;
    let mut reader = RecordReader::new(engine, 0);
    while let Some(read) = reader.next_record(next(purged))? {
        let (first, span, entries) = match read {
            Read::Entries { first, span, entries } => (first, span, entries),
            Read::Below(key) => {
                leftovers.push(Change::Delete { key });
                continue;
            }
            Read::CutShort { first, parts } => {
                // A crash between the parts of a large entry: nothing of it was acknowledged, unless the mark
                // knows better.
                if noted.is_some_and(|noted| noted.index >= first) {
                    return damaged(format!("parts of the entry at index {first} are missing"));
                }
                let keys = (0..parts).map(|part| RecordKey { first, part }.encode());
                leftovers.extend(keys.map(|key| Change::Delete { key }));
                break;
            }
        };
        for entry in entries.into_iter().filter(|entry| entry.at.index >= next(purged)) {
            let expected = next(tail.state().last);
            if entry.at.index != expected {
                return damaged(format!(
                    "index {expected} of the log is missing: a record holds {}",
                    entry.at
                ));
            }
            if entry.at.term < last_term {
                return damaged(format!("the entry at {} follows one of term {last_term}", entry.at));
            }
            if let Some(noted) = noted
                && noted.index == entry.at.index
                && noted.term != entry.at.term
            {
                return damaged(format!("the log holds {} where it had held {noted}", entry.at));
            }
            last_term = entry.at.term;
            tail.restore_entry(entry);
        }
        spans.insert(first, span);
    }
    if !leftovers.is_empty() {
        engine.write(leftovers).map_err(|cause| OpenError::Io { doing: "remove purged records", cause })?;
    }
    Ok(spans)
}

/// Reads the entries in `range`, which the engine must hold, up to about `limit_bytes` but at least one.
pub(super) fn read(engine: &dyn Engine, range: Range<u64>, limit_bytes: usize) -> io::Result<Vec<Entry>> {
    let sought = RecordKey { first: range.start, part: u16::MAX }.encode();
    let start = engine.floor(&sought)?.and_then(|(key, _)| RecordKey::decode(&key));
    let first = start.map_or(range.start, |key| key.first);
    let mut reader = RecordReader::new(engine, first);
    let mut found = Vec::new();
    let mut bytes = 0;
    'records: while found.len() < usize::try_from(range.end - range.start).unwrap_or(usize::MAX) {
        let read = reader.next_record(0).map_err(|error| match error {
            OpenError::Damaged(what) => io::Error::new(io::ErrorKind::InvalidData, what),
            OpenError::Io { cause, .. } => cause,
        })?;
        let Some(Read::Entries { entries, .. }) = read else { break };
        for entry in entries.into_iter().filter(|entry| range.contains(&entry.at.index)) {
            bytes += entry.weight();
            if bytes > limit_bytes && !found.is_empty() {
                break 'records;
            }
            found.push(entry);
        }
    }
    Ok(found)
}

enum Read {
    Entries {
        first: u64,
        span: Span,
        entries: Vec<Entry>,
    },
    /// A record that lies wholly below what is wanted.
    Below(Vec<u8>),
    /// An entry in parts, of which the log ends after some.
    CutShort {
        first: u64,
        parts: u16,
    },
}

/// Walks the records in order.
struct RecordReader<'a> {
    engine: &'a dyn Engine,
    from: Vec<u8>,
    page: std::vec::IntoIter<Pair>,
}

impl<'a> RecordReader<'a> {
    fn new(engine: &'a dyn Engine, first: u64) -> Self {
        Self { engine, from: RecordKey { first, part: 0 }.encode(), page: Vec::new().into_iter() }
    }

    fn next_pair(&mut self) -> Result<Option<Pair>, OpenError> {
        if self.page.len() == 0 {
            let page = self
                .engine
                .scan(&self.from, keys::ENTRIES_END, PAGE)
                .map_err(|cause| OpenError::Io { doing: "read the log's entries", cause })?;
            if let Some((key, _)) = page.last() {
                self.from = [key.as_slice(), &[0]].concat();
            }
            self.page = page.into_iter();
        }
        Ok(self.page.next())
    }

    /// Returns the next record; entries below `wanted` need not be whole.
    fn next_record(&mut self, wanted: u64) -> Result<Option<Read>, OpenError> {
        let Some((key, value)) = self.next_pair()? else { return Ok(None) };
        let Some(RecordKey { first, part }) = RecordKey::decode(&key) else {
            return damaged(format!("a record has the malformed key {key:02x?}"));
        };
        let at_fault =
            |error: envelope::Error| OpenError::Damaged(format!("the record at index {first}: {error}"));
        match envelope::open(Kind::Fragment, &value) {
            Err(envelope::Error::Kind) => {
                let (label, _) = envelope::open(Kind::Batch, &value).map_err(at_fault)?;
                if label.first != first || part != 0 {
                    return damaged(format!(
                        "the record at index {first} says that it starts at {}",
                        label.first
                    ));
                }
                if label.last < wanted {
                    return Ok(Some(Read::Below(key)));
                }
                let entries = record::open_batch(&value).map_err(at_fault)?;
                Ok(Some(Read::Entries { first, span: Span { last: label.last, parts: 1 }, entries }))
            }
            Err(error) => Err(at_fault(error)),
            Ok(_) if first < wanted => Ok(Some(Read::Below(key))),
            Ok(_) => self.read_parts(first, part, value),
        }
    }

    fn read_parts(&mut self, first: u64, part: u16, value: Vec<u8>) -> Result<Option<Read>, OpenError> {
        let at_fault =
            |error: envelope::Error| OpenError::Damaged(format!("the record at index {first}: {error}"));
        let mut whole = Vec::new();
        let mut expected = part;
        let mut value = value;
        if part != 0 {
            return damaged(format!("the first part of the entry at index {first} is missing"));
        }
        loop {
            let (label, payload) = envelope::open(Kind::Fragment, &value).map_err(at_fault)?;
            if label.first != first || label.last != u64::from(expected) {
                return damaged(format!("a part of the entry at index {first} lies in the wrong place"));
            }
            let fragment: Fragment = record::decode(payload).map_err(at_fault)?;
            whole.extend_from_slice(&fragment.bytes.0);
            expected += 1;
            if expected == fragment.parts {
                let entry: Entry = record::decode(&whole).map_err(at_fault)?;
                if entry.at.index != first {
                    return damaged(format!("the entry at index {first} says that it is {}", entry.at));
                }
                let span = Span { last: first, parts: fragment.parts };
                return Ok(Some(Read::Entries { first, span, entries: vec![entry] }));
            }
            match self.next_pair()? {
                Some((key, next)) if RecordKey::decode(&key) == Some(RecordKey { first, part: expected }) => {
                    value = next;
                }
                Some((key, _)) => {
                    return damaged(format!(
                        "parts of the entry at index {first} are missing before the record {key:02x?}"
                    ));
                }
                None => return Ok(Some(Read::CutShort { first, parts: expected })),
            }
        }
    }
}

fn damaged<T>(what: String) -> Result<T, OpenError> {
    Err(OpenError::Damaged(what))
}
