//! What agents and the leader say: the truth, late, twice, out of order, of others, and nonsense.

use scheduler_core::agent::{EndedBy, Fault, RankEvent, Report};
use scheduler_core::command::{Command, Saved};
use scheduler_core::id::{AttemptId, AttemptNo, JobId, NodeId, Rank};
use scheduler_core::job::Exit;
use scheduler_core::principal::Actor;
use scheduler_core::unit::{Span, Timestamp};

use super::{History, SIZES};
use crate::world::{REPLICA, ended, facts};

impl History {
    /// A rank that is somewhere, mostly.
    pub fn some_rank(&mut self) -> (NodeId, AttemptId, Rank) {
        let ranks = self.world.state.attempts.iter().flat_map(|(id, attempt)| {
            attempt.placements.iter().map(|placement| (placement.node, *id, placement.rank))
        });
        let ranks: Vec<(NodeId, AttemptId, Rank)> = ranks.collect();
        let at = self.below(self.nodes.len());
        let node = self.nodes[at];
        if ranks.is_empty() || self.one_in(6) {
            let job = JobId::new(self.small(30));
            let no = AttemptNo::new(u16::try_from(self.below(4)).expect("small"));
            return (node, AttemptId { job, no }, Rank::new(0));
        }
        let (at, attempt, rank) = ranks[self.below(ranks.len())];
        if self.one_in(12) { (node, attempt, rank) } else { (at, attempt, rank) }
    }

    fn moment(&mut self) -> Timestamp {
        let late = Span::from_secs(u64::from(self.small(1_200)));
        let now = self.world.now;
        [now, now.minus(late), now.plus(late)][self.below(3)]
    }

    fn event(&mut self) -> RankEvent {
        let exit = [Exit::Code(0), Exit::Code(1), Exit::Code(75), Exit::Signal(9), Exit::Unknown];
        let by = [
            EndedBy::Itself,
            EndedBy::Itself,
            EndedBy::TimeLimit,
            EndedBy::Stop,
            EndedBy::Notice,
            EndedBy::Reboot,
        ];
        match self.below(13) {
            0..4 => RankEvent::Started,
            4..6 => {
                let saved_at = self.one_in(3).then(|| self.moment());
                RankEvent::Exited { exit: exit[self.below(5)], by: by[self.below(6)], saved_at }
            }
            6 => {
                let fault = [Fault::Node, Fault::Job { code: 127 }][self.below(2)];
                RankEvent::LaunchFailed { fault, what: String::from("it did not start") }
            }
            7 => {
                let known = self.world.state.nodes.values().flat_map(|node| &node.gpus);
                let uuids: Vec<_> = known.map(|gpu| gpu.uuid.clone()).collect();
                let from = self.below(uuids.len());
                RankEvent::Unknown { gpus: uuids.into_iter().skip(from).take(2).collect() }
            }
            8 if self.one_in(3) => RankEvent::Unkillable { what: String::from("pid 7 is in D state") },
            8..10 => RankEvent::Ready,
            _ => RankEvent::Freed,
        }
    }

    pub fn report(&mut self) {
        let (node, attempt, rank) = self.some_rank();
        let mut reports = Vec::new();
        for _ in 0..=self.below(3) {
            let at = self.moment();
            let rank = if self.one_in(20) { Rank::new(1) } else { rank };
            let report = Report { attempt, rank, at, event: self.event() };
            self.sent.push((node, report.clone()));
            reports.push(report);
        }
        let command = Command::Reports { node, reports };
        if self.one_in(3) {
            let _ = self.apply(REPLICA, Command::Batch(vec![(Actor::Agent(node), command)]));
        } else {
            let _ = self.apply(Actor::Agent(node), command);
        }
    }

    pub fn report_again(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = self.below(self.sent.len());
        let (node, report) = self.sent[at].clone();
        let _ = self.apply(Actor::Agent(node), Command::Reports { node, reports: vec![report] });
    }

    /// Every rank of an attempt says the same, each from its node.
    pub fn all_say(&mut self, attempt: AttemptId, event: &RankEvent) {
        let Some(known) = self.world.state.attempts.get(&attempt) else { return };
        let ranks: Vec<(NodeId, Rank)> = known.placements.iter().map(|p| (p.node, p.rank)).collect();
        let items = ranks.into_iter().map(|(node, rank)| {
            let reports = vec![Report { attempt, rank, at: self.world.now, event: event.clone() }];
            (Actor::Agent(node), Command::Reports { node, reports })
        });
        let items = items.collect();
        let _ = self.apply(REPLICA, Command::Batch(items));
    }

    pub fn be_ready(&mut self) {
        let (_, attempt, _) = self.some_rank();
        self.all_say(attempt, &RankEvent::Ready);
        if self.one_in(2) {
            self.all_say(attempt, &RankEvent::Started);
        }
    }

    /// Whatever was told to leave does so, and its GPUs are proven empty.
    pub fn leave(&mut self) {
        let stops =
            |(id, attempt): (&AttemptId, &scheduler_core::job::Attempt)| attempt.is_leaving().then_some(*id);
        let leaving: Vec<AttemptId> = self.world.state.attempts.iter().filter_map(stops).collect();
        for attempt in leaving {
            self.all_say(attempt, &ended(Exit::Code(0), EndedBy::Notice));
            self.all_say(attempt, &RankEvent::Freed);
        }
    }

    /// Attempts do what good attempts do, so that jobs come to their ends.
    pub fn run_to_their_ends(&mut self) {
        let attempts: Vec<AttemptId> = self.world.state.attempts.keys().copied().collect();
        for attempt in attempts {
            let stages = self.below(4);
            let exit = ended(Exit::Code(0), EndedBy::Itself);
            for event in [RankEvent::Ready, RankEvent::Started, exit, RankEvent::Freed].iter().take(stages) {
                self.all_say(attempt, event);
            }
            self.world.wait(Span::from_secs(7));
        }
    }

    pub fn save(&mut self) {
        let mut saves = Vec::new();
        let (node, attempt, _) = self.some_rank();
        for _ in 0..=self.below(2) {
            let saved_at = (!self.one_in(4)).then(|| self.moment());
            let signed_at = self.one_in(3).then(|| self.moment());
            saves.push(Saved { attempt, saved_at, signed_at });
        }
        let _ = self.apply(Actor::Agent(node), Command::Saves { node, saves });
    }

    pub fn facts(&mut self) {
        let at = self.below(SIZES.len());
        let node = self.nodes[at];
        if self.one_in(3) {
            self.boots[at] += 1;
        }
        let gpus = SIZES[at] + self.small(2);
        let mut facts = facts(&format!("n{at}"), &format!("boot-{}", self.boots[at]), gpus);
        if self.one_in(3) {
            let lost = self.below(facts.gpus.len());
            facts.gpus.remove(lost);
        }
        let other = self.below(SIZES.len());
        let speaker = if self.one_in(10) { self.nodes[other] } else { node };
        let _ = self.apply(Actor::Agent(speaker), Command::NodeFacts { node, facts });
    }

    pub fn contact(&mut self) {
        let node = NodeId::new(self.small(6));
        let command =
            if self.one_in(3) { Command::NodeUnreachable { node } } else { Command::NodeBack { node } };
        let _ = self.apply(REPLICA, command);
    }
}
