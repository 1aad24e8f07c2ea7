//! What jobs and their attempts went through between two states.

use std::collections::BTreeSet;

use proto::v1::EventView;
use scheduler_core::explain;
use scheduler_core::id::{AttemptId, AttemptNo, JobId};
use scheduler_core::job::{Attempt, AttemptEnd, Ended, HeldBy, Job, Phase, Stop, StopCause};

use super::{NOBODY, Scene, event};
use crate::views::words;

impl Scene<'_> {
    /// Tells what became of every job that the entry touched.
    pub(super) fn jobs(&self, out: &mut Vec<EventView>) {
        let jobs = self.after.jobs.touched_since(&self.before.jobs).map(|(id, _)| *id);
        let attempts = self.after.attempts.touched_since(&self.before.attempts).map(|(id, _)| id.job);
        let touched: BTreeSet<JobId> = jobs.chain(attempts).collect();
        for id in touched {
            if let Some(job) = self.after.jobs.get(&id) {
                self.job(id, job, out);
            }
        }
        for (id, array) in self.after.arrays.touched_since(&self.before.arrays) {
            let old = self.before.arrays.get(id).map(|array| &array.job);
            if old.is_none() {
                let said =
                    format!("{} submitted {}, an array of {}", array.job.user, array.job.name, array.indexes);
                out.push(self.of_job(*id, event("job.submitted", &self.actor, said)));
            }
            if old.is_none_or(|old| old.phase != array.job.phase) {
                self.phase(*id, &array.job, old.map(|old| &old.phase), out);
            }
        }
    }

    fn job(&self, id: JobId, job: &Job, out: &mut Vec<EventView>) {
        let old = self.before.jobs.get(&id);
        match (old, job.array) {
            (None, None) => {
                let said = format!("{} submitted {}", job.user, job.name);
                out.push(self.of_job(id, event("job.submitted", &self.actor, said)));
            }
            (None, Some(task)) => {
                let said = format!("{}[{}] of {} is in line", task.of, task.index, job.name);
                out.push(self.of_job(id, event("job.submitted", NOBODY, said)));
            }
            (Some(_), _) => {}
        }
        let first = old.map_or(AttemptNo::new(0), |old| match old.phase {
            Phase::Live(no) => no,
            Phase::Held { .. } | Phase::Waiting { .. } | Phase::Ended { .. } => old.next_attempt,
        });
        for no in first.get()..job.next_attempt.get() {
            self.attempt(AttemptId { job: id, no: AttemptNo::new(no) }, job, out);
        }
        if old.is_none_or(|old| old.phase != job.phase) {
            self.phase(id, job, old.map(|old| &old.phase), out);
        }
    }

    fn phase(&self, id: JobId, job: &Job, old: Option<&Phase>, out: &mut Vec<EventView>) {
        let told = |kind, who: &str, said: String| self.of_job(id, event(kind, who, said));
        match (&job.phase, old) {
            (Phase::Ended { .. }, Some(Phase::Ended { .. })) => {}
            (Phase::Ended { end, exit, .. }, _) => {
                let how = exit.map(|exit| format!(" ({})", words::exit(exit))).unwrap_or_default();
                out.push(told("job.ended", &self.actor, format!("{}{how}", words::end(*end))));
            }
            (Phase::Waiting { .. }, Some(Phase::Live(_))) => {
                out.push(told("job.requeued", &self.actor, "waits again under the same number".to_owned()));
            }
            (Phase::Waiting { .. }, Some(Phase::Held { by, .. })) => {
                let (who, said) = match by {
                    HeldBy::Backoff { .. } => (NOBODY, "is tried again"),
                    HeldBy::Begin { until } if *until <= self.after.meta.time => {
                        (NOBODY, "may begin now, and is in line")
                    }
                    HeldBy::Dependency { .. } if !job.before.needs.is_empty() => {
                        (NOBODY, "need not wait for other jobs any more, and is in line")
                    }
                    HeldBy::Begin { .. } | HeldBy::Dependency { .. } => {
                        (self.actor.as_str(), "is in line, whatever it was to wait for")
                    }
                    HeldBy::Person { .. } | HeldBy::FailedLaunches { .. } | HeldBy::Barren { .. } => {
                        (self.actor.as_str(), "is in line again")
                    }
                };
                out.push(told("job.released", who, said.to_owned()));
            }
            (Phase::Held { .. }, old) => {
                let why = explain::standing(self.after, id, job, self.after.meta.time);
                let why = why.map(|standing| standing.reason.sentence).unwrap_or_default();
                // A free-tier job that gave way was in line again, though nobody tries it for a while.
                if matches!(old, Some(Phase::Live(_))) {
                    let said = "waits again under the same number, held for now".to_owned();
                    out.push(told("job.requeued", &self.actor, said));
                }
                out.push(told("job.held", &self.actor, format!("is held: {why}")));
            }
            (Phase::Waiting { .. } | Phase::Live(_), _) => {}
        }
    }

    /// One attempt, whether it is still in the table or already past.
    fn attempt(&self, id: AttemptId, job: &Job, out: &mut Vec<EventView>) {
        let old = self.before.attempts.get(&id);
        let now = self.after.attempts.get(&id);
        if let Some(now) = now {
            self.progress(id, old, now, out);
        }
        let past = || job.past.iter().find(|past| past.no == id.no);
        let (stop, ended) = match now {
            Some(now) => (now.stop.as_ref(), now.ended.as_ref()),
            None => match past() {
                Some(past) => (past.stop.as_ref(), Some(&past.ended)),
                None => return,
            },
        };
        let had = |of: fn(&Attempt) -> bool| old.is_some_and(of);
        if let Some(stop) = stop.filter(|stop| stop.has_notice())
            && !had(|old| old.stop.as_ref().is_some_and(Stop::has_notice))
        {
            let who = giver(stop).unwrap_or_else(|| self.actor.clone());
            let said = format!("{}; it has {} to save", self.gives_way(stop), seconds(stop));
            let mut said = event("job.preempting", &who, said);
            said.node = self.node_of(now);
            out.push(self.of_attempt(id, said));
        }
        if let Some(ended) = ended.filter(|ended| ended.cause == AttemptEnd::Preempted)
            && !had(|old| old.ended.is_some())
        {
            out.push(self.preempted(id, stop, ended));
        }
    }

    fn progress(&self, id: AttemptId, old: Option<&Attempt>, now: &Attempt, out: &mut Vec<EventView>) {
        let mut tell = |kind, who: &str, said: String| {
            let mut said = event(kind, who, said);
            said.node = self.node_of(Some(now));
            out.push(self.of_attempt(id, said));
        };
        let is_new = |of: fn(&Attempt) -> bool| of(now) && old.is_none_or(|old| !of(old));
        if old.is_none() {
            let on: Vec<String> =
                now.placements.iter().map(|p| words::node_name(self.after, p.node)).collect();
            let taken = match self.after.decisions.get(&now.decision) {
                Some(record) if !record.start.takes.is_empty() => {
                    let takes = record.start.takes.iter().map(|take| take.attempt.to_string());
                    format!(", in place of {}", takes.collect::<Vec<_>>().join(", "))
                }
                Some(_) | None => String::new(),
            };
            let said = format!("placed on {} by {}{taken}", on.join(", "), now.decision);
            tell("job.placed", &self.actor, said);
        }
        if now.placements.len() > 1 && is_new(|of| of.go_at.is_some()) {
            let said = format!("all {} ranks are ready and go", now.placements.len());
            tell("gang.ready", NOBODY, said);
        }
        if is_new(|of| of.started_at.is_some()) {
            tell("job.started", &self.actor, "runs".to_owned());
        }
        if is_new(|of| of.signed_at.is_some()) {
            let said = match now.saved_at {
                Some(_) => "saved its first checkpoint of this attempt",
                None => "gave its first sign of progress",
            };
            tell("job.checkpoint", &self.actor, said.to_owned());
        }
    }

    fn node_of(&self, attempt: Option<&Attempt>) -> Option<String> {
        let first = attempt?.placements.first()?;
        Some(words::node_name(self.after, first.node))
    }

    /// Why an attempt gives way, and to whom.
    fn gives_way(&self, stop: &Stop) -> String {
        let StopCause::Preempt(taken) = &stop.cause else { return words::stop(&stop.cause) };
        let name = |job| self.after.jobs.get(&job).map(|job: &Job| format!(" {}", job.name));
        let whose = self.after.jobs.get(&taken.by.job).map(|job| format!(" of {}", self.path(job.budget)));
        format!(
            "gives way to {}{}{} ({})",
            taken.by,
            name(taken.by.job).unwrap_or_default(),
            whose.unwrap_or_default(),
            words::right(&taken.right)
        )
    }

    fn preempted(&self, id: AttemptId, stop: Option<&Stop>, ended: &Ended) -> EventView {
        let why = stop.map_or_else(
            || "gave way".to_owned(),
            |stop| match &stop.cause {
                StopCause::Preempt(taken) => format!("gave way to {}", taken.by),
                cause @ (StopCause::Cancel { .. }
                | StopCause::Unwanted
                | StopCause::Drain { .. }
                | StopCause::Requeue { .. }
                | StopCause::Rank { .. }) => format!("gave way: {}", words::stop(cause)),
            },
        );
        let how = ended.exit.map(|exit| format!(" ({})", words::exit(exit))).unwrap_or_default();
        let cost = self.after.bills.get(&(ended.at, id)).map(|bill| {
            let lost = bill.lost().get();
            let basis = words::basis(bill.basis);
            format!("; about {}.{:02} GPU-h are lost ({basis})", lost / 3_600_000, lost % 3_600_000 / 36_000)
        });
        let said = format!("{why}{how}{}", cost.unwrap_or_default());
        self.of_attempt(id, event("job.preempted", &self.actor, said))
    }
}

/// Returns whose word a stop is, if it is a person's.
fn giver(stop: &Stop) -> Option<String> {
    match &stop.cause {
        StopCause::Cancel { who, .. } | StopCause::Drain { who, .. } | StopCause::Requeue { who, .. } => {
            Some(who.to_string())
        }
        StopCause::Unwanted | StopCause::Preempt(_) | StopCause::Rank { .. } => None,
    }
}

fn seconds(stop: &Stop) -> String {
    let ms = stop.grace.as_millis();
    if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}
