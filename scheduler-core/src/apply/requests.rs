//! Request ids: the same write twice is one write (DESIGN 8.5).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::command::{Answer, Code, Command, Entry, Rejection, Remembered};
use crate::id::{LogIndex, RequestId};
use crate::lifecycle::forget;
use crate::state::{State, Timer};
use crate::unit::{Span, Timestamp};

/// Returns what a retry is answered, or the refusal of an id that can no longer be told from a retry.
pub(super) fn recall(state: &State, entry: &Entry, now: Timestamp) -> Option<Answer> {
    let mark = entry.request.as_ref()?;
    if let Some(known) = state.requests.get(&mark.id) {
        return Some(if known.body == mark.body {
            known.answer.clone()
        } else {
            Err(Rejection::new(
                Code::Conflict,
                format!("request {} was used at entry {} for something else", mark.id, known.index),
                "a request id names one write; a retry sends the same body",
                String::from("send it with a new request id"),
            ))
        });
    }
    let skew = skew(state, mark.made_at, now);
    (skew >= state.meta.settings.request_skew).then(|| {
        Err(Rejection::new(
            Code::Expired,
            format!("request {} was made {skew} away from the cluster's time", mark.id),
            "its id may have been forgotten already, so it could be done twice",
            String::from("see whether it was done; if not, send it with a new request id"),
        ))
    })
}

/// Returns how far a request's own time is from `now`. What an operator's word passed over is no age: a request that
/// was under way when time was set is as young as it was.
fn skew(state: &State, made_at: Timestamp, now: Timestamp) -> Span {
    let plain = now.since(made_at).max(made_at.since(now));
    match state.meta.time_jump {
        Some(jump) if now >= jump.to => {
            let until = jump.from.since(made_at).max(made_at.since(jump.from));
            plain.min(now.since(jump.to).plus(until))
        }
        Some(_) | None => plain,
    }
}

/// Lets every remembered answer live as long as it would have, when an operator's word passes over `span`: a request
/// under way must not find its first try forgotten.
pub(super) fn carry_over(state: &mut State, span: Span) {
    let memory = state.meta.settings.request_memory;
    let known: Vec<RequestId> = state.requests.keys().copied().collect();
    for id in known {
        let Some(kept) = state.requests.get_mut(&id) else { continue };
        let before = kept.at;
        kept.at = before.plus(span);
        state.timers.remove(&(before.plus(memory), Timer::Request(id)));
        state.timers.insert((before.plus(span).plus(memory), Timer::Request(id)), ());
    }
}

/// Refuses a write whose answer could not be remembered. Submissions leave an eighth of the room to those who cancel,
/// drain and repair. Nothing was done and nothing is remembered, so trying again with the same id is right.
pub(super) fn refuse(state: &State, entry: &Entry) -> Result<(), Rejection> {
    let settings = &state.meta.settings;
    let max = match entry.command {
        _ if entry.request.is_none() => return Ok(()),
        Command::Submit(_) => settings.requests_max - settings.requests_max / 8,
        _ => settings.requests_max,
    };
    if state.requests.len() < forget::bound(max) {
        return Ok(());
    }
    Err(Rejection::new(
        Code::Full,
        format!("{max} requests came within {}", settings.request_memory),
        "each answer is remembered that long, so that repeating a request does nothing twice",
        String::from("send it again a little later"),
    ))
}

/// Keeps the answer for retries.
pub(super) fn remember(state: &mut State, entry: &Entry, index: LogIndex, answer: &Answer) {
    let Some(mark) = &entry.request else { return };
    let now = state.meta.time;
    let kept = Remembered { body: mark.body, at: now, index, answer: answer.clone() };
    state.requests.insert(mark.id, kept);
    state.timers.insert((now.plus(state.meta.settings.request_memory), Timer::Request(mark.id)), ());
}
