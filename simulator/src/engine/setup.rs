//! All that a run depends on.

use std::sync::Arc;

use scheduler_core::budget::TreeNode;
use scheduler_core::id::{Label, Name};
use scheduler_core::settings::Settings;
use scheduler_core::spec::{Asks, Request, Shape};
use scheduler_core::unit::{Bytes, GpuCount, Span, Timestamp};

use crate::record::JobEnd;

/// A run before it begins. Every chance is drawn.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The scenario's name.
    pub scenario: String,
    /// What is different from the scenario, as `key=value`.
    pub variant: Vec<String>,
    /// What its chances were drawn from.
    pub seed: u64,
    /// The settings of the control plane.
    pub settings: Settings,
    /// The budget tree.
    pub tree: TreeNode,
    /// Machines.
    pub nodes: Vec<NodeSetup>,
    /// When machines are away.
    pub outages: Vec<Outage>,
    /// Jobs, in order of submission.
    pub jobs: Vec<SimJob>,
    /// A job is withdrawn if it has not started after so long.
    pub patience: Option<Span>,
    /// From the demand over the supply at which the next job waits outside until there is less; none to submit each job at
    /// its time.
    pub hold_above: Option<f64>,
    /// When it begins.
    pub begin: Timestamp,
    /// When it ends, whatever still runs.
    pub end: Timestamp,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSetup {
    /// Its name.
    pub name: Name,
    /// Its cluster.
    pub cluster: Name,
    /// Where it stands, from the outermost group.
    pub topology: Vec<Name>,
    /// Its GPUs.
    pub gpus: u32,
    /// Their type, as a driver tells it.
    pub gpu_type: Label,
    /// Its cores.
    pub cpus: u32,
    /// Its memory.
    pub memory: Bytes,
}

/// A machine that fails, and comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Which.
    pub node: usize,
    /// When.
    pub at: Timestamp,
    /// When it is back.
    pub until: Timestamp,
}

/// A job and what its processes do. All jobs of a run are there from its beginning, so one is small: texts are shared, and
/// what it asks for becomes a [`Request`] when it is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimJob {
    /// Its id in the trace.
    pub name: Arc<str>,
    /// Its user in the trace.
    pub user: Arc<str>,
    /// Its leaf: `a/b/c`.
    pub budget: Arc<str>,
    /// On how many nodes it runs.
    pub nodes: u32,
    /// GPUs on each of them.
    pub gpus_per_node: GpuCount,
    /// Its minimum runtime; zero is the free tier.
    pub min_runtime: Span,
    /// The longest time of an attempt.
    pub time_limit: Option<Span>,
    /// Whether it goes on from a checkpoint.
    pub is_resumable: bool,
    /// When it is submitted.
    pub submitted_at: Timestamp,
    /// What its processes do.
    pub work: Work,
}

impl SimJob {
    /// Returns its GPUs on all its nodes.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus_per_node.get())
    }

    /// Returns what it asks for. An id that cannot be a job's name becomes `job`.
    #[must_use]
    pub fn request(&self) -> Request {
        Request {
            name: Label::new(&self.name)
                .or_else(|_| Label::new("job"))
                .unwrap_or_else(|_| unreachable!("a label")),
            budget: self.budget.as_ref().to_owned(),
            cluster: None,
            shape: Shape {
                nodes: self.nodes,
                gpus_per_node: self.gpus_per_node,
                gpu_type: None,
                or_types: Vec::new(),
                within: None,
                cpus: None,
                memory: None,
            },
            min_runtime: Some(self.min_runtime),
            time_limit: self.time_limit,
            resumable: Some(self.is_resumable),
            grace: None,
            signal: None,
            checkpoint_every: self.work.save_every.filter(|_| self.work.reports),
            checkpoint_glob: None,
            requeue_code: None,
            retries: 0,
            turn: None,
            is_held: false,
            asks: Asks::default(),
        }
    }
}

/// What a job's processes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// How long it runs if nobody disturbs it, saving and starting apart.
    pub length: Span,
    /// How it ends then.
    pub end: JobEnd,
    /// From its launch to its first process.
    pub launch: Span,
    /// From the first process of a later attempt to its first new progress.
    pub restart: Span,
    /// Progress between two checkpoints; none if it never saves.
    pub save_every: Option<Span>,
    /// How long a save takes; nothing else is done meanwhile.
    pub save_takes: Span,
    /// Whether it saves when it is told to leave.
    pub saves_at_notice: bool,
    /// Whether it leaves once that is done; else it stays until it is killed.
    pub leaves_early: bool,
    /// Whether it reports its checkpoints.
    pub reports: bool,
}
