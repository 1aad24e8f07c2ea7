//! Frames: what segment files are made of. Nothing in a file is believed without its frame's checksum.
//!
//! ```text
//! 0       4     5      6         8      16     24     28
//! length  kind  flags  reserved  index  time   crc32  payload
//! u32     u8    u8     u16       u64    u64    u32
//! ```
//!
//! All little-endian. The checksum covers everything but itself.

use thiserror::Error;

/// Bytes before the payload.
pub(super) const HEADER: usize = 28;
/// No payload is longer: a part of a record is about 1 MiB, a footer a few.
pub(super) const PAYLOAD_MAX: usize = 64 << 20;

const LAST: u8 = 1;

/// What a frame holds. Numbers are on disk and on the wire: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Who asked what, and what happened. At most one an entry, and its first.
    Told,
    /// Jobs that left state.
    Jobs,
    /// Bills that left state.
    Bills,
    /// What is in a sealed segment.
    Footer,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Self::Told => 1,
            Self::Jobs => 2,
            Self::Bills => 3,
            Self::Footer => 4,
        }
    }

    const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Told),
            2 => Some(Self::Jobs),
            3 => Some(Self::Bills),
            4 => Some(Self::Footer),
            _ => None,
        }
    }
}

/// What a frame says about its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label {
    /// What it holds.
    pub(super) kind: Kind,
    /// Whether it is the last of its entry.
    pub(super) is_last: bool,
    /// Of which entry; of a footer the last index that the segment covers.
    pub(super) index: u64,
    /// That entry's cluster time.
    pub(super) time_ms: u64,
}

/// A frame that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) label: Label,
    pub(super) payload: &'a [u8],
    /// Its length with its header.
    pub(super) length: usize,
}

/// Why a frame is not believed.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(super) enum Error {
    #[error("a frame is cut short")]
    Short,
    #[error("a frame's checksum does not match its content")]
    Checksum,
    #[error("a record cannot be decoded")]
    Content,
    #[error("a frame is of a kind that this version does not know")]
    Kind,
}

/// Appends a frame.
pub(super) fn seal(label: Label, payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("a payload is bounded far below 4 GiB");
    let start = out.len();
    out.extend(length.to_le_bytes());
    out.push(label.kind.number());
    out.push(if label.is_last { LAST } else { 0 });
    out.extend([0; 2]);
    out.extend(label.index.to_le_bytes());
    out.extend(label.time_ms.to_le_bytes());
    let sum = checksum(&out[start..], payload);
    out.extend(sum.to_le_bytes());
    out.extend(payload);
}

/// Reads and checks the frame at the beginning of `bytes`.
pub(super) fn open(bytes: &[u8]) -> Result<Frame<'_>, Error> {
    let (header, rest) = bytes.split_at_checked(HEADER).ok_or(Error::Short)?;
    let (head, sum) = header.split_at(HEADER - 4);
    let length = usize::try_from(u32_at(head, 0)).map_err(|_| Error::Short)?;
    if length > PAYLOAD_MAX {
        return Err(Error::Checksum);
    }
    let payload = rest.get(..length).ok_or(Error::Short)?;
    if sum != checksum(head, payload).to_le_bytes() {
        return Err(Error::Checksum);
    }
    let kind = Kind::of(head[4]).ok_or(Error::Kind)?;
    let label =
        Label { kind, is_last: head[5] & LAST != 0, index: u64_at(head, 8), time_ms: u64_at(head, 16) };
    Ok(Frame { label, payload, length: HEADER + length })
}

/// Returns the length of the frame at the beginning of `bytes`, header included, as its header says.
pub(super) fn claimed_length(bytes: &[u8]) -> Option<usize> {
    let length = usize::try_from(u32_at(bytes.get(..HEADER)?, 0)).ok()?;
    (length <= PAYLOAD_MAX).then_some(HEADER + length)
}

pub(super) fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label = Label { kind: Kind::Jobs, is_last: true, index: 7, time_ms: 9 };

    fn sealed() -> Vec<u8> {
        let mut out = Vec::new();
        seal(LABEL, b"abc", &mut out);
        out
    }

    #[test]
    fn frame_bytes_are_frozen() {
        let frozen = [
            3, 0, 0, 0, 2, 1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'a', b'b',
            b'c',
        ];
        let bytes = sealed();
        assert_eq!(bytes[..24], frozen[..24]);
        assert_eq!(bytes[28..], frozen[28..]);
        let frame = open(&bytes).unwrap();
        assert_eq!((frame.label, frame.payload, frame.length), (LABEL, b"abc".as_slice(), 31));
    }

    #[test]
    fn any_flipped_bit_and_any_lost_byte_is_noticed() {
        let bytes = sealed();
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(open(&flipped).is_err(), "bit {at}");
        }
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length]).is_err(), "length {length}");
        }
    }
}
