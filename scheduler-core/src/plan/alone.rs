//! Whether a waiting job would start if it were alone in line: the same as a plan, with what there is looked at once for
//! many jobs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::idle::Ask as Asked;
use super::round::{Sought, Stock, has_windows, pools};
use super::{Class, Known, Line, Links};
use crate::id::{JobId, Name};
use crate::job::Job;
use crate::lifecycle::phase::place_of;
use crate::lifecycle::place::protection;
use crate::lifecycle::reserve::certain;
use crate::spec::Tier;
use crate::state::{Kind, State};
use crate::table::Table;
use crate::unit::Timestamp;

/// What the pools have for whoever is alone in line, and nothing is broken.
pub(crate) struct Alone<'a> {
    state: &'a State,
    now: Timestamp,
    has_windows: bool,
    stocks: Vec<(&'a Name, Stock<'a>)>,
    classes: BTreeMap<Class<'a>, usize>,
    taken: Vec<Taken>,
}

/// Whether jobs of one kind start on what they take, by the attempts that they may take: who of these goes first makes
/// no difference.
type Taken = BTreeMap<(Sought, Vec<bool>), bool>;

impl<'a> Alone<'a> {
    /// Looks at what every pool has.
    pub(crate) fn new(state: &'a State, known: &'a Known, links: &Links, now: Timestamp) -> Self {
        let stocks = pools(state).into_iter().map(|pool| (pool, Stock::of(state, known, pool, links, now)));
        let (has_windows, stocks) = (has_windows(state), stocks.collect::<Vec<_>>());
        let taken = stocks.iter().map(|_| Taken::new()).collect();
        Self { state, now, has_windows, stocks, classes: BTreeMap::new(), taken }
    }

    /// Whether a plan made now would start the job if nobody else were in line.
    pub(crate) fn starts(&mut self, id: JobId) -> bool {
        let Some(job) = self.state.jobs.get(&id) else { return false };
        let class = Class::of(self.state, job);
        let next = self.classes.len();
        let number = *self.classes.entry(class.clone()).or_insert(next);
        let mut view = self.state.clone();
        view.line = Table::default();
        view.line.insert(place_of(id, job), Kind::of(job));
        let certain = self.has_windows.then(|| certain(self.state, id, job)).flatten();
        let (shape, barred) = (class.shape, &class.barred);
        let (cluster, latest_go) = (class.cluster, self.now);
        let protection = protection(self.state, id, job);
        let asked = Asked { job: id, shape, barred, cluster, only: None, certain, latest_go, protection };
        let latest_go = self.now.plus(self.state.meta.settings.longest_grace());
        self.stocks.iter_mut().zip(&mut self.taken).any(|((pool, stock), taken)| {
            let mut line = Line::new(&view, pool, job.terms.tier, self.now);
            let Some(ask) = line.head().filter(|ask| stock.leaves_lane(ask, self.now)) else { return false };
            let may_wait = job.terms.tier == Tier::Funded;
            stock.idle.find(&asked).is_some()
                || may_wait
                    && stock.could_take(taken, &mut line, &Asked { latest_go, ..asked }, number, ask.job)
        })
    }
}

impl Stock<'_> {
    fn could_take(
        &mut self,
        known: &mut Taken,
        line: &mut Line<'_>,
        asked: &Asked<'_>,
        class: usize,
        job: &Job,
    ) -> bool {
        let owner = self.owner(job);
        let key = (self.sought(asked, class), self.rights_of(line, owner).may_take_each());
        if let Some(known) = known.get(&key) {
            return *known;
        }
        let can = self.taking(line, asked, class, owner).is_some();
        known.insert(key, can);
        can
    }
}
