//! A preemption, explained from the record of the attempt that gave way: to whom, by which right, at which cost.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::facts::{Fact, fact};
use super::run::Run;
use super::{Cost, Token, victims, words};
use crate::bill::{Bill, Restart};
use crate::budget;
use crate::decision::{Basis, Choice, Right};
use crate::id::{AttemptId, BudgetId, Label};
use crate::job::{AttemptEnd, Job, Stop, StopCause, Taken};
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// How an attempt gave way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempted {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Its GPUs.
    pub gpus: u32,
    /// What for.
    pub token: Token,
    /// To whom and by which right, with both sides' numbers as they were; none if a person wanted it.
    pub taken: Option<Taken>,
    /// The name and the leaf of the job it gave way to, if state still has it.
    pub taker: Option<(Label, BudgetId)>,
    /// How it was chosen, if state still has the decision.
    pub choice: Option<Choice>,
    /// When nobody protected it any more: of an attempt that is past, when its minimum runtime was over.
    pub unprotected_at: Option<Timestamp>,
    /// When it was told.
    pub noticed_at: Timestamp,
    /// How long it was given.
    pub grace: Span,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// What it cost, once it ended: as billed, if state still has the bill.
    pub bill: Option<Bill>,
    /// That in words.
    pub sentence: String,
}

/// Returns how an attempt gave way; none if nobody told it to, or if it ended in another way.
pub(super) fn preempted(state: &State, run: &Run<'_>) -> Option<Preempted> {
    let stop = run.stop.filter(|stop| stop.has_notice())?;
    if run.ended.is_some_and(|ended| ended.cause != AttemptEnd::Preempted) {
        return None;
    }
    let taken = match &stop.cause {
        StopCause::Preempt(taken) => Some(taken.clone()),
        StopCause::Drain { .. }
        | StopCause::Requeue { .. }
        | StopCause::Cancel { .. }
        | StopCause::Unwanted
        | StopCause::Rank { .. } => None,
    };
    let job = taken.as_ref().and_then(|taken| state.jobs.get(&taken.by.job));
    let record = taken.as_ref().and_then(|taken| state.decisions.get(&taken.decision));
    let ended_at = run.ended.map(|ended| ended.at);
    let bill = ended_at.and_then(|at| state.bills.get(&(at, run.id)).cloned());
    Some(Preempted {
        attempt: run.id,
        gpus: run.gpus,
        token: token(run.job, stop)?,
        taker: job.map(|job| (job.name.clone(), job.budget)),
        choice: record.and_then(|record| record.start.why.choice.clone()),
        unprotected_at: run.protected_until.filter(|until| *until <= stop.at),
        noticed_at: stop.at,
        grace: stop.grace,
        ended_at,
        bill,
        sentence: why(state, stop),
        taken,
    })
}

/// Returns the kind of a stop with a notice; none for one without.
pub(super) fn token(job: &Job, stop: &Stop) -> Option<Token> {
    Some(match &stop.cause {
        StopCause::Preempt(taken) => match taken.right {
            Right::FreeTier => Token::PreemptedFree,
            Right::Turn => Token::PreemptedTurn,
            Right::Share { .. } => Token::PreemptedShare,
            Right::Claim { .. } => Token::PreemptedClaim,
            Right::Lane { .. } => Token::PreemptedLane,
        },
        StopCause::Drain { cuts, .. } if cuts.is_zero() => Token::PreemptedDrain,
        StopCause::Drain { .. } => Token::PreemptedOperator,
        StopCause::Requeue { who, .. } if *who != job.user => Token::PreemptedOperator,
        StopCause::Requeue { .. } => Token::StoppingRequeue,
        StopCause::Cancel { .. } | StopCause::Unwanted | StopCause::Rank { .. } => return None,
    })
}

/// Returns what a stop is for, in words.
pub(super) fn why(state: &State, stop: &Stop) -> String {
    let said = |reason: &String| if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match &stop.cause {
        StopCause::Preempt(taken) => {
            format!("it gives way to {}: {}", taker(state, taken), words::right(state, &taken.right))
        }
        StopCause::Drain { who, reason, cuts } if cuts.is_zero() => {
            format!("{who} drains its node: {reason}")
        }
        StopCause::Drain { who, reason, cuts } => format!(
            "{who} drains its node: {reason}; that cuts {} of its protection, which is not charged",
            words::span(*cuts)
        ),
        StopCause::Requeue { who, reason } => format!("{who} starts it again{}", said(reason)),
        StopCause::Cancel { who, reason } => format!("{who} cancelled it{}", said(reason)),
        StopCause::Unwanted => {
            String::from("this attempt is over for the control plane, and its process is being ended")
        }
        StopCause::Rank { rank } => format!("rank {rank} has ended, so the others end too"),
    }
}

/// Returns whom an attempt gives way to: `4190.1 of language/posttrain`.
pub(super) fn taker(state: &State, taken: &Taken) -> String {
    match state.jobs.get(&taken.by.job) {
        Some(job) => format!("{} of {}", taken.by, budget::label(state, job.budget)),
        None => format!("{}", taken.by),
    }
}

impl Preempted {
    /// Returns how it was decided and how it went.
    pub(super) fn facts(&self, state: &State) -> Vec<Fact> {
        let mut facts = Vec::new();
        if let Some(taken) = &self.taken {
            facts.push(fact("for", taker(state, taken)));
            facts.push(fact("why", words::right(state, &taken.right)));
            facts.push(match &self.choice {
                Some(choice) => fact("choice", victims::choice(choice)),
                None => fact("choice", format!("{} attempts could be taken", taken.considered)),
            });
            facts.push(fact("its price", victims::price(&taken.price)));
            facts.push(fact("decision", taken.decision));
        } else {
            facts.push(fact("why", &self.sentence));
        }
        facts.extend(self.unprotected_at.map(|at| fact("protection over", "").at(at)));
        facts.push(fact("told to leave", "").at(self.noticed_at));
        let used = self.ended_at.map(|at| at.since(self.noticed_at));
        facts.push(match used {
            Some(used) => fact("grace", format!("{} of {} used", words::span(used), words::span(self.grace))),
            None => fact("grace", words::span(self.grace)).at(self.noticed_at.plus(self.grace)),
        });
        facts
    }

    /// Returns what might have made it cheaper, or kept it from happening.
    pub(super) fn could_help(&self, state: &State, job: &Job) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(bill) = &self.bill else { return lines };
        let cost = Cost::billed(bill);
        match (bill.basis, bill.saved_at) {
            (Basis::Reported, saved) if saved.is_none_or(|saved| saved < self.noticed_at) => {
                let from = saved.unwrap_or(Timestamp::ZERO).max(self.noticed_at.minus(bill.age));
                let saved = words::gpu_time(cost.of(self.noticed_at.since(from)));
                let given = words::span(self.grace);
                lines.push(format!(
                    "a checkpoint at the notice, within its grace of {given}: would have kept about {saved}"
                ));
            }
            (Basis::Reported, _) => {}
            (Basis::Declared | Basis::Unknown, _) => lines.push(String::from(
                "reporting its checkpoints (`bursar checkpoint`): the loss would be measured, not a bound",
            )),
        }
        if let Some(every) = job.usual_interval().filter(|_| job.terms.resumable) {
            lines.push(format!(
                "a checkpoint more often than every {}: at most that much time is lost at once",
                words::span(every)
            ));
        }
        lines.extend(self.longer_protection(state, job));
        if !job.terms.resumable {
            lines.push(String::from("being resumable: it would wait again instead of ending"));
        }
        lines
    }

    fn longer_protection(&self, state: &State, job: &Job) -> Option<String> {
        let cap = state.meta.settings.cap;
        match self.taken.as_ref()?.right {
            Right::FreeTier => Some(format!(
                "a minimum runtime, which is charged, up to {}: the free tier always gives way",
                words::span(cap)
            )),
            Right::Turn | Right::Share { .. } | Right::Claim { .. } | Right::Lane { .. }
                if job.terms.min_runtime < cap =>
            {
                Some(format!(
                    "a longer minimum runtime than {}, up to {}: it waits longer for its GPUs",
                    words::span(job.terms.min_runtime),
                    words::span(cap)
                ))
            }
            Right::Turn | Right::Share { .. } | Right::Claim { .. } | Right::Lane { .. } => {
                Some(String::from("a longer minimum runtime: no, it is at the cap"))
            }
        }
    }
}

impl Cost {
    /// Returns what was lost, or would be.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let part = |span: Span| {
            format!("{} x {} = {}", words::span(span), words::gpus(self.gpus), words::gpu_time(self.of(span)))
        };
        let restart = match self.restart {
            Restart::Expected(span) => fact("starting again, expected", part(span)),
            Restart::Measured(span) => fact("starting again, measured", part(span)),
            Restart::None => fact("starting again", "it does not resume"),
        };
        alloc::vec![
            fact("lost", words::gpu_time(self.lost())),
            fact("since its last checkpoint", part(self.age)),
            fact("how that is known", words::basis(self.basis)),
            restart,
        ]
    }
}
