//! Grants and the shares that they change say the same.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::budget::Slice;
use crate::id::{BudgetId, GrantId};
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    let wanted: BTreeSet<(BudgetId, GrantId, bool)> = state
        .grants
        .iter()
        .flat_map(|(id, grant)| grant.slices(*id))
        .map(|(budget, slice)| (budget, slice.grant, slice.is_gain))
        .collect();
    let mut found = BTreeSet::new();
    for (budget, record) in state.budgets.iter() {
        for slice in &record.slices {
            let is_twice = !found.insert((*budget, slice.grant, slice.is_gain));
            let is_same = |grant: &crate::budget::Grant| {
                grant.slices(slice.grant).any(|(of, made): (BudgetId, Slice)| of == *budget && made == *slice)
            };
            if is_twice || !state.grants.get(&slice.grant).is_some_and(is_same) {
                return Err(format!("budget {budget} has {slice:?} that no grant says"));
            }
        }
    }
    match wanted.difference(&found).next() {
        Some((budget, grant, _)) => Err(format!("budget {budget} has no slice of grant {grant}")),
        None => Ok(()),
    }
}
