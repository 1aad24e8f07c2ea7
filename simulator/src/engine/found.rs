//! The beginning: a control plane with its tree and its nodes, by the same entries that a real one begins with.

use scheduler_core::apply::apply;
use scheduler_core::command::{Answer, ApplyBudgets, Command, Entry, Found, IssueJoinToken, Join, Outcome};
use scheduler_core::id::{
    ClusterId, Epoch, GpuUuid, Label, LogIndex, Name, NodeId, ReplicaId, Term, TokenHash,
};
use scheduler_core::node::{Facts, GpuFacts};
use scheduler_core::principal::{AccountName, Actor};
use scheduler_core::state::State;
use scheduler_core::unit::{Bytes, Span, Timestamp};

use super::{NodeSetup, Setup};

/// The one term of a run.
pub(super) const TERM: Term = Term::new(1);
/// The one replica.
pub(super) const REPLICA: ReplicaId = ReplicaId::new(1);
/// The control plane that a run makes.
pub(super) const CLUSTER: ClusterId = ClusterId::new([1; 16]);
/// Who submits everything.
const ADMIN: &str = "simulator";
/// As told in the facts of a node, in MiB: no decision looks at it.
const GPU_MEMORY: Bytes = Bytes::new(80 << 30);

/// A state and its log's length.
#[derive(Debug)]
pub(super) struct Log {
    pub state: State,
    pub length: u64,
}

impl Log {
    /// Founds a control plane with the tree and the nodes of a setup; says what was refused.
    pub(super) fn found(setup: &Setup) -> Result<(Self, Vec<NodeId>), String> {
        let mut log = Self { state: State::default(), length: 0 };
        let found = Found {
            cluster: CLUSTER,
            epoch: Epoch::new(1),
            root: setup.tree.name.clone(),
            admin: name(ADMIN)?,
            admin_token: TokenHash::new([1; 32]),
            admin_account: AccountName::new(ADMIN).ok_or("no account")?,
            settings: setup.settings.clone(),
        };
        log.must(setup.begin, Actor::Replica(REPLICA), Command::Found(found))?;
        let mut root = setup.tree.clone();
        root.owner = Some(name(ADMIN)?);
        let base = log.state.meta.tree;
        let budgets = ApplyBudgets { root, base, reason: "the scenario's tree".into(), at: None };
        log.must(setup.begin, person()?, Command::ApplyBudgets(budgets))?;
        let nodes = setup.nodes.iter().enumerate().map(|(at, node)| log.join(setup.begin, at, node));
        let nodes = nodes.collect::<Result<_, _>>()?;
        Ok((log, nodes))
    }

    fn join(&mut self, now: Timestamp, at: usize, node: &NodeSetup) -> Result<NodeId, String> {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&u64::try_from(at).map_err(|_| "too many nodes")?.to_le_bytes());
        bytes[31] = 7;
        let token = TokenHash::new(bytes);
        let permission = IssueJoinToken {
            name: node.name.clone(),
            pool: node.cluster.clone(),
            token,
            expires_at: now.plus(Span::from_hours(1)),
            topology: node.topology.clone(),
        };
        self.must(now, person()?, Command::IssueJoinToken(permission))?;
        let machine = label(&format!("machine-{at}"))?;
        bytes[31] = 8;
        let join = Join { token, name: node.name.clone(), machine, credential: TokenHash::new(bytes) };
        match self.must(now, Actor::Replica(REPLICA), Command::Join(join))? {
            Outcome::Joined { node } => Ok(node),
            other => Err(format!("a join was answered with {other:?}")),
        }
    }

    /// Applies an entry.
    pub(super) fn apply(&mut self, time: Timestamp, actor: Actor, command: Command) -> Answer {
        self.length += 1;
        let entry = Entry { time, actor, via: None, request: None, command };
        apply(&mut self.state, LogIndex::new(self.length), TERM, &entry)
    }

    fn must(&mut self, time: Timestamp, actor: Actor, command: Command) -> Result<Outcome, String> {
        self.apply(time, actor, command).map_err(|refused| match refused.why.is_empty() {
            true => refused.what,
            false => format!("{}: {}", refused.what, refused.why),
        })
    }
}

/// Returns who submits and withdraws jobs.
pub(super) fn person() -> Result<Actor, String> {
    Ok(Actor::Principal(name(ADMIN)?))
}

/// Returns what a node is, in its `boot`th life.
pub(super) fn facts(node: &NodeSetup, boot: u32) -> Result<Facts, String> {
    let gpu = |uuid: GpuUuid| GpuFacts { uuid, model: node.gpu_type.clone(), memory: GPU_MEMORY };
    Ok(Facts {
        boot: label(&format!("boot-{boot}"))?,
        agent: label(env!("CARGO_PKG_VERSION"))?,
        cpus: node.cpus,
        memory: node.memory,
        gpus: uuids(node)?.into_iter().map(gpu).collect(),
        is_simulated: true,
        containment: label("simulated")?,
        trouble: Vec::new(),
        address: None,
    })
}

/// Returns the names of a node's GPUs, by slot.
pub(super) fn uuids(node: &NodeSetup) -> Result<Vec<GpuUuid>, String> {
    let uuid = |at: u32| {
        GpuUuid::new(&format!("GPU-{}-{at}", node.name))
            .ok_or_else(|| format!("{} makes no GPU name", node.name))
    };
    (0..node.gpus).map(uuid).collect()
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|_| format!("`{text}` is no name"))
}

fn label(text: &str) -> Result<Label, String> {
    Label::new(text).map_err(|_| format!("`{text}` is no label"))
}
