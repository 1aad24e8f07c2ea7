//! The consensus library's own suite for storage, on our log and our snapshots over either engine.

use std::io::{self, Read, Write};
use std::marker::PhantomData;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tokio::sync::watch;

use super::machine_thread::MachineThread;
use super::state_machine::StateMachine;
use super::types::C;
use crate::ground::{Ground, Modelled, Real};
use crate::log::LogStore;
use crate::machine::{BoxError, Committed, Frozen, Machine};
use crate::stores::Stores;

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

struct On<G>(PhantomData<G>);

impl<G: Ground + Send + Sync + 'static> StoreBuilder<C, LogStore, StateMachine, G> for On<G> {
    async fn build(&self) -> Result<(G, LogStore, StateMachine), StorageError<C>> {
        let ground = G::new();
        let Stores { log, snapshots, .. } = ground.open().unwrap_or_else(|error| panic!("{error:?}"));
        let (machine, _) =
            MachineThread::start(Box::new(Counter(0)), watch::Sender::new(None)).expect("a thread");
        Ok((ground, log.clone(), StateMachine::new(machine, snapshots, log)))
    }
}

fn keeps_the_contract<G: Ground + Send + Sync + 'static>() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(Suite::<C, LogStore, StateMachine, On<G>, G>::test_all(On(PhantomData)))
        .expect("the suite passes");
}

#[test]
fn storage_over_sled_keeps_the_library_s_contract() {
    keeps_the_contract::<Real>();
}

#[test]
fn storage_over_a_modelled_disk_keeps_the_library_s_contract() {
    keeps_the_contract::<Modelled>();
}
