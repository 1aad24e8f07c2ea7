//! The file `peers`: what a replica remembers of the others, kept over its own restarts.
//!
//! It trails what is known by about a second, and is replaced whole. Nothing is decided by it but this: a replica
//! that comes back with less than it had is told so. Lost or damaged it says nothing, and what the others remember
//! remains.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::ReplicaId;
use crate::record::Position;
use crate::standing::Held;

const FILE: &str = "peers";
const MAGIC: &[u8; 8] = b"BURSARPR";
const FORMAT: u16 = 1;
const HEAD: usize = 14;
const ROW: usize = 33;

/// Reads what was remembered; nothing if there is no file. `InvalidData`: the file is damaged.
pub(crate) fn load(dir: &Path) -> io::Result<BTreeMap<ReplicaId, Held>> {
    match fs::read(dir.join(FILE)) {
        Ok(bytes) => decode(&bytes).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(cause) => Err(cause),
    }
}

/// Writes what is remembered; it is there whole or not at all.
pub(crate) fn store(dir: &Path, others: &BTreeMap<ReplicaId, Held>) -> io::Result<()> {
    let fresh = dir.join("peers.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&encode(others))?;
    file.sync_data()?;
    fs::rename(fresh, dir.join(FILE))
}

fn encode(others: &BTreeMap<ReplicaId, Held>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(u32::try_from(others.len()).unwrap_or(0).to_le_bytes());
    for (id, held) in others {
        bytes.extend(id.get().to_le_bytes());
        bytes.extend(held.term.to_le_bytes());
        bytes.push(u8::from(held.last.is_some()));
        let last = held.last.unwrap_or(Position { term: 0, index: 0 });
        bytes.extend(last.term.to_le_bytes());
        bytes.extend(last.index.to_le_bytes());
    }
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<BTreeMap<ReplicaId, Held>, &'static str> {
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or("it is too short")?;
    if *sum != crc32fast::hash(body).to_le_bytes() {
        return Err("its checksum does not match");
    }
    let rows = body.get(HEAD..).filter(|_| body.starts_with(MAGIC)).ok_or("it is not one of ours")?;
    if body[8..10] != FORMAT.to_le_bytes() {
        return Err("it has a format that this version does not know");
    }
    let number = |row: &[u8], at: usize| {
        row.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    let held = |row: &[u8]| {
        let last = Position { term: number(row, 17), index: number(row, 25) };
        let held = Held { term: number(row, 8), last: (row[16] == 1).then_some(last) };
        (ReplicaId::new(number(row, 0)), held)
    };
    Ok(rows.chunks_exact(ROW).map(held).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others() -> BTreeMap<ReplicaId, Held> {
        let last = Position { term: 3, index: 9 };
        [
            (ReplicaId::new(2), Held { term: 4, last: None }),
            (ReplicaId::new(1007), Held { term: 3, last: Some(last) }),
        ]
        .into()
    }

    #[test]
    fn bytes_of_what_is_remembered_are_frozen() {
        let mut expected = b"BURSARPR\x01\x00\x02\x00\x00\x00".to_vec();
        for (id, term, has, last) in [(2_u64, 4_u64, 0_u8, [0_u64, 0]), (1007, 3, 1, [3, 9])] {
            expected.extend(id.to_le_bytes());
            expected.extend(term.to_le_bytes());
            expected.push(has);
            expected.extend(last.iter().flat_map(|number| number.to_le_bytes()));
        }
        expected.extend(crc32fast::hash(&expected).to_le_bytes());
        assert_eq!(encode(&others()), expected);
        assert_eq!(decode(&expected), Ok(others()));
    }

    #[test]
    fn what_is_damaged_is_not_believed() {
        let bytes = encode(&others());
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(decode(&flipped).is_err(), "bit {at}");
        }
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn what_was_stored_is_loaded() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(load(dir.path()).expect("no file is nothing remembered"), BTreeMap::new());
        store(dir.path(), &others()).expect("it is written");
        assert_eq!(load(dir.path()).expect("it is read"), others());
    }
}
