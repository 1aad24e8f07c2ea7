//! The budget tree: shown, compared with a file, changed.

use proto::{Wire as _, v1};
use scheduler_core::budget::{self, TreeNode};
use scheduler_core::command::{ApplyBudgets, CancelEdit, Command, Outcome, Rejection};
use scheduler_core::id::{EditId, Revision};
use scheduler_core::principal::Actor;
use scheduler_core::report;
use scheduler_core::unit::Timestamp;
use tonic::{Request, Status};

use crate::refusal;
use crate::shared::{self, Shared};
use crate::views;
use crate::write::{mark, write};

/// Shows the tree.
pub async fn tree(
    shared: &Shared,
    asked: Request<v1::BudgetTreeRequest>,
) -> Result<v1::BudgetTreeView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, asked.into_inner().read.unwrap_or_default().stale).await?;
    Ok(views::budget::tree(shared.scene(&read)))
}

/// Compares a file's tree with the present one.
pub async fn plan(
    shared: &Shared,
    asked: Request<v1::BudgetPlanRequest>,
) -> Result<v1::BudgetPlanReply, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let file = tree_of(asked.into_inner().tree)?;
    let read = shared.read(&caller, false).await?;
    let state = &read.view.state;
    let now = shared.scene(&read).now;
    let make = || {
        let changes = budget::diff(state, &file)?;
        let pools = report::edit(state, &file, now)?;
        Ok(v1::BudgetPlanReply {
            schema: "budget-plan/v1".to_owned(),
            revision: state.meta.tree.get(),
            changes: changes.iter().map(views::budget::change).collect(),
            effects: views::budget_edit::effects(state, &pools),
        })
    };
    shared.long_view(make).await?.map_err(|rejection: Rejection| refusal::status(&rejection))
}

/// Says what was owed and delivered.
pub async fn usage(
    shared: &Shared,
    asked: Request<v1::BudgetUsageRequest>,
) -> Result<v1::BudgetUsageView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let state = scene.state();
    let one = message.budget.as_deref().map(|path| budget::named(state, path));
    let one = one.transpose().map_err(|none| refusal::status(&none))?;
    let oldest = scene.now.minus(state.meta.settings.window);
    let from = message.since_at.map_or(oldest, Timestamp::from_millis).max(oldest).min(scene.now);
    let until = message.until_at.map_or(scene.now, Timestamp::from_millis).clamp(from, scene.now);
    shared.long_view(|| views::delivery::view(scene, one, (from, until))).await
}

/// Shows one budget in full.
pub async fn show(shared: &Shared, asked: Request<v1::ShowBudgetRequest>) -> Result<v1::BudgetView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let state = scene.state();
    let id = budget::named(state, &message.budget).map_err(|none| refusal::status(&none))?;
    let record = state.budgets.get(&id).ok_or_else(refusal::strange_answer)?;
    shared.long_view(|| views::budget_one::view(scene, id, record)).await
}

/// Takes an edit back whose time has not come.
pub async fn cancel_edit(
    shared: &Shared,
    asked: Request<v1::CancelBudgetEditRequest>,
) -> Result<v1::Done, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::CancelBudgetEditRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "cancel-budget-edit", &body)?;
    let cancel = CancelEdit { edit: EditId::new(message.edit), reason: message.reason };
    let actor = Actor::Principal(caller.name.clone());
    write(shared, actor, Some(mark), Command::CancelEdit(cancel), deadline).await?;
    Ok(v1::Done {})
}

/// Makes a file's tree the present one.
pub async fn apply(
    shared: &Shared,
    asked: Request<v1::BudgetApplyRequest>,
) -> Result<v1::BudgetApplyReply, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::BudgetApplyRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "budget-apply", &body)?;
    let command = Command::ApplyBudgets(ApplyBudgets {
        root: tree_of(message.tree)?,
        base: Revision::new(message.revision),
        reason: message.reason,
        at: message.at.map(Timestamp::from_millis),
    });
    let actor = Actor::Principal(caller.name.clone());
    match write(shared, actor, Some(mark), command, deadline).await?.outcome {
        Outcome::BudgetsApplied { revision } => {
            Ok(v1::BudgetApplyReply { revision: revision.get(), edit: None })
        }
        Outcome::EditPlanned { edit } => {
            Ok(v1::BudgetApplyReply { revision: message.revision, edit: Some(edit.get()) })
        }
        _ => Err(refusal::strange_answer()),
    }
}

fn tree_of(tree: Option<v1::TreeNode>) -> Result<TreeNode, Status> {
    let tree = tree.ok_or_else(|| refusal::missing("tree"))?;
    TreeNode::from_wire(tree).map_err(|cause| refusal::bad(&cause))
}
