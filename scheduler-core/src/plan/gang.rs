//! A gang's nodes and victims: nodes by what they cost besides, then everybody stays who can be left out.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::cover::{Part, Site};
use super::idle::Found;
use super::price::Cost;
use super::victims::{Rights, Victims};
use crate::id::{AttemptId, JobId, NodeId};
use crate::job::Job;
use crate::lifecycle::phase;
use crate::state::State;

/// Returns where a gang of `nodes` starts, who gives way, and how many GPUs were lacking there.
pub(super) fn gang(
    sites: &[(NodeId, Site)],
    nodes: usize,
    victims: &Victims<'_>,
    rights: &Rights,
) -> Option<(Found, Vec<usize>, usize)> {
    let sites: BTreeMap<NodeId, &Site> = sites.iter().map(|(id, site)| (*id, site)).collect();
    let mut taken = chosen(&sites, nodes, victims, rights)?;
    let mut able: BTreeSet<NodeId> =
        sites.iter().filter(|(_, site)| holds(site, &taken, None)).map(|(id, _)| *id).collect();
    trim(&sites, nodes, victims, rights, &mut taken, &mut able);
    // The fullest of those that hold it, so that emptier nodes stay useful for other whole-node jobs.
    let mut by_open: Vec<(usize, NodeId)> =
        able.iter().map(|id| (sites[id].open() + gained(sites[id], &taken), *id)).collect();
    by_open.sort_unstable();
    let mut on = Found::new();
    let mut lacked = 0;
    for (_, id) in by_open.into_iter().take(nodes) {
        let site = sites[&id];
        on.push((id, site.pick(&here(site, &taken))?));
        lacked += site.lacking();
    }
    on.sort_unstable_by_key(|(id, _)| *id);
    (on.len() == nodes).then(|| (on, taken.into_iter().collect(), lacked))
}

/// Node by node the cheapest one besides what was chosen already: an attempt on several nodes counts once.
fn chosen(
    sites: &BTreeMap<NodeId, &Site>,
    nodes: usize,
    victims: &Victims<'_>,
    rights: &Rights,
) -> Option<BTreeSet<usize>> {
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    let mut offers: BTreeMap<NodeId, Offer> = BTreeMap::new();
    for (id, site) in sites {
        offers.extend(Offer::of(site, &taken).map(|offer| (*id, offer)));
    }
    for _ in 0..nodes {
        let best = offers.iter().min_by(|a, b| a.1.cmp(b.1, rights).then(a.0.cmp(b.0)));
        let (node, offer) = best.map(|(id, offer)| (*id, offer.clone()))?;
        offers.remove(&node);
        taken.extend(&offer.takes);
        for also in offer.takes.iter().flat_map(|victim| &victims.get(*victim).on) {
            if let Some((id, site)) = sites.get_key_value(&also.0).filter(|(id, _)| offers.contains_key(id)) {
                offers.extend(Offer::of(site, &taken).map(|offer| (*id, offer)));
            }
        }
    }
    Some(taken)
}

/// What one node costs besides.
#[derive(Debug, Clone)]
struct Offer {
    cost: Cost,
    takes: Vec<usize>,
    open: usize,
}

impl Offer {
    fn of(site: &Site, taken: &BTreeSet<usize>) -> Option<Self> {
        let mut after = site.clone();
        let (gone, parts): (Vec<Part>, _) =
            after.parts.into_iter().partition(|part| taken.contains(&part.victim));
        after.parts = parts;
        for part in gone {
            after.coming.extend(part.slots);
            after.room = after.room.more(part.gives);
        }
        let (cost, places) = after.cover()?;
        let takes = places.iter().map(|at| after.parts[*at].victim).collect();
        Some(Self { cost, takes, open: after.open() })
    }

    fn cmp(&self, other: &Self, rights: &Rights) -> Ordering {
        let by_takes = || rights.prefer_set(&self.takes, &other.takes);
        self.cost.cmp(&other.cost).then_with(by_takes).then(self.open.cmp(&other.open))
    }
}

/// Lets everybody stay, the dearest first, without whom enough nodes hold the gang.
fn trim(
    sites: &BTreeMap<NodeId, &Site>,
    nodes: usize,
    victims: &Victims<'_>,
    rights: &Rights,
    taken: &mut BTreeSet<usize>,
    able: &mut BTreeSet<NodeId>,
) {
    let mut dearest: Vec<usize> = taken.iter().copied().collect();
    dearest
        .sort_by(|a, b| victims.get(*b).cost.cmp(&victims.get(*a).cost).then_with(|| rights.prefer(*b, *a)));
    for victim in dearest {
        let on = victims.get(victim).on.iter().map(|(node, _, _)| *node);
        let needs = |id: &NodeId| able.contains(id) && !holds(sites[id], taken, Some(victim));
        let lost: Vec<NodeId> = on.filter(needs).collect();
        if able.len() - lost.len() >= nodes {
            taken.remove(&victim);
            able.retain(|id| !lost.contains(id));
        }
    }
}

fn here<'s>(site: &'s Site, taken: &BTreeSet<usize>) -> Vec<&'s Part> {
    site.parts.iter().filter(|part| taken.contains(&part.victim)).collect()
}

fn gained(site: &Site, taken: &BTreeSet<usize>) -> usize {
    here(site, taken).iter().map(|part| part.slots.len()).sum()
}

/// Whether a node holds a part of the gang if `taken` leave, `without` one of them.
fn holds(site: &Site, taken: &BTreeSet<usize>, without: Option<usize>) -> bool {
    let parts: Vec<&Part> =
        here(site, taken).into_iter().filter(|part| Some(part.victim) != without).collect();
    site.pick(&parts).is_some()
}

/// Puts a gang's nodes in order of rank: each rank stays where it ran before, if that is among them; the others follow
/// in order. So rank 0 stays, and whatever a rank left on its node's own disk is found again.
pub(super) fn ranked(state: &State, id: JobId, job: &Job, on: Found) -> Found {
    if on.len() < 2 {
        return on;
    }
    let mut before = last_nodes(state, id, job);
    before.truncate(on.len());
    before.resize(on.len(), None);
    let mut left = on;
    let mut ranks: Vec<Option<_>> = Vec::with_capacity(left.len());
    for node in before {
        let at = left.iter().position(|(id, _)| Some(*id) == node);
        ranks.push(at.map(|at| left.remove(at)));
    }
    let mut rest = left.into_iter();
    ranks.into_iter().filter_map(|rank| rank.or_else(|| rest.next())).collect()
}

/// Returns the nodes of a job's latest attempt, in order of rank.
fn last_nodes(state: &State, id: JobId, job: &Job) -> Vec<Option<NodeId>> {
    let kept = phase::attempts_of(state, id).max();
    let kept = kept.and_then(|id: &AttemptId| Some((id.no, state.attempts.get(id)?)));
    let past = job.past.last();
    match (kept, past) {
        (Some((no, attempt)), past) if past.is_none_or(|past| past.no < no) => {
            attempt.placements.iter().map(|placement| Some(placement.node)).collect()
        }
        (_, past) => past.map(|past| past.nodes.iter().copied().map(Some).collect()).unwrap_or_default(),
    }
}
