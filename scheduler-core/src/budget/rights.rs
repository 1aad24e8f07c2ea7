//! Who may do what with a budget (DESIGN 8.7).

use super::{ROOT, path};
use crate::id::{BudgetId, Name};
use crate::principal::Actor;
use crate::state::State;

/// Whether `who` may submit to it: a member of it or of one above, or an owner there.
#[must_use]
pub fn is_member(state: &State, who: &Name, budget: BudgetId) -> bool {
    let belongs = |id: &BudgetId| {
        state.budgets.get(id).is_some_and(|b| b.members.contains(who) || b.owner.as_ref() == Some(who))
    };
    path(state, budget).iter().any(belongs)
}

/// Whether `who` owns it or one above.
#[must_use]
pub fn owns(state: &State, who: &Name, budget: BudgetId) -> bool {
    let is_owner = |id: &BudgetId| state.budgets.get(id).is_some_and(|b| b.owner.as_ref() == Some(who));
    path(state, budget).iter().any(is_owner)
}

/// Whether `who` is an operator whose token was not revoked.
#[must_use]
pub fn is_operator(state: &State, who: &Name) -> bool {
    state.principals.get(who).is_some_and(|p| p.is_operator && !p.is_revoked)
}

/// Whether `actor` may change a budget itself: its share, owner, members, defaults, or close it. The owner of one
/// above may, its own owner may not; operators and the root's owner may change all.
#[must_use]
pub fn may_edit(state: &State, actor: &Actor, budget: BudgetId) -> bool {
    let Actor::Principal(who) = actor else {
        return false;
    };
    let above = state.budgets.get(&budget).and_then(|b| b.parent).unwrap_or(ROOT);
    is_operator(state, who) || owns(state, who, above)
}
