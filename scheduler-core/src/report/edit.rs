//! What an edit of the tree does besides changing it: whose use, headroom and turn change, and who may take whom.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::budget::{self, Row, TreeNode};
use crate::command::Rejection;
use crate::decision::UseOf;
use crate::explain::Uses;
use crate::id::{BudgetId, Name};
use crate::lifecycle::book::gpu_count;
use crate::pool;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{Share, Timestamp};

/// What an edit does in one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolEdit {
    /// Which pool.
    pub pool: Name,
    /// Budgets whose worth, use or turn changes, each before those below it.
    pub rows: Vec<RowEdit>,
    /// Who may take whom that could not, and the other way round; the most GPUs first.
    pub shifts: Vec<Shift>,
    /// GPUs of running work that is protected now: no edit takes that back.
    pub protected_gpus: u32,
}

/// One budget before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowEdit {
    /// Its path.
    pub path: String,
    /// Before; none if it is new.
    pub before: Option<Side>,
    /// After; none if it is closed and nothing is left of it.
    pub after: Option<Side>,
}

/// How a budget stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// The product of the shares up to the root.
    pub share: Share,
    /// Its use.
    pub used: UseOf,
    /// Its place among its siblings, from 1.
    pub goes: u32,
}

/// Running work of one leaf that waiting jobs of another may take after the edit and not before, or the other way
/// round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shift {
    /// The leaf whose jobs run, past their protection.
    pub from: BudgetId,
    /// The leaf whose jobs wait.
    pub to: BudgetId,
    /// Whether it may after the edit; else it could before.
    pub may: bool,
    /// Attempts that run so.
    pub attempts: u32,
    /// Their GPUs.
    pub gpus: u32,
    /// Jobs that wait.
    pub waiting: u32,
}

/// Returns what the tree of `file` would do, in each pool in which it does anything.
///
/// # Errors
/// As the edit itself would be refused, whoever asks for it.
pub fn edit(state: &State, file: &TreeNode, now: Timestamp) -> Result<Vec<PoolEdit>, Rejection> {
    let after = budget::edited(state, file, now)?;
    let (rows_before, rows_after) = (budget::usage(state, now), budget::usage(&after, now));
    let pools = rows_before.iter().zip(&rows_after).map(|(before, after_rows)| PoolEdit {
        pool: before.pool.clone(),
        rows: rows(&before.rows, &after_rows.rows),
        shifts: shifts(state, &after, &before.pool, now),
        protected_gpus: protected(state, &before.pool, now),
    });
    Ok(pools.collect())
}

fn rows(before: &[Row], after: &[Row]) -> Vec<RowEdit> {
    let side = |row: &Row| Side { share: row.share, used: row.funded, goes: row.goes };
    let old: BTreeMap<BudgetId, &Row> = before.iter().map(|row| (row.id, row)).collect();
    let kept: BTreeSet<BudgetId> = after.iter().map(|row| row.id).collect();
    let mut rows: Vec<RowEdit> = after
        .iter()
        .map(|row| RowEdit {
            path: row.path.clone(),
            before: old.get(&row.id).map(|row| side(row)),
            after: Some(side(row)),
        })
        .filter(|row| row.before != row.after)
        .collect();
    let gone = before.iter().filter(|row| !kept.contains(&row.id));
    rows.extend(gone.map(|row| RowEdit { path: row.path.clone(), before: Some(side(row)), after: None }));
    rows
}

fn protected(state: &State, pool: &Name, now: Timestamp) -> u32 {
    let live = state.attempts.values().filter(|attempt| attempt.pool == *pool && attempt.is_protected(now));
    live.map(gpu_count).fold(0, u32::saturating_add)
}

fn shifts(before: &State, after: &State, pool: &Name, now: Timestamp) -> Vec<Shift> {
    let mut running: BTreeMap<BudgetId, (u32, u32)> = BTreeMap::new();
    for attempt in before.attempts.values() {
        let is_open = attempt.tier == Tier::Funded
            && attempt.pool == *pool
            && attempt.go_at.is_some()
            && !attempt.is_leaving()
            && !attempt.is_protected(now);
        if is_open {
            let (attempts, gpus) = running.entry(attempt.budget).or_default();
            *attempts += 1;
            *gpus = gpus.saturating_add(gpu_count(attempt));
        }
    }
    let mut waiting: BTreeMap<BudgetId, u32> = BTreeMap::new();
    for place in before.line.keys().filter(|place| place.tier == Tier::Funded) {
        let stands = before.jobs.get(&place.job).is_some_and(|job| {
            job.terms.cluster.as_ref().is_none_or(|cluster| pool::has(before, pool, cluster))
        });
        if stands {
            *waiting.entry(place.budget).or_default() += 1;
        }
    }
    let (old, new) = (Uses::new(before, pool, now), Uses::new(after, pool, now));
    let mut shifts = Vec::new();
    for (&from, &(attempts, gpus)) in &running {
        for (&to, &jobs) in waiting.iter().filter(|(to, _)| **to != from) {
            let (was, is) = (old.may_take(to, from), new.may_take(to, from));
            if was != is {
                shifts.push(Shift { from, to, may: is, attempts, gpus, waiting: jobs });
            }
        }
    }
    shifts.sort_by_key(|shift| (!shift.may, core::cmp::Reverse(shift.gpus), shift.from, shift.to));
    shifts
}
