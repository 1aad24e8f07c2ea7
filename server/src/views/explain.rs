//! Why: from core's explanation to what people read.

use proto::v1;
use scheduler_core::decision::{Level, Price, Right, Start};
use scheduler_core::explain::{Ahead, BudgetStory, Cost, Decided, Explanation, Reason, Taker};
use scheduler_core::id::AttemptId;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use super::{Scene, cost, use_view, words};

/// Returns the explanation of a job.
#[must_use]
pub fn job(scene: Scene<'_>, subject: &str, why: &Explanation) -> v1::Explanation {
    let state = scene.state();
    let mut who: Vec<String> = why.reasons.iter().map(|reason| reason.who.as_str().to_owned()).collect();
    who.dedup();
    let levels = why.decided.as_ref().map(|decided| decided.record.start.why.levels.as_slice());
    v1::Explanation {
        schema: "explanation/v1".to_owned(),
        as_of: scene.as_of(),
        subject: subject.to_owned(),
        job: Some(why.job.get()),
        name: why.name.to_string(),
        state: why.stage.as_str().to_owned(),
        reason: why.reasons.first().map(|reason| reason.token.as_str().to_owned()).unwrap_or_default(),
        sentence: why.sentence.clone(),
        since_at: Some(why.since.as_millis()),
        changeable_by: who,
        reasons: why.reasons.iter().map(reason_view).collect(),
        facts: why.facts.iter().map(group).collect(),
        ahead: why
            .place
            .iter()
            .flat_map(|place| &place.ahead)
            .map(|ahead| ahead_view(state, ahead))
            .collect(),
        levels: levels.unwrap_or_default().iter().map(|level| level_view(state, level)).collect(),
        decision: why.decided.as_ref().map(|decided| decided.id.to_string()),
        decided_at: why.decided.as_ref().map(|decided| decided.record.at.as_millis()),
        would_change: why.would_change.clone(),
        protected_until_at: why.protected_until.map(Timestamp::as_millis),
        place: why.place.as_ref().map(|place| place.place),
        victims: why.decided.iter().flat_map(|decided| victims(state, &decided.record.start)).collect(),
        taken: why.preempted.as_ref().and_then(|preempted| {
            let taken = preempted.taken.as_ref()?;
            Some(victim(state, preempted.attempt, &taken.right, &taken.price, preempted.gpus))
        }),
        cost: why.preempted.as_ref().and_then(|preempted| {
            let (ended_at, bill) = preempted.ended_at.zip(preempted.bill.as_ref())?;
            Some(cost::view(preempted.attempt, ended_at, bill))
        }),
        could_help: why.could_help.clone(),
        earliest_at: why.earliest.map(Timestamp::as_millis),
        cost_now: why.cost_now.as_ref().map(cost_now),
        takers: why.takers.iter().map(|taker| taker_view(state, taker)).collect(),
        left_at: None,
        date: why.date.as_ref().map(|date| super::date::view(state, date)),
        likely: None,
    }
}

/// Returns the explanation of a budget.
#[must_use]
pub fn budget(scene: Scene<'_>, subject: &str, why: &BudgetStory) -> v1::Explanation {
    v1::Explanation {
        schema: "explanation/v1".to_owned(),
        as_of: scene.as_of(),
        subject: subject.to_owned(),
        state: "budget".to_owned(),
        reason: "budget.order".to_owned(),
        sentence: why.sentence.clone(),
        facts: why.facts.iter().map(group).collect(),
        ..v1::Explanation::default()
    }
}

/// Returns the explanation of a decision.
#[must_use]
pub fn decision(scene: Scene<'_>, subject: &str, decided: &Decided) -> v1::Explanation {
    let state = scene.state();
    let record = &decided.record;
    let fact = |what: &str, value: String| v1::Fact { what: what.to_owned(), value, at: None };
    let facts = vec![
        fact("place in line", record.start.why.place.to_string()),
        fact("made from the state at index", record.made_at.to_string()),
        fact("leader's term", record.term.to_string()),
    ];
    v1::Explanation {
        schema: "explanation/v1".to_owned(),
        as_of: scene.as_of(),
        subject: subject.to_owned(),
        job: Some(record.start.job.get()),
        name: decided.name.as_ref().map(ToString::to_string).unwrap_or_default(),
        state: "decided".to_owned(),
        reason: "decision.start".to_owned(),
        sentence: decided.sentence.clone(),
        since_at: Some(record.at.as_millis()),
        facts: vec![v1::FactGroup { title: "how it was decided".to_owned(), facts }],
        levels: record.start.why.levels.iter().map(|level| level_view(state, level)).collect(),
        decision: Some(decided.id.to_string()),
        decided_at: Some(record.at.as_millis()),
        victims: victims(state, &record.start),
        ..v1::Explanation::default()
    }
}

/// Returns whom a start takes.
#[must_use]
pub fn victims(state: &State, start: &Start) -> Vec<v1::VictimView> {
    start.takes.iter().map(|take| victim(state, take.attempt, &take.right, &take.price, take.gpus)).collect()
}

/// Returns an attempt that gives way.
#[must_use]
pub fn victim(state: &State, attempt: AttemptId, right: &Right, price: &Price, gpus: u32) -> v1::VictimView {
    let job = state.jobs.get(&attempt.job);
    let (mine, theirs) = match right {
        Right::Share { mine, theirs } => (Some(use_view(state, mine)), Some(use_view(state, theirs))),
        Right::FreeTier | Right::Turn | Right::Claim { .. } | Right::Lane { .. } => (None, None),
    };
    v1::VictimView {
        attempt: attempt.to_string(),
        name: job.map(|job| job.name.to_string()).unwrap_or_default(),
        budget: job.map(|job| words::budget_path(state, job.budget)).unwrap_or_default(),
        user: job.map(|job| job.user.to_string()).unwrap_or_default(),
        right: words::right(right).to_owned(),
        mine,
        theirs,
        gpus,
        price_milli_gpu_ms: price.amount().to_string(),
        lost_ms: price.lost.as_millis(),
        restart_ms: price.restart.as_millis(),
        preemptions: u32::from(price.preemptions),
        saved_at: price.saved_at.map(Timestamp::as_millis),
        basis: words::basis(price.basis).to_owned(),
    }
}

fn cost_now(cost: &Cost) -> v1::CostNow {
    v1::CostNow {
        gpus: cost.gpus,
        age_ms: cost.age.as_millis(),
        basis: words::basis(cost.basis).to_owned(),
        restart_ms: cost.restart.span().as_millis(),
        restart_basis: words::restart_basis(cost.restart).to_owned(),
        lost_gpu_ms: cost.lost().get(),
    }
}

fn taker_view(state: &State, taker: &Taker) -> v1::TakerView {
    let (mine, theirs) = match &taker.right {
        Right::Share { mine, theirs } => (Some(use_view(state, theirs)), Some(use_view(state, mine))),
        Right::FreeTier | Right::Turn | Right::Claim { .. } | Right::Lane { .. } => (None, None),
    };
    v1::TakerView {
        right: words::right(&taker.right).to_owned(),
        mine,
        theirs,
        waiting: taker.waiting.iter().map(|(job, _)| job.get()).collect(),
        more: taker.more,
    }
}

/// Returns one reason.
#[must_use]
pub fn reason_view(reason: &Reason) -> v1::ReasonView {
    v1::ReasonView {
        token: reason.token.as_str().to_owned(),
        sentence: reason.sentence.clone(),
        changeable_by: reason.who.as_str().to_owned(),
        until_at: reason.until.map(Timestamp::as_millis),
    }
}

fn group(group: &scheduler_core::explain::Group) -> v1::FactGroup {
    let facts = group.facts.iter().map(|fact| v1::Fact {
        what: fact.what.clone(),
        value: fact.value.clone(),
        at: fact.at.map(Timestamp::as_millis),
    });
    v1::FactGroup { title: group.title.to_owned(), facts: facts.collect() }
}

fn ahead_view(state: &State, ahead: &Ahead) -> v1::AheadView {
    v1::AheadView {
        job: ahead.job.get(),
        name: ahead.name.to_string(),
        budget: words::budget_path(state, ahead.budget),
        gpus: ahead.gpus,
        theirs: ahead.parted.as_ref().map(|(theirs, _)| use_view(state, theirs)),
        mine: ahead.parted.as_ref().map(|(_, mine)| use_view(state, mine)),
    }
}

fn level_view(state: &State, level: &Level) -> v1::LevelView {
    v1::LevelView {
        chosen: Some(use_view(state, &level.chosen)),
        next: level.next.as_ref().map(|next| use_view(state, next)),
    }
}
