//! A hash that is the same on every machine.

use alloc::boxed::Box;
use core::hash::{Hash, Hasher};

/// Returns the first 64 bits of the BLAKE3 hash of what `value` feeds to a hasher, integers as little endian.
pub fn digest_of(value: &impl Hash) -> u64 {
    let mut hasher = Blake { flushed: None, waits: [0; BLOCK], count: 0 };
    value.hash(&mut hasher);
    hasher.end()
}

const BLOCK: usize = 256;

/// Most values fit into one block, which is hashed at once: that is several times faster than byte for byte.
struct Blake {
    flushed: Option<Box<blake3::Hasher>>,
    waits: [u8; BLOCK],
    count: usize,
}

impl Blake {
    fn flush(&mut self) {
        self.flushed.get_or_insert_default().update(&self.waits[..self.count]);
        self.count = 0;
    }

    fn end(&self) -> u64 {
        let waits = &self.waits[..self.count];
        let hash = match &self.flushed {
            None => blake3::hash(waits),
            Some(flushed) => flushed.clone().update(waits).finalize(),
        };
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(first)
    }
}

macro_rules! little_endian {
    ($($method:ident($int:ty)),*) => {
        $(fn $method(&mut self, value: $int) {
            self.write(&value.to_le_bytes());
        })*
    };
}

impl Hasher for Blake {
    fn write(&mut self, bytes: &[u8]) {
        if self.waits.len() - self.count < bytes.len() {
            self.flush();
        }
        match self.waits.get_mut(self.count..self.count + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.count += bytes.len();
            }
            None => {
                self.flushed.get_or_insert_default().update(bytes);
            }
        }
    }

    little_endian!(write_u8(u8), write_u16(u16), write_u32(u32), write_u64(u64), write_u128(u128));

    // A length or a discriminant: as wide on every machine.
    fn write_usize(&mut self, value: usize) {
        self.write(&u64::try_from(value).unwrap_or(u64::MAX).to_le_bytes());
    }

    fn write_isize(&mut self, value: isize) {
        self.write(&i64::try_from(value).unwrap_or(i64::MAX).to_le_bytes());
    }

    fn finish(&self) -> u64 {
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// What `value` feeds, hashed in one piece.
    fn plain(bytes: &[u8]) -> u64 {
        let hash = blake3::hash(bytes);
        u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("it has 32"))
    }

    #[test]
    fn it_is_the_hash_of_the_bytes_in_a_row_however_they_come() {
        for parts in [
            &[][..],
            &[1, 2, 3],
            &[BLOCK],
            &[BLOCK - 1, 1, 1],
            &[BLOCK - 1, 2],
            &[7, BLOCK + 1, 3],
            &[3, 5 * BLOCK, BLOCK, 200, 100],
        ] {
            let mut hasher = Blake { flushed: None, waits: [0; BLOCK], count: 0 };
            let mut all = Vec::new();
            for (n, length) in (1..).zip(parts) {
                let part: Vec<u8> = (0..=250).cycle().take(*length).map(|byte: u8| byte ^ n).collect();
                hasher.write(&part);
                all.extend(part);
            }
            assert_eq!(hasher.end(), plain(&all), "{parts:?}");
        }
        assert_eq!(digest_of(&(7_u8, 300_u32, 5_usize)), plain(&[7, 44, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]));
    }
}
