//! Request ids: the same write twice is one write (DESIGN 8.5).

use alloc::format;
use alloc::string::String;

use crate::command::{Answer, Code, Entry, Rejection, Remembered};
use crate::id::LogIndex;
use crate::state::{State, Timer};
use crate::unit::Timestamp;

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
    let skew = now.since(mark.made_at).max(mark.made_at.since(now));
    (skew >= state.meta.settings.request_skew).then(|| {
        Err(Rejection::new(
            Code::Expired,
            format!("request {} was made {skew} away from the cluster's time", mark.id),
            "its id may have been forgotten already, so it could be done twice",
            String::from("see whether it was done; if not, send it with a new request id"),
        ))
    })
}

/// Keeps the answer for retries.
pub(super) fn remember(state: &mut State, entry: &Entry, now: Timestamp, index: LogIndex, answer: &Answer) {
    let Some(mark) = &entry.request else { return };
    let kept = Remembered { body: mark.body, at: now, index, answer: answer.clone() };
    state.requests.insert(mark.id, kept);
    state.timers.insert((now.plus(state.meta.settings.request_memory), Timer::Request(mark.id)), ());
}
