//! The date of a waiting job: when it starts at the latest, who is in the way until then, and why it moved.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::facts::{Fact, Group, fact, whose};
use super::{Reason, Token, Who, words};
use crate::date::{Date, How, Move, Promise, Trouble, What};
use crate::decision::{Plan, Start, Step};
use crate::id::{DecisionId, JobId, Name, NodeId, Term};
use crate::state::State;
use crate::unit::Timestamp;

/// So many of those in the way are told.
const SHOWN: usize = 20;

/// What a waiting job is promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateOf {
    /// In which pool.
    pub pool: Name,
    /// The decision that issued it; none if the next plan will.
    pub decision: Option<DecisionId>,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// What is promised.
    pub promise: Promise,
    /// When it has its GPUs at the latest: whoever leaves for it may use a whole grace.
    pub go_by: Timestamp,
    /// How often it moved.
    pub moved: u32,
    /// Its last moves.
    pub moves: Vec<Move>,
}

/// Returns the date of each waiting job that has one, also those that the next plan will issue; of several the earliest.
pub(crate) fn dates(state: &State, planned: &Plan, now: Timestamp) -> BTreeMap<JobId, DateOf> {
    let grace = state.meta.settings.longest_grace();
    let go_by = |promise: &Promise| promise.at.max(now).plus(grace);
    let standing = state.dates.iter().map(|((job, pool), date)| {
        let Date { issued_at, decision, promise, moved, moves } = date.clone();
        let (pool, go_by, decision) = (pool.clone(), go_by(&promise), Some(decision));
        (*job, DateOf { pool, decision, issued_at, promise, go_by, moved, moves })
    });
    let issued = planned.dates.iter().filter_map(|step| match &step.step {
        Step::Issue(promise) => {
            let (pool, go_by, promise) = (step.pool.clone(), go_by(promise), promise.clone());
            let date =
                DateOf { pool, decision: None, issued_at: now, promise, go_by, moved: 0, moves: Vec::new() };
            Some((step.job, date))
        }
        Step::Move { .. } | Step::Drop { .. } => None,
    });
    let mut dates: BTreeMap<JobId, DateOf> = BTreeMap::new();
    for (job, date) in standing.chain(issued) {
        if dates.get(&job).is_none_or(|other| date.promise.at < other.promise.at) {
            dates.insert(job, date);
        }
    }
    dates
}

/// Returns the date that a waiting job has; of several the earliest.
#[must_use]
pub fn date_of(state: &State, job: JobId, now: Timestamp) -> Option<DateOf> {
    let none = Plan { term: Term::new(0), index: state.meta.index, decisions: Vec::new(), dates: Vec::new() };
    dates(state, &none, now).remove(&job)
}

/// Returns the job that a decision gave a date: it waits for it, or its start came of it.
#[must_use]
pub fn dated_by(state: &State, id: DecisionId) -> Option<JobId> {
    let waits = state.dates.iter().find(|(_, date)| date.decision == id).map(|((job, _), _)| *job);
    let came_of_it = |start: &Start| start.why.date.as_ref().is_some_and(|date| date.decision == id);
    let starts = || state.decisions.values().map(|record| &record.start);
    waits.or_else(|| starts().find(|start| came_of_it(start)).map(|start| start.job))
}

impl DateOf {
    /// Returns the reason that it gives: nothing binds but the date.
    pub(crate) fn reason(&self, now: Timestamp) -> Reason {
        let text = if self.promise.at <= now {
            "its date has come, and its GPUs are cleared for it"
        } else if self.promise.awaits.is_empty() {
            "its GPUs are reserved for it from its date on"
        } else {
            "its GPUs are with others until its date; then they are reserved for it"
        };
        let until = (now < self.promise.at).then_some(self.promise.at);
        Reason::new(Token::WaitingProtection, Who::Nobody, String::from(text)).until(until)
    }

    /// Returns what there is to tell.
    pub(super) fn facts(&self, state: &State) -> Group {
        let mut facts = Vec::from([
            fact("starts at the latest", "unless a node fails or is drained").at(self.go_by),
            fact("its date", "").at(self.promise.at),
            fact("issued, as it was first in order", decided(self.decision)).at(self.issued_at),
        ]);
        let on = self.promise.on.iter().map(|(node, slots)| {
            format!("{} of {}", words::gpus(count(slots.len())), node_name(state, *node))
        });
        facts.push(fact("reserved", words::list(on.collect())));
        for awaited in self.promise.awaits.iter().take(SHOWN) {
            let has = match awaited.gpus {
                0 => String::from("its cores and memory"),
                gpus => words::gpus(gpus),
            };
            let what = format!("{has}: {}", how(awaited.how));
            facts.push(fact(format!("with {}", whose(state, awaited.attempt)), what).at(awaited.free_at));
        }
        facts.extend(self.moves.iter().flat_map(|moved| moved_facts(state, moved)));
        Group { title: "its date", facts }
    }
}

fn decided(decision: Option<DecisionId>) -> String {
    decision.map_or_else(|| String::from("by the next plan"), |id| id.to_string())
}

fn moved_facts(state: &State, moved: &Move) -> [Fact; 3] {
    let way = if moved.from < moved.to { "moved, later" } else { "moved, not later" };
    let by = trouble(state, &moved.trouble);
    [fact(way, by).at(moved.at), fact("from", "").at(moved.from), fact("to", "").at(moved.to)]
}

/// Returns what moved a date, in words.
#[must_use]
pub fn trouble(state: &State, trouble: &Trouble) -> String {
    let node = node_name(state, trouble.node);
    match trouble.what {
        What::Unreachable => format!("{node} is unreachable"),
        What::Cordoned => format!("{node} is cordoned"),
        What::Draining => format!("{node} is drained, or will be before its protection would be over"),
        What::Backoff => format!("launches failed on {node}, which is not tried before the date"),
        What::GpuGone => format!("a GPU of {node} does not answer any more"),
        What::HolderUnreachable => {
            format!("{node} is unreachable, and somebody is there who would have to leave")
        }
    }
}

/// Returns what makes GPUs free, in words.
#[must_use]
pub const fn how(how: How) -> &'static str {
    match how {
        How::Takeable => "may be taken for it at once",
        How::Leaves => "comes free",
        How::Protection => "protected until then at the latest",
        How::Margin => {
            "goes after it by less than the margin: some time after the issue (setting date_margin)"
        }
        How::Cap => "goes first: the cap after the issue",
        How::EarlierDate => "reserved by an earlier date, and protected until then at the latest",
    }
}

fn node_name(state: &State, id: NodeId) -> String {
    state.nodes.get(&id).map_or_else(|| format!("node {id}"), |node| node.name.to_string())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
