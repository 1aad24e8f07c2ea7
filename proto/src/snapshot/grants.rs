//! Grants of share.

use scheduler_core::budget::{Ended, Grant};
use scheduler_core::id::{BudgetId, GrantId};
use scheduler_core::state::State;

use super::read::put;
use crate::error::Error;
use crate::state::v1 as state;
use crate::wire::{moment, name, share};

pub(super) fn grant(id: GrantId, grant: &Grant) -> state::Grant {
    let ended = |ended: &Ended| state::GrantEnded {
        by: ended.by.as_ref().map(ToString::to_string),
        reason: ended.reason.clone(),
    };
    state::Grant {
        id: id.get(),
        to: grant.to.get(),
        from: grant.from.map(BudgetId::get),
        share_ppm: grant.share.ppm(),
        begins_at_ms: grant.begins_at.as_millis(),
        until_ms: grant.until.as_millis(),
        reason: grant.reason.clone(),
        by: grant.by.to_string(),
        made_at_ms: grant.made_at.as_millis(),
        ended: grant.ended.as_ref().map(ended),
    }
}

fn read_grant(m: state::Grant) -> Result<(GrantId, Grant), Error> {
    let ended = |m: state::GrantEnded| {
        let by = m.by.map(|text| name("ended.by", &text)).transpose()?;
        Ok::<_, Error>(Ended { by, reason: m.reason })
    };
    let grant = Grant {
        to: BudgetId::new(m.to),
        from: m.from.map(BudgetId::new),
        share: share("share", m.share_ppm)?,
        begins_at: moment(m.begins_at_ms),
        until: moment(m.until_ms),
        reason: m.reason,
        by: name("by", &m.by)?,
        made_at: moment(m.made_at_ms),
        ended: m.ended.map(ended).transpose()?,
    };
    Ok((GrantId::new(m.id), grant))
}

/// Puts a grant into the state, and its slices into its budgets, which come before it.
pub(super) fn take(state: &mut State, m: state::Grant) -> Result<(), Error> {
    let (id, grant) = read_grant(m)?;
    for (budget, slice) in grant.slices(id) {
        let budget = state.budgets.get_mut(&budget).ok_or(Error::Missing("the grant's budget"))?;
        budget.slices.push(slice);
    }
    put(&mut state.grants, (id, grant))
}
