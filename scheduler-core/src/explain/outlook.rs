//! What stands between a waiting job and its GPUs, node by node.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::board::{Board, Past, With};
use super::closed::{Closed, closed};
use super::right::{Kept, Sight};
use crate::decision::Right;
use crate::id::{AttemptId, BudgetId, JobId, Name, NodeId, Slot};
use crate::job::Job;
use crate::lifecycle::burst::Over;
use crate::lifecycle::lane::{Lane, Part, gpus};
use crate::lifecycle::need::{Need, could_hold, is_of_type};
use crate::lifecycle::place::protection;
use crate::lifecycle::reserve::Stay;
use crate::node::{Gpu, Node};
use crate::plan::{Alone, Class, Known, Links};
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
    /// With attempts that it may take, in order, and by which right.
    pub takeable: Vec<(AttemptId, u32, Right)>,
    /// With funded attempts past their protection that it may not take, in order, and why.
    pub kept: Vec<(AttemptId, u32, Kept)>,
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
        Self::with(&Board::of(state, pool, links, now), eyes, starts)
    }

    /// Looks at every node of a pool; `starts` says whether the job would start if it were alone in line.
    pub(crate) fn with(board: &Board<'_>, eyes: &Eyes<'_>, starts: impl FnOnce() -> bool) -> Self {
        let (state, links, now, lane) = (board.state, board.links, board.now, board.lane);
        let mut look = Look::new(board, eyes);
        let certain = match eyes.tier {
            Tier::Funded => Some(state.meta.settings.start_limit.plus(eyes.protection)),
            Tier::Free => None,
        };
        let own = gpus(eyes.class.shape);
        let lane = lane.filter(|lane| !lane.lets_some(eyes.part, own));
        let is_funded = eyes.tier == Tier::Funded;
        let burst = if is_funded { board.uses.over_on_path(eyes.budget) } else { None };
        let mut outlook = Self { lane, burst, ..Self::default() };
        let mut ready: Vec<Timestamp> = Vec::new();
        let mut groups: BTreeMap<(&Name, &[Name]), u32> = BTreeMap::new();
        for (node_id, node, with) in board.nodes.iter().filter(|(_, node, _)| eyes.class.is_in_cluster(node))
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
                ready.extend(outlook.node(&mut look, (*node_id, node), with));
                if let Some(group) = node.group(eyes.class.shape.within.unwrap_or(0)) {
                    *groups.entry((&node.cluster, group)).or_default() += outlook.nodes_idle - before;
                }
            }
        }
        look.tell(&mut outlook);
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
    fn node(&mut self, look: &mut Look<'_>, on: (NodeId, &Node), with: &[With]) -> Option<Timestamp> {
        let (shape, now) = (look.eyes.class.shape, look.board.now);
        let wanted = usize::try_from(shape.gpus_per_node.get()).unwrap_or(usize::MAX);
        let (mut idle, mut usable, mut others) = (0_usize, 0_usize, 0_usize);
        look.ends.clear();
        let (node_id, node) = on;
        let numbered = (0_u16..).map(Slot::new).zip(node.gpus.iter().zip(with));
        for (slot, (_, with)) in numbered.filter(|(_, (gpu, _))| gpu.is_present && is_of_type(shape, gpu)) {
            let seen = look.see_unreserved((node_id, slot), *with);
            self.count(look, seen);
            match seen {
                Seen::Idle => idle += 1,
                Seen::Coming | Seen::May(_) => usable += 1,
                Seen::Kept(_) | Seen::Stray | Seen::Interruptible | Seen::Free => others += 1,
                Seen::Promised(until) => look.ends.push(until.unwrap_or(now)),
                Seen::Reserved(_, until) | Seen::Protected(until) => look.ends.push(until),
            }
        }
        let usable = if look.eyes.tier == Tier::Free { idle } else { idle + usable };
        self.most_now = self.most_now.max(count(usable));
        self.nodes_idle += u32::from(idle >= wanted);
        self.nodes_now += u32::from(usable >= wanted);
        look.ends.sort_unstable();
        match wanted.saturating_sub(usable + others) {
            0 => Some(now),
            lacking => look.ends.get(lacking - 1).map(|at| (*at).max(now)),
        }
    }

    fn count(&mut self, look: &mut Look<'_>, seen: Seen) {
        match seen {
            Seen::Idle => self.idle += 1,
            Seen::Coming if look.eyes.tier == Tier::Free => self.leaving += 1,
            Seen::Coming => self.coming += 1,
            Seen::May(past) | Seen::Kept(past) => look.counted[past] += 1,
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
#[derive(Clone, Copy)]
enum Seen {
    Idle,
    Coming,
    /// With an attempt, by its number, that it may take.
    May(usize),
    /// With one that it may not.
    Kept(usize),
    Protected(Timestamp),
    Promised(Option<Timestamp>),
    /// For whose date, and when its job is past its protection at the latest.
    Reserved(JobId, Timestamp),
    Stray,
    Interruptible,
    Free,
}

struct Look<'a> {
    board: &'a Board<'a>,
    eyes: &'a Eyes<'a>,
    /// How it stands to each leaf and turn by its share, by their numbers; empty in the free tier.
    sights: Vec<Sight>,
    /// The right by the short lane, if it has it.
    by_lane: Option<Right>,
    /// GPUs that count as with an attempt, by its number.
    counted: Vec<u32>,
    /// Of the node that is looked at: when what is protected there is so no more.
    ends: Vec<Timestamp>,
}

impl<'a> Look<'a> {
    fn new(board: &'a Board<'a>, eyes: &'a Eyes<'a>) -> Self {
        let own = board.uses.leaf(eyes.budget, eyes.turn);
        let sights = match eyes.tier {
            Tier::Funded => board.leaves.iter().map(|leaf| board.uses.sight(&own, leaf)).collect(),
            Tier::Free => Vec::new(),
        };
        let has_right = |lane: &Lane| eyes.part == Part::Lane && lane.gives_right();
        let by_lane = board.lane.filter(has_right);
        let by_lane = by_lane.map(|lane| Right::Lane { occupied: lane.occupied, part: lane.part });
        Self { board, eyes, sights, by_lane, counted: vec![0; board.past.len()], ends: Vec::new() }
    }

    /// What it could have and is reserved for others is none of its own.
    fn see_unreserved(&self, (id, slot): (NodeId, Slot), with: With) -> Seen {
        let seen = self.see(with);
        if !matches!(seen, Seen::Idle | Seen::Coming | Seen::May(_)) || self.eyes.tier == Tier::Free {
            return seen;
        }
        let Some(reserved) = self.board.reserved.get(&id) else { return seen };
        let start_limit = self.board.state.meta.settings.start_limit;
        let stay = Stay {
            job: self.eyes.dated.unwrap_or(JobId::new(0)),
            need: Need::default(),
            from: Timestamp::ZERO,
            until: self.board.now.plus(start_limit).plus(self.eyes.protection),
        };
        let part = reserved.parts().find(|part| part.job != stay.job && part.slots.contains(&slot));
        match part.filter(|_| !reserved.lets(slot, &stay)) {
            Some(part) => Seen::Reserved(part.job, part.until),
            None => seen,
        }
    }

    fn see(&self, with: With) -> Seen {
        match with {
            With::Nobody => Seen::Idle,
            With::Promised(until) => Seen::Promised(until),
            With::Stray => Seen::Stray,
            With::Leaving => Seen::Coming,
            With::Protected(until) => Seen::Protected(until),
            With::Past(number) => match (self.board.past[number].leaf, self.eyes.tier) {
                (Some(_), Tier::Free) => Seen::Interruptible,
                (None, Tier::Free) => Seen::Free,
                (_, Tier::Funded) => match self.sight(&self.board.past[number]) {
                    Sight::May(_) => Seen::May(number),
                    Sight::Kept(_) => Seen::Kept(number),
                },
            },
        }
    }

    /// Returns how a funded job stands to an attempt.
    fn sight(&self, past: &Past) -> Sight {
        if !past.is_heard {
            return Sight::Kept(Kept::Unheard);
        }
        match (past.leaf.map(|leaf| self.sights[leaf]), self.by_lane) {
            (None, _) => Sight::May(Right::FreeTier),
            (Some(Sight::Kept(_)), Some(right)) if !past.is_lane => Sight::May(right),
            (Some(sight), _) => sight,
        }
    }

    /// Tells of the attempts that were counted.
    fn tell(&self, outlook: &mut Outlook) {
        let counted = self.board.past.iter().zip(&self.counted).filter(|(_, gpus)| **gpus > 0);
        for (past, gpus) in counted {
            match self.sight(past) {
                Sight::May(right) => outlook.takeable.push((past.id, *gpus, right)),
                Sight::Kept(kept) => outlook.kept.push((past.id, *gpus, kept)),
            }
        }
        outlook.takeable.sort_by_key(|(id, ..)| *id);
        outlook.kept.sort_by_key(|(id, ..)| *id);
    }
}

fn matching<'a>(node: &'a Node, eyes: &'a Eyes<'_>) -> impl Iterator<Item = &'a Gpu> + 'a {
    node.gpus.iter().filter(|gpu| is_of_type(eyes.class.shape, gpu))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
