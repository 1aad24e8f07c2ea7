//! Which nodes the leader hears of.

use alloc::collections::BTreeSet;

use crate::id::NodeId;
use crate::node::Contact;
use crate::state::State;

/// Nodes with a live link, from the leader's memory: only they get new work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links(BTreeSet<NodeId>);

impl Links {
    /// Makes the set from its nodes.
    #[must_use]
    pub fn new(nodes: BTreeSet<NodeId>) -> Self {
        Self(nodes)
    }

    /// Returns every node that state has as ready: what a replica that is not the leader, and a simulator, go by.
    #[must_use]
    pub fn all_ready(state: &State) -> Self {
        let ready = state.nodes.iter().filter(|(_, node)| node.contact == Contact::Ready);
        Self(ready.map(|(id, _)| *id).collect())
    }

    /// Whether `node` has a live link.
    #[must_use]
    pub fn has(&self, node: NodeId) -> bool {
        self.0.contains(&node)
    }

    /// Returns the nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().copied()
    }

    /// Adds a node: what a question of the kind "and if it were back" does.
    pub fn add(&mut self, node: NodeId) {
        self.0.insert(node);
    }
}
