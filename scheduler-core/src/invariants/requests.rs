//! Each remembered answer is younger than the memory, so memory is bounded by what can be asked in that time.

use alloc::format;
use alloc::string::String;

use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    let (now, memory) = (state.meta.time, state.meta.settings.request_memory);
    let old = state.requests.iter().find(|(_, kept)| kept.at > now || kept.at.plus(memory) <= now);
    match old {
        None => Ok(()),
        Some((id, kept)) => Err(format!("the answer to {id} is of {:?}, now is {now:?}", kept.at)),
    }
}
