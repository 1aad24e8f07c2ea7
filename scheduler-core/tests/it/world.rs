//! A control plane that lives by its log alone: every change is an entry, kept for replay.

use std::sync::Arc;

use scheduler_core::agent::{EndedBy, Fault, RankEvent, Report};
use scheduler_core::apply::apply;
use scheduler_core::budget::TreeNode;
use scheduler_core::command::{
    AddPrincipal, Answer, ApplyBudgets, Blob, Cancel, Code, Command, Entry, Found, IssueJoinToken, Join,
    Outcome, RequestMark, Submit,
};
use scheduler_core::decision::{Basis, Dropped, Plan, Price, Right, Start, Take, Why};
use scheduler_core::id::{
    AttemptId, AttemptNo, BodyHash, ClusterId, Epoch, Generation, GpuUuid, JobId, Label, LogIndex, Name,
    NodeId, Rank, ReplicaId, RequestId, Slot, SpecHash, Term, TokenHash,
};
use scheduler_core::invariants;
use scheduler_core::job::{Attempt, Exit, Job, Phase};
use scheduler_core::node::{Facts, GpuFacts};
use scheduler_core::plan::{self, Known, Links};
use scheduler_core::principal::{AccountName, Actor};
use scheduler_core::settings::Settings;
use scheduler_core::spec::{Asks, ContractDefaults, Request, Shape};
use scheduler_core::state::State;
use scheduler_core::unit::{Bytes, GpuCount, MilliGpus, Share, Span, Timestamp};

pub const TERM: Term = Term::new(1);
pub const BEGIN: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub fn name(text: &str) -> Name {
    Name::new(text).expect("tests use names that are names")
}

pub fn label(text: &str) -> Label {
    Label::new(text).expect("tests use labels that are labels")
}

pub fn token(text: &str) -> TokenHash {
    let mut bytes = [0; 32];
    for (byte, letter) in bytes.iter_mut().zip(text.bytes()) {
        *byte = letter;
    }
    TokenHash::new(bytes)
}

pub fn person(text: &str) -> Actor {
    Actor::Principal(name(text))
}

pub const REPLICA: Actor = Actor::Replica(ReplicaId::new(1));

/// A state and the log that it came from.
#[derive(Clone)]
pub struct World {
    pub state: State,
    pub log: Vec<Entry>,
    /// The term of each entry.
    pub terms: Vec<Term>,
    pub term: Term,
    pub now: Timestamp,
    /// What earlier rounds knew.
    pub known: Known,
}

impl World {
    /// Founded by `ada`, with the tree `lang` (60 %, member `bob`), `lang`'s leaves `post` (50 %) and `pre` (50 %),
    /// and `vision` (30 %, owner `eve`), `none` (0 %, member `bob`).
    pub fn new() -> Self {
        Self::with(Settings { allow_simulated: true, ..Settings::default() })
    }

    /// In which nobody gets a date.
    pub fn undated() -> Self {
        Self::with(Settings { allow_simulated: true, dates: false, ..Settings::default() })
    }

    /// Before its founding.
    pub fn empty() -> Self {
        Self {
            state: State::default(),
            log: Vec::new(),
            terms: Vec::new(),
            term: TERM,
            now: BEGIN,
            known: Known::default(),
        }
    }

    pub fn with(settings: Settings) -> Self {
        let mut world = Self::empty();
        world.must(REPLICA, Command::Found(found(settings)));
        for who in ["bob", "eve", "mallory"] {
            world.must(person("ada"), Command::AddPrincipal(principal(who)));
        }
        let root = tree();
        let base = world.state.meta.tree;
        let budgets = ApplyBudgets { root, base, reason: String::from("the first tree"), at: None };
        world.must(person("ada"), Command::ApplyBudgets(budgets));
        world
    }

    pub fn apply(&mut self, actor: Actor, command: Command) -> Answer {
        self.entry(Entry { time: self.now, actor, via: None, request: None, command })
    }

    pub fn entry(&mut self, entry: Entry) -> Answer {
        let index = LogIndex::new(u64::try_from(self.log.len()).expect("a log of a test is short") + 1);
        let answer = apply(&mut self.state, index, self.term, &entry);
        self.log.push(entry);
        self.terms.push(self.term);
        // A debug build has done that already.
        if !cfg!(debug_assertions) || !invariants::is_worth_checking(&self.state) {
            invariants::check_all(&self.state)
                .unwrap_or_else(|broken| panic!("after entry {index}: {broken}"));
        }
        answer
    }

    pub fn must(&mut self, actor: Actor, command: Command) -> Outcome {
        let shown = format!("{command:?}");
        self.apply(actor, command).unwrap_or_else(|refused| panic!("{shown}: {refused:?}"))
    }

    /// Applies a command that is refused, which must change nothing but the entry's own marks.
    pub fn refused(&mut self, actor: Actor, command: Command) -> Code {
        let before = self.state.clone();
        let code = self.apply(actor, command).expect_err("it is refused").code;
        assert_eq!(before.jobs, self.state.jobs);
        assert_eq!(before.nodes, self.state.nodes);
        assert_eq!(before.budgets, self.state.budgets);
        code
    }

    pub fn wait(&mut self, span: Span) -> &mut Self {
        self.now = self.now.plus(span);
        self
    }

    /// A node with `gpus` H100, eight cores and 64 GiB a GPU.
    pub fn node(&mut self, text: &str, gpus: u32) -> NodeId {
        self.node_in("main", text, gpus)
    }

    /// The same in a cluster.
    pub fn node_in(&mut self, cluster: &str, text: &str, gpus: u32) -> NodeId {
        let permission = IssueJoinToken {
            name: name(text),
            pool: name(cluster),
            token: token(text),
            expires_at: self.now.plus(Span::from_hours(1)),
            topology: Vec::new(),
        };
        self.must(person("ada"), Command::IssueJoinToken(permission));
        let Outcome::Joined { node } = self.must(REPLICA, Command::Join(join(text))) else {
            panic!("a join is answered with the node's number")
        };
        self.must(Actor::Agent(node), Command::NodeFacts { node, facts: facts(text, "boot-1", gpus) });
        node
    }

    pub fn submit(&mut self, who: &str, request: Request) -> JobId {
        match self.must(person(who), submission(request)) {
            Outcome::Submitted { job } => job,
            other => panic!("a submission is answered with a number, not {other:?}"),
        }
    }

    /// Places a job by a plan of its own; panics if it is dropped.
    pub fn place(&mut self, job: JobId, node: NodeId, slots: &[u16]) -> AttemptId {
        let no = self.job(job).next_attempt;
        assert_eq!(self.try_place(job, no, node, slots), None);
        AttemptId { job, no }
    }

    pub fn try_place(&mut self, job: JobId, no: AttemptNo, node: NodeId, slots: &[u16]) -> Option<Dropped> {
        let plan = plan(vec![start(job, no, node, slots)]);
        match self.must(REPLICA, Command::Adopt(plan)) {
            Outcome::Adopted { dropped, .. } => dropped.first().map(|(_, why)| *why),
            other => panic!("a plan is answered with what was adopted, not {other:?}"),
        }
    }

    /// Places a job by a plan of its own, over several nodes or in place of others; says why not, if it is dropped.
    pub fn try_start(
        &mut self,
        job: JobId,
        on: &[(NodeId, &[u16])],
        takes: &[(AttemptId, Right)],
    ) -> Option<Dropped> {
        let start = self.start_of(job, on, takes);
        match self.must(REPLICA, Command::Adopt(plan(vec![start]))) {
            Outcome::Adopted { dropped, .. } => dropped.first().map(|(_, why)| *why),
            other => panic!("a plan is answered with what was adopted, not {other:?}"),
        }
    }

    /// Places a job as [`World::try_start`] does; panics if it is dropped.
    pub fn start(&mut self, job: JobId, on: &[(NodeId, &[u16])], takes: &[(AttemptId, Right)]) -> AttemptId {
        let no = self.job(job).next_attempt;
        assert_eq!(self.try_start(job, on, takes), None);
        AttemptId { job, no }
    }

    /// A decision with the numbers that state has now.
    pub fn start_of(&self, job: JobId, on: &[(NodeId, &[u16])], takes: &[(AttemptId, Right)]) -> Start {
        let on = on.iter().map(|(node, slots)| (*node, slots.iter().map(|slot| Slot::new(*slot)).collect()));
        let take = |(id, right): &(AttemptId, Right)| {
            let attempt = self.state.attempts.get(id);
            let generation = attempt.map_or(Generation::new(1), |attempt| attempt.placements[0].generation);
            Take { attempt: *id, generation, right: *right, price: price(), gpus: 1 }
        };
        Start {
            job,
            attempt: self.job(job).next_attempt,
            on: on.collect(),
            takes: takes.iter().map(take).collect(),
            why: Why { place: 1, levels: Vec::new(), choice: None, date: None },
        }
    }

    pub fn attempt(&self, attempt: AttemptId) -> &Attempt {
        self.state.attempts.get(&attempt).expect("the attempt is in state")
    }

    pub fn report(&mut self, node: NodeId, attempt: AttemptId, event: RankEvent) {
        let at = self.now;
        self.report_at(node, attempt, event, at);
    }

    pub fn rank(&mut self, node: NodeId, attempt: AttemptId, rank: u16, event: RankEvent) {
        let reports = vec![Report { attempt, rank: Rank::new(rank), at: self.now, event }];
        self.must(Actor::Agent(node), Command::Reports { node, reports });
    }

    pub fn report_at(&mut self, node: NodeId, attempt: AttemptId, event: RankEvent, at: Timestamp) {
        let reports = vec![Report { attempt, rank: Rank::new(0), at, event }];
        self.must(Actor::Agent(node), Command::Reports { node, reports });
    }

    pub fn exit(&mut self, node: NodeId, attempt: AttemptId, code: u8) {
        let event = RankEvent::Exited { exit: Exit::Code(code), by: EndedBy::Itself, saved_at: None };
        self.report(node, attempt, event);
    }

    pub fn cancel(&mut self, who: &str, job: JobId, reason: &str) -> Answer {
        let cancel = Cancel { job, is_now: false, reason: String::from(reason) };
        self.apply(person(who), Command::Cancel(cancel))
    }

    pub fn job(&self, job: JobId) -> &Job {
        self.state.jobs.get(&job).expect("the job is in state")
    }

    pub fn phase(&self, job: JobId) -> &Phase {
        &self.job(job).phase
    }

    /// Applies the whole log again from nothing.
    pub fn replayed(&self) -> State {
        let mut state = State::default();
        for (index, (entry, term)) in (1u64..).zip(self.log.iter().zip(&self.terms)) {
            // Answers were checked the first time.
            let _ = apply(&mut state, LogIndex::new(index), *term, entry);
        }
        state
    }
}

pub fn found(settings: Settings) -> Found {
    Found {
        cluster: ClusterId::new([7; 16]),
        epoch: Epoch::new(1),
        root: name("lab"),
        admin: name("ada"),
        admin_token: token("ada"),
        admin_account: AccountName::new("ada").expect("an account's name"),
        settings,
    }
}

pub fn principal(who: &str) -> AddPrincipal {
    AddPrincipal {
        name: name(who),
        token: token(who),
        account: AccountName::new(who).expect("an account's name"),
        is_operator: false,
    }
}

pub fn tree() -> TreeNode {
    let leaf = |text: &str, percent: u32| TreeNode {
        pools: Default::default(),
        name: name(text),
        share: Share::from_ppm(percent * 10_000).expect("at most the whole"),
        owner: None,
        members: [name("bob")].into(),
        defaults: ContractDefaults::default(),
        children: Vec::new(),
    };
    let lang = TreeNode { children: vec![leaf("post", 50), leaf("pre", 50)], ..leaf("lang", 60) };
    let vision = TreeNode { owner: Some(name("eve")), members: [].into(), ..leaf("vision", 30) };
    TreeNode {
        owner: Some(name("ada")),
        members: [].into(),
        children: vec![lang, vision, leaf("none", 0)],
        ..leaf("lab", 100)
    }
}

pub fn join(text: &str) -> Join {
    Join {
        token: token(text),
        name: name(text),
        machine: label(&format!("machine-{text}")),
        credential: token(&format!("credential-{text}")),
    }
}

pub fn facts(text: &str, boot: &str, gpus: u32) -> Facts {
    let gpu = |at: u32| GpuFacts {
        uuid: GpuUuid::new(&format!("GPU-{text}-{at}")).expect("a UUID"),
        model: label("NVIDIA H100 80GB HBM3"),
        memory: Bytes::new(80 << 30),
    };
    Facts {
        boot: label(boot),
        agent: label("0.1.0"),
        cpus: 8 * gpus,
        memory: Bytes::new(u64::from(gpus) * (64 << 30)),
        gpus: (0..gpus).map(gpu).collect(),
        is_simulated: true,
        containment: label("cgroup"),
        trouble: Vec::new(),
        address: None,
    }
}

/// One hour of protection in `lang/post`.
pub fn request(gpus: u32) -> Request {
    Request {
        name: label("train"),
        budget: String::from("lang/post"),
        cluster: None,
        shape: Shape {
            nodes: 1,
            gpus_per_node: GpuCount::new(gpus),
            gpu_type: None,
            cpus: None,
            memory: None,
            or_types: Vec::new(),
            within: None,
        },
        min_runtime: Some(Span::from_hours(1)),
        time_limit: None,
        resumable: Some(true),
        grace: None,
        signal: None,
        checkpoint_every: None,
        checkpoint_glob: None,
        requeue_code: None,
        retries: 0,
        turn: None,
        is_held: false,
        asks: Asks::default(),
    }
}

pub fn submission(request: Request) -> Command {
    let bytes: Arc<[u8]> = request.name.as_str().as_bytes().into();
    let mut hash = [0; 32];
    for (byte, letter) in hash.iter_mut().zip(bytes.iter()) {
        *byte = *letter;
    }
    Command::Submit(Submit { request, launch: Blob { hash: SpecHash::new(hash), bytes } })
}

pub fn start(job: JobId, attempt: AttemptNo, node: NodeId, slots: &[u16]) -> Start {
    let slots = slots.iter().map(|slot| Slot::new(*slot)).collect();
    Start {
        job,
        attempt,
        on: vec![(node, slots)],
        takes: Vec::new(),
        why: Why { place: 1, levels: Vec::new(), choice: None, date: None },
    }
}

/// What choosing a victim counted, where a test doesn't care.
pub fn price() -> Price {
    Price {
        rate: MilliGpus::new(1_000),
        lost: Span::ZERO,
        restart: Span::from_mins(5),
        preemptions: 0,
        saved_at: None,
        basis: Basis::Unknown,
    }
}

pub fn ended(exit: Exit, by: EndedBy) -> RankEvent {
    RankEvent::Exited { exit, by, saved_at: None }
}

/// The plan of one round, which is the same with what earlier rounds knew and without.
pub fn planned(known: &mut Known, state: &State, links: &Links, now: Timestamp, term: Term) -> Plan {
    let made = plan::plan_on(known, state, links, now, term);
    assert_eq!(made, plan::plan(state, links, now, term), "what earlier rounds knew is no more so");
    made
}

pub fn plan(decisions: Vec<Start>) -> Plan {
    Plan { term: TERM, index: LogIndex::new(0), decisions, dates: Vec::new() }
}

pub fn mark(id: u8, made_at: Timestamp, body: u8) -> RequestMark {
    RequestMark { id: RequestId::new([id; 16]), made_at, body: BodyHash::new([body; 32]) }
}

pub fn launch_failed(fault: Fault) -> RankEvent {
    RankEvent::LaunchFailed { fault, what: String::from("GPU 0 is not empty") }
}

pub fn attempt(job: JobId, no: u16) -> AttemptId {
    AttemptId { job, no: AttemptNo::new(no) }
}
