//! Several facts of agents and of the leader in one entry.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::context::Context;
use super::entry;
use super::rights::not_allowed;
use crate::command::{Answer, Code, Command, Outcome, Rejection};
use crate::principal::Actor;
use crate::state::State;

/// The most items of a batch.
const ITEMS_MAX: usize = 512;

/// Judges each item alone, with its own actor; one that is refused changes nothing.
pub(super) fn batch(state: &mut State, cx: &Context<'_>, items: &[(Actor, Command)]) -> Answer {
    if items.len() > ITEMS_MAX {
        let what = format!("a batch of {} items; at most {ITEMS_MAX}", items.len());
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("split it")));
    }
    let mut answers = Vec::with_capacity(items.len());
    for (actor, command) in items {
        answers.push(if is_fact(command) {
            entry::command(state, &Context { actor, ..*cx }, command)
        } else {
            Err(not_allowed("a batch holds facts of agents and of the leader alone"))
        });
    }
    Ok(Outcome::Batch(answers))
}

fn is_fact(command: &Command) -> bool {
    match command {
        Command::NodeFacts { .. }
        | Command::Reports { .. }
        | Command::Saves { .. }
        | Command::NodeUnreachable { .. }
        | Command::NodeBack { .. } => true,
        Command::Found(_)
        | Command::Submit(_)
        | Command::Cancel(_)
        | Command::Hold(_)
        | Command::Release(_)
        | Command::Requeue(_)
        | Command::Cordon(_)
        | Command::Uncordon(_)
        | Command::Drain(_)
        | Command::Undrain(_)
        | Command::SetNode(_)
        | Command::SetPool(_)
        | Command::ApplyBudgets(_)
        | Command::CancelEdit(_)
        | Command::Grant(_)
        | Command::EndGrant(_)
        | Command::AddPrincipal(_)
        | Command::RevokePrincipal { .. }
        | Command::IssueJoinToken(_)
        | Command::Join(_)
        | Command::Adopt(_)
        | Command::EndSafeMode { .. }
        | Command::ResumeTime(_)
        | Command::SetTime(_)
        | Command::Batch(_) => false,
    }
}
