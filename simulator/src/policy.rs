//! Who decides: the seam for policies beside ours.
//!
//! A policy is asked for a plan whenever the leader asks for one, and its plan goes through the same `apply`: it cannot
//! place on a GPU that is taken, nor take from anybody who is protected. What it does not know of, it says at the
//! submission: a policy without protection submits jobs without.

use std::collections::HashMap;

use scheduler_core::decision::Plan;
use scheduler_core::id::{JobId, Name, Term};
use scheduler_core::plan::{self, Known, Links};
use scheduler_core::spec::Request;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use crate::engine::SimJob;
use crate::peers;

/// What a policy decides from.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// The state.
    pub state: &'a State,
    /// Who may get new work.
    pub links: &'a Links,
    /// Virtual cluster time.
    pub now: Timestamp,
    /// The leader's term, which the plan carries.
    pub term: Term,
    /// All jobs of the run.
    pub jobs: &'a [SimJob],
    /// Which of them has which number.
    pub numbers: &'a HashMap<JobId, usize>,
}

/// Decides who starts.
pub trait Policy {
    /// What it is called in reports.
    fn name(&self) -> &'static str;

    /// Returns what a job asks for under it.
    fn submission(&self, job: &SimJob) -> Request {
        job.request()
    }

    /// Returns what is decided now.
    fn plan(&mut self, round: &Round<'_>) -> Plan;

    /// Returns the job that is first in order in a pool and could not start, after a round; none if the policy has no such
    /// order.
    fn first(&mut self, round: &Round<'_>, pool: &Name) -> Option<JobId>;
}

/// Ours: what the server runs.
#[derive(Debug, Clone, Default)]
pub struct Ours {
    known: Known,
}

impl Policy for Ours {
    fn name(&self) -> &'static str {
        "bursar"
    }

    fn plan(&mut self, round: &Round<'_>) -> Plan {
        plan::plan_on(&mut self.known, round.state, round.links, round.now, round.term)
    }

    fn first(&mut self, round: &Round<'_>, pool: &Name) -> Option<JobId> {
        plan::first(round.state, pool, round.now)
    }
}

/// The names of all policies, ours first.
pub const NAMES: &[&str] = &["bursar", "fifo", "levels", "slurm", "slurm-without-preemption"];

/// Returns a policy by its name; none if there is no such one.
#[must_use]
pub fn named(name: &str) -> Option<Box<dyn Policy>> {
    match name {
        "bursar" => Some(Box::new(Ours::default())),
        "fifo" => Some(Box::new(peers::Fifo)),
        "levels" => Some(Box::new(peers::Levels::default())),
        "slurm" => Some(Box::new(peers::Slurm::new(peers::SlurmOptions::default()))),
        "slurm-without-preemption" => {
            let options = peers::SlurmOptions { preempts: false, ..peers::SlurmOptions::default() };
            Some(Box::new(peers::Slurm::new(options)))
        }
        _ => None,
    }
}
