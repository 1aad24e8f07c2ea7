//! Which nodes the leader hears of.

use alloc::vec::Vec;

use crate::id::{AttemptId, NodeId};
use crate::node::Contact;
use crate::state::State;
use crate::table::Table;
use crate::unit::Timestamp;

/// What only the leader's memory has: nodes with a live link, which alone get new work, and checkpoints that are newer
/// than the committed ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// In order, each once.
    nodes: Vec<NodeId>,
    saves: Table<AttemptId, Timestamp>,
}

impl Links {
    /// Makes the set from its nodes.
    #[must_use]
    pub fn new(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        Self { nodes, saves: Table::default() }
    }

    /// Returns every node that state has as ready: what a replica that is not the leader, and a simulator, go by.
    #[must_use]
    pub fn all_ready(state: &State) -> Self {
        let ready = state.nodes.iter().filter(|(_, node)| node.contact == Contact::Ready);
        Self::new(ready.map(|(id, _)| *id))
    }

    /// Whether `node` has a live link.
    #[must_use]
    pub fn has(&self, node: NodeId) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }

    /// Returns the nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().copied()
    }

    /// Adds a node: what a question of the kind "and if it were back" does.
    pub fn add(&mut self, node: NodeId) {
        if let Err(at) = self.nodes.binary_search(&node) {
            self.nodes.insert(at, node);
        }
    }

    /// Adds checkpoints that the ranks reported, by attempt.
    #[must_use]
    pub fn with_saves(self, saves: Table<AttemptId, Timestamp>) -> Self {
        Self { saves, ..self }
    }

    /// Returns an attempt's newest checkpoint that is not committed, if one is known.
    #[must_use]
    pub fn saved_at(&self, attempt: AttemptId) -> Option<Timestamp> {
        self.saves.get(&attempt).copied()
    }
}
