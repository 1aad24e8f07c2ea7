//! The keys of the log's database. One tree holds everything, so that one batch can change all of it.

/// A record of entries: the first index it covers and, for an entry in parts, which part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordKey {
    pub(super) first: u64,
    pub(super) part: u16,
}

const ENTRIES: u8 = b'l';

impl RecordKey {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut key = Vec::with_capacity(11);
        key.push(ENTRIES);
        key.extend(self.first.to_be_bytes());
        key.extend(self.part.to_be_bytes());
        key
    }

    pub(super) fn decode(key: &[u8]) -> Option<Self> {
        let [ENTRIES, rest @ ..] = key else { return None };
        let (first, part) = rest.split_first_chunk::<8>()?;
        Some(Self { first: u64::from_be_bytes(*first), part: u16::from_be_bytes(part.try_into().ok()?) })
    }
}

/// The least key above all records of entries.
pub(super) const ENTRIES_END: &[u8] = &[ENTRIES + 1];
/// The vote.
pub(super) const VOTE: &[u8] = b"mvote";
/// The last purged position.
pub(super) const PURGED: &[u8] = b"mpurged";
/// The database's format.
pub(super) const FORMAT: &[u8] = b"mformat";
