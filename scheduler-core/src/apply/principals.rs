//! Principals come and go.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::rights;
use crate::command::{AddPrincipal, Answer, Code, Rejection};
use crate::id::Name;
use crate::principal::Principal;
use crate::state::State;

/// The most principals.
pub(crate) const PRINCIPALS_MAX: usize = 100_000;

/// Adds a principal, or gives a revoked one a new token.
pub(super) fn add(state: &mut State, cx: &Context<'_>, new: &AddPrincipal) -> Answer {
    rights::operator_or_root_owner(state, cx)?;
    if new.is_operator {
        rights::operator(state, cx)?;
    }
    let known = state.principals.get(&new.name);
    if known.is_some_and(|known| !known.is_revoked) {
        let what = format!("there is a principal `{}`", new.name);
        let fix = String::from("take another name, or revoke it first");
        return Err(Rejection::new(Code::NameTaken, what, "", fix));
    }
    let is_full = known.is_none() && state.principals.len() >= PRINCIPALS_MAX;
    let leaves = if is_full { Some(someone_revoked(state)?) } else { None };
    if state.principals.values().any(|other| other.token == new.token) {
        let what = String::from("a principal has, or had, this token");
        return Err(Rejection::new(Code::Conflict, what, "", String::from("make a new token")));
    }
    if let Some(leaves) = leaves {
        state.principals.remove(&leaves);
    }
    let principal = Principal {
        token: new.token,
        account: new.account.clone(),
        is_operator: new.is_operator,
        is_revoked: false,
    };
    state.principals.insert(new.name.clone(), principal);
    DONE
}

/// Returns a principal who can leave state: revoked, without a job there and named by no budget.
fn someone_revoked(state: &State) -> Result<Name, Rejection> {
    let mut needed: BTreeSet<&Name> = state.jobs.values().map(|job| &job.user).collect();
    for budget in state.budgets.values() {
        needed.extend(budget.owner.iter().chain(&budget.members));
    }
    let is_free = |(name, principal): &(&Name, &Principal)| principal.is_revoked && !needed.contains(name);
    let found = state.principals.iter().find(is_free).map(|(name, _)| name.clone());
    found.ok_or_else(|| {
        let what = format!("there are {PRINCIPALS_MAX} principals");
        let why = "one that was revoked leaves when it has no job and no budget names it; there is none";
        let fix = String::from("`bursar principal revoke NAME` whoever is not needed");
        Rejection::new(Code::Full, what, why, fix)
    })
}

/// Makes a principal's token worthless. Its jobs run on.
pub(super) fn revoke(state: &mut State, cx: &Context<'_>, name: &Name) -> Answer {
    rights::operator_or_root_owner(state, cx)?;
    let Some(principal) = state.principals.get(name) else {
        let what = format!("there is no principal `{name}`");
        let fix = String::from("`bursar principal list` shows them");
        return Err(Rejection::new(Code::NotFound, what, "", fix));
    };
    if principal.is_operator {
        rights::operator(state, cx)?;
        let is_other = |(other, p): (&Name, &Principal)| other != name && p.is_operator && !p.is_revoked;
        if !principal.is_revoked && !state.principals.iter().any(is_other) {
            return Err(Rejection::new(
                Code::NotAllowed,
                format!("`{name}` is the last operator"),
                "nobody could make another",
                String::from("add an operator first"),
            ));
        }
    }
    if let Some(principal) = state.principals.get_mut(name) {
        principal.is_revoked = true;
    }
    DONE
}
