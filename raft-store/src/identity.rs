//! Who a replica is: the one file that ties a data directory to a cluster.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A cluster's identity, made once when it is founded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId([u8; 16]);

impl ClusterId {
    /// Wraps the 16 bytes that founding drew at random.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn get(self) -> [u8; 16] {
        self.0
    }
}

impl From<[u8; 16]> for ClusterId {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// A replica's number in its cluster. It names one log for ever: a replica that lost its disk comes back under
/// a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(u64);

impl ReplicaId {
    /// Wraps a number.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for ReplicaId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The content of the identity file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster that this data directory belongs to.
    pub cluster: ClusterId,
    /// This replica's number in it.
    pub replica: ReplicaId,
}

const FILE: &str = "identity";
const MAGIC: &[u8; 8] = b"BURSARID";
const FORMAT: u16 = 1;
const LENGTH: usize = 38;

impl Identity {
    /// Reads the identity in `dir`: `None` if the directory has none yet.
    pub(crate) fn load(dir: &Path) -> io::Result<Option<Self>> {
        match fs::read(dir.join(FILE)) {
            Ok(bytes) => Self::decode(&bytes).map(Some).map_err(io::Error::other),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// Writes the identity durably; it is there whole or not at all.
    pub(crate) fn store(self, dir: &Path) -> io::Result<()> {
        let fresh = dir.join("identity.new");
        let mut file = File::create(&fresh)?;
        file.write_all(&self.encode())?;
        file.sync_all()?;
        fs::rename(&fresh, dir.join(FILE))?;
        File::open(dir)?.sync_all()
    }

    fn encode(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[10..26].copy_from_slice(&self.cluster.get());
        bytes[26..34].copy_from_slice(&self.replica.get().to_le_bytes());
        let sum = crc32fast::hash(&bytes[..34]);
        bytes[34..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| "the identity file has the wrong length")?;
        if &bytes[..8] != MAGIC {
            return Err("the identity file is not one of ours");
        }
        if bytes[34..] != crc32fast::hash(&bytes[..34]).to_le_bytes() {
            return Err("the identity file's checksum does not match");
        }
        if bytes[8..10] != FORMAT.to_le_bytes() {
            return Err("the identity file has a format that this version does not know");
        }
        let cluster = bytes[10..26].try_into().expect("sixteen bytes");
        let replica = u64::from_le_bytes(bytes[26..34].try_into().expect("eight bytes"));
        Ok(Self { cluster: ClusterId::new(cluster), replica: ReplicaId::new(replica) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_bytes_are_frozen() {
        let identity = Identity { cluster: ClusterId::new([7; 16]), replica: ReplicaId::new(3) };
        let mut expected = b"BURSARID\x01\x00".to_vec();
        expected.extend([7; 16]);
        expected.extend([3, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend(crc32fast::hash(&expected).to_le_bytes());
        assert_eq!(identity.encode().as_slice(), expected);
        assert_eq!(Identity::decode(&expected), Ok(identity));
    }

    #[test]
    fn any_flipped_bit_of_the_identity_is_noticed() {
        let identity = Identity { cluster: ClusterId::new([7; 16]), replica: ReplicaId::new(3) };
        for at in 0..LENGTH * 8 {
            let mut bytes = identity.encode();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(Identity::decode(&bytes).is_err(), "bit {at}");
        }
    }
}
