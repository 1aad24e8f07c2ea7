//! What the agents of a story do, and when.

use scheduler_core::agent::{EndedBy, Fault, RankEvent, Report};
use scheduler_core::command::{Command, Saved};
use scheduler_core::id::{AttemptId, NodeId, Rank};
use scheduler_core::job::{Attempt, Exit};
use scheduler_core::principal::Actor;
use scheduler_core::unit::{Span, Timestamp};

use super::{Manner, Story};
use crate::world::launch_failed;

/// What is still there so long after its kill cannot be killed.
const KILL: Span = Span::from_secs(60);

impl Story {
    /// Moments at which a process does something by itself.
    pub(super) fn moments(&self) -> Vec<Timestamp> {
        let mut moments = Vec::new();
        for (id, attempt) in self.world.state.attempts.iter() {
            let Some(manner) = self.manners.get(&id.job) else { continue };
            if let Some(stop) = &attempt.stop {
                let kill = stop.at.plus(stop.grace);
                moments.push(if manner.is_stubborn { kill.plus(KILL) } else { kill });
            }
            let Some(started) = attempt.started_at else { continue };
            moments.extend(manner.lasts.map(|lasts| started.plus(left(manner, lasts))));
            moments.extend(manner.saves.map(|every| attempt.saved_at.unwrap_or(started).plus(every)));
        }
        moments
    }

    /// Everybody does what is to be done now.
    pub(super) fn act(&mut self) {
        let ids: Vec<AttemptId> = self.world.state.attempts.keys().copied().collect();
        for id in ids {
            let manner = self.manners.get(&id.job).copied().unwrap_or_default();
            // Ready, started: one thing leads to the next.
            for _ in 0..4 {
                let Some(attempt) = self.world.state.attempts.get(&id).cloned() else { break };
                self.act_for(id, &attempt, &manner);
            }
        }
    }

    fn act_for(&mut self, id: AttemptId, attempt: &Attempt, manner: &Manner) {
        let now = self.world.now;
        if attempt.ended.is_some() {
            if manner.is_stubborn && attempt.stop.is_some() {
                // It is there for ever.
                return;
            }
            return self.all_say(id, attempt, &RankEvent::Freed);
        }
        if let Some(stop) = &attempt.stop {
            return self.leave(id, attempt, manner, stop.at.plus(stop.grace));
        }
        if attempt.go_at.is_none() {
            return self.all_say(id, attempt, &RankEvent::Ready);
        }
        let Some(started) = attempt.started_at else {
            return self.begin(id, attempt, manner);
        };
        let over = manner.lasts.map(|lasts| started.plus(left(manner, lasts)));
        if let Some(over) = over.filter(|over| *over <= now) {
            // Of a node that nothing was heard of it is told late.
            let exit = RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None };
            return self.all_say_at(id, attempt, &exit, over);
        }
        let last = attempt.saved_at.unwrap_or(started);
        if manner.saves.is_some_and(|every| last.plus(every) <= now) && started < now && last < now {
            self.save(id, attempt, last);
        }
    }

    fn begin(&mut self, id: AttemptId, attempt: &Attempt, manner: &Manner) {
        if attempt.placements.iter().any(|placement| Some(placement.node) == manner.fails_on) {
            return self.all_say(id, attempt, &launch_failed(Fault::Node));
        }
        if let Some(manner) = self.manners.get_mut(&id.job) {
            manner.begun = manner.done;
        }
        self.all_say(id, attempt, &RankEvent::Started);
    }

    fn leave(&mut self, id: AttemptId, attempt: &Attempt, manner: &Manner, kill: Timestamp) {
        let now = self.world.now;
        if manner.is_stubborn {
            if kill.plus(KILL) <= now {
                self.all_say(
                    id,
                    attempt,
                    &RankEvent::Unkillable { what: String::from("pid 7 is in D state") },
                );
            }
        } else if manner.is_quick || kill <= now {
            let saved_at = manner.is_quick.then_some(now);
            let exit = RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Notice, saved_at };
            if manner.is_quick && attempt.started_at.is_some() {
                self.note_work(id, attempt.saved_at.or(attempt.started_at).unwrap_or(now));
            }
            self.all_say(id, attempt, &exit);
        }
    }

    fn save(&mut self, id: AttemptId, attempt: &Attempt, last: Timestamp) {
        self.note_work(id, last);
        let now = self.world.now;
        let saves = vec![Saved { attempt: id, saved_at: Some(now), signed_at: Some(now) }];
        let node = attempt.placements[0].node;
        if !self.lost.contains(&node) {
            self.world.must(Actor::Agent(node), Command::Saves { node, saves });
        }
    }

    /// What was done since `last` is saved.
    fn note_work(&mut self, id: AttemptId, last: Timestamp) {
        let more = self.world.now.since(last);
        if let Some(manner) = self.manners.get_mut(&id.job) {
            manner.done = manner.done.plus(more);
        }
    }

    fn all_say(&mut self, attempt: AttemptId, of: &Attempt, event: &RankEvent) {
        self.all_say_at(attempt, of, event, self.world.now);
    }

    fn all_say_at(&mut self, attempt: AttemptId, of: &Attempt, event: &RankEvent, at: Timestamp) {
        let ranks: Vec<(NodeId, Rank)> = of.placements.iter().map(|p| (p.node, p.rank)).collect();
        for (node, rank) in ranks.into_iter().filter(|(node, _)| !self.lost.contains(node)) {
            let reports = vec![Report { attempt, rank, at, event: event.clone() }];
            self.world.must(Actor::Agent(node), Command::Reports { node, reports });
        }
    }
}

/// What was left of a job's work when its attempt started.
fn left(manner: &Manner, lasts: Span) -> Span {
    Span::from_millis(lasts.as_millis().saturating_sub(manner.begun.as_millis()))
}
