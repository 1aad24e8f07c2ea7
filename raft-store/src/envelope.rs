//! The wrapping of every stored record: what it is, which log indexes it covers, and a checksum over both and
//! the content. sled shortens its log silently when a bit flips; nothing of ours is believed without this.
//!
//! ```text
//! 0      1        3          5        13       21        25       29
//! codec  kind     version    first    last     length    crc32    payload
//! u8     u16      u16        u64      u64      u32       u32
//! ```
//!
//! All little-endian. The checksum covers everything but itself.

use thiserror::Error;

/// Bytes before the payload.
pub(crate) const HEADER: usize = 29;

/// bincode 1.3.3, fixed-width integers, little-endian.
const CODEC_BINCODE: u8 = 1;
/// The version that this code writes, for every kind.
const VERSION: u16 = 1;

/// What a record holds. Numbers are on disk and on the wire: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Consecutive log entries.
    Batch,
    /// One part of an entry too large for a record.
    Fragment,
    /// The vote.
    Vote,
    /// The last purged position.
    Purged,
    /// A snapshot's description.
    Snapshot,
    /// One chunk of a snapshot.
    Chunk,
    /// The format of the database, written when it is made.
    Format,
}

impl Kind {
    const fn number(self) -> u16 {
        match self {
            Self::Batch => 1,
            Self::Fragment => 2,
            Self::Vote => 3,
            Self::Purged => 4,
            Self::Snapshot => 5,
            Self::Chunk => 6,
            Self::Format => 7,
        }
    }
}

/// What an envelope says about its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    /// What the payload is.
    pub(crate) kind: Kind,
    /// The first log index (or part number) that it covers.
    pub(crate) first: u64,
    /// The last one.
    pub(crate) last: u64,
}

/// Why a record is not believed.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Error {
    #[error("the record is cut short")]
    Short,
    #[error("the record's checksum does not match its content")]
    Checksum,
    #[error("the record is of another kind than its key says")]
    Kind,
    #[error("the record was written with codec {codec}, version {version}, which this version does not know")]
    Unknown { codec: u8, version: u16 },
    #[error("the record's content cannot be decoded")]
    Content,
}

/// Wraps `payload`.
pub(crate) fn seal(label: Label, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a payload is bounded far below 4 GiB");
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.push(CODEC_BINCODE);
    bytes.extend(label.kind.number().to_le_bytes());
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(label.first.to_le_bytes());
    bytes.extend(label.last.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    let sum = checksum(&bytes, payload);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Unwraps a record of the given kind, checking everything that can be checked.
pub(crate) fn open(kind: Kind, bytes: &[u8]) -> Result<(Label, &[u8]), Error> {
    let (header, payload) = bytes.split_at_checked(HEADER).ok_or(Error::Short)?;
    let (head, sum) = header.split_at(HEADER - 4);
    if usize::try_from(u32_at(head, 21)) != Ok(payload.len()) {
        return Err(Error::Short);
    }
    if sum != checksum(head, payload).to_le_bytes() {
        return Err(Error::Checksum);
    }
    if u16_at(head, 1) != kind.number() {
        return Err(Error::Kind);
    }
    let (codec, version) = (head[0], u16_at(head, 3));
    if codec != CODEC_BINCODE || version != VERSION {
        return Err(Error::Unknown { codec, version });
    }
    Ok((Label { kind, first: u64_at(head, 5), last: u64_at(head, 13) }, payload))
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label = Label { kind: Kind::Batch, first: 2, last: 4 };

    #[test]
    fn envelope_bytes_are_frozen() {
        let sealed = seal(LABEL, b"abc");
        let frozen = [
            1, 1, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 124, 53, 165, 214,
            b'a', b'b', b'c',
        ];
        assert_eq!(sealed, frozen);
        assert_eq!(open(Kind::Batch, &frozen), Ok((LABEL, b"abc".as_slice())));
    }

    #[test]
    fn any_flipped_bit_and_any_lost_byte_is_noticed() {
        let sealed = seal(LABEL, b"abc");
        for at in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(open(Kind::Batch, &flipped).is_err(), "bit {at}");
        }
        for length in 0..sealed.len() {
            assert!(open(Kind::Batch, &sealed[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn a_record_of_another_kind_is_not_taken() {
        assert_eq!(open(Kind::Vote, &seal(LABEL, b"abc")), Err(Error::Kind));
    }
}
