//! Nodes, their GPUs, and the pools they are in.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{AttemptId, GpuUuid, Label, Name, TokenHash};
use crate::unit::{Bytes, Timestamp};

/// The most nodes of a control plane.
pub const NODES_MAX: usize = 16_384;

/// A machine with GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its name, unique.
    pub name: Name,
    /// Its pool.
    pub pool: Name,
    /// The hash of the credential that its agent made at joining.
    pub credential: TokenHash,
    /// The machine's own id; the same name with another machine is refused.
    pub machine: Label,
    /// What its agent reported last.
    pub facts: Option<Facts>,
    /// Its GPUs by slot. A GPU that vanished stays, not present.
    pub gpus: Vec<Gpu>,
    /// Whether the control plane can reach its agent.
    pub contact: Contact,
    /// Failed launches: no new work before this.
    pub backoff_until: Option<Timestamp>,
    /// Failed launches in a row.
    pub failed_launches: u8,
}

impl Node {
    /// Whether new work may be placed here: its agent reports, and it is not backing off after failed launches.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.contact == Contact::Ready && self.facts.is_some() && self.backoff_until.is_none()
    }

    /// Whether a GPU here that is with no attempt counts as idle; else it is unavailable.
    #[must_use]
    pub fn is_in_service(&self, gpu: &Gpu) -> bool {
        self.contact == Contact::Ready && gpu.is_present
    }
}

/// What an agent says of its node; committed when it changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The kernel's boot id: another one means that every process ended.
    pub boot: Label,
    /// The agent's version.
    pub agent: Label,
    /// Cores.
    pub cpus: u32,
    /// Memory.
    pub memory: Bytes,
    /// GPUs that answer, with what they are.
    pub gpus: Vec<GpuFacts>,
    /// Whether its NVML is the simulated one.
    pub is_simulated: bool,
    /// How processes are ended and proven gone here (`cgroup`, or the weaker `process tree`).
    pub containment: Label,
    /// What is wrong with it, in words; empty when nothing is known to be.
    pub trouble: Vec<String>,
}

/// One GPU as NVML says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GpuFacts {
    /// Its identity.
    pub uuid: GpuUuid,
    /// Its model.
    pub model: Label,
    /// Its memory.
    pub memory: Bytes,
}

/// One GPU of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gpu {
    /// Its identity.
    pub uuid: GpuUuid,
    /// Its model.
    pub model: Label,
    /// Its memory.
    pub memory: Bytes,
    /// Whether the last facts had it.
    pub is_present: bool,
    /// The attempt it is with, until proven empty: one of [`State::attempts`](crate::state::State::attempts), or a
    /// stray of [`State::strays`](crate::state::State::strays), whose end is ordered.
    pub holder: Option<AttemptId>,
}

/// Whether the control plane can reach a node's agent, as committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contact {
    /// Joined, no facts yet.
    Joined,
    /// Reports.
    Ready,
    /// Has not been heard of for long; its work stays its own.
    Unreachable {
        /// Since when.
        since: Timestamp,
    },
}

/// A one-time permission to join.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JoinToken {
    /// The name the node gets.
    pub name: Name,
    /// The pool it joins.
    pub pool: Name,
    /// When it stops being good.
    pub expires_at: Timestamp,
}
