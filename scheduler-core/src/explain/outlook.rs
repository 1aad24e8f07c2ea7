//! What stands between a waiting job and its GPUs, node by node.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;

use super::closed::{Closed, closed};
use super::right::{Kept, Sight, Uses};
use crate::decision::Right;
use crate::id::{AttemptId, BudgetId, JobId, Name, NodeId, Slot};
use crate::job::{Attempt, Job};
use crate::lifecycle::burst::{Burst, Over};
use crate::lifecycle::lane::{Lane, Part, gpus};
use crate::lifecycle::need::{Need, could_hold, is_of_type};
use crate::lifecycle::place::protection;
use crate::lifecycle::reserve::{self, Reserved, Stay};
use crate::node::{Contact, Gpu, Node};
use crate::plan::{Alone, Class, Known, Links};
use crate::queue::{is_with_stray, promised_until};
use crate::spec::{Tier, Turn};
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// What makes two waiting jobs see a pool alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Eyes<'a> {
    pub class: Class<'a>,
    budget: BudgetId,
    tier: Tier,
    turn: Turn,
    protection: Span,
    part: Part,
    /// Itself, if it has a date: what is reserved for it is no bar to it.
    dated: Option<JobId>,
}

impl<'a> Eyes<'a> {
    /// Returns those of a job.
    pub(crate) fn of(state: &State, id: JobId, job: &'a Job) -> Self {
        Self {
            class: Class::of(state, job),
            budget: job.budget,
            tier: job.terms.tier,
            turn: job.terms.turn,
            protection: protection(state, id, job),
            part: Part::of(&job.terms),
            dated: state.dates.keys().any(|(of, _)| *of == id).then_some(id),
        }
    }

    /// Returns them where no drain is to come: how long the job is protected makes no difference there.
    pub(crate) fn without_windows(self) -> Self {
        Self { protection: Span::ZERO, ..self }
    }
}

/// The GPUs of one pool as one waiting job sees them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outlook {
    /// GPUs of its type by what they do, on nodes that take its work; `barred` ones apart.
    pub idle: u32,
    /// With attempts that leave, and promised to nobody.
    pub coming: u32,
    /// The same, as a job of the free tier sees them: it gets none of them before they are idle.
    pub leaving: u32,
    /// With attempts that it may take, and by which right.
    pub takeable: BTreeMap<AttemptId, (u32, Right)>,
    /// With funded attempts past their protection that it may not take, and why.
    pub kept: BTreeMap<AttemptId, (u32, Kept)>,
    pub protected: u32,
    /// When the next protected one is so no more.
    pub next_end: Option<Timestamp>,
    /// With attempts that have not started, or promised to them.
    pub promised: u32,
    /// Idle, coming or takeable ones that are reserved for the date of another job.
    pub reserved: BTreeMap<JobId, u32>,
    /// With processes that nobody placed.
    pub stray: u32,
    /// Past their protection, and in the free tier: as a job of the free tier sees them.
    pub interruptible: u32,
    pub free_tier: u32,
    /// The most GPUs on one node that it may use now.
    pub most_now: u32,
    /// How many nodes have enough that are idle.
    pub nodes_idle: u32,
    /// How many of one group of the level that it must be within.
    pub together_idle: u32,
    /// How many nodes have enough that it may use now.
    pub nodes_now: u32,
    /// Enough nodes have enough GPUs that nobody protects, were there no order among budgets.
    pub is_contested: bool,
    /// The earliest moment at which enough nodes have enough GPUs that are not protected.
    pub unprotected_at: Option<Timestamp>,
    /// The short lane, if the job would protect what longer ones leave to that.
    pub lane: Option<Lane>,
    /// The budget on its path that has more than its burst limit.
    pub burst: Option<Over>,
    /// It would start now, if it were alone in line.
    pub fits_now: bool,
    /// Nodes that could hold a part of it and take none of its work: which, why, and how many of their GPUs of its type
    /// are with nobody.
    pub closed: Vec<(NodeId, Closed, u32)>,
    /// Nodes that take its work.
    pub open: u32,
    /// GPUs on nodes where its launch failed before.
    pub barred: u32,
    /// GPUs of other types, and on nodes too small for it.
    pub unfit: u32,
}

impl Outlook {
    /// Looks at every node of `pool` with the eyes of a waiting job.
    pub(crate) fn of(
        state: &State,
        pool: &Name,
        links: &Links,
        id: JobId,
        eyes: &Eyes<'_>,
        now: Timestamp,
    ) -> Self {
        let starts = || Alone::new(state, &Known::of(state), links, now).starts(id);
        Self::with(state, links, &Uses::new(state, pool, now), eyes, now, starts)
    }

    /// Looks at every node of the pool of `uses`; `starts` says whether the job would start if it were alone in line.
    pub(crate) fn with(
        state: &State,
        links: &Links,
        uses: &Uses<'_>,
        eyes: &Eyes<'_>,
        now: Timestamp,
        starts: impl FnOnce() -> bool,
    ) -> Self {
        let pool = uses.pool();
        let reserved = if state.dates.is_empty() { BTreeMap::new() } else { reserve::in_pool(state, pool) };
        let lane = Lane::of(state, pool, now);
        let has_right = |lane: &Lane| eyes.part == Part::Lane && lane.gives_right();
        let by_lane =
            lane.filter(has_right).map(|lane| Right::Lane { occupied: lane.occupied, part: lane.part });
        let look = Look { state, eyes, links, uses, now, known: RefCell::default(), reserved, by_lane };
        let certain = match eyes.tier {
            Tier::Funded => Some(state.meta.settings.start_limit.plus(eyes.protection)),
            Tier::Free => None,
        };
        let own = gpus(eyes.class.shape);
        let lane = lane.filter(|lane| !lane.lets_some(eyes.part, own));
        let burst = Burst::of(state, pool, now).filter(|_| eyes.tier == Tier::Funded);
        let burst = burst.and_then(|burst| burst.over_on_path(eyes.budget));
        let mut outlook = Self { lane, burst, ..Self::default() };
        let mut ready: Vec<Timestamp> = Vec::new();
        let mut groups: BTreeMap<(&Name, &[Name]), u32> = BTreeMap::new();
        for (node_id, node) in
            state.nodes.iter().filter(|(_, node)| node.pool == *pool && eyes.class.is_in_cluster(node))
        {
            if !could_hold(eyes.class.shape, node) {
                outlook.unfit += count(node.gpus.len());
            } else if eyes.class.barred.contains(node_id) {
                outlook.barred += count(node.gpus.len());
            } else if let Some(why) = closed(*node_id, node, links, certain, now) {
                let spare = matching(node, eyes).filter(|gpu| gpu.holder.is_none() && gpu.next.is_none());
                outlook.closed.push((*node_id, why, count(spare.count())));
            } else {
                outlook.open += 1;
                let before = outlook.nodes_idle;
                ready.extend(outlook.node(&look, *node_id, node));
                if let Some(group) = node.group(eyes.class.shape.within.unwrap_or(0)) {
                    *groups.entry((&node.cluster, group)).or_default() += outlook.nodes_idle - before;
                }
            }
        }
        outlook.together_idle = groups.into_values().max().unwrap_or(0);
        let wanted = usize::try_from(eyes.class.shape.nodes).unwrap_or(usize::MAX);
        ready.sort_unstable();
        outlook.unprotected_at = wanted.checked_sub(1).and_then(|last| ready.get(last)).copied();
        outlook.is_contested = outlook.unprotected_at.is_some_and(|at| at <= now);
        // The plan places nothing where not even this is enough, and needs not be asked.
        outlook.fits_now = outlook.nodes_now >= eyes.class.shape.nodes && starts();
        outlook
    }

    /// Whether the pool's nodes could never hold it.
    pub(crate) fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.barred == 0 && self.open == 0
    }

    /// Counts a node that takes its work; returns when it has enough GPUs that nobody protects.
    fn node(&mut self, look: &Look<'_>, id: NodeId, node: &Node) -> Option<Timestamp> {
        let wanted = usize::try_from(look.eyes.class.shape.gpus_per_node.get()).unwrap_or(usize::MAX);
        let (mut idle, mut usable, mut others, mut ends) = (0_usize, 0_usize, 0_usize, Vec::new());
        let numbered = (0_u16..).map(Slot::new).zip(&node.gpus);
        for (slot, gpu) in
            numbered.filter(|(_, gpu)| gpu.is_present && is_of_type(look.eyes.class.shape, gpu))
        {
            let seen = look.see_unreserved((id, node), (slot, gpu));
            self.count(&seen, look.eyes.tier);
            match seen {
                Seen::Idle => idle += 1,
                Seen::Coming | Seen::May(..) => usable += 1,
                Seen::Kept(..) | Seen::Stray | Seen::Interruptible | Seen::Free => others += 1,
                Seen::Promised(until) => ends.push(until.unwrap_or(look.now)),
                Seen::Reserved(_, until) => ends.push(until),
                Seen::Protected(until) => ends.push(until),
            }
        }
        let usable = if look.eyes.tier == Tier::Free { idle } else { idle + usable };
        self.most_now = self.most_now.max(count(usable));
        self.nodes_idle += u32::from(idle >= wanted);
        self.nodes_now += u32::from(usable >= wanted);
        ends.sort_unstable();
        match wanted.saturating_sub(usable + others) {
            0 => Some(look.now),
            lacking => ends.get(lacking - 1).map(|at| (*at).max(look.now)),
        }
    }

    fn count(&mut self, seen: &Seen, tier: Tier) {
        match *seen {
            Seen::Idle => self.idle += 1,
            Seen::Coming if tier == Tier::Free => self.leaving += 1,
            Seen::Coming => self.coming += 1,
            Seen::May(attempt, right) => self.takeable.entry(attempt).or_insert((0, right)).0 += 1,
            Seen::Kept(attempt, kept) => self.kept.entry(attempt).or_insert((0, kept)).0 += 1,
            Seen::Promised(_) => self.promised += 1,
            Seen::Reserved(job, _) => *self.reserved.entry(job).or_default() += 1,
            Seen::Stray => self.stray += 1,
            Seen::Interruptible => self.interruptible += 1,
            Seen::Free => self.free_tier += 1,
            Seen::Protected(until) => {
                self.protected += 1;
                self.next_end = Some(self.next_end.map_or(until, |next| next.min(until)));
            }
        }
    }
}

/// What a waiting job sees in one GPU of its type, on a node that takes its work.
enum Seen {
    Idle,
    Coming,
    May(AttemptId, Right),
    Kept(AttemptId, Kept),
    Protected(Timestamp),
    Promised(Option<Timestamp>),
    /// For whose date, and when its job is past its protection at the latest.
    Reserved(JobId, Timestamp),
    Stray,
    Interruptible,
    Free,
}

struct Look<'a> {
    state: &'a State,
    eyes: &'a Eyes<'a>,
    links: &'a Links,
    uses: &'a Uses<'a>,
    now: Timestamp,
    /// By leaf and turn.
    known: RefCell<BTreeMap<(BudgetId, Turn), Sight>>,
    reserved: BTreeMap<NodeId, Reserved>,
    /// The right by the short lane, if it has it.
    by_lane: Option<Right>,
}

impl Look<'_> {
    /// What it could have and is reserved for others is none of its own.
    fn see_unreserved(&self, (id, node): (NodeId, &Node), (slot, gpu): (Slot, &Gpu)) -> Seen {
        let seen = self.see(node, gpu);
        if !matches!(seen, Seen::Idle | Seen::Coming | Seen::May(..)) || self.eyes.tier == Tier::Free {
            return seen;
        }
        let Some(reserved) = self.reserved.get(&id) else { return seen };
        let stay = Stay {
            job: self.eyes.dated.unwrap_or(JobId::new(0)),
            need: Need::default(),
            from: Timestamp::ZERO,
            until: self.now.plus(self.state.meta.settings.start_limit).plus(self.eyes.protection),
        };
        let part = reserved.parts().find(|part| part.job != stay.job && part.slots.contains(&slot));
        match part.filter(|_| !reserved.lets(slot, &stay)) {
            Some(part) => Seen::Reserved(part.job, part.until),
            None => seen,
        }
    }

    fn see(&self, node: &Node, gpu: &Gpu) -> Seen {
        if let Some(until) = promised_until(self.state, gpu) {
            return Seen::Promised(until);
        }
        let Some(holder) = gpu.holder else { return Seen::Idle };
        let attempt = self.state.attempts.get(&holder);
        let Some(attempt) = attempt.filter(|_| !is_with_stray(self.state, node, gpu)) else {
            return Seen::Stray;
        };
        if attempt.ended.is_some() || attempt.stop.is_some() {
            return Seen::Coming;
        }
        let latest = attempt.start_by.plus(attempt.protection);
        match (attempt.tier, self.eyes.tier) {
            (Tier::Funded, _) if attempt.is_protected(self.now) => match attempt.started_at {
                Some(_) => Seen::Protected(attempt.protected_until().unwrap_or(latest)),
                None => Seen::Promised(Some(latest)),
            },
            (Tier::Funded, Tier::Free) => Seen::Interruptible,
            (Tier::Free, Tier::Free) => Seen::Free,
            (_, Tier::Funded) if !self.is_heard(attempt) => Seen::Kept(holder, Kept::Unheard),
            (Tier::Free, Tier::Funded) => Seen::May(holder, Right::FreeTier),
            (Tier::Funded, Tier::Funded) => {
                let job = self.state.jobs.get(&holder.job);
                let theirs = (attempt.budget, job.map_or(Turn::Normal, |job| job.terms.turn));
                let is_lane = job.is_some_and(|job| Part::of(&job.terms) == Part::Lane);
                let mut known = self.known.borrow_mut();
                let sight = known
                    .entry(theirs)
                    .or_insert_with(|| self.uses.sight((self.eyes.budget, self.eyes.turn), theirs));
                match *sight {
                    Sight::May(right) => Seen::May(holder, right),
                    Sight::Kept(kept) => match self.by_lane.filter(|_| !is_lane) {
                        Some(right) => Seen::May(holder, right),
                        None => Seen::Kept(holder, kept),
                    },
                }
            }
        }
    }

    /// Whether all its nodes would hear that it is to leave.
    fn is_heard(&self, attempt: &Attempt) -> bool {
        attempt.placements.iter().all(|placement| {
            let node = self.state.nodes.get(&placement.node);
            self.links.has(placement.node) && node.is_some_and(|node| node.contact == Contact::Ready)
        })
    }
}

fn matching<'a>(node: &'a Node, eyes: &'a Eyes<'_>) -> impl Iterator<Item = &'a Gpu> + 'a {
    node.gpus.iter().filter(|gpu| is_of_type(eyes.class.shape, gpu))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
