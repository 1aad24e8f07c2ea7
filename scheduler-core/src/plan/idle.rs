//! Idle GPUs of a pool, found by best fit.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Links;
use super::fit::{Room, shut};
use crate::id::{Name, NodeId, Slot};
use crate::lifecycle::need::{is_of_type, need, taken};
use crate::node::Node;
use crate::spec::Shape;
use crate::state::State;
use crate::unit::Timestamp;

/// Nodes of one pool that take work, by how many of their GPUs are idle.
#[derive(Debug, Clone)]
pub(crate) struct Idle<'a> {
    nodes: BTreeMap<NodeId, Spare<'a>>,
    by_count: BTreeSet<(usize, NodeId)>,
    total: usize,
}

#[derive(Debug, Clone)]
struct Spare<'a> {
    node: &'a Node,
    slots: Vec<Slot>,
    room: Room,
}

impl<'a> Idle<'a> {
    /// Returns the idle GPUs of `pool` on nodes that take work at `now`.
    pub(crate) fn of(state: &'a State, pool: &Name, links: &Links, now: Timestamp) -> Self {
        let mut idle = Self { nodes: BTreeMap::new(), by_count: BTreeSet::new(), total: 0 };
        for (id, node) in state.nodes.iter() {
            if node.pool != *pool || shut(*id, node, links, now).is_some() {
                continue;
            }
            let slots: Vec<Slot> = idle_slots(node).collect();
            let room = Room::of(node, taken(state, *id));
            idle.total += slots.len();
            idle.by_count.insert((slots.len(), *id));
            idle.nodes.insert(*id, Spare { node, slots, room });
        }
        idle
    }

    /// Returns how many GPUs are idle.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the GPUs on which a job of `shape` would start: of the nodes that hold it the one with the fewest idle
    /// GPUs, so that emptier nodes stay useful for larger jobs.
    pub(crate) fn find(&self, shape: &Shape, barred: &BTreeSet<NodeId>) -> Option<(NodeId, Vec<Slot>)> {
        let wanted = usize::try_from(shape.gpus_per_node.get()).ok()?;
        let large_enough = self.by_count.range((wanted, NodeId::new(0))..);
        large_enough.filter(|(_, id)| !barred.contains(id)).find_map(|(_, id)| {
            let spare = &self.nodes[id];
            let slots: Vec<Slot> = spare.matching(shape).take(wanted).collect();
            let fits = slots.len() == wanted && spare.room.holds(shape, spare.node);
            fits.then_some((*id, slots))
        })
    }

    /// Takes GPUs that [`Idle::find`] returned for the same shape.
    pub(crate) fn take(&mut self, shape: &Shape, id: NodeId, slots: &[Slot]) {
        let Some(spare) = self.nodes.get_mut(&id) else { return };
        self.by_count.remove(&(spare.slots.len(), id));
        spare.slots.retain(|slot| !slots.contains(slot));
        spare.room = spare.room.less(need(shape, spare.node));
        self.by_count.insert((spare.slots.len(), id));
        self.total -= slots.len();
    }
}

impl Spare<'_> {
    fn matching<'s>(&'s self, shape: &'s Shape) -> impl Iterator<Item = Slot> + 's {
        self.slots.iter().copied().filter(|slot| {
            self.node.gpus.get(usize::from(slot.get())).is_some_and(|gpu| is_of_type(shape, gpu))
        })
    }
}

/// Returns the slots of `node` that are there and with nobody.
fn idle_slots(node: &Node) -> impl Iterator<Item = Slot> + '_ {
    let numbered = node.gpus.iter().zip(0_u16..);
    numbered.filter(|(gpu, _)| gpu.is_present && gpu.holder.is_none()).map(|(_, slot)| Slot::new(slot))
}
