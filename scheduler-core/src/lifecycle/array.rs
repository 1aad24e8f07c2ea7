//! The life of an array: its tasks are made as others end, and it ends with the last.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use crate::array::{JobArray, Task};
use crate::id::{AttemptNo, JobId};
use crate::job::{End, HeldBy, Job, Phase};
use crate::lifecycle::{before, forget, phase, want};
use crate::state::{State, Timer};
use crate::unit::Timestamp;

/// Takes a new array into state, and makes its first tasks unless it is held.
pub fn admit(state: &mut State, id: JobId, array: JobArray, now: Timestamp) {
    if let Some(until) = phase::released_at(&array.job.phase) {
        state.timers.insert((until, Timer::Release(id)), ());
    }
    before::enter(state, id, &array.job.before);
    state.meta.live_jobs = state.meta.live_jobs.saturating_add(places(&array));
    state.meta.array_tasks = state.meta.array_tasks.saturating_add(array.indexes.count());
    state.arrays.insert(id, array);
    want::update_array(state, id, 0, now);
    counted(state, id, now, |state| make(state, id, now));
}

/// Changes an array, and brings the books up to its tasks to come. Not within another change of the same array.
fn counted(state: &mut State, id: JobId, now: Timestamp, change: impl FnOnce(&mut State)) {
    let had = state.arrays.get(&id).map_or(0, want::to_come);
    change(state);
    want::update_array(state, id, had, now);
}

/// Returns how many places among the live jobs an array has until it ends: its own, and those of its tasks.
#[must_use]
pub fn places(array: &JobArray) -> u32 {
    array.width().saturating_add(1)
}

/// Returns the array that a number is a task of, with the task's place.
#[must_use]
pub fn of(state: &State, task: JobId) -> Option<(JobId, &JobArray, u32)> {
    let (id, array) = state.arrays.at_or_before(&task)?;
    Some((*id, array, array.place_of(*id, task)?))
}

/// Returns the array of a task that was not made yet and is not cancelled, with the task's place.
#[must_use]
pub fn unmade(state: &State, task: JobId) -> Option<(JobId, &JobArray, u32)> {
    let (id, array, place) = of(state, task)?;
    (place >= array.made && !array.skipped.contains(place)).then_some((id, array, place))
}

/// Returns the tasks of an array that state has, in order.
pub fn tasks(state: &State, id: JobId) -> impl Iterator<Item = (&JobId, &Job)> {
    let count = state.arrays.get(&id).map_or(0, |array| array.indexes.count());
    let last = JobId::new(id.get().saturating_add(count));
    state.jobs.range(id..=last).filter(move |(_, job)| job.array.is_some_and(|task| task.of == id))
}

/// Makes tasks as long as the array may have more of them.
fn make(state: &mut State, id: JobId, now: Timestamp) {
    while let Some((task, job)) = next(state, id, now) {
        if let Some(launch) = state.launches.get_mut(&job.launch) {
            launch.jobs = launch.jobs.saturating_add(1);
        }
        phase::admit(state, task, job);
    }
}

/// Returns the next task, if the array may have one more now.
fn next(state: &mut State, id: JobId, now: Timestamp) -> Option<(JobId, Job)> {
    let array = state.arrays.get(&id)?;
    if !array.job.phase.is_waiting() || array.live >= array.width() {
        return None;
    }
    let (made, count) = (array.made, array.indexes.count());
    let place = (made..count).find(|place| !array.skipped.contains(*place));
    let array = state.arrays.get_mut(&id)?;
    array.made = place.map_or(count, |place| place.saturating_add(1));
    let place = place?;
    array.live = array.live.saturating_add(1);
    let index = array.indexes.at(place)?;
    let job = Job {
        phase: Phase::Waiting { since: now },
        next_attempt: AttemptNo::new(1),
        array: Some(Task { of: id, index }),
        before: crate::job::Before::default(),
        charged: crate::unit::ChargeMillis::ZERO,
        wants: Vec::new(),
        ..array.job.clone()
    };
    Some((JobArray::task_at(id, place), job))
}

/// A task has ended: the next is made, and the array ends with its last.
pub fn task_ended(state: &mut State, id: JobId, end: End, now: Timestamp) {
    let Some((task, charged)) = state.jobs.get(&id).and_then(|job| Some((job.array?, job.charged))) else {
        return;
    };
    counted(state, task.of, now, |state| {
        let Some(array) = state.arrays.get_mut(&task.of) else { return };
        let Some(place) = array.place_of(task.of, id) else { return };
        array.live = array.live.saturating_sub(1);
        array.job.charged = array.job.charged.checked_add(charged).unwrap_or(array.job.charged);
        count(array, place, end);
        if end != End::Completed {
            before::cannot_complete(state, task.of, now);
        }
        make(state, task.of, now);
        end_if_over(state, task.of, now);
    });
}

fn count(array: &mut JobArray, place: u32, end: End) {
    let ended = array.ends.entry(end).or_default();
    *ended = ended.saturating_add(1);
    if end != End::Completed {
        array.bad.insert(place);
    }
}

/// Cancels a task whose turn has not come.
pub fn skip(state: &mut State, id: JobId, place: u32, now: Timestamp) {
    counted(state, id, now, |state| skip_one(state, id, place, now));
}

fn skip_one(state: &mut State, id: JobId, place: u32, now: Timestamp) {
    let Some(array) = state.arrays.get_mut(&id) else { return };
    if place < array.made || !array.skipped.insert(place) {
        return;
    }
    count(array, place, End::Cancelled);
    let task = JobArray::task_at(id, place);
    before::ended(state, task, End::Cancelled, now);
    before::cannot_complete(state, id, now);
    end_if_over(state, id, now);
}

/// Cancels every task whose turn has not come.
pub fn skip_rest(state: &mut State, id: JobId, now: Timestamp) {
    counted(state, id, now, |state| skip_all(state, id, now));
}

fn skip_all(state: &mut State, id: JobId, now: Timestamp) {
    let Some(array) = state.arrays.get_mut(&id) else { return };
    let rest = array.made..array.indexes.count();
    let mut skipped = 0_u32;
    for place in rest.clone().filter(|place| array.skipped.insert(*place)) {
        array.bad.insert(place);
        skipped = skipped.saturating_add(1);
    }
    array.made = rest.end;
    if skipped > 0 {
        let ended = array.ends.entry(End::Cancelled).or_default();
        *ended = ended.saturating_add(skipped);
        for task in awaited(state, id, rest) {
            before::ended(state, task, End::Cancelled, now);
        }
        before::cannot_complete(state, id, now);
    }
    end_if_over(state, id, now);
}

/// Returns the tasks at these places that somebody waits for.
fn awaited(state: &State, id: JobId, places: Range<u32>) -> Vec<JobId> {
    let (first, last) = (JobArray::task_at(id, places.start), JobArray::task_at(id, places.end));
    let rows = state.dependents.range((first, JobId::new(0))..(last, JobId::new(0)));
    let tasks: BTreeSet<JobId> = rows.map(|((task, _), ())| *task).collect();
    tasks.into_iter().collect()
}

fn end_if_over(state: &mut State, id: JobId, now: Timestamp) {
    let Some(array) = state.arrays.get(&id) else { return };
    if array.job.phase.is_ended() || !array.is_over() {
        return;
    }
    let (end, places) = (array.end(), places(array));
    enter(state, id, Phase::Ended { at: now, end, exit: None });
    state.meta.live_jobs = state.meta.live_jobs.saturating_sub(places);
    before::leave(state, id);
    before::ended(state, id, end, now);
    state.ended.insert((now, id), ());
}

/// Makes the tasks of an array as they are needed, from now on.
pub fn open(state: &mut State, id: JobId, now: Timestamp) {
    counted(state, id, now, |state| {
        enter(state, id, Phase::Waiting { since: now });
        make(state, id, now);
    });
}

/// Makes no more tasks of an array until it is released.
pub fn hold(state: &mut State, id: JobId, by: HeldBy, now: Timestamp) {
    counted(state, id, now, |state| enter(state, id, Phase::Held { since: now, by }));
}

fn enter(state: &mut State, id: JobId, phase: Phase) {
    let Some(array) = state.arrays.get_mut(&id) else { return };
    let before = core::mem::replace(&mut array.job.phase, phase);
    let after = phase::released_at(&array.job.phase);
    if let Some(until) = phase::released_at(&before) {
        state.timers.remove(&(until, Timer::Release(id)));
    }
    if let Some(until) = after {
        state.timers.insert((until, Timer::Release(id)), ());
    }
}

/// Takes an ended array out of state. How it ended stays known, how each task did does not.
pub fn forget(state: &mut State, id: JobId) {
    let Some(array) = state.arrays.remove(&id) else { return };
    state.meta.array_tasks = state.meta.array_tasks.saturating_sub(array.indexes.count());
    forget::left(state, id, &array.job);
}

/// Returns the live tasks of an array.
#[must_use]
pub fn live(state: &State, id: JobId) -> Vec<JobId> {
    tasks(state, id).filter(|(_, job)| !job.phase.is_ended()).map(|(id, _)| *id).collect()
}
