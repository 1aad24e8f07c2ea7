//! The explanation of one job.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::change::would_change;
use super::{Decided, Outlook, Place, Queued, Reason, Stage, decision, place, reasons, standing};
use crate::id::{AttemptId, BudgetId, DecisionId, JobId, Label, LogIndex, Name, Term};
use crate::job::{Attempt, Job, Phase};
use crate::plan::{Class, Links, Shut, plan};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{ChargeMillis, Span, Timestamp};

/// Everything that explains where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Which job.
    pub job: JobId,
    /// Its name.
    pub name: Label,
    /// Whose it is.
    pub user: Name,
    /// Its leaf.
    pub budget: BudgetId,
    /// Where it stands, in one word.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// All reasons, the one that binds first; never empty.
    pub reasons: Vec<Reason>,
    /// The first thing to read.
    pub sentence: String,
    /// What it needs, what it may use, what not, its run.
    pub facts: Vec<Group>,
    /// Its place in line and who is ahead, while it waits.
    pub place: Option<Place>,
    /// When nobody protects it any more, while it is protected or after it was.
    pub protected_until: Option<Timestamp>,
    /// The decision that placed its latest attempt.
    pub decided: Option<Decided>,
    /// What would start it now and what would not.
    pub would_change: Vec<String>,
    /// The entry up to which this is true.
    pub as_of: LogIndex,
    /// The moment for which it is.
    pub at: Timestamp,
}

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

fn fact(what: impl Into<String>, value: impl ToString) -> Fact {
    Fact { what: what.into(), value: value.to_string(), at: None }
}

impl Fact {
    fn at(self, at: impl Into<Option<Timestamp>>) -> Self {
        Self { at: at.into(), ..self }
    }
}

/// Explains a job; none if state does not have it.
#[must_use]
pub fn job(state: &State, links: &Links, id: JobId, now: Timestamp) -> Option<Explanation> {
    let record = state.jobs.get(&id)?;
    let mut explanation = match &record.phase {
        Phase::Waiting { since } => waits(state, links, id, record, *since, now),
        Phase::Held { .. } | Phase::Live(_) | Phase::Ended { .. } => stands(state, id, record, now)?,
    };
    let stage = explanation.stage.as_str();
    let first = explanation.reasons.first().map_or("", |reason| reason.sentence.as_str());
    explanation.sentence = format!("{id} {} is {stage}: {first}", record.name);
    explanation.decided = latest_decision(state, id, record).and_then(|id| decision(state, id));
    Some(explanation)
}

fn blank(state: &State, id: JobId, job: &Job, now: Timestamp) -> Explanation {
    Explanation {
        job: id,
        name: job.name.clone(),
        user: job.user.clone(),
        budget: job.budget,
        stage: Stage::Waiting,
        since: job.submitted_at,
        reasons: Vec::new(),
        sentence: String::new(),
        facts: vec![needs(job)],
        place: None,
        protected_until: None,
        decided: None,
        would_change: Vec::new(),
        as_of: state.meta.index,
        at: now,
    }
}

fn waits(
    state: &State,
    links: &Links,
    id: JobId,
    job: &Job,
    since: Timestamp,
    now: Timestamp,
) -> Explanation {
    let mut explanation = Explanation { since, ..blank(state, id, job, now) };
    let place = place(state, id, now);
    let outlook = place.as_ref().map_or_else(Outlook::default, |place| {
        Outlook::of(state, &place.pool, links, &Class::of(state, job), now)
    });
    let planned = plan(state, links, now, Term::new(0));
    let queued = Queued {
        job,
        pool: place.as_ref().map(|place| &place.pool),
        ahead: place.as_ref().map_or(0, |place| place.place.saturating_sub(1)),
        is_planned: planned.decisions.iter().any(|start| start.job == id),
    };
    explanation.reasons = reasons(state, &queued, &outlook);
    explanation
        .facts
        .push(Group { title: "what it may use now", facts: vec![fact("idle GPUs", outlook.idle)] });
    explanation.facts.push(Group { title: "what it may not use", facts: unusable(state, &outlook) });
    if !queued.is_planned {
        explanation.would_change = would_change(state, links, id, &outlook, now);
    }
    explanation.place = place;
    explanation
}

fn stands(state: &State, id: JobId, job: &Job, now: Timestamp) -> Option<Explanation> {
    let standing = standing(state, id, job, now)?;
    let mut explanation = blank(state, id, job, now);
    explanation.stage = standing.stage;
    explanation.since = standing.since;
    explanation.reasons = vec![standing.reason];
    if let Phase::Live(no) = job.phase
        && let Some(attempt) = state.attempts.get(&AttemptId { job: id, no })
    {
        explanation.protected_until = attempt.protected_until();
        let facts = run(state, AttemptId { job: id, no }, job, attempt, now);
        explanation.facts.push(Group { title: "its run", facts });
    }
    if let Some(last) = job.past.last().filter(|_| standing.stage == Stage::Ended) {
        let names = last.nodes.iter().filter_map(|node| Some(state.nodes.get(node)?.name.as_str()));
        let node = names.collect::<Vec<_>>().join(", ");
        let facts = vec![
            fact("attempt", format!("{id}.{}", last.no)).at(last.placed_at),
            fact("node", node),
            fact("started", "").at(last.started_at),
            fact("ended", "").at(last.ended.at),
            fact("charged in all", gpu_hours(job.charged)),
        ];
        explanation.facts.push(Group { title: "its last run", facts });
    }
    Some(explanation)
}

fn needs(job: &Job) -> Group {
    let shape = &job.terms.shape;
    let kind = shape.gpu_type.as_ref().map_or_else(String::new, |kind| format!(" x {kind}"));
    let place = if shape.nodes == 1 { "on one node" } else { "on each node" };
    let mut facts = vec![fact("GPUs", format!("{}{kind} {place}", shape.gpus_per_node))];
    facts.extend(shape.cpus.map(|cpus| fact("cores", cpus)));
    facts.extend(shape.memory.map(|memory| fact("memory in bytes", memory.get())));
    facts.extend(job.terms.cluster.as_ref().map(|pool| fact("cluster", pool)));
    facts.push(match job.terms.tier {
        Tier::Funded => fact("protection", span(job.terms.min_runtime)),
        Tier::Free => fact("tier", "free: not charged, never protected"),
    });
    Group { title: "what it needs", facts }
}

fn unusable(state: &State, outlook: &Outlook) -> Vec<Fact> {
    let counted = [
        fact("protected", outlook.protected).at(outlook.next_end),
        fact("past their protection, not taken back yet", outlook.interruptible),
        fact("free tier, not taken back yet", outlook.free_tier),
        fact("starting or being cleared", outlook.changing),
        fact("on nodes where its launch failed", outlook.barred),
        fact("of another type, or on nodes too small", outlook.unfit),
    ];
    let mut facts: Vec<Fact> = counted.into_iter().filter(|fact| fact.value != "0").collect();
    for (id, why, idle) in &outlook.shut {
        let name = state.nodes.get(id).map_or_else(String::new, |node| node.name.to_string());
        let (what, at) = match why {
            Shut::Joined => ("has not said what it is yet", None),
            Shut::Unreachable { since } => ("unreachable since", Some(*since)),
            Shut::Silent => ("no link to the leader", None),
            Shut::Backoff { until } => ("waits after a failed launch until", Some(*until)),
        };
        facts.push(fact(format!("idle on {name}: {what}"), idle).at(at));
    }
    facts
}

fn run(state: &State, id: AttemptId, job: &Job, attempt: &Attempt, now: Timestamp) -> Vec<Fact> {
    let mut facts = vec![fact("attempt", id).at(attempt.placed_at)];
    let known: BTreeSet<&Name> = attempt
        .placements
        .iter()
        .filter_map(|placement| state.nodes.get(&placement.node).map(|node| &node.name))
        .collect();
    facts.extend(known.into_iter().map(|name| fact("node", name)));
    facts.extend(attempt.started_at.map(|at| fact("started", "").at(at)));
    facts.extend(attempt.protected_until().map(|at| fact("protected until", "").at(at)));
    facts.extend(match (job.terms.time_limit, attempt.started_at) {
        (Some(limit), Some(started)) => Some(fact("time limit", span(limit)).at(started.plus(limit))),
        (Some(limit), None) => Some(fact("time limit", span(limit))),
        (None, _) => None,
    });
    if attempt.tier == Tier::Funded {
        let run = attempt.go_at.map_or(Span::ZERO, |go| now.since(go));
        facts.push(fact("charged by this attempt", gpu_hours(ChargeMillis::of(attempt.rate, run))));
    }
    facts
}

fn latest_decision(state: &State, id: JobId, job: &Job) -> Option<DecisionId> {
    match job.phase {
        Phase::Live(no) => state.attempts.get(&AttemptId { job: id, no }).map(|attempt| attempt.decision),
        Phase::Held { .. } | Phase::Waiting { .. } | Phase::Ended { .. } => {
            job.past.last().map(|past| past.decision)
        }
    }
}

/// Returns a charge in GPU-hours with two decimals, rounded down.
fn gpu_hours(charge: ChargeMillis) -> String {
    let hundredths = charge.get() / 36_000_000;
    format!("{}.{:02} GPU-h", hundredths / 100, hundredths % 100)
}

/// Returns a length of time in its largest whole unit.
fn span(span: Span) -> String {
    match span.as_millis() {
        ms if ms > 0 && ms % 3_600_000 == 0 => format!("{} h", ms / 3_600_000),
        ms if ms > 0 && ms % 60_000 == 0 => format!("{} min", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}
