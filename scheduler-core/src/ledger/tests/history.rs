//! A random history of a pool, kept twice: in the books, and as plain intervals that are summed by hand.

use alloc::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use crate::budget::{Budget, ROOT};
use crate::id::{BudgetId, Name};
use crate::ledger::{Books, Class, FREE_FLOOR, Run};
use crate::spec::{ContractDefaults, Tier};
use crate::table::Table;
use crate::unit::{GpuCount, MilliGpus, Share, Span, Timestamp};

/// The first moment of every history.
pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// `root -> {a -> {a1, a2}, b}`: the leaves.
pub const LEAVES: [u32; 3] = [3, 4, 2];

/// The most breakpoints, where that is no matter.
pub const MOST: usize = 2_000_000;

pub fn pool() -> Name {
    Name::new("main").expect("a name")
}

pub fn tree() -> Table<BudgetId, Budget> {
    let rows = [
        (0, "lab", None, 1_000_000, vec![1, 2]),
        (1, "a", Some(0), 600_000, vec![3, 4]),
        (2, "b", Some(0), 333_333, vec![]),
        (3, "a1", Some(1), 700_001, vec![]),
        (4, "a2", Some(1), 299_999, vec![]),
    ];
    rows.into_iter()
        .map(|(id, name, parent, ppm, children)| {
            let budget = Budget {
                name: Name::new(name).expect("a name"),
                parent: parent.map(BudgetId::new),
                children: children.into_iter().map(BudgetId::new).collect(),
                share: Share::from_ppm(ppm).expect("a share"),
                owner: None,
                members: Default::default(),
                defaults: ContractDefaults::default(),
                is_closed: false,
                pools: Default::default(),
                slices: Vec::new(),
                was: Vec::new(),
            };
            (BudgetId::new(id), budget)
        })
        .collect()
}

pub fn path(leaf: BudgetId) -> Vec<BudgetId> {
    match leaf.get() {
        0 => vec![ROOT],
        1 | 2 => vec![ROOT, leaf],
        _ => vec![ROOT, BudgetId::new(1), leaf],
    }
}

/// One step: time passes, then something happens. `which` picks among what can; `late` is how far back it lies.
#[derive(Debug, Clone)]
pub struct Step {
    pub dt: u64,
    pub late: u64,
    pub which: usize,
    pub what: What,
}

#[derive(Debug, Clone)]
pub enum What {
    AddNode { gpus: u32 },
    NodeDown,
    NodeUp,
    Place { leaf: usize, is_free: bool, gpus: u32, weight: u64, protection: u64, is_handed_over: bool },
    Go,
    Started,
    Ended,
    Freed,
    Thin,
}

pub fn steps(dt_max: u64, late_max: u64) -> impl Strategy<Value = Vec<Step>> {
    let place = (0..3usize, any::<bool>(), 1..9u32, 1..4000u64, 0..20_000_000u64, any::<bool>()).prop_map(
        |(leaf, is_free, gpus, weight, protection, is_handed_over)| What::Place {
            leaf,
            is_free,
            gpus,
            weight,
            protection,
            is_handed_over,
        },
    );
    let what = prop_oneof![
        1 => (1..17u32).prop_map(|gpus| What::AddNode { gpus }),
        1 => Just(What::NodeDown),
        1 => Just(What::NodeUp),
        5 => place,
        3 => Just(What::Go),
        4 => Just(What::Started),
        4 => Just(What::Ended),
        4 => Just(What::Freed),
        2 => Just(What::Thin),
    ];
    let step = (0..dt_max, 0..late_max, any::<usize>(), what).prop_map(|(dt, late, which, what)| Step {
        dt,
        late,
        which,
        what,
    });
    prop::collection::vec(step, 1..90)
}

#[derive(Debug, Clone)]
pub struct Attempt {
    pub leaf: BudgetId,
    pub tier: Tier,
    pub gpus: u32,
    pub rate: u64,
    pub protection: Span,
    pub placed: Timestamp,
    pub go: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    pub freed: Option<Timestamp>,
}

impl Attempt {
    fn run<'a>(&self, pool: &'a Name, path: &'a [BudgetId]) -> Run<'a> {
        Run {
            pool,
            path,
            tier: self.tier,
            rate: MilliGpus::new(self.rate),
            protection: self.protection,
            go: self.go,
            started: self.started,
        }
    }

    fn occupied(&self) -> Class {
        Class::Occupied { budget: self.leaf, tier: self.tier }
    }
}

/// Both forms of one history.
#[derive(Debug, Default)]
pub struct History {
    pub books: Books,
    pub now: Timestamp,
    pub window: Span,
    pub attempts: Vec<Attempt>,
    /// Moments at which a class got more or fewer GPUs.
    pub moves: Vec<(Timestamp, Class, i128)>,
    pub idle: u32,
    pub down: u32,
    /// The highest rate of charge so far.
    pub rate_max: u64,
}

impl History {
    pub fn new(window: Span) -> Self {
        let mut history = Self { now: START, window, ..Self::default() };
        history.step(&Step { dt: 0, late: 0, which: 0, what: What::AddNode { gpus: 16 } });
        history
    }

    pub fn step(&mut self, step: &Step) {
        self.now = self.now.plus(Span::from_millis(step.dt));
        let late = self.now.minus(Span::from_millis(step.late));
        match step.what {
            What::AddNode { gpus } => {
                self.books.gpus_added(&pool(), GpuCount::new(gpus), Class::Idle, self.now);
                self.moves.push((self.now, Class::Idle, i128::from(gpus)));
                self.idle += gpus;
            }
            What::NodeDown => {
                let gpus = self.idle.min(8);
                self.reclass(gpus, Class::Idle, Class::Unavailable, self.now);
                self.idle -= gpus;
                self.down += gpus;
            }
            What::NodeUp => {
                let gpus = self.down.min(8);
                self.reclass(gpus, Class::Unavailable, Class::Idle, self.now);
                self.down -= gpus;
                self.idle += gpus;
            }
            What::Place { leaf, is_free, gpus, weight, protection, is_handed_over } => {
                self.place(
                    LEAVES[leaf],
                    is_free,
                    gpus,
                    weight,
                    Span::from_millis(protection),
                    is_handed_over,
                );
            }
            What::Go => self.go(step.which, late),
            What::Started => self.started(step.which, late),
            What::Ended => self.ended(step.which, late),
            What::Freed => self.freed(step.which, late),
            What::Thin => self.books.thin(self.window, MOST, (Timestamp::ZERO, self.now)),
        }
        self.rate_max = self.rate_max.max(self.live_rate());
    }

    fn live_rate(&self) -> u64 {
        self.attempts.iter().filter(|a| a.go.is_some() && a.ended.is_none()).map(|a| a.rate).sum()
    }

    fn reclass(&mut self, gpus: u32, from: Class, to: Class, at: Timestamp) {
        if gpus == 0 {
            return;
        }
        self.books.reclass(&pool(), GpuCount::new(gpus), from, to, at);
        self.moves.push((at, from, -i128::from(gpus)));
        self.moves.push((at, to, i128::from(gpus)));
    }

    fn place(
        &mut self,
        leaf: u32,
        is_free: bool,
        gpus: u32,
        weight: u64,
        protection: Span,
        is_handed_over: bool,
    ) {
        if gpus > self.idle {
            return;
        }
        let attempt = Attempt {
            leaf: BudgetId::new(leaf),
            tier: if is_free { Tier::Free } else { Tier::Funded },
            gpus,
            rate: u64::from(gpus) * weight,
            protection: if is_free { Span::ZERO } else { protection },
            placed: self.now,
            go: None,
            started: None,
            ended: None,
            freed: None,
        };
        self.idle -= gpus;
        self.books.placed(&attempt.run(&pool(), &path(attempt.leaf)));
        self.reclass(gpus, Class::Idle, Class::Handover, self.now);
        self.attempts.push(attempt);
        if !is_handed_over {
            self.pass_go(self.attempts.len() - 1, self.now);
        }
    }

    fn pick(&self, which: usize, fits: impl Fn(&Attempt) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.attempts.len()).filter(|at| fits(&self.attempts[*at])).collect();
        (!fitting.is_empty()).then(|| fitting[which % fitting.len()])
    }

    fn go(&mut self, which: usize, late: Timestamp) {
        if let Some(at) = self.pick(which, |a| a.go.is_none() && a.ended.is_none()) {
            self.pass_go(at, late.max(self.attempts[at].placed));
        }
    }

    fn pass_go(&mut self, at: usize, when: Timestamp) {
        let attempt = self.attempts[at].clone();
        self.books.go(&attempt.run(&pool(), &path(attempt.leaf)), when, self.now);
        self.reclass(attempt.gpus, Class::Handover, attempt.occupied(), when);
        self.attempts[at].go = Some(when);
    }

    fn started(&mut self, which: usize, late: Timestamp) {
        if let Some(at) = self.pick(which, |a| a.go.is_some() && a.started.is_none() && a.ended.is_none()) {
            let attempt = self.attempts[at].clone();
            let when = late.max(attempt.go.expect("picked with a go"));
            self.books.started(&attempt.run(&pool(), &path(attempt.leaf)), when, self.now);
            self.attempts[at].started = Some(when);
        }
    }

    fn ended(&mut self, which: usize, late: Timestamp) {
        if let Some(at) = self.pick(which, |a| a.ended.is_none()) {
            let attempt = self.attempts[at].clone();
            let when = late
                .max(attempt.placed)
                .max(attempt.go.unwrap_or(START))
                .max(attempt.started.unwrap_or(START));
            self.books.ended(&attempt.run(&pool(), &path(attempt.leaf)), when, self.now);
            let from = if attempt.go.is_some() { attempt.occupied() } else { Class::Handover };
            self.reclass(attempt.gpus, from, Class::Overhead, when);
            self.attempts[at].ended = Some(when);
        }
    }

    fn freed(&mut self, which: usize, late: Timestamp) {
        if let Some(at) = self.pick(which, |a| a.ended.is_some() && a.freed.is_none()) {
            let attempt = self.attempts[at].clone();
            let when = late.max(attempt.ended.expect("picked with an end"));
            self.reclass(attempt.gpus, Class::Overhead, Class::Idle, when);
            self.attempts[at].freed = Some(when);
            self.idle += attempt.gpus;
        }
    }

    /// Sums by hand what a budget was charged in `[from, now]`.
    pub fn charged(&self, budget: BudgetId, tier: Tier, from: Timestamp) -> u128 {
        let of = |a: &&Attempt| a.tier == tier && path(a.leaf).contains(&budget);
        let charge = |a: &Attempt| {
            let begin = a.go?.max(from);
            let end = a.ended.unwrap_or(self.now);
            Some(u128::from(a.rate) * u128::from(end.since(begin).as_millis()))
        };
        self.attempts.iter().filter(of).filter_map(charge).sum()
    }

    /// Sums by hand what a budget was charged up to `at`.
    pub fn charged_until(&self, budget: BudgetId, tier: Tier, at: Timestamp) -> u128 {
        let of = |a: &&Attempt| a.tier == tier && path(a.leaf).contains(&budget);
        let charge = |a: &Attempt| {
            let end = a.ended.unwrap_or(self.now).min(at);
            Some(u128::from(a.rate) * u128::from(end.since(a.go?).as_millis()))
        };
        self.attempts.iter().filter(of).filter_map(charge).sum()
    }

    /// Sums by hand what a budget has set aside now.
    pub fn set_aside(&self, budget: BudgetId, tier: Tier) -> u128 {
        let of = |a: &&Attempt| a.tier == tier && a.ended.is_none() && path(a.leaf).contains(&budget);
        let left = |a: &Attempt| {
            let (span, from) = match tier {
                Tier::Funded => (a.protection, a.started),
                Tier::Free => (FREE_FLOOR, a.go),
            };
            let left = from.map_or(span, |from| from.plus(span).since(self.now));
            u128::from(a.rate) * u128::from(left.as_millis())
        };
        self.attempts.iter().filter(of).map(left).sum()
    }

    /// Sums by hand each class's GPUs and time up to now.
    pub fn classes(&self) -> BTreeMap<Class, (i128, i128)> {
        let mut sums: BTreeMap<Class, (i128, i128)> = BTreeMap::new();
        for &(at, class, gpus) in &self.moves {
            let sum = sums.entry(class).or_default();
            sum.0 += gpus;
            sum.1 += gpus * i128::from(self.now.since(at).as_millis());
        }
        sums
    }

    /// Sums by hand the GPU time in service in `[from, now]`.
    pub fn in_service(&self, from: Timestamp) -> i128 {
        let in_service = self.moves.iter().filter(|(_, class, _)| *class != Class::Unavailable);
        in_service.map(|(at, _, gpus)| gpus * i128::from(self.now.since(from.max(*at)).as_millis())).sum()
    }
}
