//! The explanation of one job, or of one of its attempts.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::change::would_change;
use super::facts::{self, Group, fact, needs};
use super::preempted::{Preempted, preempted};
use super::run::Run;
use super::takers::{Taker, takers};
use super::{
    Cost, DateOf, Decided, Eyes, Outlook, Place, Queued, Reason, Stage, Token, array_standing, decision,
    place, reasons,
};
use super::{before, standing, starting, words};
use crate::decision::Right;
use crate::id::{AttemptId, BudgetId, JobId, Label, LogIndex, Name, Term};
use crate::job::{Attempt, Job, Phase};
use crate::lifecycle::array::tasks;
use crate::plan::{Links, plan};
use crate::state::State;
use crate::unit::Timestamp;

/// Everything that explains where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Which job.
    pub job: JobId,
    /// Which of its attempts, if it is about one: the live one, or the one that was asked for.
    pub attempt: Option<AttemptId>,
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
    /// The job itself; of an array the task that this is about.
    pub waits_as: JobId,
    /// While it waits: the earliest moment at which enough GPUs are idle or past their protection, if that is known and
    /// still to come. Not a promise: whoever goes first may need them.
    pub earliest: Option<Timestamp>,
    /// While it waits: its date, if it has one or gets one with the next plan.
    pub date: Option<DateOf>,
    /// When nobody protects it any more, while it is protected or after it was.
    pub protected_until: Option<Timestamp>,
    /// The decision that placed its latest attempt.
    pub decided: Option<Decided>,
    /// How its latest attempt gives way or gave way, if it does or did: of a job that has no other since.
    pub preempted: Option<Preempted>,
    /// Who could take its GPUs, while nobody protects it.
    pub takers: Vec<Taker>,
    /// What a preemption would cost now, while it has processes and was told nothing.
    pub cost_now: Option<Cost>,
    /// What would start it now and what would not.
    pub would_change: Vec<String>,
    /// What might have kept its preemption from happening, or made it cheaper.
    pub could_help: Vec<String>,
    /// The entry up to which this is true.
    pub as_of: LogIndex,
    /// The moment for which it is.
    pub at: Timestamp,
}

/// Explains a job; none if state does not have it.
#[must_use]
pub fn job(state: &State, links: &Links, id: JobId, now: Timestamp) -> Option<Explanation> {
    let Some(record) = state.jobs.get(&id) else { return whole(state, links, id, now) };
    let mut explanation = match &record.phase {
        Phase::Waiting { since } => waits(state, links, id, record, *since, now),
        Phase::Held { .. } | Phase::Live(_) | Phase::Ended { .. } => stands(state, links, id, record, now)?,
    };
    let latest = Run::latest(state, id, record, now);
    if let Some(run) = &latest {
        last_run(state, &mut explanation, record, run);
        explanation.decided = decision(state, run.decision);
    }
    explanation.facts.extend(facts::not_empty(state, id));
    let stage = explanation.stage.as_str();
    let first = explanation.reasons.first().map_or("", |reason| reason.sentence.as_str());
    let before = match &explanation.preempted {
        Some(preempted) if explanation.stage != Stage::Stopping => {
            format!("; {} was preempted{}", preempted.attempt, for_whom(state, preempted))
        }
        Some(_) | None => String::new(),
    };
    let shown = super::shown(state, id);
    explanation.sentence = format!("{shown} {} is {stage}: {first}{before}", record.name);
    Some(explanation)
}

/// Explains an array: where its tasks are, and while all of them wait, why the first does.
fn whole(state: &State, links: &Links, id: JobId, now: Timestamp) -> Option<Explanation> {
    let array = state.arrays.get(&id)?;
    let mut explanation = match array_standing(state, id, array, now) {
        Some(standing) => {
            let mut explanation = blank(state, id, &array.job, now);
            (explanation.stage, explanation.since) = (standing.stage, standing.since);
            explanation.reasons = vec![standing.reason];
            if let Phase::Held { .. } = array.job.phase {
                explanation.facts.extend(before::facts(state, &array.job));
            }
            explanation
        }
        None => {
            let (first, _) = tasks(state, id).find(|(_, job)| !job.phase.is_ended())?;
            Explanation { job: id, attempt: None, ..job(state, links, *first, now)? }
        }
    };
    explanation.facts.push(super::array::facts(state, id, array, now));
    let stage = explanation.stage.as_str();
    let first = explanation.reasons.first().map_or("", |reason| reason.sentence.as_str());
    explanation.sentence = format!("{id}[{}] {} is {stage}: {first}", array.indexes, array.job.name);
    Some(explanation)
}

/// Explains one attempt of a job: the job itself, if the attempt is live. None if state does not have it.
#[must_use]
pub fn attempt(state: &State, links: &Links, id: AttemptId, now: Timestamp) -> Option<Explanation> {
    let record = state.jobs.get(&id.job)?;
    if record.phase == Phase::Live(id.no) {
        return job(state, links, id.job, now);
    }
    let run = Run::of(state, id, now)?;
    let how = run.ended?;
    let mut explanation = blank(state, id.job, record, now);
    explanation.attempt = Some(id);
    (explanation.stage, explanation.since) = (Stage::Ended, how.at);
    explanation.reasons = vec![standing::attempt_ended(state, record, run.stop, how)];
    explanation.facts.extend(facts::ended(state, &run, "its run"));
    gave_way(state, &mut explanation, record, &run);
    explanation.protected_until = run.protected_until;
    if run.has_gpus {
        explanation.facts.extend(facts::not_empty(state, id.job));
    }
    explanation.decided = decision(state, run.decision);
    let first = explanation.reasons.first().map_or("", |reason| reason.sentence.as_str());
    explanation.sentence = format!("{id} {} has ended: {first}; {}", record.name, since_then(id, record));
    Some(explanation)
}

/// Returns what became of the job after one of its attempts.
fn since_then(id: AttemptId, job: &Job) -> String {
    let later = job.past.iter().map(|past| past.no).find(|no| *no > id.no);
    match (&job.phase, later) {
        (Phase::Live(no), later) => {
            format!("the job was started again as {}.{}", id.job, later.unwrap_or(*no))
        }
        (_, Some(later)) => format!("the job was started again as {}.{later}", id.job),
        (Phase::Waiting { .. }, None) => String::from("the job waits again"),
        (Phase::Held { .. }, None) => String::from("the job is held"),
        (Phase::Ended { .. }, None) => String::from("the job ended with it"),
    }
}

fn for_whom(state: &State, preempted: &Preempted) -> String {
    let taken = preempted.taken.as_ref();
    taken.map_or_else(String::new, |taken| format!(" for {}", super::preempted::taker(state, taken)))
}

fn blank(state: &State, id: JobId, job: &Job, now: Timestamp) -> Explanation {
    Explanation {
        job: id,
        attempt: None,
        name: job.name.clone(),
        user: job.user.clone(),
        budget: job.budget,
        stage: Stage::Waiting,
        since: job.submitted_at,
        reasons: Vec::new(),
        sentence: String::new(),
        facts: vec![needs(job)],
        place: None,
        waits_as: id,
        earliest: None,
        date: None,
        protected_until: None,
        decided: None,
        preempted: None,
        takers: Vec::new(),
        cost_now: None,
        would_change: Vec::new(),
        could_help: Vec::new(),
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
        Outlook::of(state, &place.pool, links, id, &Eyes::of(state, id, job), now)
    });
    let planned = plan(state, links, now, Term::new(0));
    let queued = Queued {
        job,
        pool: place.as_ref().map(|place| &place.pool),
        ahead: place.as_ref().map_or(0, |place| place.place.saturating_sub(1)),
        planned: planned.decisions.iter().find(|start| start.job == id),
    };
    explanation.date = super::dates(state, &planned, now).remove(&id);
    explanation.reasons = reasons(state, &queued, &outlook);
    if let Some(date) = explanation.date.as_ref().filter(|_| queued.planned.is_none()) {
        if !outlook.fits_now && state.meta.safe_mode.is_none() {
            // The date says the same, and when.
            explanation.reasons.retain(|reason| reason.token != Token::WaitingProtection);
            explanation.reasons.insert(0, date.reason(now));
        }
        explanation.facts.push(date.facts(state));
    }
    explanation.facts.push(facts::usable(state, &outlook));
    explanation.facts.push(facts::unusable(state, &outlook));
    if queued.planned.is_none() {
        explanation.earliest = outlook.unprotected_at.filter(|at| now < *at);
        explanation.would_change = would_change(state, links, id, &outlook, now);
    }
    explanation.place = place;
    explanation
}

fn stands(state: &State, links: &Links, id: JobId, job: &Job, now: Timestamp) -> Option<Explanation> {
    let standing = standing(state, id, job, now)?;
    let mut explanation = blank(state, id, job, now);
    explanation.stage = standing.stage;
    explanation.since = standing.since;
    explanation.reasons = [vec![standing.reason], standing.more].concat();
    if let Phase::Held { .. } = job.phase {
        explanation.facts.extend(before::facts(state, job));
    }
    if let Phase::Live(no) = job.phase {
        let id = AttemptId { job: id, no };
        if let Some(attempt) = state.attempts.get(&id) {
            lives(state, links, &mut explanation, (id, job, attempt));
        }
    }
    Some(explanation)
}

/// Explains a live attempt.
fn lives(
    state: &State,
    links: &Links,
    explanation: &mut Explanation,
    (id, job, attempt): (AttemptId, &Job, &Attempt),
) {
    let now = explanation.at;
    explanation.attempt = Some(id);
    explanation.protected_until = attempt.protected_until();
    explanation.facts.push(facts::run(state, id, job, attempt, now));
    explanation.facts.extend(facts::ranks(state, id, attempt));
    let awaited = starting::awaited(state, id, attempt);
    if !awaited.is_empty() {
        let facts = awaited.iter().map(|(holder, gpus)| {
            let kill = state.attempts.get(holder).filter(|holder| holder.ended.is_none());
            let kill = kill.and_then(|holder| holder.stop.as_ref()).map(|stop| stop.killed_at());
            fact(facts::whose(state, *holder), words::gpus(*gpus)).at(kill)
        });
        explanation.facts.push(Group { title: "what it waits for", facts: facts.collect() });
    }
    if attempt.stop.is_some() {
        return;
    }
    if attempt.started_at.is_some() && !attempt.is_protected(now) {
        explanation.takers = takers(state, job, attempt, now);
        let planned = plan(state, links, now, Term::new(0));
        let takes = planned.decisions.iter().find(|start| start.takes.iter().any(|take| take.attempt == id));
        let mut facts: Vec<_> = explanation.takers.iter().map(|taker| taker_fact(state, taker)).collect();
        facts.push(match takes {
            Some(start) => fact("the next plan", format!("takes it for {}.{}", start.job, start.attempt)),
            None => fact("the next plan", "does not take it"),
        });
        explanation.facts.push(Group { title: "who could take it", facts });
    }
    explanation.cost_now = Cost::now(state, links, id, (attempt, job), now);
    if let Some(cost) = explanation.cost_now.filter(|_| attempt.started_at.is_some()) {
        explanation.facts.push(Group { title: "if it were preempted now", facts: cost.facts() });
    }
}

fn taker_fact(state: &State, taker: &Taker) -> facts::Fact {
    let waiting: Vec<String> = taker.waiting.iter().map(|(id, name)| format!("{id} {name}")).collect();
    let waiting = match (waiting.len(), taker.more) {
        (0, _) => String::from("no job of it waits now"),
        (_, 0) => format!("waiting now: {}", words::list(waiting)),
        (_, more) => format!("waiting now: {}, and {more} more", words::list(waiting)),
    };
    let what = match &taker.right {
        Right::FreeTier => String::from("every funded job"),
        Right::Turn => String::from("its own budget, with an earlier turn"),
        Right::Claim { .. } => String::from("a job whose date has come"),
        Right::Lane { .. } => String::from("short jobs, by the short lane"),
        Right::Share { mine, theirs } => {
            let (my, their) = words::uses(mine, theirs);
            let name = |used: &crate::decision::UseOf| crate::budget::label(state, used.budget);
            format!("{} ({my} < {} {their})", name(mine), name(theirs))
        }
    };
    fact(what, waiting)
}

/// Adds how a job's latest attempt ended, and how it gave way if it does or did.
fn last_run(state: &State, explanation: &mut Explanation, job: &Job, run: &Run<'_>) {
    explanation.facts.extend(facts::ended(state, run, "its last run"));
    gave_way(state, explanation, job, run);
}

fn gave_way(state: &State, explanation: &mut Explanation, job: &Job, run: &Run<'_>) {
    let Some(preempted) = preempted(state, run) else { return };
    explanation.facts.push(Group { title: "its preemption", facts: preempted.facts(state) });
    if let Some(bill) = &preempted.bill {
        explanation.facts.push(Group { title: "what that cost", facts: Cost::billed(bill).facts() });
    }
    explanation.could_help = preempted.could_help(state, job);
    explanation.preempted = Some(preempted);
}
