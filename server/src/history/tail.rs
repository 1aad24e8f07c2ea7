//! The segment that is being written, as readers see it.

use super::frame;
use super::record::Encoded;
use super::segment::{HEADER, SPARSE};
use super::shape::Range;

/// A place where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) index: u64,
    pub(super) time_ms: u64,
    pub(super) offset: u64,
}

/// A frame that mentions a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mention {
    pub(super) job: u32,
    pub(super) offset: u64,
    /// Whether the frame has what left state of it.
    pub(super) is_left: bool,
}

/// An unsealed segment. Also what the footer of a sealed one is made from.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    /// The first index that it covers.
    pub(super) from: u64,
    /// The first index that it does not cover yet.
    pub(super) next: u64,
    /// Everything before this index is durable, in this segment and before it.
    pub(super) durable_next: u64,
    /// Bytes of the file that hold whole records; 0 without a file.
    pub(super) bytes: u64,
    pub(super) records: u64,
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
    pub(super) blocks: Vec<Block>,
    pub(super) mentions: Vec<Mention>,
    /// Of all frames.
    pub(super) hasher: blake3::Hasher,
}

impl Tail {
    /// Begins a segment at an index.
    pub(super) fn at(from: u64) -> Self {
        Self { from, next: from, durable_next: from, ..Self::default() }
    }

    /// Returns what it covers; none if nothing.
    pub(super) fn range(&self) -> Option<Range> {
        (self.next > self.from).then(|| Range::new(self.from, self.next - 1))
    }

    /// Takes a record that is in the file now.
    pub(super) fn push(&mut self, encoded: &Encoded) {
        if self.bytes == 0 {
            self.bytes = HEADER;
        }
        let offset = self.bytes;
        if self.blocks.last().is_none_or(|block| offset - block.offset >= SPARSE) {
            self.blocks.push(Block { index: encoded.index, time_ms: encoded.time_ms, offset });
        }
        self.mentions.extend(encoded.jobs.iter().map(|(job, at, is_left)| Mention {
            job: *job,
            offset: offset + length(*at),
            is_left: *is_left,
        }));
        if self.records == 0 {
            self.first_ms = encoded.time_ms;
        }
        self.last_ms = encoded.time_ms;
        self.records += 1;
        self.bytes += length(encoded.frames.len());
        self.hasher.update(&encoded.frames);
        self.next = encoded.index + 1;
    }

    /// Takes an entry's frames as they were read from a file.
    pub(super) fn push_frames(&mut self, frames: &[u8]) -> Result<(), frame::Error> {
        self.push(&Encoded::of_frames(frames)?);
        Ok(())
    }
}

/// Returns a length as an offset.
pub(super) fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length in memory fits 64 bits")
}
