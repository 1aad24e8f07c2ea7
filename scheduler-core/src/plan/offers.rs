//! What each node would cost a job: the cheapest victims there, kept from one decision of a round to the next.
//!
//! A decision changes few nodes; what was found for the others still stands, as long as the job asks for the same and
//! may take the same attempts, in the same order of preference.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::cover::{Part, Site};
use super::idle::{Ask, Idle, size};
use super::known::Has;
use super::price::Cost;
use super::victims::{Rights, Victims};
use crate::lifecycle::need::need;

/// The cheapest victims of one node.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub cost: Cost,
    /// In order of preference.
    pub takes: Vec<usize>,
    /// GPUs there that are idle or come free.
    pub open: usize,
}

impl Offer {
    /// Returns the cheapest of a node.
    pub(super) fn of(site: &Site) -> Option<Self> {
        let (cost, places) = site.cover()?;
        let takes = places.iter().map(|at| site.parts[*at].victim).collect();
        Some(Self { cost, takes, open: site.open() })
    }

    /// The lowest cost, then the highest use of those who leave, then the node that is open least.
    pub(super) fn cmp(&self, other: &Self, rights: &Rights) -> Ordering {
        let by_takes = || rights.prefer_set(&self.takes, &other.takes);
        self.cost.cmp(&other.cost).then_with(by_takes).then(self.open.cmp(&other.open))
    }
}

/// What was found for one class of jobs, by node.
#[derive(Debug, Default)]
pub(super) struct Offers(Vec<Option<Known>>);

#[derive(Debug)]
struct Known {
    /// Of what the node had left.
    version: u32,
    /// Who could be taken, in order of preference.
    order: Vec<usize>,
    /// None if not even all of them are enough.
    offer: Option<Offer>,
}

/// One job that looks for its cheapest start.
pub(super) struct Look<'s, 'a> {
    pub ask: &'s Ask<'s>,
    pub idle: &'s Idle<'a>,
    pub victims: &'s Victims<'a>,
    pub rights: &'s Rights,
    pub offers: &'s mut Offers,
}

impl Look<'_, '_> {
    /// Returns how many GPUs it wants of each node.
    pub(super) fn wanted(&self) -> usize {
        size(self.ask.shape.gpus_per_node.get())
    }

    /// Returns the nodes, by their place, that might hold a part of the job if everybody left whom it may take. A gang
    /// may have its other nodes among the idle ones.
    pub(super) fn nodes(&self) -> Vec<usize> {
        let (wanted, is_gang) = (self.wanted(), self.ask.shape.nodes > 1);
        let numbered = self.idle.nodes.iter().enumerate().filter(|(at, spare)| {
            let open = spare.open();
            let could_have = self.rights.could_have(*at, open);
            let is_idle = could_have == open && spare.coming.is_empty() && !spare.gets_room();
            could_have >= wanted && (!is_idle || is_gang) && spare.admits(self.ask)
        });
        numbered.map(|(at, _)| at).collect()
    }

    /// Returns what a node costs at least: no GPU that it lacks is cheaper than the cheapest there.
    pub(super) fn bound(&self, at: usize) -> Cost {
        let lacking = self.wanted().saturating_sub(self.idle.nodes[at].open());
        if lacking == 0 {
            return Cost::default();
        }
        let each = |victim: usize| {
            let held = self.held(victim, at)?;
            Some(self.victims.get(victim).cost.each(held.slots.len()))
        };
        let each = self.takeable(at).filter_map(each);
        each.min().unwrap_or_default().times(lacking)
    }

    /// Returns the cheapest victims of a node; none if not even all are enough.
    pub(super) fn offer(&mut self, at: usize) -> Option<&Offer> {
        if self.offers.0.is_empty() {
            self.offers.0.resize_with(self.idle.nodes.len(), || None);
        }
        let version = self.idle.nodes[at].version;
        let order = self.order(at);
        let is_known = |known: &Known| known.version == version && known.order == order;
        if !self.offers.0[at].as_ref().is_some_and(is_known) {
            let offer = Offer::of(&self.site_of(at, &order));
            self.offers.0[at] = Some(Known { version, order, offer });
        }
        self.offers.0[at].as_ref().and_then(|known| known.offer.as_ref())
    }

    /// Returns a node as this job sees it.
    pub(super) fn site(&self, at: usize) -> Site {
        self.site_of(at, &self.order(at))
    }

    /// Returns how many GPUs for it are idle or come free on a node.
    pub(super) fn open(&self, at: usize) -> usize {
        let spare = &self.idle.nodes[at];
        let matching = |slots| spare.matching(slots, self.ask).count();
        matching(&spare.slots) + matching(&spare.coming)
    }

    /// Whether a node holds a part of the job without anybody leaving for it.
    pub(super) fn is_open(&self, at: usize) -> bool {
        let spare = &self.idle.nodes[at];
        self.open(at) >= self.wanted() && spare.later.holds(self.ask.shape, spare.node)
    }

    /// Whether an attempt has a GPU for this job on a node where it may be tried, or cores or memory that it lacks there.
    pub(super) fn helps(&self, victim: usize) -> bool {
        self.rights.may_take(victim)
            && self.victims.get(victim).held(self.idle).any(|(at, held)| {
                let spare = &self.idle.nodes[at];
                let gives = || spare.matching(&held.slots, self.ask).next().is_some();
                spare.admits(self.ask) && (gives() || !spare.later.holds(self.ask.shape, spare.node))
            })
    }

    fn takeable(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.victims.on(at).iter().copied().filter(|victim| self.rights.may_take(*victim))
    }

    fn held(&self, victim: usize, at: usize) -> Option<&Has> {
        self.victims.get(victim).held_on(self.idle.nodes[at].id)
    }

    fn order(&self, at: usize) -> Vec<usize> {
        let mut order: Vec<usize> = self.takeable(at).collect();
        order.sort_unstable_by(|a, b| self.rights.prefer(*a, *b));
        order
    }

    fn site_of(&self, at: usize, order: &[usize]) -> Site {
        let spare = &self.idle.nodes[at];
        let matching = |slots| spare.matching(slots, self.ask).collect::<Vec<_>>();
        // Who has no GPU for it may have the cores that it lacks.
        let parts = order.iter().filter_map(|number| {
            let held = self.held(*number, at)?;
            let (slots, cost) = (matching(&held.slots), self.victims.get(*number).cost);
            Some(Part { victim: *number, slots, gives: held.gives, cost })
        });
        Site {
            wanted: self.wanted(),
            asked: need(self.ask.shape, spare.node),
            room: spare.later,
            idle: matching(&spare.slots),
            coming: matching(&spare.coming),
            parts: parts.collect(),
        }
    }
}
