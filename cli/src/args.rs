//! The arguments of `bursar`: one word per thing, plain verbs for daily work, nouns first for what is managed.

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::dev;
use crate::shell::{Colour, Format};

/// GPU time for jobs, by budgets: lower use goes first, protection is bounded and charged.
#[derive(Debug, Parser)]
#[command(
    name = "bursar",
    version,
    disable_help_subcommand = true,
    after_help = "Daily:   bursar submit FILE    bursar queue    bursar explain JOB    bursar logs -f JOB\n\
                  Try it:  bursar dev\n\
                  Codes:   bursar help B1203 explains a code that an error shows"
)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Arguments that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "For every command")]
pub struct Global {
    /// The control plane to speak to, by its context's name
    #[arg(long, global = true, env = "BURSAR_CONTEXT", hide_env_values = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Addresses of the replicas, instead of a context's
    #[arg(long, global = true, env = "BURSAR_SERVER", hide_env_values = true, value_name = "HOST:PORT,…")]
    pub server: Option<String>,
    /// How data is written
    #[arg(short, long, global = true, env = "BURSAR_OUTPUT", hide_env_values = true, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// When there is colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// Say nothing but data and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say which replicas were tried
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Show times in UTC
    #[arg(long, global = true)]
    pub utc: bool,
    /// How long to try the replicas before giving up [default: 30s]
    #[arg(long, global = true, value_name = "DURATION", allow_hyphen_values = true)]
    pub patience: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Submit a job
    Submit(commands::submit::Args),
    /// Say what would become of a submission, without submitting it
    Plan(commands::plan::Args),
    /// Submit a command, follow its output, end with its exit code
    Run(commands::run::Args),
    /// Show the line, in the order in which jobs start
    Queue(commands::queue::Args),
    /// Show, list, hold, release, requeue, cancel, await jobs
    Job(commands::job::Args),
    /// Say why a job waits, runs, or ended; with both sides' numbers
    Explain(commands::explain::Args),
    /// Show what a job wrote
    Logs(commands::logs::Args),
    /// Report a checkpoint, from inside a job
    Checkpoint(commands::checkpoint::Args),
    /// The tree that divides GPU time
    Budget(commands::budget::Args),
    /// What preemptions cost
    Bill(commands::bill::Args),
    /// Show how long jobs waited for their first start
    Waits(commands::waits::Args),
    /// Try settings, budgets and policies on made-up days or real traces
    Simulate(commands::simulate::Args),
    /// Who may do what
    Principal(commands::principal::Args),
    /// Machines with GPUs
    Node(commands::node::Args),
    /// Show how large a job could start, now and later
    Capacity(commands::capacity::Args),
    /// The control plane itself
    Cluster(commands::cluster::Args),
    /// Show what happened
    Events(commands::events::Args),
    /// Show who asked what, and what became of it
    Audit(commands::audit::Args),
    /// Say what is wrong, and what to type
    Doctor(commands::doctor::Args),
    /// Show who you are to the control plane
    Whoami,
    /// Which control plane is spoken to
    Context(commands::context::Args),
    /// Print a script that completes commands and flags in a shell
    Completion(commands::completion::Args),
    /// Explain a command or a code, without a network
    Help(commands::help::Args),
    /// Print the version
    Version,
    /// Start a control plane on this machine to try things on; or speak to the one that runs
    Dev(dev::Args),
    /// Run a replica of the scheduler
    Server(commands::server::Args),
    /// Run the agent of a node
    Agent(commands::agent::Args),
    /// The agent's own process for NVML.
    #[command(hide = true)]
    AgentProbe(commands::agent_probe::Args),
}
