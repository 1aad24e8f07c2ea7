//! One file a command: its arguments, its calls, its way out.

pub mod agent;
pub mod agent_probe;
pub mod audit;
pub mod bill;
pub mod budget;
pub mod budget_read;
pub mod budget_usage;
pub mod capacity;
pub mod checkpoint;
pub mod cluster;
pub mod cluster_time;
pub mod completion;
pub mod context;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod help;
pub mod job;
pub mod logs;
pub mod node;
pub mod plan;
pub mod principal;
pub mod queue;
pub mod run;
pub mod server;
pub mod simulate;
pub mod submit;
pub mod version;
pub mod waits;
pub mod whoami;

mod drain;
mod ended;
mod follow;
mod grant;
mod job_word;
mod member;
mod node_word;
mod past;
mod pool;
mod rebuild;
mod settings;
mod subject;
mod what_if;

use crate::args::Command;

/// Returns whether a command passes a job's own exit code on, so that its own failures have a code apart.
pub fn passes_job_exit_on(command: &Command) -> bool {
    match command {
        Command::Run(_) => true,
        Command::Submit(args) => args.wait,
        _ => false,
    }
}

/// Names a message's form where its replica did not.
fn schema(field: &mut String, name: &str) {
    if field.is_empty() {
        *field = name.into();
    }
}
