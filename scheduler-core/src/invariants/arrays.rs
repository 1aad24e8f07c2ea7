//! Every index of an array is one task, which runs once to its end: it was not made yet, is in state and lives, or is
//! counted by how it ended. Never more of them live than the array's limit, and never fewer while there are more.

use alloc::format;
use alloc::string::String;

use super::Change;
use crate::array::JobArray;
use crate::id::JobId;
use crate::job::{End, Phase};
use crate::lifecycle::array;
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.arrays.iter().try_for_each(|(id, array)| check(state, *id, array))?;
    for (id, job) in state.jobs.iter() {
        let Some(task) = job.array else { continue };
        let place = match array::of(state, *id) {
            Some((of, array, place)) if of == task.of => {
                array.indexes.at(place).map(|index| (array, place, index))
            }
            // Of an array that left state all tasks have ended.
            _ if !state.arrays.contains(&task.of) && job.phase.is_ended() => continue,
            _ => None,
        };
        match place {
            Some((array, place, index)) if index == task.index && place < array.made => {}
            _ => return Err(format!("job {id} says that it is {}[{}]", task.of, task.index)),
        }
    }
    Ok(())
}

/// What was made stays made, and what has ended stays so.
pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    let (before, after) = (change.before, change.after);
    for (id, array) in after.arrays.touched_since(&before.arrays) {
        check_counts(*id, array)?;
        let Some(was) = before.arrays.get(id) else { continue };
        let has_fallen = array.made < was.made
            || array.ended() < was.ended()
            || was.ends.iter().any(|(end, count)| array.ends.get(end).is_none_or(|now| now < count));
        if has_fallen || array.indexes != was.indexes {
            return Err(format!(
                "array {id} had made {} and ended {:?}, now {} and {:?}",
                was.made, was.ends, array.made, array.ends
            ));
        }
    }
    Ok(())
}

fn check(state: &State, id: JobId, array: &JobArray) -> Result<(), String> {
    check_counts(id, array)?;
    let live = array::live(state, id).len();
    if u32::try_from(live) != Ok(array.live) {
        return Err(format!("{live} tasks of array {id} live, counted {}", array.live));
    }
    let ended = array.ended() - array.ends.get(&End::Completed).copied().unwrap_or(0);
    if array.bad.count() != ended {
        return Err(format!("{ended} tasks of array {id} have not completed, marked {}", array.bad.count()));
    }
    Ok(())
}

fn check_counts(id: JobId, array: &JobArray) -> Result<(), String> {
    let (count, ended, live) = (array.indexes.count(), array.ended(), array.live);
    let is_full = live == array.width() || array.rest() == 0;
    let is_right = match array.job.phase {
        Phase::Ended { .. } => ended == count && live == 0,
        Phase::Waiting { .. } => ended < count && is_full,
        Phase::Held { .. } => ended < count,
        Phase::Live(_) => false,
    };
    if is_right && live <= array.width() && ended.saturating_add(live) <= count && array.made <= count {
        return Ok(());
    }
    Err(format!("array {id} of {count} is {:?}, {live} of its tasks live, {ended} ended", array.job.phase))
}
