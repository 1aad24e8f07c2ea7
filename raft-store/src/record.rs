//! Raft's own records, as stored and sent. They mirror what the consensus library uses without being its
//! types, so that neither disk nor wire changes when the library does. Frozen by test.

use std::fmt;

use bincode::Options;
use prost::bytes::Bytes;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::envelope;

/// A place in the log: which leader's term, which index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(crate) term: u64,
    pub(crate) index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {} of term {}", self.index, self.term)
    }
}

/// What this replica promised: it follows `voted_for` in `term`, and whether a quorum does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vote {
    pub(crate) term: u64,
    pub(crate) voted_for: u64,
    pub(crate) committed: bool,
}

impl Vote {
    /// Whether a replica that had voted `other` may have lost that vote, if all it has now is `self`.
    pub(crate) fn is_behind(&self, other: &Self) -> bool {
        (self.term, self.committed) < (other.term, other.committed)
    }
}

/// One log entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) at: Position,
    pub(crate) body: Body,
}

impl Entry {
    /// Bytes that the entry takes in memory and, nearly, on disk.
    pub(crate) fn weight(&self) -> usize {
        match &self.body {
            Body::Blank => 32,
            Body::Command(bytes) => 32 + bytes.0.len(),
            Body::Membership(membership) => 256 + 128 * membership.members.len(),
        }
    }
}

/// What an entry carries. Append variants only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body {
    /// A leader's first entry.
    Blank,
    /// What was proposed.
    Command(Blob),
    /// A change of members.
    Membership(Membership),
}

/// Who votes, in one or (while it changes) two sets, and where every replica is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) voters: Vec<Vec<u64>>,
    pub(crate) members: Vec<Address>,
}

/// Where a replica is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) id: u64,
    pub(crate) peer_addr: String,
    pub(crate) client_addr: String,
}

/// One part of an entry that is too large for a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fragment {
    pub(crate) parts: u16,
    pub(crate) bytes: Blob,
}

/// A stored snapshot: the last entry in it, the members at that point, and its content's shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) last: Option<Position>,
    pub(crate) members_at: Option<Position>,
    pub(crate) membership: Membership,
    pub(crate) chunks: u32,
    pub(crate) bytes: u64,
    pub(crate) digest: [u8; 32],
}

/// Bytes, encoded as a length and the bytes at once.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Blob(pub(crate) Bytes);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;

        impl Visitor<'_> for Take {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Blob, E> {
                Ok(Blob(Bytes::copy_from_slice(bytes)))
            }

            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Blob, E> {
                Ok(Blob(bytes.into()))
            }
        }

        deserializer.deserialize_byte_buf(Take)
    }
}

/// The largest encoding that is accepted from disk or network: a full replication message.
const LIMIT: u64 = 256 << 20;

fn options() -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_little_endian().with_limit(LIMIT)
}

/// Encodes a record of ours.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    options().serialize(value).expect("records of ours are bounded below the limit and always serialise")
}

/// Decodes a record of ours; bytes left over are an error.
pub(crate) fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, envelope::Error> {
    options().deserialize(bytes).map_err(|_| envelope::Error::Content)
}

/// Encodes consecutive entries into one checksummed envelope.
pub(crate) fn seal_batch(entries: &[Entry]) -> Vec<u8> {
    let first = entries.first().map_or(0, |entry| entry.at.index);
    let last = entries.last().map_or(0, |entry| entry.at.index);
    envelope::seal(envelope::Label { kind: envelope::Kind::Batch, first, last }, &encode(&entries))
}

/// Decodes what [`seal_batch`] made and checks that the entries are those the envelope names.
pub(crate) fn open_batch(bytes: &[u8]) -> Result<Vec<Entry>, envelope::Error> {
    let (label, payload) = envelope::open(envelope::Kind::Batch, bytes)?;
    let entries: Vec<Entry> = decode(payload)?;
    let indexes = entries.iter().map(|entry| entry.at.index);
    if entries.is_empty() || !indexes.eq(label.first..=label.last) {
        return Err(envelope::Error::Content);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let address = Address { id: 1, peer_addr: "a:1".into(), client_addr: "b:2".into() };
        let membership = Membership { voters: vec![vec![1]], members: vec![address] };
        vec![
            Entry { at: Position { term: 1, index: 5 }, body: Body::Blank },
            Entry { at: Position { term: 1, index: 6 }, body: Body::Command(Blob(vec![9, 8].into())) },
            Entry { at: Position { term: 2, index: 7 }, body: Body::Membership(membership) },
        ]
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn entry_bytes_are_frozen() {
        assert_eq!(
            hex(&seal_batch(&entries())),
            "0101000100050000000000000007000000000000008c000000aed5bbf0030000000000000001000000000000000500000000000000\
             000000000100000000000000060000000000000001000000020000000000000009080200000000000000070000000000000002\
             000000010000000000000001000000000000000100000000000000010000000000000001000000000000000300000000000000\
             613a310300000000000000623a32"
        );
        assert_eq!(open_batch(&seal_batch(&entries())), Ok(entries()));
    }

    #[test]
    fn vote_and_snapshot_bytes_are_frozen() {
        let vote = Vote { term: 3, voted_for: 2, committed: true };
        assert_eq!(hex(&encode(&vote)), "0300000000000000020000000000000001");
        let description = Description {
            last: Some(Position { term: 1, index: 2 }),
            members_at: None,
            membership: Membership::default(),
            chunks: 3,
            bytes: 4,
            digest: [5; 32],
        };
        assert_eq!(
            hex(&encode(&description)),
            "0101000000000000000200000000000000000000000000000000000000000000000003000000040000000000000005050505050505\
             05050505050505050505050505050505050505050505050505"
        );
        assert_eq!(decode(&encode(&description)), Ok(description));
    }

    #[test]
    fn bytes_left_over_are_an_error() {
        let mut bytes = encode(&entries()[0]);
        bytes.push(0);
        assert_eq!(decode::<Entry>(&bytes), Err(envelope::Error::Content));
    }
}
