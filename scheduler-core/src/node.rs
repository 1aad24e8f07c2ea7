//! Nodes, their GPUs, and the pools they are in.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{AttemptId, GpuUuid, Label, Name, TokenHash};
use crate::ledger::Weighed;
use crate::unit::{Bytes, GpuCount, Timestamp, Weight};

/// The most nodes of a control plane.
pub const NODES_MAX: usize = 16_384;
/// The most clusters of a control plane, and the most pools.
pub const POOLS_MAX: usize = 64;
/// The most levels of a node's topology.
pub const LEVELS_MAX: usize = 8;
/// The most GPUs of a node, ever seen ones too.
pub const GPUS_MAX: usize = 64;

/// A machine with GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its name, unique.
    pub name: Name,
    /// Its cluster: what a job may name. Said at joining.
    pub cluster: Name,
    /// The pool whose books its GPUs are in: [`pool::of_cluster`](crate::pool::of_cluster) of its cluster.
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
    /// No new work by somebody's word, or because something here cannot be ended.
    pub cordon: Option<Cordon>,
    /// No new work, and empty as protection ends.
    pub drain: Option<Drain>,
    /// The port that the next rank 0 of a gang here gets.
    pub next_port: u16,
    /// Where it is: names from the outermost group to the innermost, `block-1/rack-3`. Empty if nobody said.
    pub topology: Vec<Name>,
}

/// The first port where ranks of a gang meet.
pub const PORT_FIRST: u16 = 20_000;
/// The last one.
pub const PORT_LAST: u16 = 29_999;

/// A node takes no new work; what is on it stays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cordon {
    /// Who said so; none if the control plane did.
    pub who: Option<Name>,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// A node gets empty: each job leaves when its protection ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Drain {
    /// Who said so.
    pub who: Name,
    /// Why.
    pub reason: String,
    /// When it was ordered.
    pub ordered_at: Timestamp,
    /// When it begins: later than ordered for a maintenance window.
    pub begins_at: Timestamp,
    /// Whether it has begun.
    pub is_active: bool,
    /// How much it hurries.
    pub urgency: Urgency,
}

/// How much a drain hurries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// No protection is cut.
    Normal,
    /// Empty by then, also if that cuts protection.
    Deadline(Timestamp),
    /// Everybody gets notice at once, also if that cuts protection.
    Now,
}

impl Node {
    /// Whether new work may be placed here: its agent reports, it is not backing off after failed launches, and nobody
    /// wants it empty. A drain to come lets work in that is over by then.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.contact == Contact::Ready
            && self.facts.is_some()
            && self.backoff_until.is_none()
            && self.cordon.is_none()
            && !self.is_draining()
    }

    /// Returns its group of a level, from 1: the names down to there. None if it has no such level.
    #[must_use]
    pub fn group(&self, level: u8) -> Option<&[Name]> {
        self.topology.get(..usize::from(level))
    }

    /// Whether a drain of it has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.is_active)
    }

    /// Whether a GPU here that is with no attempt counts as idle; else it is unavailable.
    #[must_use]
    pub fn is_in_service(&self, gpu: &Gpu) -> bool {
        self.contact == Contact::Ready && gpu.is_present && self.cordon.is_none() && !self.is_draining()
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
    /// The host by which other nodes reach the ranks here; the node's name if none.
    pub address: Option<Label>,
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
    /// What it counts in its pool: [`pool::weight_of`](crate::pool::weight_of) its model.
    pub weight: Weight,
    /// Whether the last facts had it.
    pub is_present: bool,
    /// The attempt it is with, until proven empty: one of [`State::attempts`](crate::state::State::attempts), or a
    /// stray of [`State::strays`](crate::state::State::strays), whose end is ordered.
    pub holder: Option<AttemptId>,
    /// The attempt that gets it once the holder has given it up and it is proven empty.
    pub next: Option<AttemptId>,
}

impl Gpu {
    /// Returns it as the books count it.
    #[must_use]
    pub fn weighed(&self) -> Weighed {
        Weighed { count: GpuCount::new(1), weight: self.weight }
    }
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
    /// The cluster it joins.
    pub cluster: Name,
    /// Where the node is.
    pub topology: Vec<Name>,
    /// When it stops being good.
    pub expires_at: Timestamp,
}
