//! One round: each pool, funded first, then the free tier.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::dates::Heads;
use super::gang::ranked;
use super::idle::{Ask as Asked, Found, Idle};
use super::known::Known;
use super::offers::{Look, Offers};
use super::taking::{Taking, taking};
use super::victims::{Rights, Victims};
use super::{Ask, Line, Links, has_waiting};
use crate::date::Date;
use crate::decision::{DateStep, Dated, Plan, Start, Take};
use crate::id::{AttemptId, BudgetId, JobId, Name, NodeId, Term};
use crate::job::Job;
use crate::lifecycle::lane::{Lane, Part};
use crate::lifecycle::leaving;
use crate::lifecycle::need::rate;
use crate::lifecycle::place::protection;
use crate::lifecycle::reserve::certain;
use crate::mutant::{self, Mutant};
use crate::spec::{Tier, Turn};
use crate::state::State;
use crate::unit::{MilliGpus, Span, Timestamp};

/// A pool's funded jobs are gone through at most so often in a round: what a decision sets aside or leaves over may
/// let somebody start who was passed over before. What is left after that is found by the next plan.
const PASSES_MAX: u32 = 16;

/// What was found for at most so many classes is kept at a time.
const OFFERS_MAX: usize = 64;

/// Decides which waiting jobs start, in order, and who gives way to them: at most [`Plan::DECISIONS_MAX`] of them, the
/// last one the one with which the [`Plan::TAKING_MAX`]th takes somebody.
///
/// `now` is the leader's estimate of cluster time, `term` its term. In safe mode nothing is planned.
#[must_use]
pub fn plan(state: &State, links: &Links, now: Timestamp, term: Term) -> Plan {
    plan_on(&mut Known::default(), state, links, now, term)
}

/// The same, with what an earlier round knew: whoever plans again and again looks only at what changed.
#[must_use]
pub fn plan_on(known: &mut Known, state: &State, links: &Links, now: Timestamp, term: Term) -> Plan {
    known.update(state);
    let mut round = Round {
        state,
        known,
        links,
        now,
        has_windows: has_windows(state),
        has_funded: has_waiting(state, Tier::Funded),
        started: BTreeSet::new(),
        decisions: Vec::new(),
        dates: Vec::new(),
        taking: 0,
    };
    if state.meta.safe_mode.is_none() && !state.line.is_empty() {
        for pool in pools(state) {
            round.pool(pool);
        }
    }
    Plan { term, index: state.meta.index, decisions: round.decisions, dates: round.dates }
}

/// Whether it matters how long a job is protected: a drain is to come somewhere, or GPUs are reserved for a date.
pub(crate) fn has_windows(state: &State) -> bool {
    !state.dates.is_empty() || state.nodes.values().any(|node| super::closes_at(node).is_some())
}

/// Returns the pools that have nodes, in order.
pub(crate) fn pools(state: &State) -> BTreeSet<&Name> {
    state.nodes.values().map(|node| &node.pool).collect()
}

pub(super) struct Round<'a> {
    pub(super) state: &'a State,
    known: &'a Known,
    pub(super) links: &'a Links,
    pub(super) now: Timestamp,
    pub(super) has_windows: bool,
    has_funded: bool,
    pub(super) started: BTreeSet<JobId>,
    pub(super) decisions: Vec<Start>,
    pub(super) dates: Vec<DateStep>,
    /// How many of the decisions take somebody.
    taking: usize,
}

/// What fails alike: one failure speaks for all of it, as long as nothing was decided that gives anybody more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    class: usize,
    /// Where a drain is to come, what lasts longer fits less.
    certain: Option<Span>,
}

/// What failed so far in one pass.
#[derive(Default)]
struct Failed {
    /// On idle GPUs: these only become fewer, but for those that a date lets go.
    idle: BTreeSet<Kind>,
    /// And with what comes free or may be taken, which depends on whose the job is; forgotten with each decision: what
    /// that set aside and left over may help whoever comes after it. A budget's jobs are tried one after the other, so
    /// those of one owner are enough.
    taking: BTreeSet<Kind>,
    owner: Option<Owner>,
    /// Those who are alike one who failed in all ways, by number; forgotten with the last.
    alikes: BTreeSet<u32>,
}

impl Failed {
    /// Another owner's rights are asked for.
    fn forget(&mut self) {
        self.taking.clear();
        self.alikes.clear();
    }

    /// Somebody starts; what was reserved for a date of its is there for others now.
    fn decided(&mut self, is_dated: bool) {
        self.forget();
        if is_dated {
            self.idle.clear();
        }
    }
}

/// Whose a job is, as far as rights depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) budget: BudgetId,
    pub(super) turn: Turn,
    /// The short lane, if it gives the job a right.
    pub(super) lane: Option<Lane>,
}

/// What was found for jobs that ask for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sought {
    kind: Kind,
    /// Its own, if it has a date: what is reserved for it is no bar to it.
    dated: Option<JobId>,
}

/// What a pool has for its jobs.
pub(super) struct Stock<'a> {
    pub(super) pool: &'a Name,
    pub(super) idle: Idle<'a>,
    pub(super) victims: Victims<'a>,
    /// Of the head for which they were asked last; every decision changes the numbers.
    pub(super) rights: Option<(Owner, Rights)>,
    /// What nodes would cost.
    offers: BTreeMap<Sought, Offers>,
    /// The short lane, if there is one, with what this round decided.
    lane: Option<Lane>,
    /// The jobs that have a date here.
    pub(super) dated: BTreeMap<JobId, Standing>,
    /// So many of them let go what was reserved for them.
    let_go: usize,
}

/// A date, as far as a round needs it.
pub(super) struct Standing {
    /// None if it was issued in this round.
    pub(super) date: Option<Dated>,
    pub(super) nodes: Vec<NodeId>,
}

impl<'a> Round<'a> {
    fn pool(&mut self, pool: &'a Name) {
        let mut stock = Stock::of(self.state, self.known, pool, self.links, self.now);
        if self.has_funded {
            self.funded(pool, &mut stock);
        }
        if stock.idle.total() > 0 {
            let mut line = Line::new(self.state, pool, Tier::Free, self.now);
            self.pass(&mut line, &mut stock, &mut Heads::none());
        }
    }

    fn funded(&mut self, pool: &'a Name, stock: &mut Stock<'a>) {
        let has_dates = self.state.meta.settings.dates || !stock.dated.is_empty();
        if stock.is_used_up(Tier::Funded) && !has_dates {
            return;
        }
        let mut line = Line::new(self.state, pool, Tier::Funded, self.now);
        self.keep_dates(pool, &mut line, stock);
        let mut heads = self.heads(pool);
        for _ in 0..PASSES_MAX {
            let (before, let_go) = (self.decisions.len(), stock.let_go);
            self.pass(&mut line, stock, &mut heads);
            let has_more = stock.idle.comes() || !stock.victims.is_empty() || stock.let_go > let_go;
            if self.decisions.len() == before || !has_more {
                break;
            }
            line.again();
            heads.again();
        }
        if !self.is_full() {
            self.last_head(&mut line, stock, &mut heads);
        }
    }

    fn heads(&self, pool: &Name) -> Heads {
        let settings = &self.state.meta.settings;
        if settings.more_dates_ppm == 0 {
            return Heads::of(settings, 0, 0);
        }
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let gpus =
            self.state.nodes.values().filter(|node| node.pool == *pool).map(|node| node.gpus.len()).sum();
        let dates = self.state.dates.iter().filter(|((_, of), _)| of == pool);
        let reserved = dates.flat_map(|(_, date)| &date.promise.on).map(|(_, slots)| slots.len()).sum();
        Heads::of(settings, count(gpus), count(reserved))
    }

    fn pass(&mut self, line: &mut Line<'a>, stock: &mut Stock<'a>, heads: &mut Heads) {
        let mut failed = Failed::default();
        while let Some(ask) = line.head() {
            if self.is_full() || stock.is_used_up(ask.job.terms.tier) {
                return;
            }
            if self.started.contains(&ask.id) {
                line.pass();
                continue;
            }
            if self.start(line, &ask, stock, &mut failed) {
                heads.decided();
                continue;
            }
            if !stock.dated.contains_key(&ask.id) {
                failed.alikes.insert(ask.alike);
            }
            self.waits(line, &ask, stock, heads);
            match (stock.has_nothing_for(&ask), heads.is_open()) {
                (true, false) => line.pass_budget(),
                (false, false) => {
                    let has_failed =
                        |id, alike| failed.alikes.contains(&alike) && !stock.dated.contains_key(&id);
                    line.pass_alike(has_failed);
                }
                (_, true) => line.pass(),
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.decisions.len() >= Plan::DECISIONS_MAX || self.taking >= Plan::TAKING_MAX
    }

    /// Places the head where that is possible.
    fn start(
        &mut self,
        line: &mut Line<'a>,
        ask: &Ask<'a>,
        stock: &mut Stock<'a>,
        failed: &mut Failed,
    ) -> bool {
        if !stock.leaves_lane(ask, self.now) {
            return false;
        }
        let certain = self.certain(ask);
        let kind = Kind { class: ask.class, certain };
        let owner = stock.owner(ask.job);
        let may_wait = ask.job.terms.tier == Tier::Funded;
        // What is reserved for it makes it unlike others.
        let is_dated = stock.dated.contains_key(&ask.id);
        if failed.owner.replace(owner) != Some(owner) {
            failed.forget();
        }
        let is_one_for_all = mutant::is(Mutant::OneFailsForAll);
        let has_failed = |kinds: &BTreeSet<Kind>| {
            !is_dated && (kinds.contains(&kind) || is_one_for_all && !kinds.is_empty())
        };
        if has_failed(&failed.idle) && (!may_wait || has_failed(&failed.taking)) {
            return false;
        }
        let class = line.class(ask).clone();
        let (shape, barred) = (class.shape, &class.barred);
        let (cluster, latest_go) = (class.cluster, self.now);
        let protection = protection(self.state, ask.id, ask.job);
        let asked = Asked { job: ask.id, shape, barred, cluster, only: None, certain, latest_go, protection };
        if !has_failed(&failed.idle) {
            if let Some(on) = stock.idle.find(&asked) {
                stock.idle.take(&asked, &on, asked.over_by());
                failed.decided(is_dated);
                self.place(line, ask, on, Vec::new(), None, stock);
                return true;
            }
            if !is_dated {
                failed.idle.insert(kind);
            }
        }
        if !may_wait {
            return false;
        }
        let asked = Asked { latest_go: self.now.plus(self.state.meta.settings.longest_grace()), ..asked };
        let Some(found) = stock.taking(line, &asked, ask.class, owner) else {
            if !is_dated {
                failed.taking.insert(kind);
            }
            return false;
        };
        let rights = stock.rights.take().map(|(_, rights)| rights).unwrap_or_default();
        let takes = found.takes(&stock.victims, &rights);
        stock.victims.take(&found.takes, &mut stock.idle);
        let over_by = self.over_by(&asked, &found.on, &takes);
        stock.idle.take(&asked, &found.on, over_by);
        failed.decided(is_dated);
        self.place(line, ask, found.on, takes, found.choice, stock);
        true
    }

    fn place(
        &mut self,
        line: &mut Line<'a>,
        ask: &Ask<'a>,
        on: Found,
        takes: Vec<Take>,
        choice: Option<crate::decision::Choice>,
        stock: &mut Stock<'a>,
    ) {
        line.count_passed();
        let date = stock.date_of(ask.id);
        let why = crate::decision::Why { choice, date, ..line.why() };
        let rate = self.decide((ask.id, ask.job), on, takes, why, stock);
        line.place(rate, protection(self.state, ask.id, ask.job));
    }

    /// Decides a start; returns its rate.
    pub(super) fn decide(
        &mut self,
        (id, job): (JobId, &'a Job),
        on: Found,
        takes: Vec<Take>,
        why: crate::decision::Why,
        stock: &mut Stock<'a>,
    ) -> MilliGpus {
        stock.rights = None;
        self.taking += usize::from(!takes.is_empty());
        stock.forget_date(id);
        let on = ranked(self.state, id, job, on);
        let rate = on.iter().filter_map(|(node, _)| {
            let node = self.state.nodes.get(node)?;
            Some(rate(&job.terms.shape, node).get())
        });
        let rate = MilliGpus::new(rate.sum());
        if let Some(lane) = &mut stock.lane {
            lane.starts(&job.terms);
        }
        self.started.insert(id);
        self.decisions.push(Start { job: id, attempt: job.next_attempt, on, takes, why });
        rate
    }

    /// Returns when a start is past its protection at the latest, if anybody asks: by whom it waits for.
    pub(super) fn over_by(&self, asked: &Asked<'_>, on: &Found, takes: &[Take]) -> Option<Timestamp> {
        let certain = asked.certain?;
        let decided = self.decisions.iter().flat_map(|start| &start.takes);
        let leaves: BTreeSet<AttemptId> = decided.map(|take| take.attempt).collect();
        let of = (asked.job, on.as_slice(), takes);
        Some(leaving::latest_go_of(self.state, of, |id| leaves.contains(id), self.now).plus(certain))
    }

    /// Returns the time from the head's go to the certain end of its protection, where a drain is to come.
    fn certain(&self, ask: &Ask<'_>) -> Option<Span> {
        self.has_windows.then(|| certain(self.state, ask.id, ask.job)).flatten()
    }
}

impl<'a> Stock<'a> {
    /// Returns what `pool` has now.
    ///
    /// `known` is what follows from the same state.
    pub(super) fn of(
        state: &'a State,
        known: &'a Known,
        pool: &'a Name,
        links: &Links,
        now: Timestamp,
    ) -> Self {
        let idle = Idle::of(state, known, pool, links, now);
        let victims = Victims::of(state, known, pool, links, &idle, now);
        let here = state.dates.iter().filter(|((_, of), _)| of == pool);
        let dated = here.map(|((job, _), date)| {
            let Date { decision, issued_at, promise, .. } = date;
            let date = Some(Dated { decision: *decision, issued_at: *issued_at, at: promise.at });
            (*job, Standing { date, nodes: promise.on.iter().map(|(node, _)| *node).collect() })
        });
        let dated = dated.collect();
        let lane = Lane::of(state, pool, now);
        Self { pool, idle, victims, rights: None, offers: BTreeMap::new(), lane, dated, let_go: 0 }
    }

    /// Returns whose a job is, as far as its rights depend on it.
    pub(super) fn owner(&self, job: &Job) -> Owner {
        let lane = self.lane.filter(|lane| lane.gives_right() && Part::of(&job.terms) == Part::Lane);
        Owner { budget: job.budget, turn: job.terms.turn, lane }
    }

    /// Whether a job may start, as far as the short lane is concerned: it leaves that unprotected, or its date has come.
    pub(super) fn leaves_lane(&self, ask: &Ask<'_>, now: Timestamp) -> bool {
        let is_due = || self.date_of(ask.id).is_some_and(|date| date.at <= now);
        self.lane.is_none_or(|lane| lane.lets(&ask.job.terms)) || is_due()
    }

    /// Returns the date that a job had before this round.
    pub(super) fn date_of(&self, job: JobId) -> Option<Dated> {
        self.dated.get(&job).and_then(|standing| standing.date)
    }

    /// Lets go what was reserved for a job.
    pub(super) fn forget_date(&mut self, job: JobId) {
        let Some(standing) = self.dated.remove(&job) else { return };
        self.let_go += 1;
        for node in standing.nodes {
            self.idle.reserve(node, |reserved| reserved.remove(job));
        }
    }

    /// Whether nobody of `tier` can start any more.
    fn is_used_up(&self, tier: Tier) -> bool {
        let is_funded = tier == Tier::Funded;
        self.idle.total() == 0 && !(is_funded && (self.idle.comes() || !self.victims.is_empty()))
    }

    /// Whether neither the head nor anybody after it in its budget can start: there is nothing that it could have, and
    /// with a later turn nobody has more rights.
    fn has_nothing_for(&self, ask: &Ask<'_>) -> bool {
        let owner = self.owner(ask.job);
        let has_no_rights = |(of, rights): &(Owner, Rights)| *of == owner && rights.is_empty();
        ask.job.terms.tier == Tier::Funded
            && self.idle.total() == 0
            && !self.idle.comes()
            // Short jobs after it may have more.
            && !self.lane.is_some_and(|lane| lane.gives_right())
            && self.rights.as_ref().is_some_and(has_no_rights)
    }

    /// Finds the cheapest start of the head of `line`, whose class has that number and whose owner is that one, on what
    /// comes free and on what it may take.
    pub(super) fn taking(
        &mut self,
        line: &mut Line<'_>,
        asked: &Asked<'_>,
        class: usize,
        owner: Owner,
    ) -> Option<Taking> {
        if self.rights_of(line, owner).is_empty() && !self.idle.comes() {
            return None;
        }
        let sought = self.sought(asked, class);
        let (_, rights) = self.rights.as_ref()?;
        if self.offers.len() >= OFFERS_MAX && !self.offers.contains_key(&sought) {
            self.offers.clear();
        }
        let offers = self.offers.entry(sought).or_default();
        taking(&mut Look { ask: asked, idle: &self.idle, victims: &self.victims, rights, offers })
    }

    /// Returns what whoever owns the head of `line` may take.
    pub(super) fn rights_of(&mut self, line: &mut Line<'_>, owner: Owner) -> &Rights {
        let known = self.rights.take().filter(|(of, _)| *of == owner);
        let known = known.unwrap_or_else(|| (owner, self.victims.rights(line, &self.idle, owner)));
        &self.rights.insert(known).1
    }

    /// Returns as what a job of a class is sought.
    pub(super) fn sought(&self, asked: &Asked<'_>, class: usize) -> Sought {
        let dated = self.dated.contains_key(&asked.job).then_some(asked.job);
        Sought { kind: Kind { class, certain: asked.certain }, dated }
    }
}
