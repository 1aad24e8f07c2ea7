//! Where a funded job starts that does not fit on idle GPUs: on what comes free and on what it may take, at the least
//! cost; and how that choice is recorded.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::cover::{Part, Site};
use super::gang::gang;
use super::idle::{Ask, Found, Idle, size};
use super::price::Cost;
use super::victims::{Rights, Victims};
use crate::decision::{Choice, Take};
use crate::id::{NodeId, Slot};
use crate::lifecycle::need::{Need, need};

/// Where a job starts, and who gives way to it.
#[derive(Debug)]
pub(super) struct Taking {
    pub on: Found,
    /// By their numbers, in order.
    pub takes: Vec<usize>,
    /// GPUs that were neither idle nor coming free.
    pub lacked: usize,
    /// Whoever it might have taken.
    pub considered: BTreeSet<usize>,
}

/// Finds the cheapest start; none if all that it may take is not enough.
pub(super) fn taking(
    ask: &Ask<'_>,
    idle: &Idle<'_>,
    victims: &Victims<'_>,
    rights: &Rights,
) -> Option<Taking> {
    let (sites, considered) = sites(ask, idle, victims, rights);
    let nodes = size(ask.shape.nodes);
    if sites.len() < nodes {
        return None;
    }
    let (on, mut takes, lacked) = match nodes {
        1 => one(&sites, rights)?,
        _ => gang(&sites, nodes, victims, rights)?,
    };
    takes.retain(|victim| gives(&victims.get(*victim).on, &on));
    Some(Taking { on, takes, lacked, considered })
}

/// Whether a start gets any of an attempt's GPUs; else it has no reason to leave.
fn gives(of: &[(NodeId, Vec<Slot>, Need)], on: &Found) -> bool {
    let is_used =
        |id: &NodeId, slot: &Slot| on.iter().any(|(node, slots)| node == id && slots.contains(slot));
    of.iter().any(|(id, slots, _)| slots.iter().any(|slot| is_used(id, slot)))
}

/// Returns the nodes that could hold a part of the job if everybody left whom it may take, and who that is.
fn sites(
    ask: &Ask<'_>,
    idle: &Idle<'_>,
    victims: &Victims<'_>,
    rights: &Rights,
) -> (Vec<(NodeId, Site)>, BTreeSet<usize>) {
    let mut nodes: BTreeSet<NodeId> = BTreeSet::new();
    for victim in rights.victims() {
        nodes.extend(victims.get(victim).on.iter().map(|(node, _, _)| *node));
    }
    // A gang may have its other nodes among the idle ones.
    let is_open = |(_, spare): &(&NodeId, &super::idle::Spare<'_>)| {
        !spare.coming.is_empty() || ask.shape.nodes > 1 && !spare.slots.is_empty()
    };
    nodes.extend(idle.nodes.iter().filter(is_open).map(|(id, _)| *id));
    let (mut sites, mut considered) = (Vec::new(), BTreeSet::new());
    for id in nodes {
        let site = site(ask, idle, victims, rights, id);
        considered.extend(site.iter().flat_map(|site| &site.parts).map(|part| part.victim));
        sites.extend(site.filter(|site| site.could_have() >= site.wanted).map(|site| (id, site)));
    }
    (sites, considered)
}

fn site(ask: &Ask<'_>, idle: &Idle<'_>, victims: &Victims<'_>, rights: &Rights, id: NodeId) -> Option<Site> {
    let spare = idle.nodes.get(&id).filter(|spare| spare.admits(id, ask))?;
    let matching = |slots| spare.matching(slots, ask.shape).collect::<Vec<_>>();
    let here = victims.on(id).iter().filter(|victim| rights.right(**victim).is_some());
    let parts = here.filter_map(|number| {
        let victim = victims.get(*number);
        let (_, slots, gives) = victim.on.iter().find(|(node, _, _)| *node == id)?;
        Some(Part { victim: *number, slots: matching(slots), gives: *gives, cost: victim.cost })
    });
    let mut parts: Vec<Part> = parts.filter(|part| !part.slots.is_empty()).collect();
    parts.sort_by(|a, b| rights.prefer(a.victim, b.victim));
    Some(Site {
        wanted: size(ask.shape.gpus_per_node.get()),
        asked: need(ask.shape, spare.node),
        room: spare.later,
        idle: matching(&spare.slots),
        coming: matching(&spare.coming),
        parts,
    })
}

/// The best node so far.
struct Best<'s> {
    cost: Cost,
    takes: Vec<usize>,
    places: Vec<usize>,
    node: NodeId,
    site: &'s Site,
}

fn one(sites: &[(NodeId, Site)], rights: &Rights) -> Option<(Found, Vec<usize>, usize)> {
    let mut best: Option<Best<'_>> = None;
    for (node, site) in sites {
        let cheapest = site.parts.iter().map(|part| part.cost).min();
        let is_dear = |best: &Best<'_>| site.lacking() > 0 && cheapest.is_some_and(|cost| cost > best.cost);
        if best.as_ref().is_some_and(is_dear) {
            continue;
        }
        let Some((cost, places)) = site.cover() else { continue };
        let takes = places.iter().map(|at| site.parts[*at].victim).collect();
        let found = Best { cost, takes, places, node: *node, site };
        if best.as_ref().is_none_or(|best| found.cmp(best, rights).is_lt()) {
            best = Some(found);
        }
    }
    let Best { mut takes, places, node, site, .. } = best?;
    let taken: Vec<&Part> = places.iter().map(|at| &site.parts[*at]).collect();
    let slots = site.pick(&taken)?;
    takes.sort_unstable();
    Some((alloc::vec![(node, slots)], takes, site.lacking()))
}

impl Best<'_> {
    /// The lowest cost, then the highest use of those who leave, then the node that is open least, then the first.
    fn cmp(&self, other: &Self, rights: &Rights) -> Ordering {
        let by_takes = || rights.prefer_set(&self.takes, &other.takes);
        let by_open = || self.site.open().cmp(&other.site.open());
        self.cost.cmp(&other.cost).then_with(by_takes).then_with(by_open).then(self.node.cmp(&other.node))
    }
}

impl Taking {
    /// Returns who gives way, as the decision records it.
    pub(super) fn takes(&self, victims: &Victims<'_>, rights: &Rights) -> Vec<Take> {
        let take = |number: &usize| {
            let victim = victims.get(*number);
            Some(Take {
                attempt: victim.id,
                generation: victim.attempt.placements.first()?.generation,
                right: rights.right(*number)?,
                price: victim.price,
                gpus: victim.gpus,
            })
        };
        self.takes.iter().filter_map(take).collect()
    }

    /// Returns how they were chosen; none if nobody gives way.
    pub(super) fn choice(&self, victims: &Victims<'_>, rights: &Rights) -> Option<Choice> {
        if self.takes.is_empty() {
            return None;
        }
        let stay = self.considered.iter().copied().filter(|victim| !self.takes.contains(victim));
        let cheapest = stay.min_by(|a, b| {
            victims.get(*a).cost.cmp(&victims.get(*b).cost).then_with(|| rights.prefer(*a, *b))
        });
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Some(Choice {
            lacked: count(self.lacked),
            freed: self.takes.iter().map(|victim| victims.get(*victim).gpus).sum(),
            considered: count(self.considered.len()),
            runner_up: cheapest.map(|victim| (victims.get(victim).id, victims.get(victim).price)),
        })
    }
}
