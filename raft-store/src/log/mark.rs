//! The high-water mark: a note outside the engine of how far the log and the vote had got, so that an engine
//! that comes back with less is found out.
//!
//! A 512-byte slot is written in turn at the start of two pages of a small file, so that at most the newer one
//! can be torn. It trails the log: it is written after the log is durable, and synced within 50 ms.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::disk::InPlace;
use crate::record::{Position, Vote};

const MAGIC: &[u8; 8] = b"BURSARHW";
const FORMAT: u16 = 1;
const SLOT: usize = 512;
const PAGE: u64 = 4096;

/// What is noted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The log had reached this entry.
    pub(crate) last: Option<Position>,
    /// This vote had been given.
    pub(crate) vote: Option<Vote>,
    /// So far the log was known to be committed; a hint for re-applying, never relied upon.
    pub(crate) committed: Option<Position>,
}

/// The file with the two slots.
#[derive(Debug)]
pub(crate) struct MarkFile {
    file: Box<dyn InPlace>,
    sequence: u64,
    dirty: bool,
}

impl MarkFile {
    /// Opens the file, or makes it with an empty mark. `Err(InvalidData)`: no slot can be read.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Mark)> {
        let options = || File::options().read(true).write(true).clone();
        if path.try_exists()? {
            return Self::read(Box::new(options().open(path)?));
        }
        // It gets its name once it is whole: half a mark would look like damage.
        let unnamed = path.with_extension("new");
        let file = options().create(true).truncate(true).open(&unnamed)?;
        let whole = file.try_clone()?;
        let fresh = Self::make(Box::new(file))?;
        whole.sync_all()?;
        std::fs::rename(unnamed, path)?;
        if let Some(dir) = path.parent() {
            File::open(dir)?.sync_all()?;
        }
        Ok((fresh, Mark::default()))
    }

    /// Writes an empty mark to an empty file.
    pub(crate) fn make(file: Box<dyn InPlace>) -> io::Result<Self> {
        file.write_at(&[0; 2 * 4096], 0)?;
        let mut fresh = Self { file, sequence: 0, dirty: false };
        fresh.write(&Mark::default())?;
        fresh.write(&Mark::default())?;
        fresh.sync()?;
        Ok(fresh)
    }

    /// Reads a mark that is there. `Err(InvalidData)`: no slot can be read.
    pub(crate) fn read(file: Box<dyn InPlace>) -> io::Result<(Self, Mark)> {
        let slots = [read_slot(file.as_ref(), 0)?, read_slot(file.as_ref(), PAGE)?];
        let newest = slots.into_iter().flatten().max_by_key(|(sequence, _)| *sequence);
        let (sequence, mark) = newest.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "neither slot of the high-water mark can be read")
        })?;
        Ok((Self { file, sequence, dirty: false }, mark))
    }

    /// Writes the mark; it is durable after [`MarkFile::sync`].
    pub(crate) fn write(&mut self, mark: &Mark) -> io::Result<()> {
        self.sequence += 1;
        let at = if self.sequence.is_multiple_of(2) { 0 } else { PAGE };
        self.file.write_at(&encode(self.sequence, mark), at)?;
        self.dirty = true;
        Ok(())
    }

    /// Makes what was written durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.sync()?;
            self.dirty = false;
        }
        Ok(())
    }
}

fn read_slot(file: &dyn InPlace, at: u64) -> io::Result<Option<(u64, Mark)>> {
    let mut bytes = [0; SLOT];
    match file.read_at(&mut bytes, at) {
        Ok(()) => Ok(decode(&bytes)),
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(cause) => Err(cause),
    }
}

// 0 magic, 8 format, 10 flags, 16 sequence, 24 last, 40 committed, 56 vote term, 64 voted for, 508 crc32.
const HAS_LAST: u8 = 1;
const HAS_VOTE: u8 = 2;
const VOTE_COMMITTED: u8 = 4;
const HAS_COMMITTED: u8 = 8;

fn encode(sequence: u64, mark: &Mark) -> [u8; SLOT] {
    let mut bytes = [0; SLOT];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[16..24].copy_from_slice(&sequence.to_le_bytes());
    if let Some(last) = mark.last {
        bytes[10] |= HAS_LAST;
        put_position(&mut bytes[24..40], last);
    }
    if let Some(committed) = mark.committed {
        bytes[10] |= HAS_COMMITTED;
        put_position(&mut bytes[40..56], committed);
    }
    if let Some(vote) = mark.vote {
        bytes[10] |= HAS_VOTE;
        if vote.committed {
            bytes[10] |= VOTE_COMMITTED;
        }
        bytes[56..64].copy_from_slice(&vote.term.to_le_bytes());
        bytes[64..72].copy_from_slice(&vote.voted_for.to_le_bytes());
    }
    let sum = crc32fast::hash(&bytes[..SLOT - 4]);
    bytes[SLOT - 4..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; SLOT]) -> Option<(u64, Mark)> {
    let sum = crc32fast::hash(&bytes[..SLOT - 4]).to_le_bytes();
    if &bytes[..8] != MAGIC || bytes[8..10] != FORMAT.to_le_bytes() || bytes[SLOT - 4..] != sum {
        return None;
    }
    let flags = bytes[10];
    let mark = Mark {
        last: (flags & HAS_LAST != 0).then(|| take_position(&bytes[24..40])),
        committed: (flags & HAS_COMMITTED != 0).then(|| take_position(&bytes[40..56])),
        vote: (flags & HAS_VOTE != 0).then(|| Vote {
            term: take_u64(&bytes[56..64]),
            voted_for: take_u64(&bytes[64..72]),
            committed: flags & VOTE_COMMITTED != 0,
        }),
    };
    Some((take_u64(&bytes[16..24]), mark))
}

fn put_position(bytes: &mut [u8], at: Position) {
    bytes[..8].copy_from_slice(&at.term.to_le_bytes());
    bytes[8..].copy_from_slice(&at.index.to_le_bytes());
}

fn take_position(bytes: &[u8]) -> Position {
    Position { term: take_u64(&bytes[..8]), index: take_u64(&bytes[8..]) }
}

fn take_u64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(index: u64) -> Mark {
        Mark {
            last: Some(Position { term: 2, index }),
            vote: Some(Vote { term: 2, voted_for: 3, committed: true }),
            committed: None,
        }
    }

    #[test]
    fn a_torn_slot_leaves_the_one_before() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("mark");
        let (mut file, _) = MarkFile::open(&path).expect("a new file");
        file.write(&mark(7)).expect("the first slot");
        file.write(&mark(8)).expect("the second slot");
        assert_eq!(MarkFile::open(&path).expect("two good slots").1, mark(8));
        let newer = if file.sequence.is_multiple_of(2) { 0 } else { PAGE };
        file.file.write_at(&[0xff; 100], newer + 300).expect("a torn slot");
        assert_eq!(MarkFile::open(&path).expect("one good slot").1, mark(7));
    }

    #[test]
    fn a_mark_without_a_good_slot_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("mark");
        MarkFile::open(&path).expect("a new file");
        File::options().write(true).open(&path).expect("it is there").set_len(100).expect("it is shortened");
        assert_eq!(MarkFile::open(&path).expect_err("no slot").kind(), io::ErrorKind::InvalidData);
    }
}
