//! The queue: who starts and who waits, in order.

use std::collections::BTreeMap;

use proto::v1;
use scheduler_core::budget;
use scheduler_core::explain::{self, Stage};
use scheduler_core::id::{BudgetId, JobId, Name};
use scheduler_core::job::Phase;
use scheduler_core::plan::Links;
use scheduler_core::queue::{self, Row};
use scheduler_core::unit::Timestamp;

use super::job::Stands;
use super::{Scene, array, pool, use_view, words};

/// Which rows are asked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of this budget and those below it.
    pub budget: Option<BudgetId>,
    /// Of this user.
    pub user: Option<Name>,
    /// At most so many; all if 0.
    pub top: usize,
}

/// Returns the queue.
#[must_use]
pub fn view(scene: Scene<'_>, links: &Links, wanted: &Wanted) -> v1::QueueView {
    let state = scene.state();
    let is_wanted = |row: &Row| {
        let is_there = wanted.budget.is_none_or(|above| budget::path(state, row.budget).contains(&above));
        is_there && wanted.user.as_ref().is_none_or(|user| *user == row.user)
    };
    let rows: Vec<Row> = queue::folded(state, links, scene.now).into_iter().filter(is_wanted).collect();
    let shown = if wanted.top == 0 { rows.len() } else { wanted.top.min(rows.len()) };
    v1::QueueView {
        schema: "queue/v1".to_owned(),
        as_of: scene.as_of(),
        pools: pool::pools(state, scene.now),
        rows: rows.iter().take(shown).map(|row| row_view(scene, row)).collect(),
        left_out: u64::try_from(rows.len() - shown).unwrap_or(u64::MAX),
        safe_mode: state.meta.safe_mode.as_ref().map(|mode| mode.what.clone()),
        last_round_at: None,
    }
}

fn row_view(scene: Scene<'_>, row: &Row) -> v1::QueueRow {
    let state = scene.state();
    v1::QueueRow {
        place: row.place.unwrap_or(0),
        job: row.job.get(),
        name: row.name.to_string(),
        user: row.user.to_string(),
        budget: words::budget_path(state, row.budget),
        gpus: row.gpus,
        tier: words::tier(row.tier).to_owned(),
        min_runtime_ms: row.min_runtime.as_millis(),
        use_by_level: row.uses.iter().map(|used| use_view(state, used)).collect(),
        submitted_at: row.submitted_at.as_millis(),
        waiting_since_at: row.since.as_millis(),
        reason: row.reason.token.as_str().to_owned(),
        sentence: row.reason.sentence.clone(),
        shown_as: row.job.to_string(),
        date_at: row.date.map(Timestamp::as_millis),
        over_burst: row.over.map_or_else(String::new, |over| explain::over(state, &over)),
        tasks: state.arrays.get(&row.job).map(|whole| array::tasks(scene, row.job, whole)),
    }
}

/// Where jobs stand; the waiting ones are looked up in one pass over the queue, made when the first is asked for.
pub struct Standings<'a> {
    scene: Scene<'a>,
    links: &'a Links,
    waiting: Option<BTreeMap<JobId, Row>>,
}

impl<'a> Standings<'a> {
    /// Prepares to answer.
    #[must_use]
    pub fn new(scene: Scene<'a>, links: &'a Links) -> Self {
        Self { scene, links, waiting: None }
    }

    /// Returns where a job stands and why.
    pub fn of(&mut self, id: JobId, job: &scheduler_core::job::Job) -> Stands {
        let (state, now) = (self.scene.state(), self.scene.now);
        if let Phase::Waiting { since } = job.phase {
            let rows = self.waiting.get_or_insert_with(|| {
                queue::rows(state, self.links, now).into_iter().map(|row| (row.job, row)).collect()
            });
            let reason = rows.get(&id).map(|row| row.reason.clone());
            return Stands { stage: Stage::Waiting, since, reason };
        }
        match explain::standing(state, id, job, now) {
            Some(standing) => {
                Stands { stage: standing.stage, since: standing.since, reason: Some(standing.reason) }
            }
            None => Stands { stage: Stage::Waiting, since: job.submitted_at, reason: None },
        }
    }
}
