//! The budget tree: shown, compared with a file, changed.

use proto::{Wire as _, v1};
use scheduler_core::budget::{self, TreeNode};
use scheduler_core::command::{ApplyBudgets, Command, Outcome};
use scheduler_core::id::Revision;
use scheduler_core::principal::Actor;
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
    let changes = budget::diff(state, &file).map_err(|rejection| refusal::status(&rejection))?;
    Ok(v1::BudgetPlanReply {
        schema: "budget-plan/v1".to_owned(),
        revision: state.meta.tree.get(),
        changes: changes.iter().map(views::budget::change).collect(),
    })
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
    });
    let actor = Actor::Principal(caller.name.clone());
    match write(shared, actor, Some(mark), command, deadline).await?.outcome {
        Outcome::BudgetsApplied { revision } => Ok(v1::BudgetApplyReply { revision: revision.get() }),
        _ => Err(refusal::strange_answer()),
    }
}

fn tree_of(tree: Option<v1::TreeNode>) -> Result<TreeNode, Status> {
    let tree = tree.ok_or_else(|| refusal::missing("tree"))?;
    TreeNode::from_wire(tree).map_err(|cause| refusal::bad(&cause))
}
