//! Where a funded job starts that does not fit on idle GPUs: on what comes free and on what it may take, at the least
//! cost; and how that choice is recorded.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::closest::alternatives;
use super::cover::Part;
use super::gang::gang;
use super::idle::{Ask, Found, size};
use super::offers::{Look, Offer, Offers};
use super::price::Cost;
use super::victims::{Rights, Victim, Victims};
use crate::decision::{Choice, Take};
use crate::id::Name;

/// Where a job starts, and who gives way to it.
#[derive(Debug)]
pub(super) struct Taking {
    pub on: Found,
    /// By their numbers, in order.
    pub takes: Vec<usize>,
    /// How they were chosen; none if nobody gives way.
    pub choice: Option<Choice>,
}

/// Finds the cheapest start; none if all that it may take is not enough.
pub(super) fn taking(look: &mut Look<'_, '_>) -> Option<Taking> {
    if !look.ask.shape.or_types.is_empty() {
        return of_each_type(look);
    }
    let places = look.nodes();
    among(look, &places)
}

/// Finds the cheapest start on nodes, by their places.
pub(super) fn among(look: &mut Look<'_, '_>, places: &[usize]) -> Option<Taking> {
    let nodes = size(look.ask.shape.nodes);
    if places.len() < nodes {
        return None;
    }
    let idle = look.idle;
    let clusters = idle.clusters_for(look.ask);
    let (on, mut takes, lacked) = match (nodes, look.ask.shape.within, clusters) {
        (1, _, _) => one(look, places)?,
        (_, None, None) => fewest(look, places, nodes)?,
        (_, within, _) => together(look, places, nodes, within.unwrap_or(0))?,
    };
    takes.retain(|victim| gives(look.victims.get(*victim), &on));
    let choice = choice(look, &takes, lacked);
    Some(Taking { on, takes, choice })
}

/// The first type on which it starts.
fn of_each_type(look: &Look<'_, '_>) -> Option<Taking> {
    let (idle, victims, rights) = (look.idle, look.victims, look.rights);
    look.ask.shape.of_each_type().iter().find_map(|shape| {
        // What was found for all types says nothing of one.
        let mut offers = Offers::default();
        let ask = &Ask { shape, ..*look.ask };
        taking(&mut Look { ask, idle, victims, rights, offers: &mut offers })
    })
}

/// The cluster, and the group of a level in it, in which it costs least.
fn together(look: &mut Look<'_, '_>, places: &[usize], nodes: usize, level: u8) -> Option<Gang> {
    let mut groups: BTreeMap<(&Name, &[Name]), Vec<usize>> = BTreeMap::new();
    for at in places {
        let node = look.idle.nodes[*at].node;
        if let Some(group) = node.group(level) {
            groups.entry((&node.cluster, group)).or_default().push(*at);
        }
    }
    let mut best = None;
    for group in groups.into_values().filter(|group| group.len() >= nodes) {
        let found = fewest(look, &group, nodes);
        best = cheaper(look, best, found);
    }
    best.map(|(_, found)| found)
}

/// A gang's nodes, who gives way, and how many GPUs were lacking.
type Gang = (Found, Vec<usize>, usize);

/// The cheapest of those that span the fewest groups of their topology.
fn fewest(look: &mut Look<'_, '_>, places: &[usize], nodes: usize) -> Option<Gang> {
    if !look.idle.has_topology() {
        return gang(look, places, nodes);
    }
    let able: Vec<usize> = places.iter().copied().filter(|at| look.offer(*at).is_some()).collect();
    let idle = look.idle;
    let topology: Vec<&[Name]> = able.iter().map(|at| idle.nodes[*at].node.topology.as_slice()).collect();
    let mut best = None;
    for among in alternatives(&topology, nodes) {
        let group: Vec<usize> = among.into_iter().map(|at| able[at]).collect();
        let found = gang(look, &group, nodes);
        best = cheaper(look, best, found);
    }
    best.map(|(_, found)| found)
}

/// Returns the cheaper of two, the first of equal ones.
fn cheaper(look: &Look<'_, '_>, best: Option<(Cost, Gang)>, other: Option<Gang>) -> Option<(Cost, Gang)> {
    let Some(other) = other else { return best };
    let cost: Cost = other.1.iter().map(|victim| look.victims.get(*victim).cost).sum();
    match best {
        Some((least, best)) if least <= cost => Some((least, best)),
        Some(_) | None => Some((cost, other)),
    }
}

/// Whether an attempt is on a node of a start; else it has no reason to leave.
fn gives(victim: &Victim<'_>, on: &Found) -> bool {
    on.iter().any(|(node, _)| victim.held_on(*node).is_some())
}

/// One node: the cheapest, of equal ones the first.
fn one(look: &mut Look<'_, '_>, places: &[usize]) -> Option<(Found, Vec<usize>, usize)> {
    let rights = look.rights;
    let bounds: Vec<(Cost, usize)> = places.iter().map(|at| (look.bound(*at), *at)).collect();
    // The most promising first: it shows of most others that they are dearer.
    let first = bounds.iter().min().map(|(_, at)| *at)?;
    let mut best: Option<(Offer, usize)> = look.offer(first).map(|offer| (offer.clone(), first));
    for (bound, at) in bounds {
        if at == first || best.as_ref().is_some_and(|(best, _)| bound > best.cost) {
            continue;
        }
        let Some(offer) = look.offer(at) else { continue };
        let is_better = |(best, place): &(Offer, usize)| offer.cmp(best, rights).then(at.cmp(place)).is_lt();
        if best.as_ref().is_none_or(is_better) {
            best = Some((offer.clone(), at));
        }
    }
    let (Offer { mut takes, .. }, at) = best?;
    let site = look.site(at);
    let taken: Vec<&Part> = site.parts.iter().filter(|part| takes.contains(&part.victim)).collect();
    let slots = site.pick(&taken)?;
    takes.sort_unstable();
    Some((vec![(look.idle.nodes[at].id, slots)], takes, site.lacking()))
}

fn choice(look: &Look<'_, '_>, takes: &[usize], lacked: usize) -> Option<Choice> {
    if takes.is_empty() {
        return None;
    }
    let victims = look.victims;
    let considered: Vec<usize> = victims.numbers().filter(|victim| look.helps(*victim)).collect();
    let stay = considered.iter().copied().filter(|victim| !takes.contains(victim));
    let cheapest = stay.min_by(|a, b| {
        victims.get(*a).cost.cmp(&victims.get(*b).cost).then_with(|| look.rights.prefer(*a, *b))
    });
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(Choice {
        lacked: count(lacked),
        freed: takes.iter().map(|victim| victims.get(*victim).gpus).sum(),
        considered: count(considered.len()),
        runner_up: cheapest.map(|victim| (victims.get(victim).id, victims.get(victim).price)),
    })
}

impl Taking {
    /// Returns who gives way, as the decision records it.
    pub(super) fn takes(&self, victims: &Victims<'_>, rights: &Rights) -> Vec<Take> {
        let take = |number: &usize| {
            let victim = victims.get(*number);
            Some(Take {
                attempt: victim.id,
                generation: victim.attempt?.placements.first()?.generation,
                right: victims.right(rights, *number)?,
                price: victim.price,
                gpus: victim.gpus,
            })
        };
        self.takes.iter().filter_map(take).collect()
    }
}
