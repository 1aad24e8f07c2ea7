//! Random histories: whatever comes in whatever order, every invariant holds, nothing panics, a refusal changes
//! nothing, charge is exact, a fresh plan is adopted whole, and the log alone makes the same state again.

use scheduler_core::agent::{EndedBy, Fault, RankEvent, Report};
use scheduler_core::apply::{advance, broken};
use scheduler_core::budget::{ROOT, tree};
use scheduler_core::command::{Answer, ApplyBudgets, Cancel, Code, Command, Entry, Join, Outcome};
use scheduler_core::id::{AttemptId, AttemptNo, JobId, NodeId, Rank};
use scheduler_core::job::Exit;
use scheduler_core::plan::{Links, plan as real_plan};
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{Bytes, Share, Span};

use crate::random::Random;
use crate::world::{
    REPLICA, TERM, World, facts, join, label, mark, name, person, plan, principal, request, start,
    submission, token,
};

const HISTORIES: u64 = 40;
const STEPS: usize = 160;

struct History {
    world: World,
    random: Random,
    nodes: Vec<NodeId>,
    boots: [u32; 3],
    sent: Vec<(NodeId, Report)>,
    marked: Vec<Entry>,
    /// What jobs were charged that are not in state any more.
    forgotten: u128,
    adopted: u32,
}

#[test]
fn random_histories_keep_every_law() {
    let mut adopted = 0;
    for seed in 0..HISTORIES {
        let mut history = History::new(seed);
        for step in 0..STEPS {
            history.step();
            history.check_charge(&format!("seed {seed} step {step}"));
        }
        let replayed = history.world.replayed();
        assert_eq!(replayed.digest(), history.world.state.digest(), "seed {seed}");
        adopted += history.adopted;
    }
    assert!(adopted > u32::try_from(HISTORIES).expect("few") * 10, "too little happened: {adopted} starts");
}

impl History {
    fn new(seed: u64) -> Self {
        let settings = Settings {
            allow_simulated: true,
            keep_ended: Span::from_mins(20),
            keep_ended_max: 12,
            live_jobs_max: 30,
            ..Settings::default()
        };
        let mut world = World::with(settings);
        let nodes = vec![world.node("n0", 4), world.node("n1", 4), world.node("n2", 2)];
        Self {
            world,
            random: Random::new(seed),
            nodes,
            boots: [1; 3],
            sent: Vec::new(),
            marked: Vec::new(),
            forgotten: 0,
            adopted: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("a small bound");
        usize::try_from(self.random.below(bound)).expect("below a small bound")
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(usize::try_from(bound).expect("small"))).expect("below a small bound")
    }

    fn step(&mut self) {
        match self.below(24) {
            0..4 => self.submit(),
            4..8 => self.adopt_fresh(),
            8 => self.adopt_anything(),
            9..15 => self.report(),
            15 => self.report_again(),
            16 => self.facts(),
            17 => self.contact(),
            18 => self.cancel(),
            19 => self.budgets(),
            20 => self.retry(),
            21 => self.odd(),
            22 => self.run_to_its_end(),
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
        let entry = Entry { time: self.world.now, actor, request, command };
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
            same(&before, &self.world.state);
        }
        left.retain(|(id, _)| !self.world.state.jobs.contains(id));
        self.forgotten += left.iter().map(|(_, charge)| charge).sum::<u128>();
        answer
    }

    fn charges(&self, state: &State) -> Vec<(JobId, u128)> {
        state.jobs.iter().map(|(id, job)| (*id, job.charged.get())).collect()
    }

    /// The root's account is exactly what all jobs were charged, plus what runs now.
    fn check_charge(&self, when: &str) {
        let state = &self.world.state;
        let now = state.meta.time;
        let ended: u128 = self.charges(state).iter().map(|(_, charge)| charge).sum();
        let live = state.attempts.values().filter(|a| a.ended.is_none() && a.tier == Tier::Funded);
        let running: u128 = live
            .filter_map(|a| Some(u128::from(a.rate.get()) * u128::from(now.since(a.go_at?).as_millis())))
            .sum();
        let account = state.books.pool(&name("main")).and_then(|pool| pool.account(ROOT, Tier::Funded));
        let charged = account.map_or(0, |account| account.charged_ever(now).get());
        assert_eq!(charged, self.forgotten + ended + running, "{when}");
    }

    fn submit(&mut self) {
        let gpus = [1, 1, 2, 2, 3, 4, 0, 9][self.below(8)];
        let mut asked = request(gpus);
        asked.name = label(["train", "eval", "sweep"][self.below(3)]);
        let budgets =
            ["lang/post", "lang/post", "lang/pre", "lang/pre", "lab/lang/pre", "vision", "lang", "none"];
        asked.budget = String::from(budgets[self.below(8)]);
        let minimums = [0, 0, 10, 10, 30, 120, 120, 600].map(Span::from_mins);
        asked.min_runtime = (self.below(12) > 0).then_some(minimums[self.below(8)]);
        asked.resumable = [Some(true), Some(false), None][self.below(3)];
        asked.requeue_code = (self.below(3) == 0).then_some(75);
        asked.retries = u16::try_from(self.below(3)).expect("small");
        asked.checkpoint_every = (self.below(3) == 0).then_some(Span::from_mins(15));
        asked.shape.cpus = (self.below(4) == 0).then_some(16);
        asked.shape.memory = (self.below(8) == 0).then_some(Bytes::new(100 << 30));
        asked.is_held = self.below(10) == 0;
        let who = ["bob", "bob", "bob", "bob", "ada", "ada", "eve", "mallory"][self.below(8)];
        let _ = self.apply(person(who), submission(asked));
    }

    /// The planner's own plan, made from the very state that it is applied to, holds whole.
    fn adopt_fresh(&mut self) {
        advance(&mut self.world.state, self.world.now);
        let state = &self.world.state;
        let fresh = real_plan(state, &Links::all_ready(state), self.world.now, TERM);
        let count = u32::try_from(fresh.decisions.len()).expect("at most 256");
        match self.apply(REPLICA, Command::Adopt(fresh.clone())) {
            Ok(Outcome::Adopted { adopted, dropped }) => {
                assert_eq!((adopted, dropped), (count, Vec::new()), "{fresh:?}");
                self.adopted += adopted;
            }
            refused => {
                assert_eq!(refused.expect_err("a plan is adopted or refused").code, Code::SafeMode);
            }
        }
    }

    fn adopt_anything(&mut self) {
        let mut decisions = Vec::new();
        for _ in 0..self.below(6) {
            let job = JobId::new(self.small(self.world.state.meta.next_job.get() + 2));
            let planned = self.world.state.jobs.get(&job).map_or(AttemptNo::new(1), |job| job.next_attempt);
            let no = if self.below(5) == 0 { AttemptNo::new(u16::MAX) } else { planned };
            let node = NodeId::new(self.small(6));
            let slots: Vec<u16> =
                (0..self.below(4)).map(|_| u16::try_from(self.below(6)).expect("small")).collect();
            decisions.push(start(job, no, node, &slots));
        }
        let _ = self.apply(REPLICA, Command::Adopt(plan(decisions)));
    }

    fn some_attempt(&mut self) -> (NodeId, AttemptId) {
        let live: Vec<(NodeId, AttemptId)> =
            self.world.state.attempts.iter().map(|(id, a)| (a.placements[0].node, *id)).collect();
        let at = self.below(self.nodes.len());
        let node = self.nodes[at];
        if live.is_empty() || self.below(6) == 0 {
            let job = JobId::new(self.small(30));
            return (
                node,
                AttemptId { job, no: AttemptNo::new(u16::try_from(self.below(4)).expect("small")) },
            );
        }
        let (at, attempt) = live[self.below(live.len())];
        if self.below(12) == 0 { (node, attempt) } else { (at, attempt) }
    }

    fn event(&mut self) -> RankEvent {
        let exit = [Exit::Code(0), Exit::Code(1), Exit::Code(75), Exit::Signal(9), Exit::Unknown];
        let by = [EndedBy::Itself, EndedBy::Itself, EndedBy::TimeLimit, EndedBy::Stop, EndedBy::Reboot];
        match self.below(10) {
            0..3 => RankEvent::Started,
            3..6 => RankEvent::Exited { exit: exit[self.below(5)], by: by[self.below(5)], saved_at: None },
            6 => {
                let fault = [Fault::Node, Fault::Job { code: 127 }][self.below(2)];
                RankEvent::LaunchFailed { fault, what: String::from("it did not start") }
            }
            7 => {
                let known = self.world.state.nodes.values().flat_map(|node| &node.gpus);
                let uuids: Vec<_> = known.map(|gpu| gpu.uuid.clone()).collect();
                let from = self.below(uuids.len());
                RankEvent::Unknown { gpus: uuids.into_iter().skip(from).take(2).collect() }
            }
            _ => RankEvent::Freed,
        }
    }

    fn report(&mut self) {
        let (node, attempt) = self.some_attempt();
        let mut reports = Vec::new();
        for _ in 0..=self.below(3) {
            let late = Span::from_secs(u64::from(self.small(1_200)));
            let now = self.world.now;
            let at = [now, now.minus(late), now.plus(late)][self.below(3)];
            let rank = Rank::new(u16::from(self.below(20) == 0));
            let report = Report { attempt, rank, at, event: self.event() };
            self.sent.push((node, report.clone()));
            reports.push(report);
        }
        let command = Command::Reports { node, reports };
        if self.below(3) == 0 {
            let _ = self.apply(REPLICA, Command::Batch(vec![(Actor::Agent(node), command)]));
        } else {
            let _ = self.apply(Actor::Agent(node), command);
        }
    }

    fn report_again(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = self.below(self.sent.len());
        let (node, report) = self.sent[at].clone();
        let _ = self.apply(Actor::Agent(node), Command::Reports { node, reports: vec![report] });
    }

    fn facts(&mut self) {
        let at = self.below(3);
        let node = self.nodes[at];
        if self.below(3) == 0 {
            self.boots[at] += 1;
        }
        let gpus = [4, 4, 2][at] + self.small(2);
        let mut facts = facts(&format!("n{at}"), &format!("boot-{}", self.boots[at]), gpus);
        if self.below(3) == 0 {
            let lost = self.below(facts.gpus.len());
            facts.gpus.remove(lost);
        }
        let other = self.below(3);
        let speaker = if self.below(10) == 0 { self.nodes[other] } else { node };
        let _ = self.apply(Actor::Agent(speaker), Command::NodeFacts { node, facts });
    }

    fn contact(&mut self) {
        let node = NodeId::new(self.small(5));
        let command =
            if self.below(3) == 0 { Command::NodeUnreachable { node } } else { Command::NodeBack { node } };
        let _ = self.apply(REPLICA, command);
    }

    fn cancel(&mut self) {
        let job = JobId::new(self.small(self.world.state.meta.next_job.get() + 1));
        let reason = String::from(["", "not needed any more"][self.below(2)]);
        let who = ["bob", "eve", "ada"][self.below(3)];
        let cancel = Cancel { job, is_now: self.below(2) == 0, reason };
        let _ = self.apply(person(who), Command::Cancel(cancel));
    }

    fn budgets(&mut self) {
        let mut root = tree(&self.world.state).expect("it was founded");
        let base = self.world.state.meta.tree;
        let ppm = 100_000 * self.small(6);
        let count = root.children.len();
        match self.below(6) {
            0 if count > 1 => {
                root.children.remove(self.below(count));
            }
            1..4 => {
                let mut back = crate::world::tree();
                root.children = core::mem::take(&mut back.children);
            }
            _ if count > 0 => {
                let at = self.below(count);
                root.children[at].share = Share::from_ppm(ppm).expect("at most 60 %");
            }
            _ => {}
        }
        let who = ["ada", "eve"][self.below(2)];
        let budgets = ApplyBudgets { root, base, reason: String::from("a change") };
        let _ = self.apply(person(who), Command::ApplyBudgets(budgets));
    }

    fn retry(&mut self) {
        if self.marked.is_empty() {
            return;
        }
        let at = self.below(self.marked.len());
        let again = self.marked[at].clone();
        let _ = self.entry(Entry { time: self.world.now, ..again });
    }

    fn odd(&mut self) {
        let end = || Command::EndSafeMode { reason: String::from("looked at it") };
        match self.below(7) {
            0 => {
                let rejoined = Join { credential: token("copied"), ..join("n0") };
                let _ = self.apply(REPLICA, Command::Join(rejoined));
            }
            1 => {
                let _ = self.apply(REPLICA, Command::Join(join("n1")));
            }
            2 => {
                let _ = self.apply(person("ada"), Command::RevokePrincipal { name: name("bob") });
            }
            3 => {
                let mut bob = principal("bob");
                bob.token = token(&format!("bob-{}", self.world.log.len()));
                let _ = self.apply(person("ada"), Command::AddPrincipal(bob));
            }
            4 => {
                // As the shell does after a panic; the replay must do the same, so only the mode's end is kept.
                let mut copy = self.world.state.clone();
                let index = copy.meta.index;
                assert!(broken(&mut copy, index, self.world.now, "a panic").is_err());
            }
            5 => {
                let _ = self.apply(person("mallory"), end());
            }
            _ => {
                let _ = self.apply(person("ada"), end());
            }
        }
    }

    /// An attempt does what good attempts do, so that jobs come to their ends.
    fn run_to_its_end(&mut self) {
        let (node, attempt) = self.some_attempt();
        let exit = RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None };
        for event in [RankEvent::Started, exit, RankEvent::Freed] {
            let (rank, at) = (Rank::new(0), self.world.now);
            let reports = vec![Report { attempt, rank, at, event }];
            let _ = self.apply(Actor::Agent(node), Command::Reports { node, reports });
            self.world.wait(Span::from_secs(7));
        }
    }

    fn let_time_pass(&mut self) {
        let spans = [
            Span::from_millis(1),
            Span::from_secs(11),
            Span::from_mins(5),
            Span::from_mins(61),
            Span::from_hours(9),
            Span::from_hours(24 * 8),
        ];
        let span = spans[self.below(spans.len())];
        if self.below(8) == 0 {
            self.world.now = self.world.now.minus(Span::from_secs(30));
        } else {
            self.world.wait(span);
        }
    }
}

/// A refusal leaves everything but marks, alarms and the answer itself.
fn same(before: &State, after: &State) {
    assert_eq!(before.budgets, after.budgets);
    assert_eq!(before.principals, after.principals);
    assert_eq!(before.join_tokens, after.join_tokens);
    assert_eq!(before.nodes, after.nodes);
    assert_eq!(before.jobs, after.jobs);
    assert_eq!(before.attempts, after.attempts);
    assert_eq!(before.books, after.books);
    assert_eq!(before.launches, after.launches);
    assert_eq!(before.decisions, after.decisions);
    assert_eq!(before.strays, after.strays);
    assert_eq!(before.line, after.line);
    assert_eq!(before.ended, after.ended);
    assert_eq!(before.meta.next_job, after.meta.next_job);
}
