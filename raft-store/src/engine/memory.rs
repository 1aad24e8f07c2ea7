//! An engine in memory, on a modelled disk: it keeps what a disk would keep. For tests.
//!
//! Like sled it writes a log of batches and reads it back to the first that is not whole, without a word about
//! what may have followed.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::disk_model::DiskFile;
use super::{Change, Engine, Pair};
use crate::disk::InPlace;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct State {
    map: Map,
    end: usize,
    /// The checksum of the last frame goes into the next, so that no frame of an older life is ever read on.
    chain: u32,
}

/// Clones share one store, as two openings of one directory do.
#[derive(Clone)]
pub(crate) struct MemoryEngine {
    file: DiskFile,
    state: Arc<Mutex<State>>,
}

impl MemoryEngine {
    /// Reads the file up to its first broken frame.
    pub(crate) fn open(file: DiskFile) -> io::Result<Self> {
        let bytes = file.read()?;
        let mut state = State { map: Map::new(), end: 0, chain: 0 };
        while let Some((changes, length, sum)) = read_frame(&bytes[state.end..], state.chain) {
            apply(&mut state.map, &changes);
            state.end += length;
            state.chain = sum;
        }
        file.shorten(state.end);
        Ok(Self { file, state: Arc::new(Mutex::new(state)) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the lock")
    }
}

const HEADER: usize = 8;

fn frame(changes: &[Change], chain: u32) -> (Vec<u8>, u32) {
    let mut payload = Vec::new();
    let mut put = |bytes: &[u8]| {
        payload.extend(u32::try_from(bytes.len()).expect("small").to_le_bytes());
        payload.extend(bytes);
    };
    for change in changes {
        match change {
            Change::Put { key, value } => {
                put(key);
                put(&[1]);
                put(value);
            }
            Change::Delete { key } => {
                put(key);
                put(&[0]);
            }
        }
    }
    let sum = checksum(chain, &payload);
    let mut bytes = u32::try_from(payload.len()).expect("small").to_le_bytes().to_vec();
    bytes.extend(sum.to_le_bytes());
    bytes.extend(payload);
    (bytes, sum)
}

fn read_frame(bytes: &[u8], chain: u32) -> Option<(Vec<Change>, usize, u32)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let (length, sum) = (usize::try_from(u32::from_le_bytes(*length)).ok()?, u32::from_le_bytes(*sum));
    let payload = rest.get(..length).filter(|payload| !payload.is_empty())?;
    if sum != checksum(chain, payload) {
        return None;
    }
    let mut rest = payload;
    let mut take = || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (found, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        rest = after;
        Some(found.to_vec())
    };
    let mut changes = Vec::new();
    while let Some(key) = take() {
        changes.push(match take()?.as_slice() {
            [1] => Change::Put { key, value: take()? },
            _ => Change::Delete { key },
        });
    }
    Some((changes, HEADER + length, sum))
}

fn checksum(chain: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chain.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn apply(map: &mut Map, batch: &[Change]) {
    for change in batch {
        match change {
            Change::Put { key, value } => map.insert(key.clone(), value.clone()),
            Change::Delete { key } => map.remove(key),
        };
    }
}

impl Engine for MemoryEngine {
    fn write(&self, changes: Vec<Change>) -> io::Result<()> {
        let mut state = self.lock();
        if changes.is_empty() {
            return Ok(());
        }
        let (bytes, sum) = frame(&changes, state.chain);
        self.file.write_at(&bytes, u64::try_from(state.end).expect("small"))?;
        state.end += bytes.len();
        state.chain = sum;
        apply(&mut state.map, &changes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn room(&self) -> io::Result<u64> {
        Ok(self.file.disk().room())
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.lock().map.get(key).cloned())
    }

    fn floor(&self, key: &[u8]) -> io::Result<Option<Pair>> {
        let state = self.lock();
        Ok(state.map.range(..=key.to_vec()).next_back().map(|(key, value)| (key.clone(), value.clone())))
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> io::Result<Vec<Pair>> {
        let state = self.lock();
        let range = state.map.range(from.to_vec()..to.to_vec());
        Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}
