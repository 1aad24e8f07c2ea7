//! Whether shares and grants of siblings fit into their parent, at every moment from now on.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::lookup::{label, open_children};
use super::{Budget, Slice};
use crate::command::{Code, Rejection};
use crate::id::{BudgetId, Name};
use crate::state::State;
use crate::unit::{Share, Timestamp};

/// Checks the children of every budget that has grants among them.
///
/// # Errors
/// When somewhere more would be given than there is.
pub(super) fn check_all(state: &State, now: Timestamp) -> Result<(), Rejection> {
    let mut parents: Vec<BudgetId> = state
        .grants
        .values()
        .filter(|grant| grant.until > now)
        .filter_map(|grant| state.budgets.get(&grant.to)?.parent)
        .collect();
    parents.sort_unstable();
    parents.dedup();
    parents.into_iter().try_for_each(|parent| check(state, parent, now))
}

/// Checks that at each moment from `now` on no child of `parent` gives more than it has, and all of them together have
/// at most the whole.
///
/// # Errors
/// With the moment at which it doesn't fit.
pub(super) fn check(state: &State, parent: BudgetId, now: Timestamp) -> Result<(), Rejection> {
    let Some(record) = state.budgets.get(&parent) else { return Ok(()) };
    check_in(state, (parent, record), None, now)?;
    let pools: BTreeSet<&Name> =
        open_children(state, record).flat_map(|(_, child)| child.pools.keys()).collect();
    pools.into_iter().try_for_each(|pool| check_in(state, (parent, record), Some(pool), now))
}

/// The same with the shares of one pool.
fn check_in(
    state: &State,
    (parent, record): (BudgetId, &Budget),
    pool: Option<&Name>,
    now: Timestamp,
) -> Result<(), Rejection> {
    let share = |child: &Budget| pool.map_or(child.share, |pool| child.own_in(pool));
    let own: u64 = open_children(state, record).map(|(_, child)| u64::from(share(child).ppm())).sum();
    let with: Vec<(BudgetId, &Budget)> =
        open_children(state, record).filter(|(_, child)| !child.slices.is_empty()).collect();
    let slices = || with.iter().flat_map(|(_, child)| &child.slices);
    // The sums change where a grant begins or ends.
    let changes = slices().flat_map(|slice| [slice.begins_at, slice.until]).filter(|at| *at > now);
    let mut moments: Vec<Timestamp> = changes.chain([now]).collect();
    moments.sort_unstable();
    moments.dedup();
    for at in moments {
        for (id, child) in &with {
            let (gained, given) = sums(child, at);
            if given > u64::from(share(child).ppm()) + gained {
                return Err(gives_too_much(state, *id, (child, share(child)), (given, at)));
            }
        }
        let all = with.iter().map(|(_, child)| sums(child, at));
        let (gained, given) = all.fold((0, 0), |(gained, given), (more, less)| (gained + more, given + less));
        if own + gained > u64::from(Share::WHOLE.ppm()) + given {
            return Err(too_much_in_all(state, parent, (own, gained - given), at));
        }
    }
    Ok(())
}

/// Returns what grants add to a budget at a moment, and what they take from it.
fn sums(budget: &Budget, at: Timestamp) -> (u64, u64) {
    let then = budget.slices.iter().filter(|slice| slice.is_on(at));
    let of = |slice: &Slice| u64::from(slice.share.ppm());
    then.fold((0, 0), |(gained, given), slice| match slice.is_gain {
        true => (gained + of(slice), given),
        false => (gained, given + of(slice)),
    })
}

fn gives_too_much(
    state: &State,
    id: BudgetId,
    (child, share): (&Budget, Share),
    (given, at): (u64, Timestamp),
) -> Rejection {
    let name = label(state, id);
    let named: Vec<String> = child
        .slices
        .iter()
        .filter(|slice| !slice.is_gain && slice.is_on(at))
        .map(|slice| format!("{} by grant {}", slice.share, slice.grant))
        .take(5)
        .collect();
    let what =
        format!("`{name}` has {} and would give {} at once: {}", share, percent(given), named.join(", "));
    let why = "a budget gives at most what it has, at every moment of the grant";
    let fix = String::from("grant less, or for another time, or end one with `bursar budget grant end ID`");
    Rejection::new(Code::OverWhole, what, why, fix)
}

fn too_much_in_all(state: &State, parent: BudgetId, (own, granted): (u64, u64), at: Timestamp) -> Rejection {
    let name = label(state, parent);
    let what = format!(
        "the budgets below `{name}` have {}, and grants from what nobody has would add {}",
        percent(own),
        percent(granted)
    );
    let when = if at <= state.meta.time { "now" } else { "at one moment of the grant" };
    let why = format!("that is more than the whole {when}");
    let free = u64::from(Share::WHOLE.ppm()).saturating_sub(own);
    let fix =
        format!("{} is unassigned in all; take the rest from a sibling with --from-budget", percent(free));
    Rejection::new(Code::OverWhole, what, &why, fix)
}

/// Writes parts per million as a percentage, also above the whole.
pub(super) fn percent(ppm: u64) -> String {
    let digits = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{}%", digits.trim_end_matches('0').trim_end_matches('.'))
}
