//! Who may ask.

use proto::v1;
use scheduler_core::id::Name;
use scheduler_core::principal::Principal;

use super::{Scene, words};

/// Returns a principal with the budgets it owns and is a member of.
#[must_use]
pub fn view(scene: Scene<'_>, name: &Name, principal: &Principal) -> v1::PrincipalView {
    let state = scene.state();
    let owns = state.budgets.iter().filter(|(_, budget)| budget.owner.as_ref() == Some(name));
    let member = state.budgets.iter().filter(|(_, budget)| budget.members.contains(name));
    v1::PrincipalView {
        name: name.to_string(),
        account: principal.account.as_str().to_owned(),
        operator: principal.is_operator,
        revoked: principal.is_revoked,
        owns: owns.map(|(id, _)| words::budget_path(state, *id)).collect(),
        member_of: member.map(|(id, _)| words::budget_path(state, *id)).collect(),
    }
}
