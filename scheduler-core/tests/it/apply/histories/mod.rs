//! Random histories: whatever comes in whatever order, every invariant holds, nothing panics, a refusal changes
//! nothing, charge is exact, who is protected gives way to nobody, a fresh plan is adopted whole, and the log alone
//! makes the same state again.

mod agents;
mod laws;
mod people;
mod plans;
mod told;
mod victims;

use scheduler_core::apply::advance;
use scheduler_core::command::{Answer, Command, Entry};
use scheduler_core::id::{NodeId, Term};
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::state::State;
use scheduler_core::unit::Span;

use crate::random::Random;
use crate::world::{World, mark};

const HISTORIES: u64 = 24;
const STEPS: usize = 120;
/// Histories that once broke a law.
const KEPT: &[u64] = &[];

/// How many GPUs the nodes have.
const SIZES: [u32; 4] = [4, 4, 2, 2];

struct History {
    world: World,
    seed: u64,
    random: Random,
    nodes: Vec<NodeId>,
    boots: [u32; 4],
    sent: Vec<(NodeId, scheduler_core::agent::Report)>,
    marked: Vec<Entry>,
    /// What jobs were charged that are not in state any more.
    forgotten: u128,
    seen: Seen,
}

/// What happened, to see that enough did.
#[derive(Debug, Default)]
struct Seen {
    adopted: u32,
    taken: u32,
    protected: u32,
    gangs: u32,
    bills: u32,
}

#[test]
fn random_histories_keep_every_law() {
    let mut seen = Seen::default();
    for seed in KEPT.iter().copied().chain(0..HISTORIES) {
        let mut history = History::new(seed);
        for step in 0..STEPS {
            history.step();
            history.check_charge(&format!("seed {seed} step {step}"));
        }
        let replayed = history.world.replayed();
        assert_eq!(replayed.digest(), history.world.state.digest(), "seed {seed}");
        seen.add(&history.seen);
    }
    let least = u32::try_from(HISTORIES).expect("few");
    assert!(seen.adopted > 5 * least && seen.protected > least, "too little happened: {seen:?}");
    assert!(seen.taken > least / 2 && seen.gangs > least / 3, "too little happened: {seen:?}");
    assert!(seen.bills > least / 3, "too little happened: {seen:?}");
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.adopted += other.adopted;
        self.taken += other.taken;
        self.protected += other.protected;
        self.gangs += other.gangs;
        self.bills += other.bills;
    }
}

/// Small bounds, so that they are reached.
fn settings() -> Settings {
    Settings {
        allow_simulated: true,
        keep_ended: Span::from_mins(20),
        keep_ended_max: 12,
        live_jobs_max: 30,
        keep_results: Span::from_mins(40),
        keep_results_max: 8,
        requests_max: 40,
        decisions_max: 25,
        bills_max: 6,
        ..Settings::default()
    }
}

/// A founded world with four nodes.
fn base() -> (World, Vec<NodeId>) {
    let mut world = World::with(settings());
    let nodes = (0..4).map(|at: usize| world.node(&format!("n{at}"), SIZES[at])).collect();
    (world, nodes)
}

impl History {
    fn new(seed: u64) -> Self {
        Self::of(base(), seed)
    }

    fn of((world, nodes): (World, Vec<NodeId>), seed: u64) -> Self {
        Self {
            world,
            seed,
            random: Random::new(seed),
            nodes,
            boots: [1; 4],
            sent: Vec::new(),
            marked: Vec::new(),
            forgotten: 0,
            seen: Seen::default(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("a small bound");
        usize::try_from(self.random.below(bound)).expect("below a small bound")
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(usize::try_from(bound).expect("small"))).expect("below a small bound")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn step(&mut self) {
        match self.below(38) {
            0..4 => self.submit(),
            4..7 => self.adopt_fresh(),
            7 => self.adopt_anything(),
            8..12 => self.adopt_taking(),
            12..17 => self.report(),
            17 => self.report_again(),
            18 => self.facts(),
            19 => self.contact(),
            20 => self.cancel(),
            21 => self.budgets(),
            22 => self.retry(),
            23 => self.odd(),
            24..26 => self.run_to_their_ends(),
            26 => self.word_about_a_job(),
            27 => self.word_about_a_node(),
            28 => self.save(),
            29..31 => self.be_ready(),
            31 => self.leave(),
            32..35 => self.repair(),
            35 => self.new_leader(),
            _ => self.let_time_pass(),
        }
    }

    fn apply(&mut self, actor: Actor, command: Command) -> Answer {
        let request = match &actor {
            Actor::Principal(_) if self.below(2) == 0 => {
                let id = u8::try_from(self.world.log.len() % 256).expect("below 256");
                Some(mark(id, self.world.now, id))
            }
            _ => None,
        };
        let entry = Entry { time: self.world.now, actor, via: None, request, command };
        if request.is_some() {
            self.marked.push(entry.clone());
        }
        self.entry(entry)
    }

    fn entry(&mut self, entry: Entry) -> Answer {
        let mut before = self.world.state.clone();
        let mut left = self.charges(&before);
        let is_batch = matches!(entry.command, Command::Batch(_));
        let answer = self.world.entry(entry);
        advance(&mut before, self.world.now);
        if answer.is_err() && !is_batch {
            laws::same(&before, &self.world.state);
        }
        laws::who_is_protected_gives_way_to_nobody(&before, &self.world.state);
        self.count(&before);
        left.retain(|(id, _)| !self.world.state.jobs.contains(id));
        self.forgotten += left.iter().map(|(_, charge)| charge).sum::<u128>();
        answer
    }

    /// Brings state to now, as the next entry would.
    fn come_to_now(&mut self) {
        let mut left = self.charges(&self.world.state);
        advance(&mut self.world.state, self.world.now);
        left.retain(|(id, _)| !self.world.state.jobs.contains(id));
        self.forgotten += left.iter().map(|(_, charge)| charge).sum::<u128>();
    }

    fn count(&mut self, before: &State) {
        let bills = self.world.state.bills.len().saturating_sub(before.bills.len());
        self.seen.bills += u32::try_from(bills).expect("few");
        let went = self.world.state.attempts.iter().filter(|(id, attempt)| {
            let had = before.attempts.get(id).is_some_and(|attempt| attempt.go_at.is_some());
            attempt.placements.len() > 1 && attempt.go_at.is_some() && !had
        });
        self.seen.gangs += u32::try_from(went.count()).expect("few");
    }

    /// Another replica leads from here on.
    fn new_leader(&mut self) {
        self.world.term = Term::new(self.world.term.get() + 1);
    }

    fn let_time_pass(&mut self) {
        let spans = [
            Span::from_millis(1),
            Span::from_secs(11),
            Span::from_mins(5),
            Span::from_mins(5),
            Span::from_mins(61),
            Span::from_mins(61),
            Span::from_hours(9),
            Span::from_hours(24 * 8),
        ];
        // Most jobs are over within hours.
        let longest = if self.one_in(8) { spans.len() } else { 6 };
        let span = spans[self.below(longest)];
        if self.below(8) == 0 {
            self.world.now = self.world.now.minus(Span::from_secs(30));
        } else {
            self.world.wait(span);
        }
    }
}
