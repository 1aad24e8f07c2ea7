//! What nodes read is kept exactly as long as a job refers to it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    let mut needed: BTreeMap<_, u32> = BTreeMap::new();
    for job in state.jobs.values().chain(state.arrays.values().map(|array| &array.job)) {
        *needed.entry(job.launch).or_default() += 1;
    }
    let kept: BTreeMap<_, u32> = state.launches.iter().map(|(hash, launch)| (*hash, launch.jobs)).collect();
    if needed == kept { Ok(()) } else { Err(format!("needed {needed:?}, kept {kept:?}")) }
}
