//! The line: from the root, at each level the child with the lowest use first.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Bound;

use super::class::{Ask, Class, Classes};
use crate::budget;
use crate::decision::{Level, Right, UseOf, Why};
use crate::id::{BudgetId, JobId, Name};
use crate::job::Job;
use crate::ledger::FREE_FLOOR;
use crate::lifecycle::burst::Burst;
use crate::lifecycle::lane::gpus;
use crate::mutant::{self, Mutant};
use crate::spec::{Tier, Turn};
use crate::state::{InLine, State};
use crate::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

/// So many places of the state's line are read at first, and twice as many each time after, up to the most.
const READ_AT_FIRST: usize = 16;
const READ_AT_MOST: usize = 1024;

/// The waiting jobs of one pool and tier, in the order in which they are tried; read from the state's own line as far
/// as the round comes.
///
/// The head is passed over or placed; placing adds what it sets aside (free tier: its least usage) to every budget on
/// its path, so that one budget cannot take everything in a round.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    state: &'a State,
    pool: &'a Name,
    tier: Tier,
    now: Timestamp,
    classes: Classes<'a>,
    asks: BTreeMap<BudgetId, Asks>,
    sides: Vec<Side<'a>>,
    known: BTreeMap<BudgetId, usize>,
    /// What budgets have of the pool, where there is a burst limit.
    burst: Option<Burst<'a>>,
    /// Uses of budgets without jobs in this line: nothing of this round changes them.
    others: BTreeMap<BudgetId, UseOf>,
    /// From the root to the side whose job is the head; empty when nobody is left.
    path: Vec<usize>,
    tried: u32,
    /// The budgets that were passed over whole since they were counted last, from which place on.
    passed: Vec<(BudgetId, usize)>,
}

/// A budget with waiting jobs in it or below it.
#[derive(Debug)]
struct Side<'a> {
    used: UseOf,
    parent: Option<usize>,
    /// Whether all of its jobs go after everybody else's: it has more than its burst limit, or whoever is below has.
    is_behind: bool,
    /// Those below with jobs, those behind at the end, by use, the lowest first. A side only changes its place while it
    /// is the first, but for the burst limit.
    children: Vec<usize>,
    /// The first of its own jobs that was not placed or passed over.
    first: Option<Ask<'a>>,
    /// Its place among them.
    at: usize,
}

/// The jobs of one budget and tier that stand in the pool: as many as were asked for, since most rounds need few; kept,
/// since a line is gone through several times.
#[derive(Debug)]
struct Asks {
    list: Vec<Waits>,
    /// The state's line is read on from here; none when all were read.
    rest: Option<InLine>,
    read_next: usize,
}

/// A job in line, as far as it is known without being looked at.
#[derive(Debug, Clone, Copy)]
struct Waits {
    id: JobId,
    alike: u32,
}

impl Asks {
    /// Reads on; none if nothing is left.
    fn read<'a>(&mut self, state: &'a State, pool: &Name, classes: &mut Classes<'a>) -> Option<()> {
        let before = self.rest.take()?;
        let mut read = 0;
        let after = (Bound::Excluded(before), Bound::Unbounded);
        for (place, kind) in state.line.range(after).take(self.read_next) {
            if (place.budget, place.tier) != (before.budget, before.tier) {
                return Some(());
            }
            read += 1;
            self.rest = Some(*place);
            if let Some(alike) = classes.alike(state, pool, place.job, *kind) {
                self.list.push(Waits { id: place.job, alike });
            }
        }
        self.read_next = (2 * self.read_next).min(READ_AT_MOST);
        (read > 0).then_some(())
    }
}

impl<'a> Line<'a> {
    /// Forms the line of a pool and tier.
    pub(crate) fn new(state: &'a State, pool: &'a Name, tier: Tier, now: Timestamp) -> Self {
        let mut line = Self {
            state,
            pool,
            tier,
            now,
            classes: Classes::default(),
            asks: BTreeMap::new(),
            sides: Vec::new(),
            known: BTreeMap::new(),
            burst: Burst::of(state, pool, now).filter(|_| tier == Tier::Funded),
            others: BTreeMap::new(),
            path: Vec::new(),
            tried: 0,
            passed: Vec::new(),
        };
        line.form();
        line
    }

    /// Begins again with the first, with the numbers as they are now: who was passed over is tried once more.
    pub(super) fn again(&mut self) {
        for side in &mut self.sides {
            side.children.clear();
            (side.first, side.at) = (None, 0);
        }
        self.tried = 0;
        self.passed.clear();
        self.form();
    }

    fn form(&mut self) {
        for before in leaves(self.state, self.tier) {
            let Some(first) = self.ask(before.budget, 0) else { continue };
            // A job whose budget is gone has no place; no edit removes a budget with live jobs.
            if let Some(side) = self.side(before.budget, budget::DEPTH_MAX + 1) {
                self.sides[side].first = Some(first);
            }
        }
        self.sort_children();
        self.find_path();
    }

    /// Returns the job whose turn it is.
    pub(crate) fn head(&self) -> Option<Ask<'a>> {
        self.path.last().and_then(|side| self.sides[*side].first)
    }

    /// Returns what a job of this line needs.
    pub(crate) fn class(&self, ask: &Ask<'a>) -> &Class<'a> {
        &self.classes.list[ask.class]
    }

    /// Returns why it is the head's turn: each level's numbers, and those of the sibling that would come next.
    pub(crate) fn why(&self) -> Why {
        let levels = self.path.iter().skip(1).map(|side| {
            let siblings = self.sides[*side].parent.map(|parent| &self.sides[parent].children);
            let next = siblings.and_then(|children| children.get(1)).map(|side| self.sides[*side].used);
            Level { chosen: self.sides[*side].used, next }
        });
        Why { place: self.tried.saturating_add(1), levels: levels.collect(), choice: None, date: None }
    }

    /// Returns the uses at the level where the head's path and that of `leaf` part, the head's first; none within one
    /// budget.
    pub(crate) fn parting(&self, leaf: BudgetId) -> Option<(UseOf, UseOf)> {
        let mut mine = Vec::new();
        let mut at = self.known.get(&leaf).copied();
        while let Some(side) = at {
            mine.push(side);
            at = self.sides[side].parent;
        }
        mine.reverse();
        let (their, my) = self.path.iter().zip(&mine).find(|(their, my)| their != my)?;
        Some((self.sides[*their].used, self.sides[*my].used))
    }

    /// Returns by which right the head may take an attempt of another budget, with the path `theirs` from the root,
    /// that nobody protects: its side's use and the margin are at most the use of the other side, where their paths
    /// part. `sides` are the other sides that were asked for this head before.
    pub(super) fn right_to(
        &mut self,
        theirs: &[BudgetId],
        sides: &mut BTreeMap<BudgetId, Option<Right>>,
    ) -> Option<Right> {
        let is_shared = |(mine, theirs): &(&usize, &BudgetId)| self.sides[**mine].used.budget == **theirs;
        let level = self.path.iter().zip(theirs).take_while(is_shared).count();
        let level =
            if mutant::is(Mutant::LeavesCompared) { self.path.len().min(theirs.len()) - 1 } else { level };
        let (mine, other) = (*self.path.get(level)?, *theirs.get(level)?);
        if level == 0 {
            return None;
        }
        *sides.entry(other).or_insert_with(|| {
            let (mine, theirs) = (self.sides[mine].used, self.used(other));
            let margin = self.state.meta.settings.margin_ppm;
            let is_below = mine.is_below_by(&theirs, margin) || mutant::is(Mutant::AnybodyIsTaken);
            is_below.then_some(Right::Share { mine, theirs })
        })
    }

    /// Whether a budget, or one above it, has more than its burst limit.
    pub(super) fn is_over(&self, leaf: BudgetId) -> bool {
        self.burst.as_ref().is_some_and(|burst| burst.over_on_path(leaf).is_some())
    }

    /// Returns a budget's use in this line's tier, with what this round has set aside; also of one without jobs here.
    pub(super) fn used(&mut self, id: BudgetId) -> UseOf {
        match self.known.get(&id) {
            Some(side) => self.sides[*side].used,
            None => *self.others.entry(id).or_insert_with(|| {
                let (state, window) = (self.state, self.state.meta.settings.window);
                state.books.use_of(id, self.pool, self.tier, &state.budgets, window, self.now)
            }),
        }
    }

    /// Returns the uses where the paths of two leaves part, the first one's first; none within one budget.
    pub(super) fn uses_between(&mut self, mine: BudgetId, theirs: BudgetId) -> Option<(UseOf, UseOf)> {
        let (my, their) = (budget::path(self.state, mine), budget::path(self.state, theirs));
        let (mine, theirs) = my.into_iter().zip(their).find(|(my, their)| my != their)?;
        Some((self.used(mine), self.used(theirs)))
    }

    /// Returns a budget's use in the free tier.
    pub(super) fn used_free(&self, id: BudgetId) -> UseOf {
        let (state, window) = (self.state, self.state.meta.settings.window);
        state.books.use_of(id, self.pool, Tier::Free, &state.budgets, window, self.now)
    }

    /// Passes the head over: it waits, and the next is tried.
    pub(crate) fn pass(&mut self) {
        self.leave();
    }

    /// Passes the head over, and whoever comes after it in its own budget and is alike one who failed.
    pub(super) fn pass_alike(&mut self, has_failed: impl Fn(JobId, u32) -> bool) {
        if let Some(leaf) = self.path.last().copied() {
            let side = &self.sides[leaf];
            let (budget, mut at) = (side.used.budget, side.at);
            while let Some(next) = self.waits(budget, at + 1)
                && has_failed(next.id, next.alike)
            {
                at += 1;
            }
            let side = &mut self.sides[leaf];
            self.tried = self.tried.saturating_add(u32::try_from(at - side.at).unwrap_or(u32::MAX));
            side.at = at;
        }
        self.leave();
    }

    /// Passes over the head and whoever comes after it in its own budget.
    pub(super) fn pass_budget(&mut self) {
        let Some(leaf) = self.path.last().copied() else { return };
        let side = &mut self.sides[leaf];
        side.first = None;
        self.passed.push((side.used.budget, side.at));
        self.shorten();
    }

    /// Counts those who were passed over together: only a decision asks for its place in line.
    pub(super) fn count_passed(&mut self) {
        for (budget, first) in core::mem::take(&mut self.passed) {
            // Reads all of them.
            let _ = self.waits(budget, usize::MAX);
            let count = self.asks.get(&budget).map_or(0, |asks| asks.list.len() - first);
            self.tried = self.tried.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// Places the head: what it sets aside counts at once.
    pub(crate) fn place(&mut self, rate: MilliGpus, protection: Span) {
        if let (Some(burst), Some(ask)) =
            (&mut self.burst, self.path.last().and_then(|at| self.sides[*at].first))
        {
            burst.starts(ask.job.budget, gpus(&ask.job.terms.shape).into());
        }
        for at in (1..self.path.len()).rev() {
            let (parent, side) = (self.path[at - 1], self.path[at]);
            self.sides[side].used = self.with(self.sides[side].used, rate, protection);
            self.judge(side);
            let mut children = core::mem::take(&mut self.sides[parent].children);
            let others = children.get(1..).unwrap_or_default();
            let lower = others.partition_point(|sibling| self.cmp_sides(*sibling, side).is_lt());
            children[..=lower].rotate_left(1);
            self.sides[parent].children = children;
        }
        self.leave();
        self.find_path();
    }

    /// Counts what somebody who is not the head sets aside.
    pub(super) fn set_aside(&mut self, job: &Job, rate: MilliGpus, protection: Span) {
        if let Some(burst) = &mut self.burst {
            burst.starts(job.budget, gpus(&job.terms.shape).into());
        }
        for id in budget::path(self.state, job.budget).into_iter().skip(1).rev() {
            let Some(side) = self.known.get(&id).copied() else { continue };
            self.sides[side].used = self.with(self.sides[side].used, rate, protection);
            self.judge(side);
            let Some(parent) = self.sides[side].parent else { continue };
            let mut children = core::mem::take(&mut self.sides[parent].children);
            children.sort_by(|a, b| self.cmp_sides(*a, *b));
            self.sides[parent].children = children;
        }
        self.find_path();
    }

    fn with(&self, used: UseOf, rate: MilliGpus, protection: Span) -> UseOf {
        if mutant::is(Mutant::SetAsideForgotten) {
            return used;
        }
        let add = |sum: ChargeMillis, span| {
            sum.checked_add(ChargeMillis::of(rate, span)).unwrap_or(ChargeMillis::new(u128::MAX))
        };
        match self.tier {
            Tier::Funded => UseOf { set_aside: add(used.set_aside, protection), ..used },
            Tier::Free => UseOf { set_aside: add(used.set_aside, FREE_FLOOR), ..used },
        }
    }

    /// Takes the head out; its side's next job takes its place. Sides without jobs leave the order, from the leaf
    /// upwards.
    fn leave(&mut self) {
        let Some(leaf) = self.path.last().copied() else { return };
        self.tried = self.tried.saturating_add(1);
        let side = &mut self.sides[leaf];
        side.at += 1;
        let (budget, at) = (side.used.budget, side.at);
        let next = self.ask(budget, at);
        self.sides[leaf].first = next;
        if next.is_none() {
            self.shorten();
        }
    }

    /// Takes the sides on the path that have nobody left out of the order.
    fn shorten(&mut self) {
        for at in (0..self.path.len()).rev() {
            let side = self.path[at];
            let here = &self.sides[side];
            let has_any = here.first.is_some() || !here.children.is_empty();
            let Some(parent) = here.parent else { continue };
            if !has_any {
                self.sides[parent].children.retain(|child| *child != side);
            } else if self.burst.is_none() {
                break;
            } else if self.judge(side) {
                // The last below it that was not behind is gone.
                let mut children = core::mem::take(&mut self.sides[parent].children);
                children.sort_by(|a, b| self.cmp_sides(*a, *b));
                self.sides[parent].children = children;
            }
        }
        self.find_path();
    }

    fn sort_children(&mut self) {
        for side in 0..self.sides.len() {
            if let Some(parent) = self.sides[side].parent {
                self.sides[parent].children.push(side);
            }
        }
        // Whoever is below has a higher number.
        for side in (0..self.sides.len()).rev() {
            let mut children = core::mem::take(&mut self.sides[side].children);
            children.sort_by(|a, b| self.cmp_sides(*a, *b));
            if mutant::is(Mutant::HighestUseFirst) {
                children.reverse();
            }
            self.sides[side].children = children;
            self.judge(side);
        }
    }

    /// Judges again whether a side goes after everybody else; says whether that changed.
    fn judge(&mut self, side: usize) -> bool {
        let Some(burst) = &self.burst else { return false };
        let here = &self.sides[side];
        let is_all = here.first.is_none()
            && !here.children.is_empty()
            && here.children.iter().all(|child| self.sides[*child].is_behind);
        let is_behind = is_all || burst.over(here.used.budget).is_some();
        core::mem::replace(&mut self.sides[side].is_behind, is_behind) != is_behind
    }

    /// Compares two sides of one parent: those behind last, then by use.
    fn cmp_sides(&self, one: usize, other: usize) -> Ordering {
        let (one, other) = (&self.sides[one], &self.sides[other]);
        one.is_behind.cmp(&other.is_behind).then_with(|| one.used.cmp_use(&other.used))
    }

    /// Goes from the root to the side whose job is first.
    fn find_path(&mut self) {
        self.path.clear();
        let mut at = self.known.get(&budget::ROOT).copied();
        while let Some(side) = at {
            self.path.push(side);
            let here = &self.sides[side];
            at = if here.first.is_none() { here.children.first().copied() } else { None };
        }
        if self.head().is_none() {
            self.path.clear();
        }
    }

    /// Returns a budget's job of this line's tier at a place among those that stand in the pool, from 0.
    fn ask(&mut self, budget: BudgetId, at: usize) -> Option<Ask<'a>> {
        let Waits { id, alike } = self.waits(budget, at)?;
        let job = self.state.jobs.get(&id)?;
        Some(Ask { id, job, class: self.classes.class_of(alike), alike })
    }

    fn waits(&mut self, budget: BudgetId, at: usize) -> Option<Waits> {
        let before = first_place(budget, self.tier);
        let none = || Asks { list: Vec::new(), rest: Some(before), read_next: READ_AT_FIRST };
        let asks = self.asks.entry(budget).or_insert_with(none);
        while asks.list.len() <= at {
            asks.read(self.state, self.pool, &mut self.classes)?;
        }
        asks.list.get(at).copied()
    }

    /// Returns the side of `id`, made with all above it; at most `levels` of them.
    fn side(&mut self, id: BudgetId, levels: usize) -> Option<usize> {
        if let Some(known) = self.known.get(&id) {
            return Some(*known);
        }
        let parent = match self.state.budgets.get(&id)?.parent {
            None => None,
            Some(above) => Some(self.side(above, levels.checked_sub(1)?)?),
        };
        let (books, tree) = (&self.state.books, &self.state.budgets);
        let window = self.state.meta.settings.window;
        let used = books.use_of(id, self.pool, self.tier, tree, window, self.now);
        self.sides.push(Side { used, parent, is_behind: false, children: Vec::new(), first: None, at: 0 });
        self.known.insert(id, self.sides.len() - 1);
        Some(self.sides.len() - 1)
    }
}

/// Whether any job of `tier` waits.
pub(crate) fn has_waiting(state: &State, tier: Tier) -> bool {
    leaves(state, tier).next().is_some()
}

/// Returns, for each budget with jobs of `tier` in line, the place before the first of them.
fn leaves(state: &State, tier: Tier) -> impl Iterator<Item = InLine> + '_ {
    let mut next = state.line.first().map(|(place, _)| place.budget);
    core::iter::from_fn(move || {
        while let Some(budget) = next {
            let before = first_place(budget, tier);
            let first = state.line.after(&before).map(|(place, _)| (place.budget, place.tier));
            next = state.line.after(&last_place(budget)).map(|(place, _)| place.budget);
            if first == Some((budget, tier)) {
                return Some(before);
            }
        }
        None
    })
}

/// Returns a place before every job's: no job has the number zero.
fn first_place(budget: BudgetId, tier: Tier) -> InLine {
    InLine { budget, tier, turn: Turn::First, submitted_at: Timestamp::ZERO, job: JobId::new(0) }
}

/// Returns a place after every job's of the budget.
fn last_place(budget: BudgetId) -> InLine {
    let (end, job) = (Timestamp::from_millis(u64::MAX), JobId::new(u32::MAX));
    InLine { budget, tier: Tier::Free, turn: Turn::Last, submitted_at: end, job }
}
