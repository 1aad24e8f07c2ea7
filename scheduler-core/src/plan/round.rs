//! One round: each pool, funded first, then the free tier.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::gang::ranked;
use super::idle::{Ask as Asked, Found, Idle};
use super::offers::{Look, Offers};
use super::taking::{Taking, taking};
use super::victims::{Rights, Victims};
use super::{Ask, Line, Links};
use crate::decision::{Plan, Start, Take};
use crate::id::{BudgetId, JobId, Name, Term};
use crate::job::Job;
use crate::lifecycle::need::rate;
use crate::lifecycle::place::protection;
use crate::settings::Settings;
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
    let mut round = Round {
        state,
        links,
        now,
        has_windows: has_windows(state),
        started: BTreeSet::new(),
        decisions: Vec::new(),
        taking: 0,
    };
    if state.meta.safe_mode.is_none() && !state.line.is_empty() {
        for pool in pools(state) {
            round.pool(pool);
        }
    }
    Plan { term, index: state.meta.index, decisions: round.decisions }
}

/// Whether a drain is to come somewhere, so that it matters how long a job is protected.
pub(crate) fn has_windows(state: &State) -> bool {
    state.nodes.values().any(|node| super::closes_at(node).is_some())
}

/// Returns the time from a funded job's go to the certain end of its protection.
pub(super) fn certain(state: &State, id: JobId, job: &Job) -> Option<Span> {
    let is_funded = job.terms.tier == Tier::Funded;
    is_funded.then(|| state.meta.settings.start_limit.plus(protection(state, id, job)))
}

/// Returns the pools that have nodes, in order.
pub(crate) fn pools(state: &State) -> BTreeSet<&Name> {
    state.nodes.values().map(|node| &node.pool).collect()
}

struct Round<'a> {
    state: &'a State,
    links: &'a Links,
    now: Timestamp,
    has_windows: bool,
    started: BTreeSet<JobId>,
    decisions: Vec<Start>,
    /// How many of them take somebody.
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
    /// On idle GPUs: these only become fewer.
    idle: BTreeSet<Kind>,
    /// And with what comes free or may be taken, which depends on whose the job is; forgotten with each decision: what
    /// that set aside and left over may help whoever comes after it. A budget's jobs are tried one after the other, so
    /// those of one owner are enough.
    taking: BTreeSet<Kind>,
    owner: Option<(BudgetId, Turn)>,
}

/// What a pool has for its jobs.
pub(super) struct Stock<'a> {
    pub(super) idle: Idle<'a>,
    victims: Victims<'a>,
    /// Of the head for which they were asked last; every decision changes the numbers.
    rights: Option<((BudgetId, Turn), Rights)>,
    /// What nodes would cost, by class.
    offers: BTreeMap<usize, Offers>,
}

impl<'a> Round<'a> {
    fn pool(&mut self, pool: &'a Name) {
        let mut stock = Stock::of(self.state, pool, self.links, self.now);
        if stock.is_used_up(Tier::Funded) {
            return;
        }
        let mut line = Line::new(self.state, pool, Tier::Funded, self.now);
        for _ in 0..PASSES_MAX {
            let before = self.decisions.len();
            self.pass(&mut line, &mut stock);
            let has_more = stock.idle.coming() > 0 || !stock.victims.is_empty();
            if self.decisions.len() == before || !has_more {
                break;
            }
            line.again();
        }
        if stock.idle.total() > 0 {
            let mut line = Line::new(self.state, pool, Tier::Free, self.now);
            self.pass(&mut line, &mut stock);
        }
    }

    fn pass(&mut self, line: &mut Line<'a>, stock: &mut Stock<'a>) {
        let mut failed = Failed::default();
        while let Some(ask) = line.head() {
            if self.is_full() || stock.is_used_up(ask.job.terms.tier) {
                return;
            }
            let starts = !self.started.contains(&ask.id) && self.start(line, &ask, stock, &mut failed);
            match starts {
                true => {}
                false if stock.has_nothing_for(&ask) => line.pass_budget(),
                false => line.pass(),
            }
        }
    }

    fn is_full(&self) -> bool {
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
        let certain = self.certain(ask);
        let kind = Kind { class: ask.class, certain };
        let owner = (ask.job.budget, ask.job.terms.turn);
        let may_wait = ask.job.terms.tier == Tier::Funded;
        if failed.owner.replace(owner) != Some(owner) {
            failed.taking.clear();
        }
        if failed.idle.contains(&kind) && (!may_wait || failed.taking.contains(&kind)) {
            return false;
        }
        let class = line.class(ask).clone();
        let asked = Asked { shape: class.shape, barred: &class.barred, certain, latest_go: self.now };
        if !failed.idle.contains(&kind) {
            if let Some(on) = stock.idle.find(&asked) {
                stock.idle.take(class.shape, &on);
                failed.taking.clear();
                self.place(line, ask, on, Vec::new(), None, stock);
                return true;
            }
            failed.idle.insert(kind);
        }
        if !may_wait {
            return false;
        }
        let latest_go = self.now.plus(longest_grace(&self.state.meta.settings));
        let Some(found) = stock.taking(line, &Asked { latest_go, ..asked }, ask.class, owner) else {
            failed.taking.insert(kind);
            return false;
        };
        let rights = stock.rights.take().map(|(_, rights)| rights).unwrap_or_default();
        let takes = found.takes(&stock.victims, &rights);
        stock.victims.take(&found.takes, &mut stock.idle);
        stock.idle.take(class.shape, &found.on);
        failed.taking.clear();
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
        stock.rights = None;
        self.taking += usize::from(!takes.is_empty());
        line.count_passed();
        let why = crate::decision::Why { choice, ..line.why() };
        let on = ranked(self.state, ask.id, ask.job, on);
        let rate = on.iter().filter_map(|(node, _)| {
            let node = self.state.nodes.get(node)?;
            Some(rate(&ask.job.terms.shape, node).get())
        });
        line.place(MilliGpus::new(rate.sum()), protection(self.state, ask.id, ask.job));
        self.started.insert(ask.id);
        self.decisions.push(Start { job: ask.id, attempt: ask.job.next_attempt, on, takes, why });
    }

    /// Returns the time from the head's go to the certain end of its protection, where a drain is to come.
    fn certain(&self, ask: &Ask<'_>) -> Option<Span> {
        self.has_windows.then(|| certain(self.state, ask.id, ask.job)).flatten()
    }
}

/// Returns the longest time that anybody who leaves may take for it.
pub(super) fn longest_grace(settings: &Settings) -> Span {
    settings.grace_max.max(settings.cancel_grace).max(settings.rank_grace).max(settings.free_grace)
}

impl<'a> Stock<'a> {
    /// Returns what `pool` has now.
    pub(super) fn of(state: &'a State, pool: &Name, links: &Links, now: Timestamp) -> Self {
        let idle = Idle::of(state, pool, links, now);
        let victims = Victims::of(state, pool, links, &idle, now);
        Self { idle, victims, rights: None, offers: BTreeMap::new() }
    }

    /// Whether nobody of `tier` can start any more.
    fn is_used_up(&self, tier: Tier) -> bool {
        let is_funded = tier == Tier::Funded;
        self.idle.total() == 0 && !(is_funded && (self.idle.coming() > 0 || !self.victims.is_empty()))
    }

    /// Whether neither the head nor anybody after it in its budget can start: there is nothing that it could have, and
    /// with a later turn nobody has more rights.
    fn has_nothing_for(&self, ask: &Ask<'_>) -> bool {
        let owner = (ask.job.budget, ask.job.terms.turn);
        let has_no_rights = |(of, rights): &((BudgetId, Turn), Rights)| *of == owner && rights.is_empty();
        ask.job.terms.tier == Tier::Funded
            && self.idle.total() == 0
            && self.idle.coming() == 0
            && self.rights.as_ref().is_some_and(has_no_rights)
    }

    /// Finds the cheapest start of the head of `line`, whose class has that number and whose owner is that one, on what
    /// comes free and on what it may take.
    pub(super) fn taking(
        &mut self,
        line: &mut Line<'_>,
        asked: &Asked<'_>,
        class: usize,
        owner: (BudgetId, Turn),
    ) -> Option<Taking> {
        if self.rights.as_ref().is_none_or(|(of, _)| *of != owner) {
            self.rights = Some((owner, self.victims.rights(line, &self.idle, owner)));
        }
        let (_, rights) = self.rights.as_ref()?;
        if rights.is_empty() && self.idle.coming() == 0 {
            return None;
        }
        if self.offers.len() >= OFFERS_MAX && !self.offers.contains_key(&class) {
            self.offers.clear();
        }
        let offers = self.offers.entry(class).or_default();
        taking(&mut Look { ask: asked, idle: &self.idle, victims: &self.victims, rights, offers })
    }
}
