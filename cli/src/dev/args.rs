//! Arguments of `dev`.

use std::path::PathBuf;

use clap::Subcommand;

/// Arguments of `dev`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    args_conflicts_with_subcommands = false,
    after_help = "Examples:\n  \
    bursar dev                 three replicas, 4 nodes with 8 simulated GPUs each; Ctrl-C ends all\n  \
    bursar dev kill-leader     in another terminal: kill -9 the leader, and watch work go on\n  \
    bursar dev --replicas 5    two of them may be lost\n  \
    bursar dev tour            an own control plane, taken through its promises step by step\n  \
    bursar dev preempt-demo    the story of one preemption, with its price"
)]
pub struct Args {
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub nodes: u32,
    /// GPUs on each node
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub gpus: u32,
    /// Replicas: one is enough to try, three outlive one of them, five two
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = replicas)]
    pub replicas: u32,
    /// Keep the folder at the end
    #[arg(long)]
    pub keep: bool,
    /// The program that stays with each job [default: bursar-shim beside this program]
    #[arg(long, value_name = "PATH")]
    pub shim: Option<PathBuf>,
    /// The library that simulates GPUs [default: libbursar_fake_nvml.so beside this program]
    #[arg(long, value_name = "PATH")]
    pub fake_nvml: Option<PathBuf>,
    /// What to do with one that runs.
    #[command(subcommand)]
    pub action: Option<Action>,
}

fn replicas(text: &str) -> Result<u32, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err("1, 3 or 5: an even number outlives no more than one less".into()),
    }
}

/// What to do with a development cluster that runs; or the tour.
#[derive(Debug, Clone, Subcommand)]
pub enum Action {
    /// Kill -9 the leader; it is started again after a moment
    KillLeader,
    /// Kill -9 the agent of a node, from 1; it is started again after a moment
    KillAgent {
        /// Which node
        n: usize,
        /// Ask it to end (TERM) instead
        #[arg(long)]
        term: bool,
    },
    /// Kill -9 all replicas, and leave them down
    StopReplicas,
    /// Start the replicas that are down
    StartReplicas,
    /// Show its parts
    Status,
    /// End it, like Ctrl-C where it runs
    Stop,
    /// Take a control plane of its own through its promises, step by step
    Tour(Tour),
    /// Tell the story of a preemption on a control plane of its own: right, notice, price, resumption
    PreemptDemo,
}

/// Arguments of the tour.
#[derive(Debug, Clone, clap::Args)]
pub struct Tour {
    /// Only these steps, by letter
    #[arg(long, value_delimiter = ',', value_name = "LETTER")]
    pub only: Vec<String>,
    /// Rounds of killing the leader
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
}
