//! Questions that change nothing: a dry run, the bill of preemptions, capacity.

use proto::v1;
use scheduler_core::array::JobArray;
use scheduler_core::command::Rejection;
use scheduler_core::id::JobId;
use scheduler_core::principal::Actor;
use scheduler_core::report::{self, By};
use scheduler_core::unit::{Span, Timestamp};
use tonic::{Request, Status};

use super::jobs::submission;
use super::likely;
use crate::past;
use crate::refusal;
use crate::shared::{Read, Shared};
use crate::views;

/// Judges a submission and plans it, without submitting it.
pub async fn plan_job(
    shared: &Shared,
    asked: Request<v1::PlanJobRequest>,
) -> Result<v1::PlanJobReply, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let submit = submission(message.job, message.launch)?;
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let links = shared.linked(scene.state());
    let actor = Actor::Principal(caller.name.clone());
    let plan = || {
        let dry = report::dry_run(scene.state(), &links, &actor, &submit, scene.now)?;
        let view = views::dry_run::view(scene, &caller.name, &submit, &dry);
        let (state, first) = report::submitted(scene.state(), &actor, &submit, scene.now)?;
        let first = if state.arrays.contains(&first) { JobArray::task_at(first, 0) } else { first };
        Ok((view, state, first))
    };
    let planned = shared.long_view(plan).await?;
    let (view, state, job) = planned.map_err(|rejection: Rejection| refusal::status(&rejection))?;
    if view.place.is_none() {
        return Ok(view);
    }
    let likely = likely::of(shared, scene, &caller.name, (state, links, job), message.futures, false).await;
    Ok(v1::PlanJobReply { likely, ..view })
}

/// Who asks for the whole window by its length has looked at a clock a moment ago.
const A_MOMENT: Span = Span::from_mins(1);

/// Says what preemptions cost.
pub async fn bill(shared: &Shared, asked: Request<v1::BillRequest>) -> Result<v1::BillView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let by = views::bill::by(&message.by).ok_or_else(|| {
        let what = "it is cause, tier, budget, user, size or basis";
        refusal::bad(&proto::Error::bad("by", what))
    })?;
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let since = message.since_at.map_or(Timestamp::ZERO, Timestamp::from_millis);
    let begin = scene.now.minus(scene.state().meta.settings.window);
    if message.since_at.is_some() && since.plus(A_MOMENT) < begin {
        return long_bill(shared, &read, by, since).await;
    }
    let make = || {
        let bills = report::bill(scene.state(), scene.now, since, &[by]);
        let known = report::bill(scene.state(), scene.now, since, &[By::Basis]);
        views::bill::view(scene, by, &bills, &known)
    };
    shared.long_view(make).await
}

/// Says what preemptions cost in a time that is longer than the window: with the bills that left state.
async fn long_bill(shared: &Shared, read: &Read, by: By, since: Timestamp) -> Result<v1::BillView, Status> {
    past::settle(shared, read.view.index).await?;
    let (read, reach) = past::bills_into(shared, read, since).await?;
    let scene = shared.scene(&read);
    let make = || {
        let bills = report::long_bill(scene.state(), scene.now, since, &[by]);
        let known = report::long_bill(scene.state(), scene.now, since, &[By::Basis]);
        views::bill::view(scene, by, &bills, &known)
    };
    let view = shared.long_view(make).await?;
    Ok(v1::BillView { reach: Some(reach), ..view })
}

/// Without a moment, waits are of the last week.
const A_WEEK: Span = Span::from_hours(7 * 24);

/// Says how long jobs waited for their first start.
pub async fn waits(shared: &Shared, asked: Request<v1::WaitsRequest>) -> Result<v1::WaitsView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let by = views::waits::by(&message.by)
        .ok_or_else(|| refusal::bad(&proto::Error::bad("by", "it is size, budget or tier")))?;
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    past::settle(shared, read.view.index).await?;
    let scene = shared.scene(&read);
    let since = message.since_at.map_or(scene.now.minus(A_WEEK), Timestamp::from_millis);
    let (mut waits, reach) = past::waits::left_since(shared, &read, since).await?;
    let make = || {
        let state = scene.state();
        waits.extend(state.jobs.iter().filter_map(|(id, job)| report::wait(state, *id, job, scene.now)));
        views::waits::view(scene, by, since, &waits)
    };
    let view = shared.long_view(make).await?;
    Ok(v1::WaitsView { reach: Some(reach), ..view })
}

/// Says what would become of a waiting job if something were another.
pub async fn what_if(shared: &Shared, asked: Request<v1::WhatIfRequest>) -> Result<v1::WhatIfView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let changes = views::what_if::changes(&message).map_err(|error| refusal::bad(&error))?;
    if changes.is_empty() {
        return Err(refusal::bad(&proto::Error::bad("what_if", "nothing is said to be another")));
    }
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let links = shared.linked(scene.state());
    let make = || {
        let job = JobId::new(message.job);
        let answer = report::what_if(scene.state(), &links, job, &changes, scene.now)?;
        Ok(views::what_if::view(scene, &answer, &changes))
    };
    shared.long_view(make).await?.map_err(|rejection: Rejection| refusal::status(&rejection))
}

/// Says what is idle, and what becomes free when.
pub async fn capacity(
    shared: &Shared,
    asked: Request<v1::CapacityRequest>,
) -> Result<v1::CapacityView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, asked.into_inner().read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let links = shared.linked(scene.state());
    let make = || views::capacity::view(scene, &report::capacity(scene.state(), &links, scene.now));
    shared.long_view(make).await
}
