//! What the ranks of a node said of their progress.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use crate::command::{Answer, Code, Rejection, Saved};
use crate::id::NodeId;
use crate::lifecycle::progress;
use crate::state::State;

/// The most reports of one command.
const SAVES_MAX: usize = 4_096;

/// Takes checkpoints and first signs of progress. What is known already, or is about a rank that is not there, changes
/// nothing.
pub(super) fn saves(state: &mut State, cx: &Context<'_>, node: NodeId, saves: &[Saved]) -> Answer {
    if saves.len() > SAVES_MAX {
        let what = format!("{} reports of progress in one command; at most {SAVES_MAX}", saves.len());
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("split them")));
    }
    for saved in saves {
        let attempt = state.attempts.get(&saved.attempt);
        if !attempt.is_some_and(|attempt| attempt.placements.iter().any(|p| p.node == node)) {
            continue;
        }
        // The sign first: the first checkpoint would be one, and a later one.
        if let Some(at) = saved.signed_at {
            progress::signed(state, saved.attempt, at, cx.now);
        }
        if let Some(at) = saved.saved_at {
            progress::saved(state, saved.attempt, at, cx.now);
        }
    }
    DONE
}
