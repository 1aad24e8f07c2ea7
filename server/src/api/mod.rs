//! What is asked of a replica over gRPC, one file a group of calls.
//!
//! ```text
//!   Control, Setup, AgentLink: the listener for clients and agents       Peer: the listener for replicas
//!   call ──> admit (token, limits) ──> read (barrier, view) or write (propose, forward) ──> views ──> reply
//! ```

mod agents;
mod audit;
mod budgets;
mod cluster;
mod control;
mod events;
mod grants;
mod job_words;
mod jobs;
mod likely;
mod logs;
mod members;
mod node_words;
mod nodes;
mod peer;
mod pools;
mod principals;
mod reports;
mod setup;
mod time;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use cluster::addresses;
use scheduler_core::budget;
use scheduler_core::id::{BudgetId, JobId, Name};
use scheduler_core::job::Job;
use scheduler_core::plan::Links;
use scheduler_core::state::State;
use tokio_stream::Stream;
use tonic::Status;

use crate::refusal;
use crate::shared::{Read, Shared};
use crate::views::Scene;

/// The longest message of a client: a tree of 10,000 budgets fits.
pub const MESSAGE_MAX: usize = 4 << 20;

/// A stream of replies.
pub type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The services of one replica.
#[derive(Clone)]
pub struct Api {
    shared: Arc<Shared>,
}

impl Api {
    /// Makes the services of a replica.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Shared {
    fn scene<'a>(&self, read: &'a Read) -> Scene<'a> {
        let now = self.clock.roughly().max(read.view.state.meta.time);
        Scene { read, now, replica: self.replica() }
    }

    /// Returns the nodes that may get new work, as well as this replica knows: the leader by its links, the others by
    /// what is committed.
    fn linked(&self, state: &State) -> Links {
        if self.leading.borrow().is_none() {
            return Links::all_ready(state);
        }
        let lately = lately(state);
        Links::new(state.nodes.keys().copied().filter(|node| self.links.is_heard(*node, lately)))
    }
}

/// Returns within which time a node that works is heard of.
fn lately(state: &State) -> Duration {
    Duration::from_millis(state.meta.settings.silent_after.as_millis())
}

fn job(state: &State, number: u32) -> Result<(JobId, &Job), Status> {
    let id = JobId::new(number);
    match state.jobs.get(&id) {
        Some(job) => Ok((id, job)),
        None => Err(refusal::not_found(format!("there is no job {number}, or it ended long ago"))),
    }
}

fn budget(state: &State, path: &str) -> Result<BudgetId, Status> {
    budget::find(state, path).ok_or_else(|| refusal::not_found(format!("there is no budget `{path}`")))
}

fn name(field: &'static str, text: &str) -> Result<Name, Status> {
    Name::new(text).map_err(|cause| refusal::bad(&proto::Error::bad(field, cause.to_string())))
}
