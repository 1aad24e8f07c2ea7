//! A machine: a real agent's machine, and processes that are there or not.

use std::collections::BTreeMap;

use scheduler_core::agent::{Action, Agent, Event, GpuUse, RankId, Token};
use scheduler_core::id::GpuUuid;
use scheduler_core::unit::Timestamp;

use super::found::CLUSTER;

/// One machine.
#[derive(Debug)]
pub(super) struct Machine {
    uuids: Vec<GpuUuid>,
    /// Counts its starts: what came of an earlier one comes too late.
    pub boot: u32,
    /// Its connection; none while it is away.
    pub session: Option<u64>,
    agent: Agent,
    processes: BTreeMap<RankId, Vec<GpuUuid>>,
    /// When its agent asked to be called.
    pub wake: Option<Timestamp>,
}

impl Machine {
    pub(super) fn new(uuids: Vec<GpuUuid>) -> Self {
        let agent = Agent::start(CLUSTER, Token::default(), Vec::new());
        Self { uuids, boot: 1, session: None, agent, processes: BTreeMap::new(), wake: None }
    }

    /// It dies: nothing is left. Its agent's token is durable.
    pub(super) fn reboot(&mut self) {
        self.boot += 1;
        (self.session, self.wake) = (None, None);
        self.processes.clear();
        self.agent = Agent::start(CLUSTER, self.agent.seen(), Vec::new());
    }

    /// Tells its agent, and returns what that asks for.
    pub(super) fn tell(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        self.agent.handle(event, now)
    }

    /// A process is there from now on.
    pub(super) fn starts(&mut self, rank: RankId, gpus: Vec<GpuUuid>) {
        self.processes.insert(rank, gpus);
    }

    /// No process of it is left.
    pub(super) fn is_gone(&mut self, rank: RankId) {
        self.processes.remove(&rank);
    }

    /// Returns what is on each GPU.
    pub(super) fn look(&self) -> Vec<(GpuUuid, GpuUse)> {
        let uses = |uuid: &GpuUuid| {
            let is_busy = self.processes.values().any(|gpus| gpus.contains(uuid));
            (uuid.clone(), if is_busy { GpuUse::Busy { pid: 1 } } else { GpuUse::Empty })
        };
        self.uuids.iter().map(uses).collect()
    }
}
