//! What of history is here: segments, the tail that is being written, and what is missing between them.

use std::collections::BTreeMap;
use std::fmt;

use proto::history::v1 as wire;
use scheduler_core::id::ClusterId;

use super::tail::Tail;

/// Indexes of the log, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// The first.
    pub from: u64,
    /// The last.
    pub through: u64,
}

impl Range {
    pub(super) fn new(from: u64, through: u64) -> Self {
        Self { from, through }
    }

    pub(super) fn has(self, index: u64) -> bool {
        self.from <= index && index <= self.through
    }

    /// Returns what both have in common.
    pub(super) fn and(self, other: Self) -> Option<Self> {
        let both = Self::new(self.from.max(other.from), self.through.min(other.through));
        (both.from <= both.through).then_some(both)
    }

    pub(super) fn to_wire(self) -> wire::Range {
        wire::Range { from: self.from, through: self.through }
    }

    pub(super) fn of_wire(m: wire::Range) -> Self {
        Self::new(m.from, m.through)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from, self.through)
    }
}

/// A sealed segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) range: Range,
    pub(super) records: u64,
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
    pub(super) bytes: u64,
    pub(super) digest: [u8; 32],
    /// The least and the greatest job that a record mentions.
    pub(super) jobs: Option<(u32, u32)>,
}

/// A part that was found damaged and is not whole again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) range: Range,
    pub(super) what: String,
}

/// Everything that is known about what is here.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) cluster: Option<ClusterId>,
    /// Nothing below is kept, on purpose.
    pub(super) floor: u64,
    /// By their first index; they do not overlap.
    pub(super) segments: BTreeMap<u64, Segment>,
    /// What is being written.
    pub(super) tail: Tail,
    /// What could not be written for want of room.
    pub(super) unwritten: Vec<Range>,
    pub(super) damage: Vec<Damage>,
    /// Why nothing can be written now.
    pub(super) stuck: Option<String>,
    /// Parts that every replica said it lacks.
    pub(super) nowhere: Vec<Range>,
    /// Rises with each change that the catalogue has to say.
    pub(super) version: u64,
    /// The version that the catalogue on disk says.
    pub(super) saved: u64,
}

/// What a replica has of history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Whose it is; none before anything was told.
    pub cluster: Option<ClusterId>,
    /// Nothing below this index is kept, on purpose.
    pub floor: u64,
    /// What is here, ascending, as few as possible.
    pub ranges: Vec<Range>,
    /// What should be here and is not, ascending.
    pub holes: Vec<Range>,
    /// The last index that was written; none if nothing was.
    pub through: Option<u64>,
    /// The cluster time of the oldest record that is here.
    pub first_ms: Option<u64>,
    /// Bytes of all files.
    pub bytes: u64,
    /// What is wrong, in words, the gravest first.
    pub trouble: Vec<String>,
}

impl Shape {
    /// Notes a change that the catalogue has to say.
    pub(super) fn touch(&mut self) {
        self.version += 1;
    }

    /// Whether the catalogue on disk does not say all this yet.
    pub(super) fn is_dirty(&self) -> bool {
        self.version != self.saved
    }

    /// Returns the first index that was never handed over.
    pub(super) fn next(&self) -> u64 {
        self.tail.next
    }

    /// Returns what is here, ascending, as few ranges as possible.
    pub(super) fn ranges(&self) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        for range in self.segments.values().map(|segment| segment.range).chain(self.tail.range()) {
            match ranges.last_mut() {
                Some(last) if last.through.saturating_add(1) == range.from => last.through = range.through,
                Some(_) | None => ranges.push(range),
            }
        }
        ranges
    }

    /// Returns what is missing from the floor to the newest, ascending.
    pub(super) fn holes(&self) -> Vec<Range> {
        let (mut holes, mut next) = (Vec::new(), self.floor);
        for range in self.ranges() {
            if range.from > next {
                holes.push(Range::new(next, range.from - 1));
            }
            next = next.max(range.through.saturating_add(1));
        }
        if next < self.next() {
            holes.push(Range::new(next, self.next() - 1));
        }
        holes
    }

    /// Returns the first missing index from `index` on, and the end of that hole.
    pub(super) fn hole_from(&self, index: u64) -> Option<Range> {
        self.holes().into_iter().find(|hole| hole.through >= index)
    }

    /// Whether a snapshot at `index` may count: all up to it is durable, and the log is not needed to write it again.
    pub(super) fn is_durable_through(&self, index: u64) -> bool {
        let is_written = self.tail.durable_next > index;
        is_written && !self.is_dirty() && !self.unwritten.iter().any(|range| range.from <= index)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.bytes).sum::<u64>() + self.tail.bytes
    }

    pub(super) fn coverage(&self) -> Coverage {
        let first =
            self.segments.values().find(|segment| segment.records > 0).map(|segment| segment.first_ms);
        let holes = self.holes();
        Coverage {
            cluster: self.cluster,
            floor: self.floor,
            ranges: self.ranges(),
            through: self.next().checked_sub(1),
            first_ms: first.or_else(|| self.tail.blocks.first().map(|block| block.time_ms)),
            bytes: self.bytes(),
            trouble: self.trouble(&holes),
            holes,
        }
    }

    fn trouble(&self, holes: &[Range]) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(why) = &self.stuck {
            out.push(format!("history cannot be written, so no snapshot counts until it can: {why}"));
        }
        if !self.unwritten.is_empty() {
            let parts = list(&self.unwritten);
            out.push(format!(
                "history of entries {parts} found no room here and is fetched from another replica; no snapshot counts \
                 until then. If no replica has it, a restart of this one writes it again from the log"
            ));
        }
        for damage in &self.damage {
            out.push(format!(
                "history of entries {} was damaged here and set aside: {}",
                damage.range, damage.what
            ));
        }
        let (lost, missing): (Vec<Range>, Vec<Range>) =
            holes.iter().partition(|hole| self.nowhere.iter().any(|none| none.and(**hole).is_some()));
        if !lost.is_empty() {
            out.push(format!("history of entries {} is with no replica that answers", list(&lost)));
        }
        if !missing.is_empty() && self.unwritten.is_empty() {
            out.push(format!("history of entries {} is being fetched from another replica", list(&missing)));
        }
        out
    }

    /// Forgets damage and notes about parts that are whole again.
    pub(super) fn forget_healed(&mut self) {
        let holes = self.holes();
        let is_open = |range: &Range| holes.iter().any(|hole| hole.and(*range).is_some());
        let before = (self.damage.len(), self.unwritten.len(), self.nowhere.len());
        self.damage.retain(|damage| is_open(&damage.range));
        self.unwritten.retain(is_open);
        self.nowhere.retain(is_open);
        if before != (self.damage.len(), self.unwritten.len(), self.nowhere.len()) {
            self.touch();
        }
    }
}

fn list(ranges: &[Range]) -> String {
    let shown: Vec<String> = ranges.iter().take(3).map(ToString::to_string).collect();
    let more = ranges.len().saturating_sub(3);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more parts", shown.join(", ")) }
}
