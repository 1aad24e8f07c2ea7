//! Why a budget goes before or after its siblings: its numbers level by level, what leaves its window, what it has set
//! aside, what it could take now, and what could be taken from it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::facts::{Fact, Group, fact};
use super::{Uses, victims, words};
use crate::budget;
use crate::decision::UseOf;
use crate::id::{BudgetId, LogIndex, Name};
use crate::ledger::Account;
use crate::lifecycle::book::gpu_count;
use crate::plan::pools;
use crate::pool;
use crate::queue;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{ChargeMillis, Span, Timestamp};

/// How many siblings of a level, and sides of a right, are told.
const SHOWN: usize = 12;
/// For which times it is told what leaves the window.
const AHEAD: [Span; 3] = [Span::from_hours(1), Span::from_hours(8), Span::from_hours(24)];

/// Where a budget stands, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetStory {
    /// Which.
    pub budget: BudgetId,
    /// The first thing to read.
    pub sentence: String,
    /// Its numbers, per pool.
    pub facts: Vec<Group>,
    /// The entry up to which this is true.
    pub as_of: LogIndex,
    /// The moment for which it is.
    pub at: Timestamp,
}

/// Explains a budget; none if there is none. Every number is of this moment; what is to come takes that what runs runs on
/// and nothing else starts.
#[must_use]
pub fn budget(state: &State, id: BudgetId, now: Timestamp) -> Option<BudgetStory> {
    state.budgets.get(&id)?;
    let names = pools(state);
    let is_one = names.len() == 1;
    let mut facts = Vec::new();
    let mut sentences = Vec::new();
    for pool in names {
        let view = View { state, pool, uses: Uses::new(state, pool, now), id, now };
        sentences.push(view.sentence(is_one));
        facts.extend(view.groups(is_one));
    }
    let sentence = match sentences.as_slice() {
        [] => String::from("no node has joined yet: there is nothing to divide"),
        sentences => sentences.join("; "),
    };
    Some(BudgetStory { budget: id, sentence, facts, as_of: state.meta.index, at: now })
}

struct View<'a> {
    state: &'a State,
    pool: &'a Name,
    uses: Uses<'a>,
    id: BudgetId,
    now: Timestamp,
}

impl View<'_> {
    fn name(&self, id: BudgetId) -> String {
        budget::label(self.state, id)
    }

    /// Returns the uses of a budget's open siblings and its own, the lowest first.
    fn level(&self, id: BudgetId) -> Vec<UseOf> {
        let parent = self.state.budgets.get(&id).and_then(|record| record.parent);
        let Some(parent) = parent.and_then(|parent| self.state.budgets.get(&parent)) else {
            return Vec::new();
        };
        let is_shown = |child: &BudgetId| {
            *child == id || self.state.budgets.get(child).is_some_and(|record| !record.is_closed)
        };
        let mut uses: Vec<UseOf> =
            parent.children.iter().copied().filter(is_shown).map(|child| self.uses.of(child)).collect();
        uses.sort_by(UseOf::cmp_use);
        uses
    }

    /// Returns its place among its siblings, from 1, and how many they are.
    fn place(&self, id: BudgetId) -> Option<(usize, usize)> {
        let level = self.level(id);
        let place = level.iter().position(|used| used.budget == id)?;
        Some((place + 1, level.len()))
    }

    fn sentence(&self, is_one: bool) -> String {
        let name = self.name(self.id);
        let place = if is_one { String::new() } else { format!("in {}: ", self.pool) };
        let mine = self.uses.of(self.id);
        let my = words::uses(&mine, &mine).0;
        let level = self.level(self.id);
        let Some(at) = level.iter().position(|used| used.budget == self.id) else {
            return format!("{place}{name} is the whole: nothing goes before or after it");
        };
        let before = at.checked_sub(1).and_then(|at| level.get(at));
        let after = level.get(at + 1);
        let told = |used: &UseOf, word: &str| {
            let (my, their) = words::uses(&mine, used);
            (my, format!("{word} {} at {their}", self.name(used.budget)))
        };
        let (my, order) = match (before, after) {
            (None, None) => (my, String::from("with no sibling")),
            (Some(before), None) => told(before, "after"),
            (None, Some(after)) => told(after, "before"),
            (Some(before), Some(after)) => {
                let ((my, first), (_, second)) = (told(before, "after"), told(after, "before"));
                (my, format!("{first} and {second}"))
            }
        };
        format!("{place}{name} is at {my} of its allocation and goes {} of {}, {order}", at + 1, level.len())
    }

    fn groups(&self, is_one: bool) -> Vec<Group> {
        let mut groups = self.levels();
        groups.push(self.window());
        groups.push(self.aside());
        groups.push(self.could_take());
        groups.push(self.could_lose());
        if !is_one && let Some(first) = groups.first_mut() {
            first.facts.insert(0, fact("in pool", self.pool));
        }
        groups
    }

    /// The order of each level from the root down to its own, the lowest use first.
    fn levels(&self) -> Vec<Group> {
        let path = budget::path(self.state, self.id);
        let level = |id: &BudgetId| {
            let uses = self.level(*id);
            let line = |(place, used): (usize, &UseOf)| {
                let own = if used.budget == *id { " (its side)" } else { "" };
                let what = format!("{}. {}{own}", place, self.name(used.budget));
                let (text, _) = words::uses(used, used);
                let amounts = format!(
                    "{text}: {} charged, {} set aside, of {}",
                    words::charged(used.charged),
                    words::charged(used.set_aside),
                    words::charged(used.allocation)
                );
                fact(what, amounts)
            };
            let mut facts: Vec<Fact> = (1..).zip(&uses).take(SHOWN).map(line).collect();
            let own = uses.iter().position(|used| used.budget == *id).filter(|place| *place >= SHOWN);
            facts.extend(own.and_then(|place| Some(line((place + 1, uses.get(place)?)))));
            Group { title: "order of a level, the lowest use first", facts }
        };
        let levels = path.iter().filter(|id| self.place(**id).is_some());
        levels.map(level).collect()
    }

    fn account(&self, tier: Tier) -> Option<&Account> {
        self.state.books.pool(self.pool)?.account(self.id, tier)
    }

    /// What leaves the window in the next hours, and its use then.
    fn window(&self) -> Group {
        let window = self.state.meta.settings.window;
        let mine = self.uses.of(self.id);
        let mut facts = Vec::new();
        for ahead in AHEAD {
            let (begin, then) = (self.now.minus(window), self.now.plus(ahead));
            let account = self.account(Tier::Funded);
            let leaves = account.map_or(0, |account| account.curve().between(begin, then.minus(window)));
            let used = match account {
                None => mine,
                Some(account) => UseOf {
                    charged: account.charged(window, then),
                    set_aside: account.set_aside(then),
                    ..mine
                },
            };
            let what = format!("in {}", words::span(ahead));
            let (now, later) = words::uses(&mine, &used);
            let leaves = words::charged(ChargeMillis::new(leaves));
            facts.push(fact(what, format!("{leaves} leave its window; its use goes from {now} to {later}")));
        }
        let rate = self.account(Tier::Funded).map_or(0, |account| account.rate().get());
        facts.push(fact("is charged now", format!("{} each hour", victims::rate(rate))));
        Group { title: "what leaves its window, if what runs runs on and nothing else starts", facts }
    }

    /// What it has set aside, and until when.
    fn aside(&self) -> Group {
        let mut facts = Vec::new();
        match self.account(Tier::Funded) {
            None => facts.push(fact("set aside", words::charged(ChargeMillis::ZERO))),
            Some(account) => {
                facts.push(fact("set aside", words::charged(account.set_aside(self.now))));
                let fixed = account.aside().fixed();
                if fixed.get() > 0 {
                    facts.push(fact("of that, of what has not started yet", words::charged(fixed)));
                }
                let ends = account.aside().ends();
                let coming = || ends.iter().filter(|(end, _)| **end > self.now);
                facts.extend(coming().next().map(|(end, rate)| {
                    fact("the next protection to end", victims::rate(rate.get())).at(*end)
                }));
                facts.extend(coming().last().map(|(end, _)| fact("the last", "").at(*end)));
            }
        }
        Group { title: "what it has set aside", facts }
    }

    /// GPUs that its jobs may use now, by where they are: whether they fit a job is another question.
    fn could_take(&self) -> Group {
        let counts = queue::of_pool(self.state, self.pool, self.now);
        let mut facts = Vec::from([
            fact("idle", words::gpus(counts.idle)),
            fact("in the free tier", words::gpus(counts.free_tier)),
        ]);
        let (mut may, mut kept) = (BTreeMap::new(), 0_u32);
        for (leaf, gpus) in self.open(|leaf| !self.is_below(leaf)) {
            match self.parting_side(leaf) {
                Some(side) if self.uses.may_take(self.id, leaf) => *may.entry(side).or_insert(0) += gpus,
                Some(_) | None => kept += gpus,
            }
        }
        for (side, gpus) in may.into_iter().take(SHOWN) {
            facts.push(fact(format!("past protection, of {}", self.against(side)), words::gpus(gpus)));
        }
        facts.push(fact("past protection, of who goes before it or within the margin", words::gpus(kept)));
        Group { title: "what its jobs could take now", facts }
    }

    /// Its own GPUs that others could take, and who they are.
    fn could_lose(&self) -> Group {
        let mine = self.open(|leaf| self.is_below(leaf));
        let all = mine.values().fold(0_u32, |sum, gpus| sum.saturating_add(*gpus));
        let mut facts = Vec::from([fact("past protection", words::gpus(all))]);
        let waiting = self.waiting();
        let mut takers: BTreeMap<BudgetId, (u32, u32)> = BTreeMap::new();
        for (&leaf, &jobs) in waiting.iter().filter(|(leaf, _)| !self.is_below(**leaf)) {
            let gpus = mine.iter().filter(|(own, _)| self.uses.may_take(leaf, **own)).map(|(_, gpus)| gpus);
            let gpus = gpus.fold(0_u32, |sum, gpus| sum.saturating_add(*gpus));
            if let Some(side) = self.parting_side(leaf).filter(|_| gpus > 0) {
                let (most, count) = takers.entry(side).or_default();
                (*most, *count) = ((*most).max(gpus), *count + jobs);
            }
        }
        if takers.is_empty() {
            facts.push(fact("who could take them", "no budget with a job in line"));
        }
        for (side, (gpus, jobs)) in takers.into_iter().take(SHOWN) {
            let jobs = if jobs == 1 { String::from("1 job waits") } else { format!("{jobs} jobs wait") };
            facts.push(fact(format!("by {}", self.against(side)), format!("{}; {jobs}", words::gpus(gpus))));
        }
        Group { title: "what could be taken from it", facts }
    }

    /// Names a side with its number and the number on this side.
    fn against(&self, side: BudgetId) -> String {
        let Some((mine, theirs)) = self.uses.parting(self.id, side) else { return self.name(side) };
        let (my, their) = words::uses(&mine, &theirs);
        format!("{} ({their}, its side {my})", self.name(side))
    }

    /// Returns the budget on the other side where the paths part.
    fn parting_side(&self, leaf: BudgetId) -> Option<BudgetId> {
        self.uses.parting(self.id, leaf).map(|(_, theirs)| theirs.budget)
    }

    fn is_below(&self, leaf: BudgetId) -> bool {
        budget::path(self.state, leaf).contains(&self.id)
    }

    /// Returns funded GPUs past their protection that nobody told to leave, by leaf.
    fn open(&self, is_meant: impl Fn(BudgetId) -> bool) -> BTreeMap<BudgetId, u32> {
        let mut open: BTreeMap<BudgetId, u32> = BTreeMap::new();
        for attempt in self.state.attempts.values() {
            let is_open = attempt.tier == Tier::Funded
                && attempt.pool == *self.pool
                && attempt.go_at.is_some()
                && !attempt.is_leaving()
                && !attempt.is_protected(self.now);
            if is_open && is_meant(attempt.budget) {
                let sum = open.entry(attempt.budget).or_default();
                *sum = sum.saturating_add(gpu_count(attempt));
            }
        }
        open
    }

    /// Returns how many funded jobs wait that may run in the pool, by leaf.
    fn waiting(&self) -> BTreeMap<BudgetId, u32> {
        let mut waiting: BTreeMap<BudgetId, u32> = BTreeMap::new();
        for place in self.state.line.keys().filter(|place| place.tier == Tier::Funded) {
            let job = self.state.jobs.get(&place.job);
            let cluster = job.and_then(|job| job.terms.cluster.as_ref());
            if job.is_some() && cluster.is_none_or(|cluster| pool::has(self.state, self.pool, cluster)) {
                *waiting.entry(place.budget).or_default() += 1;
            }
        }
        waiting
    }
}
