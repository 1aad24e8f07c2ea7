//! A short history in which something is left in every table.

use std::sync::Arc;

use scheduler_core::agent::{EndedBy, RankEvent, Report};
use scheduler_core::apply::apply;
use scheduler_core::budget::TreeNode;
use scheduler_core::command::{
    AddPrincipal, ApplyBudgets, Blob, Command, Entry, Found, IssueJoinToken, Join, RequestMark, Submit,
};
use scheduler_core::id::{
    AttemptId, AttemptNo, BodyHash, ClusterId, Epoch, GpuUuid, JobId, LogIndex, NodeId, Rank, ReplicaId,
    RequestId, SpecHash, Term, TokenHash,
};
use scheduler_core::job::Exit;
use scheduler_core::node::{Facts, GpuFacts};
use scheduler_core::plan::{Links, plan};
use scheduler_core::principal::{AccountName, Actor};
use scheduler_core::settings::Settings;
use scheduler_core::spec::{Asks, Request, Shape};
use scheduler_core::state::State;
use scheduler_core::unit::{Bytes, GpuCount, Span, Timestamp};

use crate::sample::{label, name, tree};

const START: u64 = 1_795_972_127_000;
const TERM: Term = Term::new(1);

pub struct History {
    pub state: State,
    index: u64,
}

impl History {
    fn new() -> Self {
        Self { state: State::default(), index: 0 }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millis(START + self.index * 1000)
    }

    pub fn apply(&mut self, actor: Actor, command: Command) {
        self.index += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.index.to_le_bytes());
        let mark = RequestMark { id: RequestId::new(id), made_at: self.time(), body: BodyHash::new([0; 32]) };
        let entry = Entry { time: self.time(), actor, via: None, request: Some(mark), command };
        let answer = apply(&mut self.state, LogIndex::new(self.index), TERM, &entry);
        assert!(answer.is_ok(), "{:?} was refused: {answer:?}", entry.command);
    }

    fn ceo(&mut self, command: Command) {
        self.apply(Actor::Principal(name("ceo")), command);
    }

    fn plan(&mut self) {
        let plan = plan(&self.state, &Links::all_ready(&self.state), self.time(), TERM);
        self.apply(Actor::Replica(ReplicaId::new(1)), Command::Adopt(plan));
    }

    fn report(&mut self, job: u32, event: RankEvent) {
        let attempt = AttemptId { job: JobId::new(job), no: AttemptNo::new(1) };
        let report = Report { attempt, rank: Rank::new(0), at: self.time(), event };
        let node = NodeId::new(1);
        self.apply(Actor::Agent(node), Command::Reports { node, reports: vec![report] });
    }
}

/// Jobs that ended, run and wait, in both tiers; a stray; a permission to join that nobody used.
pub fn history() -> History {
    let mut history = History::new();
    let settings = Settings { allow_simulated: true, ..Settings::default() };
    let account = || AccountName::new("ceo").unwrap();
    history.apply(
        Actor::Replica(ReplicaId::new(1)),
        Command::Found(Found {
            cluster: ClusterId::new([1; 16]),
            epoch: Epoch::new(1),
            root: name("lab"),
            admin: name("ceo"),
            admin_token: TokenHash::new([2; 32]),
            admin_account: account(),
            settings,
        }),
    );
    let base = history.state.meta.tree;
    let root = TreeNode { owner: Some(name("ceo")), ..tree() };
    history.ceo(Command::ApplyBudgets(ApplyBudgets { root, base, reason: "begin".into(), at: None }));
    history.ceo(Command::AddPrincipal(AddPrincipal {
        name: name("ada"),
        token: TokenHash::new([3; 32]),
        account: account(),
        is_operator: false,
    }));
    join(&mut history);
    let next = history.state.meta.next_job.get();
    for (gpus, minimum) in [(2, Some(600)), (1, Some(60)), (1, None), (4, Some(60))] {
        history.ceo(submit(gpus, minimum));
    }
    history.plan();
    history.report(next, RankEvent::Started);
    history.report(next + 1, RankEvent::Started);
    history.report(next + 1, RankEvent::Exited { exit: Exit::Code(3), by: EndedBy::Itself, saved_at: None });
    history.report(next + 1, RankEvent::Freed);
    history.report(next + 2, RankEvent::Started);
    history.report(90_000_000, RankEvent::Unknown { gpus: vec![GpuUuid::new("GPU-3").unwrap()] });
    history.ceo(issue("node-02", 9));
    history
}

fn issue(node: &str, token: u8) -> Command {
    Command::IssueJoinToken(IssueJoinToken {
        name: name(node),
        pool: name("main"),
        token: TokenHash::new([token; 32]),
        expires_at: Timestamp::from_millis(START + 3_600_000),
        topology: Vec::new(),
    })
}

fn join(history: &mut History) {
    history.ceo(issue("node-01", 4));
    let join = Join {
        token: TokenHash::new([4; 32]),
        name: name("node-01"),
        machine: label("m-1"),
        credential: TokenHash::new([5; 32]),
    };
    history.apply(Actor::Replica(ReplicaId::new(1)), Command::Join(join));
    let node = *history.state.nodes.keys().next().unwrap();
    assert_eq!(node, NodeId::new(1));
    let gpu = |slot: u32| GpuFacts {
        uuid: GpuUuid::new(&format!("GPU-{slot}")).unwrap(),
        model: label("NVIDIA H100"),
        memory: Bytes::new(1 << 36),
    };
    let facts = Facts {
        boot: label("b-1"),
        agent: label("0.1.0"),
        cpus: 64,
        memory: Bytes::new(1 << 40),
        gpus: (0..4).map(gpu).collect(),
        is_simulated: true,
        containment: label("process tree"),
        trouble: vec![],
        address: None,
    };
    history.apply(Actor::Agent(node), Command::NodeFacts { node, facts });
}

fn submit(gpus: u32, minimum_secs: Option<u64>) -> Command {
    let request = Request {
        name: label("job"),
        budget: "science".into(),
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
        min_runtime: Some(minimum_secs.map_or(Span::ZERO, Span::from_secs)),
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
    };
    Command::Submit(Submit {
        request,
        launch: Blob { hash: SpecHash::new([6; 32]), bytes: Arc::from(vec![1, 2]) },
    })
}
