//! Leader, log, planner and agents in one closed loop and virtual time: the real ones, joined by a queue that delays,
//! loses and repeats. Whatever goes wrong, every law holds, no GPU has two running ranks, and nobody who could start
//! waits for long; once nothing goes wrong any more, everything comes to its end.

mod machines;
mod run;

use std::ops::Range;

use scheduler_core::command::{Cancel, Command, DrainNode, JobWord, NodeWord};
use scheduler_core::id::{JobId, NodeId};
use scheduler_core::job::Phase;
use scheduler_core::node::{Contact, Urgency};
use scheduler_core::plan::plan;
use scheduler_core::spec::{Request, Turn};
use scheduler_core::unit::{GpuCount, Span};

use crate::random::Random;
use crate::world::{BEGIN, person, request, submission};
use run::{Due, Run};

/// Runs without and with faults.
const CALM: u64 = 3;
const ROUGH: u64 = 5;
/// Seeds that once broke a law.
const KEPT: &[u64] = &[];

/// Names seeds to run besides, as in `1000..1020`, each without and with faults.
const SEEDS: &str = "BURSAR_LOOP_SEEDS";

/// Somebody who could start has to, within this: the time between two looks at rights, and a little.
const COULD_MAX: Span = Span::from_secs(15);
/// What is told by time alone is told within this.
const LATE_MAX: Span = Span::from_secs(10);

impl Run {
    fn has_faults(&self) -> bool {
        self.now() < self.faults_until
    }

    fn words(&mut self, who: &str, command: Command) {
        self.entry(person(who), command);
    }

    fn person(&mut self) {
        if self.now() < self.people_until {
            match self.below(16) {
                0..8 => self.submit(),
                8 => self.of_some_job(|job| Command::Cancel(Cancel { job, is_now: false, reason: why() })),
                9 | 10 => self.of_some_job(|job| Command::Requeue(JobWord { job, reason: why() })),
                11 => self.of_some_job(|job| Command::Hold(JobWord { job, reason: why() })),
                12 => self.of_some_job(|job| Command::Release(JobWord { job, reason: why() })),
                13 => self.drain(),
                14 => {
                    let node = self.some_node();
                    self.words("ada", Command::Cordon(NodeWord { node, reason: why() }));
                }
                _ => self.repair(),
            }
        } else {
            self.repair();
            self.release_all();
        }
        let later = Span::from_millis(500 + self.below(20_000));
        self.at(later, Due::Person);
    }

    fn submit(&mut self) {
        for _ in 0..=self.below(2) {
            let mut asked = request(*self.random.pick(&[1, 1, 2, 2, 3, 4]));
            asked.shape.nodes = *self.random.pick(&[1, 1, 1, 2, 3]);
            if asked.shape.nodes == 3 {
                asked.shape.gpus_per_node = GpuCount::new(2);
            }
            let (who, budget) =
                *self.random.pick(&[("bob", "lang/post"), ("bob", "lang/pre"), ("eve", "vision")]);
            asked.budget = String::from(budget);
            asked.min_runtime = Some(Span::from_secs(*self.random.pick(&[0, 0, 1, 30, 120])));
            asked.resumable = Some(!self.random.one_in(5));
            asked.shape.cpus = self.random.one_in(8).then_some(16);
            asked.turn = *self.random.pick(&[None, Some(Turn::First), Some(Turn::Last)]);
            self.words(who, submission(Request { retries: 1, ..asked }));
        }
    }

    fn of_some_job(&mut self, word: impl FnOnce(JobId) -> Command) {
        let jobs: Vec<JobId> = self.state().jobs.keys().copied().collect();
        if !jobs.is_empty() {
            let job = *self.random.pick(&jobs);
            self.words("ada", word(job));
        }
    }

    fn some_node(&mut self) -> NodeId {
        let nodes: Vec<NodeId> = self.machines.keys().copied().collect();
        *self.random.pick(&nodes)
    }

    fn drain(&mut self) {
        let node = self.some_node();
        let soon = self.now().plus(Span::from_secs(60));
        let urgency = *self.random.pick(&[Urgency::Normal, Urgency::Now, Urgency::Deadline(soon)]);
        let begins_at = self.random.one_in(3).then(|| self.now().plus(Span::from_secs(40)));
        self.words("ada", Command::Drain(DrainNode { node, urgency, begins_at, reason: why() }));
    }

    fn repair(&mut self) {
        let nodes: Vec<NodeId> = self.machines.keys().copied().collect();
        for node in nodes {
            if self.state().nodes.get(&node).is_some_and(|node| node.drain.is_some()) {
                self.words("ada", Command::Undrain(NodeWord { node, reason: why() }));
            }
            if self.state().nodes.get(&node).is_some_and(|node| node.cordon.is_some()) {
                self.words("ada", Command::Uncordon(NodeWord { node, reason: why() }));
            }
        }
    }

    fn release_all(&mut self) {
        let held = |(id, job): (&JobId, &scheduler_core::job::Job)| {
            matches!(job.phase, Phase::Held { .. }).then_some(*id)
        };
        let held: Vec<JobId> = self.state().jobs.iter().filter_map(held).collect();
        for job in held {
            self.words("ada", Command::Release(JobWord { job, reason: why() }));
        }
    }

    fn fault(&mut self) {
        if !self.has_faults() {
            return;
        }
        let node = self.some_node();
        match self.below(9) {
            0 | 1 => self.cut(node),
            2 => {
                self.hide(node, Some(0));
                let later = Span::from_secs(1 + self.below(90));
                self.at(later, Due::Answers(node));
            }
            3 | 8 => {
                let away = Span::from_secs(*self.random.pick(&[5, 40, 150]));
                let until = self.now().plus(away);
                self.machine(node).away_until = until;
                self.cut(node);
            }
            4 | 5 => {
                self.cut(node);
                self.machine(node).stop_agent();
                let later = Span::from_millis(100 + self.below(10_000));
                self.at(later, Due::StartAgent(node));
            }
            6 => {
                self.cut(node);
                self.machine(node).reboot();
                let later = Span::from_millis(5_000 + self.below(60_000));
                self.at(later, Due::StartAgent(node));
            }
            _ => self.change_leader(),
        }
        let later = Span::from_millis(500 + self.below(60_000));
        self.at(later, Due::Fault);
    }

    fn machine(&mut self, node: NodeId) -> &mut machines::Machine {
        self.machines.get_mut(&node).expect("a known node")
    }

    /// What has to hold at any moment, told from outside.
    fn look(&mut self) {
        let (now, seed) = (self.now(), self.seed);
        let made = plan(self.state(), &self.leader.links(self.state(), now), now, self.world.term);
        let is_open = made.decisions.is_empty();
        let since = if is_open { None } else { Some(self.could_since.unwrap_or(now)) };
        self.could_since = since;
        let waited = since.map_or(Span::ZERO, |since| now.since(since));
        assert!(waited <= COULD_MAX, "seed {seed} at {}: {:?} could start", now.since(BEGIN), made.decisions);
        self.check_attempts();
        self.at(Span::from_secs(1), Due::Look);
    }

    fn check_attempts(&self) {
        let (now, seed) = (self.now(), self.seed);
        for (id, attempt) in self.state().attempts.iter() {
            let when = || format!("seed {seed} at {}: {id} {attempt:?}", now.since(BEGIN));
            if attempt.go_at.is_none() {
                assert!(attempt.ended.is_none() && now <= attempt.start_by.plus(LATE_MAX), "{}", when());
            }
            let is_out = attempt.placements.iter().any(|placement| {
                let is_ready = self
                    .state()
                    .nodes
                    .get(&placement.node)
                    .is_some_and(|node| node.contact == Contact::Ready);
                let machine = &self.machines[&placement.node];
                !is_ready || machine.session.is_none() || now < machine.away_until.plus(LATE_MAX)
            });
            if is_out || now < self.faults_until.plus(Span::from_mins(4)) {
                continue;
            }
            if let Some(stop) = &attempt.stop {
                assert!(now <= stop.killed_at().plus(LATE_MAX), "{}", when());
            }
            if attempt.started_at.is_none() && attempt.ended.is_none() {
                assert!(now <= attempt.start_by.plus(LATE_MAX), "{}", when());
            }
        }
    }

    fn is_over(&self) -> bool {
        let has_ended = |job: &scheduler_core::job::Job| job.phase.is_ended();
        self.state().jobs.values().all(has_ended) && self.state().attempts.is_empty()
    }

    /// Everything came to its end, and nothing is left behind.
    fn check_end(&self) {
        let seed = self.seed;
        for (id, job) in self.state().jobs.iter() {
            assert!(job.phase.is_ended(), "seed {seed}: {id} is {job:?}");
        }
        assert!(self.state().attempts.is_empty() && self.state().strays.is_empty(), "seed {seed}");
        let mut gpus = self.state().nodes.values().flat_map(|node| &node.gpus);
        assert!(gpus.all(|gpu| gpu.holder.is_none() && gpu.next.is_none()), "seed {seed}");
    }
}

fn why() -> String {
    String::from("somebody said so")
}

fn asked() -> Range<u64> {
    let asked = std::env::var(SEEDS).unwrap_or_default();
    let ends: Vec<u64> = asked.split("..").filter_map(|end| end.parse().ok()).collect();
    if let [first, end] = ends[..] { first..end } else { 0..0 }
}

fn run(seed: u64, faults: Span) -> Run {
    println!("seed {seed}: {SEEDS}={seed}..{} cargo test -p scheduler-core --test it loop_", seed + 1);
    let mut run = Run::new(seed, faults);
    run.until(run.people_until.max(run.faults_until));
    let end = BEGIN.plus(Span::from_hours(3));
    while run.now() < end && !run.is_over() {
        run.until(run.now().plus(Span::from_mins(1)));
    }
    run.check_end();
    run
}

#[test]
fn without_faults_everybody_starts_soon_and_nobody_gives_way_in_vain() {
    let (mut adopted, mut bills) = (0, 0);
    for seed in (0..CALM).chain(asked()) {
        let run = run(seed, Span::ZERO);
        let wasted = run.state().bills.values().filter(|bill| bill.is_wasted == Some(true)).count();
        assert_eq!(wasted, 0, "seed {seed}");
        adopted += run.adopted;
        bills += run.state().bills.len();
    }
    assert!(adopted > 100 && bills > 10, "too little happened: {adopted} {bills}");
}

#[test]
fn whatever_goes_wrong_every_law_holds_and_everything_ends_once_nothing_does() {
    let mut adopted = 0;
    for seed in KEPT.iter().copied().chain(1_000..1_000 + ROUGH).chain(asked()) {
        adopted += run(seed, Span::from_mins(15)).adopted;
    }
    assert!(adopted > 100, "too little happened: {adopted}");
}

#[test]
fn neighbouring_seeds_are_different_streams() {
    let first = |seed| {
        let mut random = Random::new(seed);
        [random.next(), random.next(), random.next()]
    };
    assert!(first(1)[1..].iter().all(|number| !first(2).contains(number)));
}
