//! The file `removed`: this replica was taken out of its cluster, and takes no part ever again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

const FILE: &str = "removed";
const MAGIC: &[u8; 8] = b"BURSARRM";
const FORMAT: u16 = 1;
const LENGTH: usize = 22;

/// Reads which entry removed the replica in `dir`, if one did. `InvalidData`: the file is damaged; whoever finds it
/// must take the replica for removed.
pub(crate) fn load(dir: &Path) -> io::Result<Option<u64>> {
    match fs::read(dir.join(FILE)) {
        Ok(bytes) => {
            decode(&bytes).map(Some).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Notes durably that entry `by` removed the replica in `dir`.
pub(crate) fn store(dir: &Path, by: u64) -> io::Result<()> {
    let fresh = dir.join("removed.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&encode(by))?;
    file.sync_all()?;
    fs::rename(fresh, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

fn encode(by: u64) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[10..18].copy_from_slice(&by.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..18]);
    bytes[18..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<u64, &'static str> {
    let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| "the file `removed` has the wrong length")?;
    if &bytes[..8] != MAGIC
        || bytes[8..10] != FORMAT.to_le_bytes()
        || bytes[18..] != crc32fast::hash(&bytes[..18]).to_le_bytes()
    {
        return Err("the file `removed` cannot be read");
    }
    Ok(u64::from_le_bytes(bytes[10..18].try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_s_bytes_are_frozen_and_a_flipped_bit_is_noticed() {
        let mut expected = b"BURSARRM\x01\x00\x07\x04\x00\x00\x00\x00\x00\x00".to_vec();
        expected.extend(crc32fast::hash(&expected).to_le_bytes());
        assert_eq!(encode(1031).as_slice(), expected);
        assert_eq!(decode(&expected), Ok(1031));
        for at in 0..LENGTH * 8 {
            let mut bytes = encode(1031);
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(decode(&bytes).is_err(), "bit {at}");
        }
    }

    #[test]
    fn removal_that_was_noted_is_found() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(load(dir.path()).expect("no file, not removed"), None);
        store(dir.path(), 7).expect("it is written");
        assert_eq!(load(dir.path()).expect("it is read"), Some(7));
    }
}
