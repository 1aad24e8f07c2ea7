//! The dry run: what a submission would meet if it were made now. No promise.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::apply::apply;
use crate::command::{Command, Entry, Rejection, Submit};
use crate::decision::Start;
use crate::explain::{self, Explanation, Victim, victims};
use crate::id::{JobId, LogIndex};
use crate::job::{Before, Terms};
use crate::plan::{Links, plan};
use crate::principal::Actor;
use crate::state::State;
use crate::unit::Timestamp;

/// What a submission would meet. Nothing was queued, and it promises nothing: the next entry may change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// The entry up to which this is true.
    pub as_of: LogIndex,
    /// The moment for which it is.
    pub at: Timestamp,
    /// The number that the job would take, if nobody else's came first.
    pub job: JobId,
    /// Its contract, with defaults filled in.
    pub terms: Terms,
    /// What it waits for before it stands in line.
    pub before: Before,
    /// What becomes of it in the plan that follows.
    pub expected: Expected,
}

/// What the next plan would do with a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// It starts.
    Starts {
        /// The decision: where, whom it takes, and why.
        start: Box<Start>,
        /// Whom it takes.
        victims: Vec<Victim>,
    },
    /// It waits, or is held: all reasons, its place, what would change it, and the earliest moment that is known.
    Waits(Box<Explanation>),
}

/// Submits `submit` for `actor` to a copy of the state, and plans there.
///
/// # Errors
/// When the submission would be refused, exactly as it would be.
pub fn dry_run(
    state: &State,
    links: &Links,
    actor: &Actor,
    submit: &Submit,
    now: Timestamp,
) -> Result<DryRun, Rejection> {
    let (view, job) = submitted(state, actor, submit, now)?;
    let (at, term) = (view.meta.time, view.meta.term);
    let whole = view.arrays.get(&job).map(|array| &array.job);
    let record = whole.or_else(|| view.jobs.get(&job)).expect("an accepted job has the next number");
    let (terms, before) = (record.terms.clone(), record.before.clone());
    // Of an array any of its tasks.
    let is_meant = |start: &Start| start.job >= job && start.job < view.meta.next_job;
    let start = plan(&view, links, at, term).decisions.into_iter().find(is_meant);
    let expected = match start {
        Some(start) => Expected::Starts { victims: victims(&view, &start), start: Box::new(start) },
        None => Expected::Waits(Box::new(
            explain::job(&view, links, job, at).expect("a job that does not start is held or waits"),
        )),
    };
    Ok(DryRun { as_of: state.meta.index, at, job, terms, before, expected })
}

/// Returns a copy of the state with a submission in it, and the number that its job has there.
///
/// # Errors
/// When the submission would be refused.
pub fn submitted(
    state: &State,
    actor: &Actor,
    submit: &Submit,
    now: Timestamp,
) -> Result<(State, JobId), Rejection> {
    let mut view = state.clone();
    let index = LogIndex::new(state.meta.index.get().saturating_add(1));
    let command = Command::Submit(submit.clone());
    let entry = Entry { time: now, actor: actor.clone(), via: None, request: None, command };
    let (job, term) = (view.meta.next_job, view.meta.term);
    apply(&mut view, index, term, &entry)?;
    Ok((view, job))
}
