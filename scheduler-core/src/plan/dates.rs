//! Dates in a round: whose date has come claims its nodes, dates whose nodes failed move, and the first in order that
//! cannot be placed gets one, before anybody after it is looked at.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::find_date::{Seeker, Wish};
use super::idle::{Ask as Asked, Found};
use super::offers::{Look, Offers};
use super::round::{Round, Standing, Stock};
use super::taking::taking;
use super::{Ask, Class, Line};
use crate::date::{Date, Promise, Trouble};
use crate::decision::{DateStep, Plan, Right, Step, Take, Why};
use crate::id::{JobId, Name, NodeId};
use crate::job::Job;
use crate::lifecycle::dates::trouble;
use crate::lifecycle::need::need;
use crate::lifecycle::phase::place_of;
use crate::lifecycle::place::protection;
use crate::lifecycle::reserve::{self, Part, certain};
use crate::mutant::{self, Mutant};
use crate::settings::Settings;
use crate::unit::Timestamp;

/// For at most so many jobs of a pool a date is looked for in one pass: those for which no nodes could be found are not
/// in the way of whoever comes after them.
const TRIES: u32 = 4;

/// Whether the first in order is known: it starts, or it has a date.
pub(super) struct Heads {
    is_off: bool,
    is_known: bool,
    /// Somebody started since: the order may be another one.
    is_stale: bool,
    tries: u32,
    /// So many GPUs may be reserved besides for others, if that is any.
    more: Option<i64>,
}

impl Heads {
    /// With `gpus` in the pool, of which dates reserve some.
    pub(super) fn of(settings: &Settings, gpus: u64, reserved: u64) -> Self {
        let part = gpus.saturating_mul(settings.more_dates_ppm.into()) / 1_000_000;
        let signed = |gpus: u64| i64::try_from(gpus).unwrap_or(i64::MAX);
        let more = (settings.more_dates_ppm > 0).then(|| signed(part).saturating_sub(signed(reserved)));
        Self { is_off: !settings.dates, is_known: false, is_stale: false, tries: TRIES, more }
    }

    /// Nobody gets a date.
    pub(super) fn none() -> Self {
        Self { is_off: true, is_known: false, is_stale: false, tries: 0, more: None }
    }

    /// Whether the next one that waits is the first.
    pub(super) fn is_open(&self) -> bool {
        !self.is_off && self.tries > 0 && (!self.is_known || self.more.is_some_and(|more| more > 0))
    }

    /// Somebody starts.
    pub(super) fn decided(&mut self) {
        self.is_stale = self.is_known || self.tries < TRIES;
    }

    /// The line is gone through again.
    pub(super) fn again(&mut self) {
        (self.is_known, self.is_stale, self.tries) = (false, false, TRIES);
    }

    fn is_settled(&self) -> bool {
        self.is_off || !self.is_stale && (self.is_known || self.tries == 0)
    }
}

impl<'a> Round<'a> {
    /// Moves dates whose nodes are no good any more, and starts those whose date has come.
    pub(super) fn keep_dates(&mut self, pool: &'a Name, line: &mut Line<'a>, stock: &mut Stock<'a>) {
        let mut standing: Vec<(JobId, &'a Job, &'a Date)> = Vec::new();
        for ((id, of), date) in self.state.dates.iter() {
            let waits = |job: &&Job| self.state.line.contains(&place_of(*id, job));
            if of == pool
                && !self.started.contains(id)
                && let Some(job) = self.state.jobs.get(id).filter(waits)
            {
                standing.push((*id, job, date));
            }
        }
        standing.sort_by_key(|(id, _, date)| (date.promise.at, *id));
        for (id, job, date) in standing {
            if let Some(trouble) = trouble(self.state, id, job, &date.promise, self.now) {
                self.move_date(line, (id, job), (date, trouble), stock);
            } else if date.promise.at <= self.now && !self.is_full() {
                self.claim(line, (id, job), date, stock);
            }
        }
    }

    fn move_date(
        &mut self,
        line: &mut Line<'a>,
        (id, job): (JobId, &'a Job),
        (date, trouble): (&Date, Trouble),
        stock: &mut Stock<'a>,
    ) {
        let before = stock.date_of(id);
        let wish = Wish { id, job, pool: stock.pool, issued_at: date.issued_at };
        let step = match self.seek(line, &wish, stock) {
            Some(to) => {
                stock.forget_date(id);
                self.reserve(stock, (id, job), &to);
                if let Some(standing) = stock.dated.get_mut(&id) {
                    standing.date = before;
                }
                Step::Move { to, trouble }
            }
            None => {
                stock.forget_date(id);
                Step::Drop { trouble }
            }
        };
        self.step(id, stock.pool, step);
    }

    /// Starts a job whose date has come: on idle GPUs anywhere, else on its nodes, in place of whatever nobody protects.
    fn claim(
        &mut self,
        line: &mut Line<'a>,
        (id, job): (JobId, &'a Job),
        date: &Date,
        stock: &mut Stock<'a>,
    ) {
        let class = Class::of(self.state, job);
        let certain = certain(self.state, id, job);
        let (shape, barred) = (class.shape, &class.barred);
        let (cluster, latest_go) = (class.cluster, self.now);
        let protection = protection(self.state, id, job);
        let idle = Asked { job: id, shape, barred, cluster, only: None, certain, latest_go, protection };
        let mut why = Why { place: 1, levels: Vec::new(), choice: None, date: stock.date_of(id) };
        if let Some(on) = stock.idle.find(&idle) {
            stock.idle.take(&idle, &on, idle.over_by());
            self.claimed(line, (id, job), (on, Vec::new(), why), stock);
            return;
        }
        if mutant::is(Mutant::ClaimWithMargin) {
            return;
        }
        let nodes: BTreeSet<NodeId> = date.promise.on.iter().map(|(node, _)| *node).collect();
        let none = BTreeSet::new();
        let latest_go = self.now.plus(self.state.meta.settings.longest_grace());
        let asked = Asked { barred: &none, only: Some(&nodes), latest_go, ..idle };
        let right = Right::Claim { date: date.decision, at: date.promise.at };
        let rights = stock.victims.claims(line, &stock.idle, &nodes, right);
        let offers = &mut Offers::default();
        let look =
            &mut Look { ask: &asked, idle: &stock.idle, victims: &stock.victims, rights: &rights, offers };
        let Some(found) = taking(look) else { return };
        let takes = found.takes(&stock.victims, &rights);
        stock.victims.take(&found.takes, &mut stock.idle);
        let over_by = self.over_by(&asked, &found.on, &takes);
        stock.idle.take(&asked, &found.on, over_by);
        why.choice = found.choice;
        self.claimed(line, (id, job), (found.on, takes, why), stock);
    }

    fn claimed(
        &mut self,
        line: &mut Line<'a>,
        (id, job): (JobId, &'a Job),
        (on, takes, why): (Found, Vec<Take>, Why),
        stock: &mut Stock<'a>,
    ) {
        let rate = self.decide((id, job), on, takes, why, stock);
        line.set_aside(job, rate, protection(self.state, id, job));
    }

    /// Somebody waits: the first in order gets a date, if it has none.
    pub(super) fn waits(
        &mut self,
        line: &mut Line<'a>,
        ask: &Ask<'a>,
        stock: &mut Stock<'a>,
        heads: &mut Heads,
    ) {
        if !heads.is_open() {
            return;
        }
        let is_dated = stock.dated.contains_key(&ask.id);
        let shape = &ask.job.terms.shape;
        let gpus = i64::from(shape.nodes).saturating_mul(shape.gpus_per_node.get().into());
        if !heads.is_known && (is_dated || self.issue(line, ask, stock)) {
            heads.is_known = true;
            // What the first has does not count.
            heads.more = heads.more.map(|more| if is_dated { more.saturating_add(gpus) } else { more });
        } else if heads.is_known && is_dated {
            // One that got its date before.
        } else if heads.is_known && heads.more >= Some(gpus) && self.issue(line, ask, stock) {
            heads.more = heads.more.map(|more| more.saturating_sub(gpus));
        } else {
            heads.tries -= 1;
        }
    }

    /// Nothing more starts: whoever is first now gets a date, if it has none.
    pub(super) fn last_head(&mut self, line: &mut Line<'a>, stock: &mut Stock<'a>, heads: &mut Heads) {
        if heads.is_settled() {
            return;
        }
        line.again();
        heads.again();
        while heads.is_open()
            && let Some(ask) = line.head()
        {
            if !self.started.contains(&ask.id) {
                self.waits(line, &ask, stock, heads);
            }
            line.pass();
        }
    }

    fn issue(&mut self, line: &mut Line<'a>, ask: &Ask<'a>, stock: &mut Stock<'a>) -> bool {
        if self.dates.len() >= Plan::DATES_MAX {
            return false;
        }
        let wish = Wish { id: ask.id, job: ask.job, pool: stock.pool, issued_at: self.now };
        let Some(promise) = self.seek(line, &wish, stock) else { return false };
        self.reserve(stock, (ask.id, ask.job), &promise);
        self.step(ask.id, stock.pool, Step::Issue(promise));
        true
    }

    fn seek(&self, line: &mut Line<'a>, wish: &Wish<'a>, stock: &Stock<'a>) -> Option<Promise> {
        let (state, links, now) = (self.state, self.links, self.now);
        let idle = &stock.idle;
        Seeker::new(state, links, now, &self.decisions).find(line, wish, idle)
    }

    fn step(&mut self, job: JobId, pool: &Name, step: Step) {
        let after = u16::try_from(self.decisions.len()).unwrap_or(u16::MAX);
        self.dates.push(DateStep { after, job, pool: pool.clone(), step });
    }

    /// From now on nobody starts on what is promised who would not be over by then.
    fn reserve(&mut self, stock: &mut Stock<'a>, (id, job): (JobId, &Job), promise: &Promise) {
        self.has_windows = true;
        let until = promise.until;
        for (node_id, slots) in &promise.on {
            let Some(node) = self.state.nodes.get(node_id) else { continue };
            let need = need(&job.terms.shape, node);
            let lasting = reserve::both(
                reserve::lasting(self.state, node, promise.at),
                self.placed_on(*node_id, promise.at),
            );
            let slots = slots.clone();
            let part = Part { job: id, at: promise.at, until, slots, need, lasting };
            stock.idle.reserve(*node_id, |reserved| reserved.add(part));
        }
        let nodes = promise.on.iter().map(|(node, _)| *node).collect();
        stock.dated.insert(id, Standing { date: None, nodes });
    }

    /// Returns the cores and memory of a node that this round gave to those who may be protected beyond a moment.
    fn placed_on(&self, node_id: NodeId, at: Timestamp) -> crate::lifecycle::need::Need {
        let seeker = Seeker::new(self.state, self.links, self.now, &self.decisions);
        seeker.placed_on(node_id, at)
    }
}
