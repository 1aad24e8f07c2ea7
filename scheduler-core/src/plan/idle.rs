//! GPUs of a pool that are idle or come free, and where they are taken from first.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Links;
use super::by_fit::ByFit;
use super::closest::closest;
use super::fit::{Room, is_over_in_time, shut, unheard};
use super::known::{Known, There};
use crate::id::{AttemptId, JobId, Name, NodeId, Slot};
use crate::job::Attempt;
use crate::lifecycle::need::{Need, is_of_type, need};
use crate::lifecycle::reserve::{self, Reserved, Stay};
use crate::mutant::{self, Mutant};
use crate::node::{Gpu, Node};
use crate::spec::Shape;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// Where a job would start: its nodes, each with the GPUs there.
pub(super) type Found = Vec<(NodeId, Vec<Slot>)>;

/// Nodes of one pool that take work, with what they have left.
#[derive(Debug, Clone)]
pub(super) struct Idle<'a> {
    /// In order of their ids.
    pub(super) nodes: Vec<Spare<'a>>,
    /// Their ids, side by side: they are looked up all the time.
    ids: Vec<NodeId>,
    by_fit: ByFit,
    total: usize,
    coming: usize,
    /// Nodes with idle GPUs on which cores or memory come free.
    roomier: usize,
    /// Whether anybody said where its nodes are.
    has_topology: bool,
    /// Their clusters: a gang is in one.
    clusters: BTreeSet<&'a Name>,
    /// What dates reserve on nodes that take no work now.
    shut: BTreeMap<NodeId, Reserved>,
}

/// What one node has left.
#[derive(Debug, Clone)]
pub(super) struct Spare<'a> {
    pub id: NodeId,
    pub node: &'a Node,
    /// Counts the changes of what it has left.
    pub version: u32,
    /// Idle GPUs, in order.
    pub slots: Cow<'a, [Slot]>,
    /// GPUs of attempts that stop or have ended, as far as nobody was promised them.
    pub coming: Cow<'a, [Slot]>,
    /// Cores and memory that are with nobody now.
    pub now: Room,
    /// And that are, once all that leaves has left, and all that waits for it is there. A start that waits counts on
    /// these: its go comes with both its GPUs and its cores.
    pub later: Room,
    /// What is reserved by dates.
    pub reserved: Reserved,
    /// When the last of those who are protected here is so no more, at the latest; the beginning of time if nobody is.
    pub protected_until: Timestamp,
}

/// What a job asks of each of its nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'s> {
    pub job: JobId,
    pub shape: &'s Shape,
    pub barred: &'s BTreeSet<NodeId>,
    /// The cluster it must be in, if not any.
    pub cluster: Option<&'s Name>,
    /// The only nodes it may be tried on, if not all.
    pub only: Option<&'s BTreeSet<NodeId>>,
    /// From its go to the certain end of its protection; none in the free tier, and where nobody asks.
    pub certain: Option<Span>,
    /// When it has its GPUs at the latest.
    pub latest_go: Timestamp,
    /// The length of its protection; none in the free tier.
    pub protection: Span,
}

impl Ask<'_> {
    /// Returns when it is past its protection if it starts at once; the beginning of time in the free tier.
    fn ends(&self) -> Timestamp {
        if self.protection.is_zero() { Timestamp::ZERO } else { self.latest_go.plus(self.protection) }
    }

    /// Returns when it is past its protection at the latest, if anybody asks.
    pub(super) fn over_by(&self) -> Option<Timestamp> {
        self.certain.map(|certain| self.latest_go.plus(certain))
    }
}

impl<'a> Idle<'a> {
    /// Returns what is idle or comes free in `pool` on nodes that take work at `now`.
    ///
    /// `known` is what follows from the same state.
    pub(super) fn of(state: &'a State, known: &'a Known, pool: &Name, links: &Links, now: Timestamp) -> Self {
        let mut idle = Self::empty();
        idle.nodes.reserve(state.nodes.len());
        let mut reserved = reserve::in_pool(state, pool);
        for ((id, node), there) in state.nodes.iter().zip(known.nodes.values()) {
            if node.pool != *pool || shut(*id, node, links, now).is_some() {
                continue;
            }
            let reserved = reserved.remove(id).unwrap_or_default();
            idle.push(Spare { reserved, ..Spare::of(state, there, links, (*id, node), now) });
        }
        idle.by_fit = ByFit::of(&idle.nodes);
        idle.shut = reserved;
        idle
    }

    /// Returns these nodes, in order of their ids.
    pub(super) fn of_nodes(nodes: Vec<Spare<'a>>) -> Self {
        let mut idle = Self::empty();
        nodes.into_iter().for_each(|spare| idle.push(spare));
        idle.by_fit = ByFit::of(&idle.nodes);
        idle
    }

    fn empty() -> Self {
        let (by_fit, clusters, shut) = (ByFit::default(), BTreeSet::new(), BTreeMap::new());
        Self {
            nodes: Vec::new(),
            ids: Vec::new(),
            by_fit,
            total: 0,
            coming: 0,
            roomier: 0,
            has_topology: false,
            clusters,
            shut,
        }
    }

    fn push(&mut self, spare: Spare<'a>) {
        self.has_topology |= !spare.node.topology.is_empty();
        if self.nodes.last().is_none_or(|last| last.node.cluster != spare.node.cluster) {
            self.clusters.insert(&spare.node.cluster);
        }
        self.total += spare.slots.len();
        self.coming += spare.coming.len();
        self.roomier += usize::from(spare.gets_room());
        self.ids.push(spare.id);
        self.nodes.push(spare);
    }

    /// Changes what dates reserve on a node.
    pub(super) fn reserve(&mut self, id: NodeId, change: impl FnOnce(&mut Reserved)) {
        match self.position(id) {
            Some(_) => self.change(id, |spare| change(&mut spare.reserved)),
            None => change(self.shut.entry(id).or_default()),
        }
    }

    /// Returns what dates reserve on a node.
    pub(super) fn reserved(&self, id: NodeId) -> Reserved {
        let known = self.position(id).map(|at| &self.nodes[at].reserved).or_else(|| self.shut.get(&id));
        known.cloned().unwrap_or_default()
    }

    /// Returns the place of a node among `nodes`, if it takes work.
    pub(super) fn position(&self, id: NodeId) -> Option<usize> {
        // Ids are given one after the other, and most nodes take work: it is there, or closed ones before it are missing.
        let first = self.ids.first()?;
        let furthest = size(id.get().checked_sub(first.get())?);
        match self.ids.get(furthest) {
            Some(here) if *here == id => Some(furthest),
            Some(_) => self.ids[..furthest].binary_search(&id).ok(),
            None => self.ids.binary_search(&id).ok(),
        }
    }

    /// Whether anybody said where its nodes are.
    pub(super) fn has_topology(&self) -> bool {
        self.has_topology
    }

    /// Returns how many GPUs are idle.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Whether something comes free: GPUs, or the cores and memory that idle ones lack.
    pub(super) fn comes(&self) -> bool {
        self.coming > 0 || self.roomier > 0
    }

    /// Returns the idle GPUs on which a job would start: of the nodes that hold it those with the fewest idle GPUs, so
    /// that emptier nodes stay useful for larger jobs; and of these the one whose protection ends closest to its own, so
    /// that whole nodes come free together.
    pub(super) fn find(&self, ask: &Ask<'_>) -> Option<Found> {
        if !ask.shape.or_types.is_empty() {
            return ask.shape.of_each_type().iter().find_map(|shape| self.find(&Ask { shape, ..*ask }));
        }
        if let Some(clusters) = self.clusters_for(ask) {
            return clusters.iter().find_map(|cluster| self.find(&Ask { cluster: Some(cluster), ..*ask }));
        }
        let (nodes, wanted) = (size(ask.shape.nodes), size(ask.shape.gpus_per_node.get()));
        let large_enough = self.by_fit.from(wanted, ask.ends());
        let holding = large_enough.filter_map(|at| {
            let spare = &self.nodes[at];
            let holds = |room: Room| room.holds(ask.shape, spare.node);
            if !spare.admits(ask) || !holds(spare.now) || !holds(spare.later) {
                return None;
            }
            let slots: Vec<Slot> = spare.matching(&spare.slots, ask).take(wanted).collect();
            (slots.len() == wanted).then_some((spare.id, slots))
        });
        if nodes == 1 || !self.has_topology {
            let found: Found = holding.take(nodes).collect();
            return (found.len() == nodes && ask.shape.within.is_none_or(|_| nodes == 1)).then_some(found);
        }
        self.together(holding.collect(), ask)
    }

    /// Returns the clusters of which a job must choose one, if there are several: a gang never leaves one.
    pub(super) fn clusters_for(&self, ask: &Ask<'_>) -> Option<&BTreeSet<&'a Name>> {
        (ask.shape.nodes > 1 && ask.cluster.is_none() && self.clusters.len() > 1).then_some(&self.clusters)
    }

    /// Returns those of these nodes that span the fewest groups.
    fn together(&self, able: Found, ask: &Ask<'_>) -> Option<Found> {
        let place = |(id, _): &(NodeId, Vec<Slot>)| {
            self.position(*id).map_or(&[][..], |at| self.nodes[at].node.topology.as_slice())
        };
        let places: Vec<&[Name]> = able.iter().map(place).collect();
        let within = ask.shape.within.map_or(0, usize::from);
        let chosen = closest(&places, size(ask.shape.nodes), within)?;
        Some(chosen.into_iter().filter_map(|at| able.get(at).cloned()).collect())
    }

    /// Takes the GPUs of a start, idle ones and ones that come free; it is past its protection by `over_by`, if anybody
    /// asks.
    pub(super) fn take(&mut self, ask: &Ask<'_>, on: &Found, over_by: Option<Timestamp>) {
        for (id, slots) in on {
            self.change(*id, |spare| {
                let waits = slots.iter().any(|slot| spare.coming.contains(slot));
                spare.slots.to_mut().retain(|slot| !slots.contains(slot));
                spare.coming.to_mut().retain(|slot| !slots.contains(slot));
                let need = need(ask.shape, spare.node);
                if let Some(over_by) = over_by {
                    spare.reserved.starts(need, over_by);
                }
                spare.later = spare.later.less(need);
                spare.protected_until = spare.protected_until.max(ask.ends());
                if !waits {
                    spare.now = spare.now.less(need);
                }
            });
        }
    }

    /// An attempt gives way: its GPUs on a node come free, and what else it has there.
    pub(super) fn gives_way(&mut self, id: NodeId, slots: &[Slot], gives: Need) {
        self.change(id, |spare| {
            let coming = spare.coming.to_mut();
            coming.extend(slots);
            coming.sort_unstable();
            spare.later = spare.later.more(gives);
        });
    }

    fn change(&mut self, id: NodeId, change: impl FnOnce(&mut Spare<'a>)) {
        let Some(at) = self.position(id) else { return };
        let spare = &mut self.nodes[at];
        let (idle, coming, roomier) = (spare.slots.len(), spare.coming.len(), spare.gets_room());
        self.by_fit.remove(spare, at);
        change(spare);
        spare.version += 1;
        self.by_fit.insert(spare, at);
        self.total = self.total + spare.slots.len() - idle;
        self.coming = self.coming + spare.coming.len() - coming;
        self.roomier = self.roomier + usize::from(spare.gets_room()) - usize::from(roomier);
    }
}

impl<'a> Spare<'a> {
    fn of(
        state: &State,
        there: &'a There,
        links: &Links,
        (id, node): (NodeId, &'a Node),
        now: Timestamp,
    ) -> Self {
        let (mut coming, mut later) = (Cow::Borrowed(there.ended.as_slice()), there.later);
        for stopping in &there.stopping {
            let Some((attempt, job)) = state.attempts.get(stopping).zip(state.jobs.get(&stopping.job)) else {
                continue;
            };
            if is_heard(state, links, attempt) {
                let coming = coming.to_mut();
                coming.extend(held_by((id, node), (*stopping, attempt)));
                coming.sort_unstable();
            } else {
                // It was told to, and a node of it does not hear that.
                later = later.less(need(&job.terms.shape, node));
            }
        }
        let is_protected = now < there.protected_until;
        Self {
            id,
            node,
            version: 0,
            slots: Cow::Borrowed(&there.idle),
            coming,
            now: there.now,
            later,
            reserved: Reserved::default(),
            protected_until: if is_protected { there.protected_until } else { Timestamp::ZERO },
        }
    }

    /// Whether a job may be tried here at all.
    pub(super) fn admits(&self, ask: &Ask<'_>) -> bool {
        !ask.barred.contains(&self.id)
            && ask.cluster.is_none_or(|cluster| *cluster == self.node.cluster)
            && ask.only.is_none_or(|only| only.contains(&self.id))
            && is_over_in_time(self.node, ask.latest_go, ask.certain)
            && (self.reserved.is_empty() || self.keeps_dates(ask))
    }

    /// Whether a job leaves all dates their cores and memory.
    fn keeps_dates(&self, ask: &Ask<'_>) -> bool {
        self.stay(ask).is_none_or(|stay| self.reserved.has_room(reserve::whole(self.node), &stay))
    }

    fn stay(&self, ask: &Ask<'_>) -> Option<Stay> {
        let until = ask.over_by().filter(|_| !mutant::is(Mutant::BackfillAnything))?;
        Some(Stay { job: ask.job, need: need(ask.shape, self.node), from: Timestamp::ZERO, until })
    }

    /// Whether it has idle GPUs, and cores or memory come free.
    pub(super) fn gets_room(&self) -> bool {
        !self.slots.is_empty() && self.later.has_more_than(self.now)
    }

    /// Returns how many GPUs are idle or come free.
    pub(super) fn open(&self) -> usize {
        self.slots.len() + self.coming.len()
    }

    /// Returns those of `slots` that are of the type that a job asks for, and not reserved for others while it would be
    /// protected there.
    pub(super) fn matching<'s>(
        &'s self,
        slots: &'s [Slot],
        ask: &'s Ask<'s>,
    ) -> impl Iterator<Item = Slot> + 's {
        let stay = if self.reserved.is_empty() { None } else { self.stay(ask) };
        slots.iter().copied().filter(move |slot| {
            let gpu = self.node.gpus.get(usize::from(slot.get()));
            gpu.is_some_and(|gpu| is_of_type(ask.shape, gpu))
                && stay.as_ref().is_none_or(|stay| self.reserved.lets(*slot, stay))
        })
    }
}

/// Returns a count as a size.
pub(super) fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns the slots of a node that are an attempt's and promised to nobody else; not those of a stray of its number.
pub(super) fn held_by(on: (NodeId, &Node), (id, attempt): (AttemptId, &Attempt)) -> Vec<Slot> {
    let (node_id, node) = on;
    let mut slots = with_holder(node, Some(id));
    slots.retain(|slot| attempt.placement_of(node_id, *slot).is_some());
    slots
}

/// Returns the slots of a node that are with `holder` and promised to nobody else.
pub(super) fn with_holder(node: &Node, holder: Option<AttemptId>) -> Vec<Slot> {
    let numbered = node.gpus.iter().zip(0_u16..);
    let is_wanted = |gpu: &Gpu| gpu.is_present && gpu.holder == holder && gpu.next.is_none();
    numbered.filter(|(gpu, _)| is_wanted(gpu)).map(|(_, slot)| Slot::new(slot)).collect()
}

/// Whether every node of an attempt hears what is ordered.
pub(crate) fn is_heard(state: &State, links: &Links, attempt: &Attempt) -> bool {
    attempt.placements.iter().all(|placement| {
        state.nodes.get(&placement.node).is_some_and(|node| unheard(placement.node, node, links).is_none())
    })
}
