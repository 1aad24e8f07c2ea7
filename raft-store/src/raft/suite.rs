//! The consensus library's own suite for storage, on our log over sled and our snapshots.

use std::io::{self, Read, Write};

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;
use tokio::sync::watch;

use super::machine_thread::MachineThread;
use super::state_machine::StateMachine;
use super::types::C;
use crate::log::LogStore;
use crate::machine::{BoxError, Committed, Frozen, Machine};
use crate::snapshot::SnapshotStore;

/// Counts what it applied.
struct Counter(u64);

impl Frozen for Counter {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.0.to_le_bytes())
    }
}

impl Machine for Counter {
    fn apply(&mut self, entries: &[Committed<'_>]) -> Vec<Vec<u8>> {
        entries
            .iter()
            .map(|_| {
                self.0 += 1;
                Vec::new()
            })
            .collect()
    }

    fn advanced(&mut self, _: u64, _: u64) {}

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(Self(self.0))
    }

    fn install(&mut self, _: u64, _: u64, snapshot: &mut dyn Read) -> Result<(), BoxError> {
        let mut bytes = [0; 8];
        snapshot.read_exact(&mut bytes)?;
        self.0 = u64::from_le_bytes(bytes);
        Ok(())
    }
}

struct Stores;

impl StoreBuilder<C, LogStore, StateMachine, TempDir> for Stores {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<C>> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let log = LogStore::open(dir.path()).expect("a new log");
        let snapshots = SnapshotStore::open(dir.path(), 64 << 20).expect("new snapshots");
        let (machine, _) =
            MachineThread::start(Box::new(Counter(0)), watch::Sender::new(None)).expect("a thread");
        Ok((dir, log.clone(), StateMachine::new(machine, snapshots, log)))
    }
}

#[test]
fn storage_keeps_the_library_s_contract() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(Suite::<C, LogStore, StateMachine, Stores, TempDir>::test_all(Stores))
        .expect("the suite passes");
}
