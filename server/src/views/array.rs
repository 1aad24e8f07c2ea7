//! Arrays: their tasks in sum.

use proto::v1;
use scheduler_core::array::JobArray;
use scheduler_core::explain::{self, Stage};
use scheduler_core::id::{JobId, Name};
use scheduler_core::job::Phase;
use scheduler_core::lifecycle::array;
use scheduler_core::lifecycle::book::charge_so_far;
use scheduler_core::unit::ChargeMillis;

use super::job::{self, Stands};
use super::queue::Standings;
use super::{Scene, charge, words};

/// How many tasks that have not completed are named.
const NAMED: usize = 100;

/// Returns an array as `reader` may see it.
#[must_use]
pub fn view(scene: Scene<'_>, id: JobId, array: &JobArray, reader: &Name, stands: &Stands) -> v1::JobView {
    let state = scene.state();
    let live = array::tasks(state, id).filter(|(_, job)| !job.phase.is_ended());
    let runs = live.filter_map(|(id, job)| {
        let so_far = job::of_job(state, *id).filter(|(_, attempt)| attempt.ended.is_none());
        let so_far = so_far.map(|(_, attempt)| charge_so_far(attempt, scene.now));
        so_far.chain([job.charged]).reduce(|a, b| a.checked_add(b).unwrap_or(a))
    });
    let charged =
        runs.fold(array.job.charged, |sum: ChargeMillis, more| sum.checked_add(more).unwrap_or(sum));
    v1::JobView {
        shown_as: id.to_string(),
        tasks: Some(tasks(scene, id, array)),
        charged_milli_gpu_ms: charge(charged),
        ..job::view(scene, id, &array.job, reader, stands)
    }
}

/// Returns an array's tasks in sum.
#[must_use]
pub fn tasks(scene: Scene<'_>, id: JobId, array: &JobArray) -> v1::ArrayView {
    let sums = explain::sums(scene.state(), id, array, scene.now);
    let count = |state: &str, tasks: u32| v1::TaskCount { state: state.to_owned(), tasks };
    let stages = sums.stages.iter().map(|(stage, tasks)| count(stage.as_str(), *tasks));
    let ends = sums.ends.iter().map(|(end, tasks)| count(words::end(*end), *tasks));
    let mut bad: Vec<u32> =
        array.bad.iter().filter_map(|place| array.indexes.at(place)).take(NAMED).collect();
    bad.sort_unstable();
    v1::ArrayView {
        indexes: array.indexes.to_string(),
        count: array.indexes.count(),
        at_once: array.width(),
        states: stages.chain(ends).collect(),
        not_completed: bad,
    }
}

/// Returns where an array stands: where its tasks are, and while all of them wait, where the first is.
#[must_use]
pub fn stands(scene: Scene<'_>, id: JobId, array: &JobArray, standings: &mut Standings<'_>) -> Stands {
    let state = scene.state();
    if let Some(standing) = explain::array_standing(state, id, array, scene.now) {
        return Stands { stage: standing.stage, since: standing.since, reason: Some(standing.reason) };
    }
    match array::tasks(state, id).find(|(_, job)| matches!(job.phase, Phase::Waiting { .. })) {
        Some((first, job)) => standings.of(*first, job),
        None => Stands { stage: Stage::Waiting, since: array.job.submitted_at, reason: None },
    }
}

/// Returns a task whose turn has not come, or that has left state, as far as its array tells of it.
#[must_use]
pub fn absent(scene: Scene<'_>, (id, array): (JobId, &JobArray), place: u32, reader: &Name) -> v1::JobView {
    let state = scene.state();
    let number = JobArray::task_at(id, place);
    let ended = scheduler_core::lifecycle::forget::result(state, number).map(|(end, _)| words::end(end));
    let (stage, reason) = match (&array.job.phase, ended) {
        (_, Some(_)) => (Stage::Ended, None),
        (Phase::Held { .. }, None) => {
            let held = explain::standing(state, id, &array.job, scene.now);
            (Stage::Held, held.map(|standing| standing.reason))
        }
        (Phase::Waiting { .. } | Phase::Live(_) | Phase::Ended { .. }, None) => (Stage::Waiting, None),
    };
    let stands = Stands { stage, since: array.job.submitted_at, reason };
    v1::JobView {
        end: ended.map(str::to_owned),
        charged_milli_gpu_ms: charge(ChargeMillis::ZERO),
        shown_as: format!("{id}[{}]", array.indexes.at(place).unwrap_or(place)),
        array: Some(id.get()),
        task: array.indexes.at(place),
        ..job::view(scene, number, &array.job, reader, &stands)
    }
}
