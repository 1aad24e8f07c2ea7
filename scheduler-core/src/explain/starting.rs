//! What a placed attempt waits for: those who give way, its ranks, its processes.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Reason, Token, Who, facts, words};
use crate::id::AttemptId;
use crate::job::{Attempt, Exit, Placement};
use crate::state::State;
use crate::unit::Timestamp;

/// Returns why an attempt has no processes yet, what binds first; never empty.
pub(super) fn reasons(state: &State, id: AttemptId, attempt: &Attempt) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if attempt.go_at.is_none() {
        reasons.extend(grace(state, id, attempt));
        reasons.extend(ready(state, id, attempt));
    }
    if reasons.is_empty() {
        reasons.push(agent(attempt).until(Some(attempt.start_by)));
    }
    reasons
}

/// Returns the attempts whose GPUs it was promised and that still have them, with how many.
pub(super) fn awaited(state: &State, id: AttemptId, attempt: &Attempt) -> BTreeMap<AttemptId, u32> {
    let mut awaited = BTreeMap::new();
    for placement in &attempt.placements {
        for holder in holders(state, placement).into_iter().flatten().filter(|holder| *holder != id) {
            *awaited.entry(holder).or_default() += 1;
        }
    }
    awaited
}

fn holders(state: &State, placement: &Placement) -> Vec<Option<AttemptId>> {
    let Some(node) = state.nodes.get(&placement.node) else { return Vec::new() };
    let gpus = placement.slots.iter().filter_map(|slot| node.gpus.get(usize::from(slot.get())));
    gpus.map(|gpu| gpu.holder).collect()
}

fn grace(state: &State, id: AttemptId, attempt: &Attempt) -> Option<Reason> {
    let awaited = awaited(state, id, attempt);
    if awaited.is_empty() {
        return None;
    }
    let of = awaited.iter().map(|(holder, count)| {
        let leaves = match state.attempts.get(holder) {
            Some(holder) if holder.ended.is_none() => "saves and leaves",
            Some(_) => "has ended and is not proven empty",
            None => "is being cleared away",
        };
        format!("{} ({}), which {leaves}", facts::whose(state, *holder), words::gpus(*count))
    });
    let text = format!("it is placed, and waits for {}", words::list(of.collect()));
    Some(Reason::new(Token::PlacedGrace, Who::Nobody, text).until(Some(attempt.latest_go)))
}

/// Ranks whose GPUs are all its own, and whose node is not ready; of a gang only.
fn ready(state: &State, id: AttemptId, attempt: &Attempt) -> Option<Reason> {
    if attempt.placements.len() < 2 {
        return None;
    }
    let has_gpus =
        |placement: &&Placement| holders(state, placement).iter().all(|holder| *holder == Some(id));
    let late = attempt.placements.iter().filter(has_gpus).filter(|placement| placement.ready_at.is_none());
    let late: Vec<String> = late
        .map(|placement| {
            let node =
                state.nodes.get(&placement.node).map_or_else(String::new, |node| node.name.to_string());
            format!("{} on {node}", placement.rank)
        })
        .collect();
    if late.is_empty() {
        return None;
    }
    let (word, are) = if late.len() == 1 { ("rank", "is") } else { ("ranks", "are") };
    let text = format!(
        "all its ranks start together, and {word} {} of {} {are} not ready yet",
        words::list(late),
        attempt.placements.len()
    );
    Some(Reason::new(Token::StartingReady, Who::Nobody, text).until(Some(attempt.start_by)))
}

fn agent(attempt: &Attempt) -> Reason {
    let late = attempt.placements.iter().filter(|placement| placement.started_at.is_none());
    let text = match (attempt.placements.len(), late.count()) {
        (0 | 1, _) => String::from("it is placed, and the agent of its node starts it"),
        (all, late) => format!("it is placed, and {late} of its {all} ranks have no process yet"),
    };
    Reason::new(Token::StartingAgent, Who::Nobody, text)
}

/// Returns how far a rank is, and since when.
pub(super) fn rank(
    state: &State,
    id: AttemptId,
    attempt: &Attempt,
    placement: &Placement,
) -> (String, Option<Timestamp>) {
    if let Some((at, how)) = placement.exited {
        return (exit(how), Some(at));
    }
    if let Some(at) = placement.started_at {
        return (String::from("started"), Some(at));
    }
    let others = holders(state, placement).into_iter().flatten().filter(|holder| *holder != id);
    let mut others: Vec<AttemptId> = others.collect();
    others.sort_unstable();
    others.dedup();
    if !others.is_empty() {
        return (format!("waits for {}", words::attempts(&others)), None);
    }
    match (attempt.go_at, placement.ready_at) {
        (Some(_), _) => (String::from("no process yet"), None),
        (None, Some(at)) => (String::from("ready"), Some(at)),
        (None, None) => (String::from("not ready yet"), None),
    }
}

/// Returns how a process ended, in words.
pub(super) fn exit(how: Exit) -> String {
    match how {
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
        Exit::Unknown => String::from("ended, nobody saw how"),
    }
}
