//! The flags of a submission; each goes before the file's field of the same name.

use std::path::PathBuf;

use clap::Args;

use super::file::Turn;

/// Flags of `submit` and `run`.
#[derive(Debug, Clone, Default, Args)]
pub struct Flags {
    /// The budget that pays: a leaf of the tree, like language/posttrain
    #[arg(long, value_name = "BUDGET")]
    pub budget: Option<String>,
    /// A name for people
    #[arg(long)]
    pub name: Option<String>,
    /// GPUs: on one node, or on whole nodes if that is more than a node has
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub gpus: Option<u32>,
    /// Nodes
    #[arg(long, value_name = "N", requires = "gpus_per_node", allow_negative_numbers = true)]
    pub nodes: Option<u32>,
    /// GPUs on each node
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub gpus_per_node: Option<u32>,
    /// The GPU's name, or a part of it; others behind commas do too, in order: it runs wholly on one of them
    #[arg(long, value_name = "TYPE[,TYPE]", value_delimiter = ',')]
    pub gpu_type: Vec<String>,
    /// Its nodes are in one group of this level of their topology, 1 the outermost [default: in as few as can be]
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true)]
    pub within: Option<u32>,
    /// Never on these nodes
    #[arg(long, value_name = "NODE[,NODE]", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// Cores on each node [default: the GPUs' part of the node]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cpus: Option<u32>,
    /// Memory on each node, like 64GiB [default: the GPUs' part of the node]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub memory: Option<String>,
    /// Time needed for real progress: protected, and charged, so long from its start
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, conflicts_with = "unallocated")]
    pub min_runtime: Option<String>,
    /// Free tier: not charged, never protected
    #[arg(long)]
    pub unallocated: bool,
    /// Stop an attempt after so long
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub time_limit: Option<String>,
    /// It goes on from a checkpoint when started again
    #[arg(long, overrides_with = "not_resumable")]
    pub resumable: bool,
    /// It begins from nothing when started again
    #[arg(long)]
    pub not_resumable: bool,
    /// From the notice of a preemption to the end
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub grace: Option<String>,
    /// The signal of the notice [default: USR1, only if it is caught]
    #[arg(long, value_name = "SIGNAL")]
    pub signal: Option<String>,
    /// How often it saves
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub checkpoint_every: Option<String>,
    /// Which files are complete checkpoints
    #[arg(long, value_name = "GLOB")]
    pub checkpoint_glob: Option<String>,
    /// The exit code that asks for another attempt
    #[arg(long, value_name = "CODE", allow_negative_numbers = true)]
    pub requeue_code: Option<u32>,
    /// How often a failed attempt is tried again
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub retries: Option<u32>,
    /// Order among the jobs of its own budget; means nothing to other budgets
    #[arg(long, value_name = "TURN")]
    pub turn: Option<Turn>,
    /// An array of tasks that differ in BURSAR_ARRAY_TASK_ID: 0-9, 0-99:10 or 1,3,7; %4: at most four at once
    #[arg(long, value_name = "RANGE[%N]", allow_hyphen_values = true)]
    pub array: Option<String>,
    /// Not before this moment: `2h` (from now), `17:30`, or `2027-01-31 17:30`
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    pub begin: Option<String>,
    /// Only once this job, array or task has ended in any way; `JOB:ok`: has completed; repeat for more
    #[arg(long, value_name = "JOB[:ok]", value_delimiter = ',')]
    pub after: Vec<String>,
    /// The pool it must run in [default: any]
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Where it runs; must exist on the node [default: here]
    #[arg(long, value_name = "DIR")]
    pub working_dir: Option<PathBuf>,
    /// Its log file, instead of one that `bursar logs` reads; %j job, %a attempt, %r rank, %A array, %t task
    #[arg(long, value_name = "PATH")]
    pub output_file: Option<String>,
    /// A variable of its environment, NAME=VALUE; repeat for more
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// A file on the node whose content becomes a variable; repeat for more
    #[arg(long, value_name = "NAME")]
    pub secret: Vec<String>,
    /// A name of your own for this submission: repeated within ten minutes it is not made twice
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Kept to say what replaced it.
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", allow_hyphen_values = true)]
    pub priority: Option<String>,
}
