//! What state holds, table by table, and about how much memory that takes: for people who watch its bounds.

use alloc::vec::Vec;
use core::mem::size_of;

use crate::command::Remembered;
use crate::decision::Record;
use crate::job::{Job, PastAttempt};
use crate::ledger::Curve;
use crate::node::Node;
use crate::state::State;
use crate::table::{Store, Table};
use crate::unit::Timestamp;

/// One table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Its name.
    pub table: &'static str,
    /// Its records.
    pub records: usize,
    /// About how many bytes they take: their fields, and what those point to. Room that is kept for more, and what an
    /// allocator needs, come on top.
    pub bytes: usize,
}

/// Returns each table's records and bytes. Costs a walk over all of them.
#[must_use]
pub fn footprint(state: &State) -> Vec<Footprint> {
    let books = &state.books;
    let (curves, points) = books.curves(Timestamp::ZERO);
    let plain = size_of::<(Timestamp, u128)>();
    alloc::vec![
        flat("budgets", &state.budgets),
        flat("principals", &state.principals),
        flat("join tokens", &state.join_tokens),
        deep("nodes", &state.nodes, node),
        deep("jobs", &state.jobs, job),
        deep("arrays", &state.arrays, |array| job(&array.job)),
        flat("attempts", &state.attempts),
        Footprint {
            table: "curve points",
            records: points,
            bytes: points * plain + curves * size_of::<Curve>()
        },
        deep("launches", &state.launches, |launch| launch.bytes.len()),
        deep("decisions", &state.decisions, decision),
        flat("bills", &state.bills),
        deep("requests", &state.requests, request),
        flat("strays", &state.strays),
        flat("line", &state.line),
        flat("ended", &state.ended),
        flat("results", &state.results),
        flat("results by end", &state.results_by_end),
        flat("dependents", &state.dependents),
        flat("timers", &state.timers),
    ]
}

fn flat<K: Ord, V, S: Store<V>>(table: &'static str, of: &Table<K, V, S>) -> Footprint {
    let is_inline = size_of::<S::Cell>() == size_of::<V>();
    // Behind a pointer there are two counts besides.
    let apart = if is_inline { 0 } else { size_of::<V>() + 2 * size_of::<usize>() };
    Footprint { table, records: of.len(), bytes: of.len() * (size_of::<(K, S::Cell)>() + apart) }
}

fn deep<K: Ord, V, S: Store<V>>(
    table: &'static str,
    of: &Table<K, V, S>,
    more: impl Fn(&V) -> usize,
) -> Footprint {
    let flat = flat(table, of);
    Footprint { bytes: flat.bytes + of.values().map(more).sum::<usize>(), ..flat }
}

fn job(job: &Job) -> usize {
    let text = job.name.as_str().len() + job.user.as_str().len() + job.account.as_str().len();
    let past = |past: &PastAttempt| size_of::<PastAttempt>() + past.nodes.len() * 4;
    let spans = job.progress.intervals.len() + job.progress.restarts.len();
    let needs = size_of_val(job.before.needs.as_slice());
    text + job.past.iter().map(past).sum::<usize>() + spans * 8 + needs
}

fn node(node: &Node) -> usize {
    node.gpus.iter().map(|gpu| size_of_val(gpu) + 2 * gpu.model.as_str().len() + 80).sum()
}

fn decision(record: &Record) -> usize {
    let start = &record.start;
    let on: usize = start.on.iter().map(|on| size_of_val(on) + on.1.len() * 2).sum();
    on + size_of_val(start.takes.as_slice()) + size_of_val(start.why.levels.as_slice())
}

fn request(request: &Remembered) -> usize {
    let words =
        |refused: &crate::command::Rejection| refused.what.len() + refused.why.len() + refused.fix.len();
    request.answer.as_ref().err().map_or(0, words)
}
