//! A gang's nodes and victims: nodes by what they cost besides, then everybody stays who can be left out.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::cover::{Part, Site};
use super::idle::Found;
use super::offers::{Look, Offer};
use crate::id::{AttemptId, JobId, NodeId};
use crate::job::Job;
use crate::lifecycle::phase;
use crate::mutant::{self, Mutant};
use crate::state::State;

/// Returns where a gang of `nodes` starts among those at `places`, who gives way, and how many GPUs were lacking there.
pub(super) fn gang(
    look: &mut Look<'_, '_>,
    places: &[usize],
    nodes: usize,
) -> Option<(Found, Vec<usize>, usize)> {
    let mut taken = chosen(look, places, nodes)?;
    // Only where somebody leaves anything changes.
    let is_left = |at: &usize| look.victims.on(*at).iter().any(|victim| taken.contains(victim));
    let left = places.iter().copied().filter(is_left);
    let sites: BTreeMap<usize, Site> = left.map(|at| (at, look.site(at))).collect();
    let is_able = |at: &usize| match sites.get(at) {
        Some(site) => holds(site, &taken, None),
        None => look.is_open(*at),
    };
    let mut able: BTreeSet<usize> = places.iter().copied().filter(is_able).collect();
    if !mutant::is(Mutant::NothingTrimmed) {
        trim(&sites, nodes, look, &mut taken, &mut able);
    }
    // The fullest of those that hold it, so that emptier nodes stay useful for other whole-node jobs.
    let open = |at: usize| sites.get(&at).map_or_else(|| look.open(at), |s| s.open() + gained(s, &taken));
    let mut by_open: Vec<(usize, usize)> = able.iter().map(|at| (open(*at), *at)).collect();
    by_open.sort_unstable();
    let mut on = Found::new();
    let mut lacked = 0;
    for (_, at) in by_open.into_iter().take(nodes) {
        let site = look.site(at);
        on.push((look.idle.nodes[at].id, site.pick(&here(&site, &taken))?));
        lacked += site.lacking();
    }
    on.sort_unstable_by_key(|(id, _)| *id);
    (on.len() == nodes).then(|| (on, taken.into_iter().collect(), lacked))
}

/// Node by node the cheapest one besides what was chosen already: an attempt on several nodes counts once.
fn chosen(look: &mut Look<'_, '_>, places: &[usize], nodes: usize) -> Option<BTreeSet<usize>> {
    let (victims, rights) = (look.victims, look.rights);
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    let mut offers: BTreeMap<usize, Offer> = BTreeMap::new();
    for at in places {
        offers.extend(look.offer(*at).map(|offer| (*at, offer.clone())));
    }
    for _ in 0..nodes {
        let best = offers.iter().min_by(|a, b| a.1.cmp(b.1, rights).then(a.0.cmp(b.0)));
        let at = best.map(|(at, _)| *at)?;
        let offer = offers.remove(&at)?;
        taken.extend(&offer.takes);
        for (also, _) in offer.takes.iter().flat_map(|victim| victims.get(*victim).held(look.idle)) {
            if offers.contains_key(&also) {
                offers.extend(after(look.site(also), &taken).map(|offer| (also, offer)));
            }
        }
    }
    Some(taken)
}

/// Returns what a node costs besides `taken`, who leave anyway.
fn after(mut site: Site, taken: &BTreeSet<usize>) -> Option<Offer> {
    let (gone, parts): (Vec<Part>, _) = site.parts.into_iter().partition(|part| taken.contains(&part.victim));
    site.parts = parts;
    for part in gone {
        site.coming.extend(part.slots);
        site.room = site.room.more(part.gives);
    }
    Offer::of(&site)
}

/// Lets everybody stay, the dearest first, without whom enough nodes hold the gang.
fn trim(
    sites: &BTreeMap<usize, Site>,
    nodes: usize,
    look: &Look<'_, '_>,
    taken: &mut BTreeSet<usize>,
    able: &mut BTreeSet<usize>,
) {
    let (victims, rights) = (look.victims, look.rights);
    let mut dearest: Vec<usize> = taken.iter().copied().collect();
    dearest
        .sort_by(|a, b| victims.get(*b).cost.cmp(&victims.get(*a).cost).then_with(|| rights.prefer(*b, *a)));
    for victim in dearest {
        let on = victims.get(victim).held(look.idle).map(|(at, _)| at);
        let needs = |at: &usize| {
            able.contains(at) && sites.get(at).is_some_and(|site| !holds(site, taken, Some(victim)))
        };
        let lost: Vec<usize> = on.filter(needs).collect();
        if able.len() - lost.len() >= nodes {
            taken.remove(&victim);
            able.retain(|at| !lost.contains(at));
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
