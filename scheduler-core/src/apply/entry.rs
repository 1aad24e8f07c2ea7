//! One entry takes effect, whole or not at all.

use alloc::format;
use alloc::string::String;

use super::advance::advance;
use super::context::Context;
use super::{
    adopt, batch, budgets, cancel, contact, cordon, drain, facts, found, hold, join, join_tokens, principals,
    release, reports, requests, requeue, resume_time, rights, safe_mode, saves, set_node, set_pool, set_time,
    submit, uncordon, undrain,
};
use crate::command::{Answer, Code, Command, Entry, Outcome, Rejection};
use crate::id::{LogIndex, Term};
use crate::invariants::{self, Broken};
use crate::state::State;
use crate::unit::Timestamp;

/// The answer of a command that has nothing to say.
pub(super) const DONE: Answer = Ok(Outcome::Done);

/// Applies one entry of the log and answers it. Time in state never goes back: an entry with an earlier time happens
/// at the time of the one before.
///
/// # Panics
/// In debug builds, when an invariant is broken; the release build drops the command and enters safe mode. Also when
/// the books would be wrong. The shell catches it and calls [`broken`] on the state from before.
pub fn apply(state: &mut State, index: LogIndex, term: Term, entry: &Entry) -> Answer {
    let answer = run(state, index, term, entry);
    if cfg!(debug_assertions) && invariants::is_worth_checking(state) {
        invariants::check_all(state).unwrap_or_else(|broken| panic!("after entry {index}: {broken}"));
    }
    answer
}

/// Does as [`apply`], but for the check of everything that debug builds make after it: for a state that leaves out what
/// does not matter to whoever asks.
pub(crate) fn run(state: &mut State, index: LogIndex, term: Term, entry: &Entry) -> Answer {
    let now = entry.time.max(state.meta.time);
    state.meta.index = index;
    state.meta.term = term;
    advance(state, now);
    if let Some(known) = requests::recall(state, entry, now) {
        return known;
    }
    requests::refuse(state, entry)?;
    let before = state.clone();
    let answer = command(state, &Context { index, now, actor: &entry.actor }, &entry.command);
    let answer = settle(state, before, answer);
    // An operator's word may have moved time: what it passes over happens now, in order.
    advance(state, state.meta.time_jump.map_or(now, |jump| jump.to));
    requests::remember(state, entry, index, &answer);
    answer
}

/// Answers an entry whose application panicked, on the state from before it: nothing of it has happened, and the
/// cluster is in safe mode.
pub fn broken(state: &mut State, index: LogIndex, time: Timestamp, what: &str) -> Answer {
    let now = time.max(state.meta.time);
    state.meta.index = index;
    state.meta.time = now;
    safe_mode::enter(state, index, now, what);
    Err(internal(index, what))
}

pub(super) fn command(state: &mut State, cx: &Context<'_>, command: &Command) -> Answer {
    rights::check(state, cx, command)?;
    match command {
        Command::Found(found) => found::found(state, found),
        Command::Submit(submit) => submit::submit(state, cx, submit),
        Command::Cancel(cancel) => cancel::cancel(state, cx, cancel),
        Command::Hold(word) => hold::hold(state, cx, word),
        Command::Release(word) => release::release(state, cx, word),
        Command::Requeue(word) => requeue::requeue(state, cx, word),
        Command::Cordon(word) => cordon::cordon(state, cx, word),
        Command::Uncordon(word) => uncordon::uncordon(state, cx, word),
        Command::Drain(order) => drain::drain(state, cx, order),
        Command::Undrain(word) => undrain::undrain(state, cx, word),
        Command::SetNode(set) => set_node::set_node(state, cx, set),
        Command::SetPool(set) => set_pool::set_pool(state, cx, set),
        Command::Saves { node, saves } => saves::saves(state, cx, *node, saves),
        Command::ApplyBudgets(budgets) => budgets::apply_budgets(state, cx, budgets),
        Command::CancelEdit(cancel) => budgets::cancel_edit(state, cx, cancel),
        Command::Grant(grant) => budgets::grant(state, cx, grant),
        Command::EndGrant(end) => budgets::end_grant(state, cx, end),
        Command::AddPrincipal(principal) => principals::add(state, cx, principal),
        Command::RevokePrincipal { name } => principals::revoke(state, cx, name),
        Command::IssueJoinToken(token) => join_tokens::issue(state, cx, token),
        Command::Join(join) => join::join(state, join),
        Command::NodeFacts { node, facts } => facts::node_facts(state, cx, *node, facts),
        Command::Reports { node, reports } => reports::reports(state, cx, *node, reports),
        Command::NodeUnreachable { node } => contact::unreachable(state, cx, *node),
        Command::NodeBack { node } => contact::back(state, cx, *node),
        Command::Adopt(plan) => adopt::adopt(state, cx, plan),
        Command::EndSafeMode { reason } => safe_mode::end(state, cx, reason),
        Command::ResumeTime(resume) => resume_time::resume_time(state, cx, resume),
        Command::SetTime(set) => set_time::set_time(state, cx, set),
        Command::Batch(items) => batch::batch(state, cx, items),
    }
}

/// Keeps the changes if every cheap invariant holds, else drops them whole.
fn settle(state: &mut State, before: State, answer: Answer) -> Answer {
    match invariants::check_step(&before, state) {
        Ok(()) => answer,
        Err(broken) if cfg!(debug_assertions) => panic!("at entry {}: {broken}", before.meta.index),
        Err(broken) => drop_whole(state, before, &broken),
    }
}

fn drop_whole(state: &mut State, before: State, broken: &Broken) -> Answer {
    *state = before;
    let what = format!("{broken}");
    let (index, now) = (state.meta.index, state.meta.time);
    safe_mode::enter(state, index, now, &what);
    Err(internal(index, &what))
}

fn internal(index: LogIndex, what: &str) -> Rejection {
    Rejection::new(
        Code::Internal,
        format!("entry {index} would have broken the state: {what}"),
        "nothing of it was done; running work goes on, and no job is placed until an operator ends safe mode",
        String::from("report this, then `bursar cluster safe-mode end --reason …`"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Revision;

    #[test]
    fn a_broken_command_is_dropped_whole_and_safe_mode_is_entered() {
        let before = State::default();
        let mut state = before.clone();
        state.meta.tree = Revision::new(9);
        let answer = drop_whole(&mut state, before, &Broken { law: "a law", what: String::from("so") });
        assert_eq!(answer.unwrap_err().code, Code::Internal);
        assert_eq!(state.meta.tree, Revision::default());
        assert!(state.meta.safe_mode.is_some_and(|mode| mode.what.contains("a law")));
    }

    #[test]
    fn a_panic_is_answered_on_the_state_from_before() {
        let mut state = State::default();
        let time = Timestamp::from_millis(7);
        let answer = broken(&mut state, LogIndex::new(3), time, "index out of bounds");
        assert_eq!(answer.unwrap_err().code, Code::Internal);
        assert_eq!((state.meta.index, state.meta.time), (LogIndex::new(3), time));
        assert!(state.meta.safe_mode.is_some());
    }
}
