//! The cheapest attempts of one node whose leaving makes room for a job: exact over all their subsets.

use alloc::vec;
use alloc::vec::Vec;

use super::fit::Room;
use super::price::Cost;
use crate::id::Slot;
use crate::lifecycle::need::Need;
use crate::lifecycle::reserve::both;

/// A search that meets so many subsets gives the best of them; only cores and memory can make one so long.
const STEPS_MAX: u32 = 50_000;

/// One node as one job sees it: only GPUs of its type.
#[derive(Debug, Clone)]
pub(super) struct Site {
    /// GPUs that it wants here.
    pub wanted: usize,
    /// Cores and memory that it wants here.
    pub asked: Need,
    /// With nobody, once all that leaves has left.
    pub room: Room,
    /// Idle GPUs.
    pub idle: Vec<Slot>,
    /// GPUs that come free anyway.
    pub coming: Vec<Slot>,
    /// What it may take, in order of preference among equals.
    pub parts: Vec<Part>,
}

/// An attempt's part of a node.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Its number among the victims.
    pub victim: usize,
    pub slots: Vec<Slot>,
    /// What it gives back with its GPUs.
    pub gives: Need,
    pub cost: Cost,
}

impl Site {
    /// Returns how many GPUs it lacks without taking any.
    pub(super) fn lacking(&self) -> usize {
        self.wanted.saturating_sub(self.open())
    }

    /// Returns how many GPUs are idle or come free.
    pub(super) fn open(&self) -> usize {
        self.idle.len() + self.coming.len()
    }

    /// Returns how many there are if everybody leaves whom it may take.
    pub(super) fn could_have(&self) -> usize {
        self.open() + self.parts.iter().map(|part| part.slots.len()).sum::<usize>()
    }

    /// Returns the GPUs on which the job starts if `taken` leave, idle ones first; none if that is not enough. Of each
    /// whose cores and memory it needs it gets a GPU, as far as it wants any, even if others are idle: these start
    /// somebody else at once, and it has to wait for those who leave.
    pub(super) fn pick(&self, taken: &[&Part]) -> Option<Vec<Slot>> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut room = self.room;
        for part in taken {
            if room.fits(self.asked) {
                break;
            }
            slots.extend(part.slots.first().filter(|_| slots.len() < self.wanted));
            room = room.more(part.gives);
        }
        if !room.fits(self.asked) {
            return None;
        }
        let others = taken.iter().flat_map(|part| &part.slots);
        let all = self.idle.iter().chain(&self.coming).chain(others);
        let fill = all.filter(|slot| !slots.contains(slot)).copied();
        let fill: Vec<Slot> = fill.take(self.wanted.checked_sub(slots.len())?).collect();
        slots.extend(fill);
        slots.sort_unstable();
        (slots.len() == self.wanted).then_some(slots)
    }

    /// Returns the cheapest of `parts`, by their place, whose leaving is enough; none if not even all are. Of equal
    /// ones it is the one with who comes first in order of preference.
    pub(super) fn cover(&self) -> Option<(Cost, Vec<usize>)> {
        if !self.could_be_enough() {
            return None;
        }
        let bounds = Bounds::of(self);
        if let Some(set) = bounds.walk(self)
            && self.is_enough(&set)
        {
            return Some((bounds.cost(0, self.lacking()), set));
        }
        // Cores or memory are short: every subset that might be cheaper is looked at.
        let mut search = Search { site: self, bounds, best: None, steps: 0 };
        search.go(0, Cost::default(), &mut Vec::new());
        let is_cut = search.steps > STEPS_MAX;
        search.best.map(|(cost, set)| if is_cut { self.trimmed(set) } else { (cost, set) })
    }

    /// Returns what is left of a set that is enough when everybody stays who can, the dearest first.
    fn trimmed(&self, mut set: Vec<usize>) -> (Cost, Vec<usize>) {
        let mut dearest = set.clone();
        dearest.sort_by_key(|at| core::cmp::Reverse(self.parts[*at].cost));
        for at in dearest {
            let without: Vec<usize> = set.iter().copied().filter(|other| *other != at).collect();
            if self.is_enough(&without) {
                set = without;
            }
        }
        (set.iter().map(|at| self.parts[*at].cost).sum(), set)
    }

    fn is_enough(&self, set: &[usize]) -> bool {
        let taken: Vec<&Part> = set.iter().map(|at| &self.parts[*at]).collect();
        self.pick(&taken).is_some()
    }

    fn could_be_enough(&self) -> bool {
        let given = self.parts.iter().fold(Need::default(), |sum, part| both(sum, part.gives));
        self.could_have() >= self.wanted && self.room.more(given).fits(self.asked)
    }
}

/// The least cost of `lacking` more GPUs from each part on, as if cores and memory never were short.
struct Bounds {
    wide: usize,
    costs: Vec<Cost>,
}

impl Bounds {
    fn of(site: &Site) -> Self {
        let wide = site.lacking() + 1;
        let mut costs = vec![Cost::NEVER; wide * (site.parts.len() + 1)];
        costs[wide * site.parts.len()] = Cost::default();
        let mut bounds = Self { wide, costs };
        for (at, part) in site.parts.iter().enumerate().rev() {
            for lacking in 0..wide {
                let with = part.cost + bounds.cost(at + 1, lacking.saturating_sub(part.slots.len()));
                let least = with.min(bounds.cost(at + 1, lacking));
                bounds.costs[at * wide + lacking] = least;
            }
        }
        bounds
    }

    fn cost(&self, at: usize, lacking: usize) -> Cost {
        self.costs[at * self.wide + lacking]
    }

    /// Returns the cheapest set, of equal ones the first in order of preference.
    fn walk(&self, site: &Site) -> Option<Vec<usize>> {
        let mut lacking = self.wide - 1;
        if self.cost(0, lacking) == Cost::NEVER {
            return None;
        }
        let mut set = Vec::new();
        for (at, part) in site.parts.iter().enumerate() {
            let rest = lacking.saturating_sub(part.slots.len());
            if lacking > 0 && part.cost + self.cost(at + 1, rest) == self.cost(at, lacking) {
                set.push(at);
                lacking = rest;
            }
        }
        Some(set)
    }
}

/// A search through the subsets, with each part before without it, so that of equal sets the first in order of
/// preference is found first.
struct Search<'s> {
    site: &'s Site,
    bounds: Bounds,
    best: Option<(Cost, Vec<usize>)>,
    steps: u32,
}

impl Search<'_> {
    fn go(&mut self, at: usize, cost: Cost, set: &mut Vec<usize>) {
        self.steps += 1;
        let gained: usize = set.iter().map(|at| self.site.parts[*at].slots.len()).sum();
        let least = cost + self.bounds.cost(at, self.site.lacking().saturating_sub(gained));
        if self.steps > STEPS_MAX || self.best.as_ref().is_some_and(|(best, _)| least >= *best) {
            return;
        }
        if self.site.is_enough(set) {
            // Whoever came besides would only cost more.
            self.best = Some((cost, set.clone()));
            return;
        }
        let Some(part) = self.site.parts.get(at) else { return };
        set.push(at);
        self.go(at + 1, cost + part.cost, set);
        set.pop();
        self.go(at + 1, cost, set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Basis, Price};
    use crate::spec::Tier;
    use crate::unit::{MilliGpus, Span};

    fn part(victim: usize, first: u16, gpus: u16, rate: u64) -> Part {
        let price = Price {
            rate: MilliGpus::new(rate),
            lost: Span::ZERO,
            restart: Span::from_millis(1),
            preemptions: 0,
            saved_at: None,
            basis: Basis::Unknown,
        };
        let slots = (first..first + gpus).map(Slot::new).collect();
        Part { victim, slots, gives: Need::default(), cost: Cost::of(Tier::Funded, true, &price) }
    }

    fn site(wanted: usize, parts: Vec<Part>) -> Site {
        let (idle, coming) = (Vec::new(), Vec::new());
        Site { wanted, asked: Need::default(), room: Room::default(), idle, coming, parts }
    }

    #[test]
    fn sixty_four_gpus_are_covered_exactly_and_at_once() {
        let parts: Vec<Part> =
            (0_u16..64).map(|at| part(usize::from(at), at, 1, u64::from(at % 7) + 1)).collect();
        let (cost, set) = site(20, parts.clone()).cover().expect("there are enough");
        let mut costs: Vec<Cost> = parts.iter().map(|part| part.cost).collect();
        costs.sort_unstable();
        assert_eq!((cost, set.len()), (costs.into_iter().take(20).sum(), 20));
    }

    #[test]
    fn one_large_part_is_compared_with_several_small_ones() {
        let parts = vec![part(0, 0, 4, 9), part(1, 4, 2, 4), part(2, 6, 2, 4)];
        assert_eq!(site(4, parts.clone()).cover().map(|(_, set)| set), Some(vec![1, 2]));
        assert_eq!(site(3, parts.clone()).cover().map(|(_, set)| set), Some(vec![1, 2]));
        assert_eq!(site(5, parts.clone()).cover().map(|(_, set)| set), Some(vec![0, 1]));
        assert_eq!(site(9, parts).cover(), None);
    }

    #[test]
    fn cores_may_need_more_to_leave_than_the_job_has_gpus() {
        let one = Need { cpus: 1, ..Need::default() };
        let all = Need { cpus: 64, ..Need::default() };
        // All must leave, and every subset may be looked at; the last has no GPU of the type that is wanted.
        let mut parts: Vec<Part> =
            (0_u16..64).map(|at| Part { gives: one, ..part(usize::from(at), at, 1, 1) }).collect();
        parts[63].slots.clear();
        let whole = Site { asked: all, ..site(1, parts.clone()) };
        let (_, set) = whole.cover().expect("all are enough");
        assert_eq!(
            (set.len(), whole.pick(&parts.iter().collect::<Vec<_>>())),
            (64, Some(vec![Slot::new(0)]))
        );
        // Where the search is cut short, nobody leaves who could stay.
        let half = Site { asked: Need { cpus: 31, ..all }, ..site(1, parts) };
        assert_eq!(half.cover().map(|(_, set)| set.len()), Some(31));
    }

    #[test]
    fn cores_that_are_short_make_somebody_else_leave() {
        let few = Need { cpus: 1, ..Need::default() };
        let many = Need { cpus: 8, ..Need::default() };
        let parts = vec![
            Part { gives: few, ..part(0, 0, 1, 1) },
            Part { gives: many, ..part(1, 1, 1, 9) },
            Part { gives: few, ..part(2, 2, 1, 1) },
        ];
        let asks = |asked, wanted| Site { asked, ..site(wanted, parts.clone()) };
        assert_eq!(asks(few, 1).cover().map(|(_, set)| set), Some(vec![0]));
        assert_eq!(asks(many, 1).cover().map(|(_, set)| set), Some(vec![1]));
        assert_eq!(asks(many, 2).cover().map(|(_, set)| set), Some(vec![0, 1]));
    }
}
