//! Every table has a bound, and keeps it: state cannot grow for ever, whatever comes.
//!
//! What has no line here follows another table one to one, which its own law says: the line, the ended jobs and the
//! timers (`indexes`), what nodes read (`launches`).

use alloc::format;
use alloc::string::String;

use super::Change;
use crate::apply::PRINCIPALS_MAX;
use crate::array::LIVE_MAX;
use crate::budget::{EDITS_MAX, GRANTS_MAX, KEPT_MAX};
use crate::date::DATES_MAX;
use crate::lifecycle::forget::bound;
use crate::lifecycle::freed::PAST_MAX;
use crate::lifecycle::stray::STRAYS_MAX;
use crate::node::{GPUS_MAX, NODES_MAX, POOLS_MAX};
use crate::state::State;
use crate::unit::Span;

/// What is counted, how many there are, and how many there may be.
type Row = (&'static str, usize, usize);

/// What costs nothing to count.
fn counted(state: &State) -> [Row; 19] {
    let settings = &state.meta.settings;
    let (jobs, nodes) = (state.jobs.len(), state.nodes.len());
    let live = bound(state.meta.live_jobs);
    // An array that is cancelled, with its tasks.
    let at_once = bound(LIVE_MAX) + 1;
    // Of each job its last attempt stays, and the last that ran.
    let decisions = bound(settings.decisions_max).max(state.attempts.len() + 2 * jobs);
    [
        ("live jobs", live, bound(settings.live_jobs_max)),
        // The next entry lets the oldest leave; until then what one entry ended comes on top.
        ("ended jobs", state.ended.len(), bound(settings.keep_ended_max) + 2 * nodes * GPUS_MAX + at_once),
        ("results", state.results.len(), bound(settings.keep_results_max)),
        ("decisions", state.decisions.len(), decisions),
        ("bills", state.bills.len(), bound(settings.bills_max)),
        ("requests", state.requests.len(), bound(settings.requests_max)),
        ("budgets", state.budgets.len(), KEPT_MAX),
        ("timed edits", state.edits.len(), EDITS_MAX),
        ("grants", state.grants.len(), GRANTS_MAX),
        ("principals", state.principals.len(), PRINCIPALS_MAX),
        ("join tokens", state.join_tokens.len(), NODES_MAX),
        ("nodes", nodes, NODES_MAX),
        ("pools", state.books.pools().len(), POOLS_MAX),
        ("pools that were made", state.pools.len(), POOLS_MAX),
        ("alarms", state.meta.alarms.len(), nodes),
        ("tasks of arrays", bound(state.meta.array_tasks), bound(settings.array_tasks_max)),
        ("dependents", state.dependents.len(), bound(settings.dependencies_max)),
        ("dates", state.dates.len(), DATES_MAX),
        ("strays", state.strays.len(), nodes * STRAYS_MAX),
    ]
}

pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    hold(&counted(change.after))
}

pub(super) fn full(state: &State) -> Result<(), String> {
    hold(&counted(state))?;
    let settings = &state.meta.settings;
    let gpus = state.nodes.values().map(|node| node.gpus.len()).max().unwrap_or(0);
    let past = state.jobs.values().map(|job| job.past.len()).max().unwrap_or(0);
    let slots: usize = state.nodes.values().map(|node| node.gpus.len()).sum();
    let mib = state.launches.values().map(crate::state::Launch::size).sum::<u64>().div_ceil(1 << 20);
    // Breakpoints are counted once a minute; what came since, and what was corrected, comes on top.
    let (curves, recent) = state.books.curves(state.meta.time.minus(Span::from_mins(2)));
    let most = bound(settings.curve_points_max);
    let jobs = bound(state.meta.live_jobs) + state.ended.len() + state.attempts.len();
    hold(&[
        ("jobs", state.jobs.len(), jobs),
        ("arrays", state.arrays.len(), jobs),
        ("GPUs of a node", gpus, GPUS_MAX),
        ("past attempts of a job", past, PAST_MAX),
        // Each GPU is with one and promised to one.
        ("attempts", state.attempts.len(), 2 * slots),
        ("MiB of specs", usize::try_from(mib).unwrap_or(usize::MAX), bound(settings.specs_mib_max)),
        ("points of curves", state.books.points(), most.max(4 * curves) + most / 8 + recent),
    ])
}

fn hold(rows: &[Row]) -> Result<(), String> {
    match rows.iter().find(|(_, count, most)| count > most) {
        None => Ok(()),
        Some((what, count, most)) => Err(format!("{count} {what}, at most {most}")),
    }
}
