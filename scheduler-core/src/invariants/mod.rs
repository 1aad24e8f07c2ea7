//! What holds in state at every moment; one file each. The single source: `apply` decides by the cheap ones in every
//! build, debug builds and tests check them all after each entry, and so do the simulator and the chaos tests.
//!
//! A cheap check looks at what the last command touched ([`Table::touched_since`](crate::table::Table::touched_since))
//! and a few neighbours; a full check looks at everything.

mod arrays;
mod bills;
mod bounds;
mod charge;
mod counts;
mod dates;
mod demand;
mod drains;
mod gpu_held_once;
mod grants;
mod indexes;
mod job_and_attempt;
mod launches;
mod ledger;
mod moments;
mod requests;
mod results;
mod stops;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::id::{AttemptId, JobId};
use crate::job::{Attempt, Job};
use crate::state::State;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub law: &'static str,
    /// What was found instead.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken invariant: {}: {}", self.law, self.what)
    }
}

type Full = fn(&State) -> Result<(), String>;
type Step = fn(&Change<'_>) -> Result<(), String>;

/// What a command did: the state before it, the one after it, and what it touched where several laws look.
struct Change<'a> {
    before: &'a State,
    after: &'a State,
    jobs: Vec<(&'a JobId, &'a Job)>,
    attempts: Vec<(&'a AttemptId, &'a Attempt)>,
    /// Those that are others now, or gone, as they were.
    attempts_before: Vec<(&'a AttemptId, &'a Attempt)>,
}

impl<'a> Change<'a> {
    fn between(before: &'a State, after: &'a State) -> Self {
        Self {
            before,
            after,
            jobs: after.jobs.touched_since(&before.jobs).collect(),
            attempts: after.attempts.touched_since(&before.attempts).collect(),
            attempts_before: before.attempts.touched_since(&after.attempts).collect(),
        }
    }
}

/// The cheap ones, by which `apply` decides: the state before a command, and after it.
const STEP: &[(&str, Step)] = &[
    ("who is protected gives way to nobody", stops::preempted_step),
    ("a GPU is with one attempt, which has it in its placement", gpu_held_once::step),
    ("a live job has its attempt, and no other has", job_and_attempt::step),
    ("the points of an attempt are in order", moments::step),
    ("a job was charged what its attempts were", charge::step),
    ("what is protected is stopped by a person's word alone", stops::step),
    ("an end is final", stops::final_step),
    ("each GPU is in exactly one class, and its classes tile time", ledger::classes_step),
    ("a budget's account is the sum of those below", ledger::tree_step),
    ("every task of an array runs once to its end, and never too many", arrays::step),
    ("a bill is written once, and settled once", bills::step),
    ("a date is of a job that waits, and no GPU is reserved twice at once", dates::step),
    ("time and counters never go back", counts::step),
    ("every table keeps its bound", bounds::step),
];

/// All of them, on one state.
const FULL: &[(&str, Full)] = &[
    ("a GPU is with one attempt, which has it in its placement", gpu_held_once::full),
    ("a live job has its attempt, and no other has", job_and_attempt::full),
    ("the points of an attempt are in order", moments::full),
    ("a job was charged what its attempts were", charge::full),
    ("what is protected is stopped by a person's word alone", stops::full),
    ("each GPU is in exactly one class, and its classes tile time", ledger::tiles),
    ("GPUs are booked to the class that they are in", ledger::as_held),
    ("a node is in the pool of its cluster, and capacity has each GPU's weight", ledger::weights),
    ("charge runs for what is between go and end", ledger::rates),
    ("set aside is what attempts have left of their protection", ledger::set_aside),
    ("a budget's account is the sum of those below", ledger::tree),
    ("who stays on a node that is drained is protected", drains::full),
    ("demand is what funded jobs have or want", demand::full),
    ("a grant is a slice of who has it and of who gives it, and fits", grants::full),
    ("bills are of the window, and open while they may be settled", bills::full),
    ("a date is of a job that waits, and no GPU is reserved twice at once", dates::full),
    ("counts are what they count", counts::full),
    ("the line, the timers and the ended jobs follow from state", indexes::full),
    ("what nodes read is kept for the jobs that need it", launches::full),
    ("answers are remembered for their time and no longer", requests::full),
    ("every task of an array runs once to its end, and never too many", arrays::full),
    ("how a job ended is known in one place, for its time", results::full),
    ("every table keeps its bound", bounds::full),
];

/// States larger than this are checked whole at every so manyth entry, so that debug builds stay usable.
const LARGE: usize = 512;
const LARGE_EVERY: u64 = 64;

/// Checks what a command changed.
///
/// # Errors
/// With the first invariant that does not hold any more.
pub fn check_step(before: &State, after: &State) -> Result<(), Broken> {
    let change = Change::between(before, after);
    STEP.iter().try_for_each(|(law, check)| check(&change).map_err(|what| Broken { law, what }))
}

/// Checks everything.
///
/// # Errors
/// With the first invariant that does not hold.
pub fn check_all(state: &State) -> Result<(), Broken> {
    FULL.iter().try_for_each(|(law, check)| check(state).map_err(|what| Broken { law, what }))
}

/// Whether a debug build checks this state whole.
#[must_use]
pub fn is_worth_checking(state: &State) -> bool {
    state.jobs.len() + state.requests.len() <= LARGE || state.meta.index.get().is_multiple_of(LARGE_EVERY)
}
