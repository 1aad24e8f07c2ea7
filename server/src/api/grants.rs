//! Share for a time: made, ended, listed.

use proto::v1;
use scheduler_core::budget;
use scheduler_core::command::{Command, EndGrant, GrantShare, Outcome};
use scheduler_core::id::GrantId;
use scheduler_core::principal::Actor;
use scheduler_core::unit::{Share, Timestamp};
use tonic::{Request, Status};

use crate::refusal;
use crate::shared::{self, Shared};
use crate::views;
use crate::write::{mark, write};

/// Gives a budget more share for a time.
pub async fn grant(shared: &Shared, asked: Request<v1::BudgetGrantRequest>) -> Result<v1::GrantView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::BudgetGrantRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "budget-grant", &body)?;
    let share = Share::from_ppm(message.share_ppm)
        .ok_or_else(|| refusal::bad(&proto::Error::bad("share_ppm", "more than the whole")))?;
    let command = Command::Grant(GrantShare {
        to: message.budget,
        from: message.from_budget,
        share,
        begins_at: message.begins_at.map(Timestamp::from_millis),
        until: Timestamp::from_millis(message.until_at),
        reason: message.reason,
    });
    let actor = Actor::Principal(caller.name.clone());
    let written = write(shared, actor, Some(mark), command, deadline).await?;
    let Outcome::Granted { grant } = written.outcome else { return Err(refusal::strange_answer()) };
    let read = shared.after(written.index).await?;
    let scene = shared.scene(&read);
    let record = scene.state().grants.get(&grant).ok_or_else(refusal::strange_answer)?;
    Ok(views::budget::grant_view(scene, grant, record))
}

/// Ends a grant early.
pub async fn end(
    shared: &Shared,
    asked: Request<v1::EndBudgetGrantRequest>,
) -> Result<v1::GrantView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::EndBudgetGrantRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "end-budget-grant", &body)?;
    let grant = GrantId::new(message.grant);
    let before = {
        let read = shared.read(&caller, false).await?;
        let scene = shared.scene(&read);
        scene.state().grants.get(&grant).map(|record| views::budget::grant_view(scene, grant, record))
    };
    let command = Command::EndGrant(EndGrant { grant, reason: message.reason });
    let actor = Actor::Principal(caller.name.clone());
    let written = write(shared, actor, Some(mark), command, deadline).await?;
    let read = shared.after(written.index).await?;
    let scene = shared.scene(&read);
    match scene.state().grants.get(&grant) {
        Some(record) => Ok(views::budget::grant_view(scene, grant, record)),
        // It had not begun.
        None => Ok(v1::GrantView {
            state: "taken-back".to_owned(),
            ..before.unwrap_or(v1::GrantView { grant: grant.get(), ..v1::GrantView::default() })
        }),
    }
}

/// Lists the grants that run, will, or still count in the window.
pub async fn list(shared: &Shared, asked: Request<v1::BudgetGrantsRequest>) -> Result<v1::GrantList, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let state = scene.state();
    let below = match &message.budget {
        None => None,
        Some(path) => Some(budget::named(state, path).map_err(|none| refusal::status(&none))?),
    };
    let concerns = |grant: &budget::Grant| {
        let is_below = |id| below.is_none_or(|top| budget::path(state, id).contains(&top));
        is_below(grant.to) || grant.from.is_some_and(is_below)
    };
    let rows = state.grants.iter().filter(|(_, grant)| concerns(grant));
    Ok(v1::GrantList {
        schema: "budget-grants/v1".to_owned(),
        as_of: scene.as_of(),
        grants: rows.map(|(id, grant)| views::budget::grant_view(scene, *id, grant)).collect(),
    })
}
