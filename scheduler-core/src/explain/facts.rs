//! Facts under titles: what a job needs, what it may use and what not, its runs.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::closed::Closed;
use super::right::Kept;
use super::run::Run;
use super::{Outlook, starting, victims, words};
use crate::budget;
use crate::id::{AttemptId, Label, Name};
use crate::job::{Attempt, Job};
use crate::lifecycle::{book, phase};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// How many attempts, nodes or ranks are told one by one.
const SHOWN: usize = 16;

/// Facts under one title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What they are about.
    pub title: &'static str,
    /// In order.
    pub facts: Vec<Fact>,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What.
    pub what: String,
    /// How much, or which.
    pub value: String,
    /// The moment that belongs to it.
    pub at: Option<Timestamp>,
}

pub(super) fn fact(what: impl Into<String>, value: impl ToString) -> Fact {
    Fact { what: what.into(), value: value.to_string(), at: None }
}

impl Fact {
    pub(super) fn at(self, at: impl Into<Option<Timestamp>>) -> Self {
        Self { at: at.into(), ..self }
    }
}

/// Returns what a job needs.
pub(super) fn needs(job: &Job) -> Group {
    let shape = &job.terms.shape;
    let types: Vec<&str> = shape.gpu_type.iter().chain(&shape.or_types).map(Label::as_str).collect();
    let kind = if types.is_empty() { String::new() } else { format!(" x {}", types.join(", else ")) };
    let place = match shape.nodes {
        1 => String::from("on one node"),
        nodes => format!("on each of {nodes} nodes"),
    };
    let mut facts = vec![fact("GPUs", format!("{}{kind} {place}", shape.gpus_per_node))];
    facts.extend(shape.cpus.map(|cpus| fact("cores", cpus)));
    facts.extend(shape.memory.map(|memory| fact("memory in bytes", memory.get())));
    facts.extend(job.terms.cluster.as_ref().map(|pool| fact("cluster", pool)));
    facts.extend(shape.within.map(|level| fact("within one group of level", level)));
    if !job.terms.exclude.is_empty() {
        facts.push(fact("nodes that it excludes", job.terms.exclude.len()));
    }
    facts.push(match job.terms.tier {
        Tier::Funded => fact("protection", words::span(job.terms.min_runtime)),
        Tier::Free => fact("tier", "free: not charged, never protected"),
    });
    Group { title: "what it needs", facts }
}

/// Returns what a waiting job may use now.
pub(super) fn usable(state: &State, outlook: &Outlook) -> Group {
    let mut facts = vec![fact("idle GPUs", outlook.idle)];
    if outlook.coming > 0 {
        facts.push(fact("coming free, promised to nobody", outlook.coming));
    }
    for (attempt, gpus, right) in outlook.takeable.iter().take(SHOWN) {
        facts.push(fact(format!("from {}", whose(state, *attempt)), gpus).with(words::right(state, right)));
    }
    let rest = outlook.takeable.iter().skip(SHOWN).map(|(_, gpus, _)| gpus).sum::<u32>();
    if rest > 0 {
        facts.push(fact("from others", rest));
    }
    Group { title: "what it may use now", facts }
}

/// Returns what a waiting job may not use, and why.
pub(super) fn unusable(state: &State, outlook: &Outlook) -> Group {
    let counted = [
        fact("protected", outlook.protected).at(outlook.next_end),
        fact("promised to others, or starting", outlook.promised),
        fact("past their protection", outlook.interruptible),
        fact("in the free tier", outlook.free_tier),
        fact("with attempts that leave", outlook.leaving),
        fact("with processes that nobody placed", outlook.stray),
        fact("on nodes where its launch failed", outlook.barred),
        fact("of another type, or on nodes too small", outlook.unfit),
    ];
    let mut facts: Vec<Fact> = counted.into_iter().filter(|fact| fact.value != "0").collect();
    for (job, gpus) in outlook.reserved.iter().take(SHOWN) {
        facts.push(fact(format!("reserved for the date of {job}"), gpus));
    }
    for (attempt, gpus, kept) in outlook.kept.iter().take(SHOWN) {
        let why = kept_words(state, kept);
        facts.push(fact(format!("with {}", whose(state, *attempt)), gpus).with(why));
    }
    for (id, closed, idle) in outlook.closed.iter().take(SHOWN) {
        let name = state.nodes.get(id).map_or_else(String::new, |node| node.name.to_string());
        let (what, at) = closed.fact();
        facts.push(fact(format!("idle on {name}: {what}"), idle).at(at));
    }
    if outlook.closed.len() > SHOWN {
        facts.push(fact("more nodes that take no work", outlook.closed.len() - SHOWN));
    }
    Group { title: "what it may not use", facts }
}

impl Fact {
    fn with(self, why: String) -> Self {
        Self { value: format!("{}: {why}", self.value), ..self }
    }
}

/// Returns an attempt with its leaf: `4101.2 (language/pretrain)`.
pub(super) fn whose(state: &State, id: AttemptId) -> String {
    match state.jobs.get(&id.job) {
        Some(job) => format!("{id} ({})", budget::label(state, job.budget)),
        None => id.to_string(),
    }
}

/// Returns why an attempt past its protection keeps its GPUs.
pub(super) fn kept_words(state: &State, kept: &Kept) -> String {
    let name = |used: &crate::decision::UseOf| budget::label(state, used.budget);
    match kept {
        Kept::GoesFirst(mine, theirs) => {
            let (my, their) = words::uses(mine, theirs);
            format!("{} at {their} goes before {} at {my}", name(theirs), name(mine))
        }
        Kept::InMargin(mine, theirs) => {
            let (my, their) = words::uses(mine, theirs);
            let percent = state.meta.settings.margin_ppm / 10_000;
            format!(
                "{} at {my} is below {} at {their} by less than the margin of {percent}% of an allocation",
                name(mine),
                name(theirs)
            )
        }
        Kept::AboveLimit(over) => {
            format!("{}: it takes by its share from nobody who is within theirs", words::over(state, over))
        }
        Kept::SameBudget => String::from("it is of the same budget, and its turn is not later"),
        Kept::Unheard => String::from("nobody hears of a node of it, so nobody could confirm that it left"),
    }
}

/// Returns what is known of a live attempt's run.
pub(super) fn run(state: &State, id: AttemptId, job: &Job, attempt: &Attempt, now: Timestamp) -> Group {
    let mut facts = vec![fact("attempt", id).at(attempt.placed_at)];
    let known: BTreeSet<&Name> = attempt
        .placements
        .iter()
        .filter_map(|placement| state.nodes.get(&placement.node).map(|node| &node.name))
        .collect();
    facts.extend(known.iter().take(SHOWN).map(|name| fact("node", name)));
    if known.len() > SHOWN {
        facts.push(fact("more nodes", known.len() - SHOWN));
    }
    facts.extend(attempt.started_at.map(|at| fact("started", "").at(at)));
    facts.extend(attempt.protected_until().map(|at| fact("protected until", "").at(at)));
    facts.extend(match (job.terms.time_limit, attempt.started_at) {
        (Some(limit), Some(started)) => Some(fact("time limit", words::span(limit)).at(started.plus(limit))),
        (Some(limit), None) => Some(fact("time limit", words::span(limit))),
        (None, _) => None,
    });
    facts.extend(attempt.saved_at.map(|at| fact("last checkpoint", "").at(at)));
    if attempt.tier == Tier::Funded {
        facts.push(fact("charged by this attempt", words::charged(book::charge_so_far(attempt, now))));
        facts.push(fact("charged each hour", victims::rate(attempt.rate.get())));
    }
    Group { title: "its run", facts }
}

/// Returns how far each rank of a gang is; none for a job on one node.
pub(super) fn ranks(state: &State, id: AttemptId, attempt: &Attempt) -> Option<Group> {
    if attempt.placements.len() < 2 {
        return None;
    }
    let mut facts: Vec<Fact> = attempt
        .placements
        .iter()
        .take(SHOWN)
        .map(|placement| {
            let node =
                state.nodes.get(&placement.node).map_or_else(String::new, |node| node.name.to_string());
            let (what, at) = starting::rank(state, id, attempt, placement);
            fact(format!("rank {} on {node}", placement.rank), what).at(at)
        })
        .collect();
    if attempt.placements.len() > SHOWN {
        facts.push(fact("more ranks", attempt.placements.len() - SHOWN));
    }
    Some(Group { title: "its ranks", facts })
}

/// Returns an attempt that has ended.
pub(super) fn ended(state: &State, run: &Run<'_>, title: &'static str) -> Option<Group> {
    let ended = run.ended?;
    let names = run.nodes.iter().filter_map(|node| Some(state.nodes.get(node)?.name.to_string()));
    let mut facts = vec![
        fact("attempt", run.id).at(run.placed_at),
        fact("node", words::list(names.collect())),
        fact("started", "").at(run.started_at),
        fact("ended", "").at(ended.at),
    ];
    facts.extend(run.saved_at.map(|at| fact("last checkpoint", "").at(at)));
    facts.push(fact("charged by this attempt", words::charged(run.charged)));
    facts.push(fact("charged in all", words::charged(run.job.charged)));
    Some(Group { title, facts })
}

/// Returns the job's attempts that have ended and whose GPUs are not proven empty; none if there are none.
pub(super) fn not_empty(state: &State, id: crate::id::JobId) -> Option<Group> {
    let mut facts = Vec::new();
    for id in phase::attempts_of(state, id) {
        let Some(attempt) = state.attempts.get(id) else { continue };
        let Some(ended) = &attempt.ended else { continue };
        for placement in attempt.placements.iter().filter(|placement| placement.freed_at.is_none()) {
            let Some(node) = state.nodes.get(&placement.node) else { continue };
            let held = u32::try_from(placement.slots.len()).unwrap_or(u32::MAX);
            let why = match node.cordon.as_ref().filter(|cordon| cordon.who.is_none()) {
                Some(cordon) => format!("{}, fenced: {}", words::gpus(held), cordon.reason),
                None => format!("{}, not proven empty yet", words::gpus(held)),
            };
            facts.push(fact(format!("{id} on {}", node.name), why).at(ended.at));
        }
    }
    facts.truncate(SHOWN);
    (!facts.is_empty()).then_some(Group { title: "its ended runs that still have GPUs", facts })
}

impl Closed {
    /// Returns it as a fact's words, with the moment that belongs to it.
    fn fact(&self) -> (String, Option<Timestamp>) {
        let said = |what: &str, reason: &str| match reason {
            "" => String::from(what),
            reason => format!("{what} ({reason})"),
        };
        match self {
            Self::Joined => (String::from("has not said what it is yet"), None),
            Self::Unreachable { since } => (String::from("unreachable since"), Some(*since)),
            Self::Silent => (String::from("no link to the leader"), None),
            Self::Backoff { until } => (String::from("waits after a failed launch until"), Some(*until)),
            Self::Cordoned { reason, since } => (said("cordoned", reason), Some(*since)),
            Self::Draining { reason, since } => (said("draining", reason), Some(*since)),
            Self::Window { reason, begins } => {
                (said("to be drained before its protection would be over", reason), Some(*begins))
            }
        }
    }
}
