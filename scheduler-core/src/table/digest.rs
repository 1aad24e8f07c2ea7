//! A hash that is the same on every machine.

use core::hash::{Hash, Hasher};

/// Returns the first 64 bits of the BLAKE3 hash of what `value` feeds to a hasher, integers as little endian.
pub fn digest_of(value: &impl Hash) -> u64 {
    let mut hasher = Blake(blake3::Hasher::new());
    value.hash(&mut hasher);
    hasher.finish()
}

struct Blake(blake3::Hasher);

macro_rules! little_endian {
    ($($method:ident($int:ty)),*) => {
        $(fn $method(&mut self, value: $int) {
            self.0.update(&value.to_le_bytes());
        })*
    };
}

impl Hasher for Blake {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    little_endian!(write_u8(u8), write_u16(u16), write_u32(u32), write_u64(u64), write_u128(u128));

    // A length or a discriminant: as wide on every machine.
    fn write_usize(&mut self, value: usize) {
        self.0.update(&u64::try_from(value).unwrap_or(u64::MAX).to_le_bytes());
    }

    fn write_isize(&mut self, value: isize) {
        self.0.update(&i64::try_from(value).unwrap_or(i64::MAX).to_le_bytes());
    }

    fn finish(&self) -> u64 {
        let hash = self.0.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(first)
    }
}
