//! What a plan says of dates takes effect, in its place among the plan's decisions; each step is checked again, alone.

use alloc::vec::Vec;

use super::adopt::check_together;
use super::context::Context;
use crate::date::{DATES_MAX, Date, Promise};
use crate::decision::{DateStep, Dropped, Plan, Step};
use crate::id::{DecisionId, JobId};
use crate::job::Job;
use crate::lifecycle::dates;
use crate::pool;
use crate::spec::Tier;
use crate::state::State;

/// The steps of a plan that were not taken yet.
pub(super) struct Steps<'a> {
    rest: &'a [DateStep],
    /// The number of the next one.
    n: u16,
}

impl<'a> Steps<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        Self { rest: &plan.dates, n: u16::try_from(plan.decisions.len()).unwrap_or(u16::MAX) }
    }

    /// Takes those that come before the decision with this number.
    pub(super) fn up_to(
        &mut self,
        state: &mut State,
        cx: &Context<'_>,
        number: u16,
        dropped: &mut Vec<(u16, Dropped)>,
    ) {
        while let Some((step, rest)) = self.rest.split_first().filter(|(step, _)| step.after <= number) {
            let id = DecisionId { index: cx.index, n: self.n };
            if let Err(why) = take(state, cx, id, step) {
                dropped.push((self.n, why));
            }
            (self.rest, self.n) = (rest, self.n.saturating_add(1));
        }
    }
}

fn take(state: &mut State, cx: &Context<'_>, id: DecisionId, step: &DateStep) -> Result<(), Dropped> {
    let job = state.jobs.get(&step.job).filter(|job| job.phase.is_waiting()).ok_or(Dropped::NotWaiting)?;
    let is_its_pool = job.terms.cluster.as_ref().is_none_or(|cluster| pool::has(state, &step.pool, cluster));
    if job.terms.tier != Tier::Funded || !is_its_pool {
        return Err(Dropped::WrongShape);
    }
    let key = (step.job, step.pool.clone());
    match &step.step {
        Step::Issue(to) | Step::Move { to, .. } => check_together(state, &to.on, &job.terms.shape)?,
        Step::Drop { .. } => {}
    }
    match &step.step {
        Step::Issue(promise) => {
            if state.dates.contains(&key) {
                return Err(Dropped::DateStands);
            }
            if state.dates.len() >= DATES_MAX {
                return Err(Dropped::TooManyDates);
            }
            let promise = dates::checked(state, (step.job, job), &step.pool, promise)?;
            let date = Date { issued_at: cx.now, decision: id, promise, moved: 0, moves: Vec::new() };
            state.dates.insert(key, date);
        }
        Step::Move { to, .. } => {
            let (old, trouble) = broken(state, (step.job, job), step, cx)?;
            let promise = dates::checked(state, (step.job, job), &step.pool, to)?;
            let mut date = old;
            date.moves_to(promise, trouble, cx.now);
            state.dates.insert(key, date);
        }
        Step::Drop { .. } => {
            broken(state, (step.job, job), step, cx)?;
            state.dates.remove(&key);
        }
    }
    Ok(())
}

/// Returns a date whose promise can't be kept as it is, and why: no other moves, or ends before its job does.
fn broken(
    state: &State,
    (id, job): (JobId, &Job),
    step: &DateStep,
    cx: &Context<'_>,
) -> Result<(Date, crate::date::Trouble), Dropped> {
    let date = state.dates.get(&(id, step.pool.clone())).ok_or(Dropped::DateStands)?;
    let promise: &Promise = &date.promise;
    let trouble = dates::trouble(state, id, job, promise, cx.now).ok_or(Dropped::DateStands)?;
    Ok((date.clone(), trouble))
}
