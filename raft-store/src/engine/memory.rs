//! An engine in memory that keeps only what was synced when it crashes. For tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Change, Engine, Pair};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct State {
    now: Map,
    durable: Map,
    pending: Vec<Vec<Change>>,
    history: Vec<Vec<Change>>,
}

/// Clones share one store, as two openings of one directory do.
#[derive(Clone, Default)]
pub(crate) struct MemoryEngine {
    state: Arc<Mutex<State>>,
}

impl MemoryEngine {
    /// Returns the store as a crash leaves it: what was synced, and the first `surviving` batches after that.
    pub(crate) fn crashed(&self, surviving: usize) -> Self {
        let state = self.lock();
        let mut durable = state.durable.clone();
        for batch in state.pending.iter().take(surviving) {
            apply(&mut durable, batch);
        }
        Self::holding(durable)
    }

    /// Returns how many batches were ever written.
    pub(crate) fn batches(&self) -> usize {
        self.lock().history.len()
    }

    /// Returns the store as it was after the first `batches` batches.
    pub(crate) fn replayed(&self, batches: usize) -> Self {
        let mut map = Map::new();
        for batch in self.lock().history.iter().take(batches) {
            apply(&mut map, batch);
        }
        Self::holding(map)
    }

    fn holding(map: Map) -> Self {
        let state = State { now: map.clone(), durable: map, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the lock")
    }
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
        apply(&mut state.now, &changes);
        state.history.push(changes.clone());
        state.pending.push(changes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.lock();
        for batch in std::mem::take(&mut state.pending) {
            apply(&mut state.durable, &batch);
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.lock().now.get(key).cloned())
    }

    fn floor(&self, key: &[u8]) -> io::Result<Option<Pair>> {
        let state = self.lock();
        Ok(state.now.range(..=key.to_vec()).next_back().map(|(key, value)| (key.clone(), value.clone())))
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> io::Result<Vec<Pair>> {
        let state = self.lock();
        let range = state.now.range(from.to_vec()..to.to_vec());
        Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}
