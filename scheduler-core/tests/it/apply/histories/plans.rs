//! Plans: the planner's own, takers of whatever is there, and nonsense.

use std::collections::BTreeSet;

use scheduler_core::command::{Code, Command, Outcome};
use scheduler_core::decision::{Dropped, Plan, Right, Start};
use scheduler_core::id::{AttemptId, AttemptNo, JobId, NodeId};
use scheduler_core::job::Job;
use scheduler_core::plan::Links;
use scheduler_core::spec::Tier;

use super::History;
use super::laws::is_protected;
use crate::apply::taking::share;
use crate::world::{REPLICA, World, plan, planned, start};

impl History {
    /// The planner's own plan, made from the very state that it is applied to, holds whole.
    pub fn adopt_fresh(&mut self) {
        self.come_to_now();
        let World { known, state, now, term, .. } = &mut self.world;
        let fresh = planned(known, state, &Links::all_ready(state), *now, *term);
        let count = u32::try_from(fresh.decisions.len()).expect("at most 256");
        match self.apply(REPLICA, Command::Adopt(fresh.clone())) {
            Ok(Outcome::Adopted { adopted, dropped }) => {
                assert_eq!((adopted, dropped), (count, Vec::new()), "{fresh:?}");
                self.seen.adopted += adopted;
                let takers = fresh.decisions.iter().filter(|start| !start.takes.is_empty());
                self.seen.taken += u32::try_from(takers.count()).expect("at most 256");
            }
            refused => {
                assert_eq!(refused.expect_err("a plan is adopted or refused").code, Code::SafeMode);
            }
        }
    }

    pub fn adopt_anything(&mut self) {
        let mut decisions = Vec::new();
        for _ in 0..self.below(6) {
            let job = JobId::new(self.small(self.world.state.meta.next_job.get() + 2));
            let planned = self.world.state.jobs.get(&job).map_or(AttemptNo::new(1), |job| job.next_attempt);
            let no = if self.one_in(5) { AttemptNo::new(u16::MAX) } else { planned };
            let node = NodeId::new(self.small(6));
            let slots: Vec<u16> =
                (0..self.below(4)).map(|_| u16::try_from(self.below(6)).expect("small")).collect();
            decisions.push(start(job, no, node, &slots));
        }
        if self.one_in(6) {
            self.new_leader();
        }
        let term = if self.one_in(8) { crate::world::TERM } else { self.world.term };
        let answer = self.apply(REPLICA, Command::Adopt(Plan { term, ..plan(decisions) }));
        assert!(term == self.world.term || answer.is_err_and(|refused| refused.code == Code::WrongTerm));
    }

    /// Places waiting jobs on whatever they fit on, taking whoever is there: also who is protected, who changed since,
    /// and by no right.
    pub fn adopt_taking(&mut self) {
        self.come_to_now();
        let waiting: Vec<JobId> = self.world.state.line.keys().map(|place| place.job).collect();
        let mut decisions = Vec::new();
        let mut is_told: BTreeSet<AttemptId> = BTreeSet::new();
        for _ in 0..=self.below(2) {
            let Some(job) = waiting.get(self.below(waiting.len())).copied() else { return };
            let start = self.taker(job, &is_told);
            is_told.extend(start.takes.iter().map(|take| take.attempt));
            decisions.push(start);
        }
        let asked: Vec<(bool, usize)> = decisions
            .iter()
            .map(|start| {
                let attempt = |id| self.world.state.attempts.get(id);
                let protected = |id| attempt(id).is_some_and(|a| is_protected(a, self.world.state.meta.time));
                (start.takes.iter().any(|take| protected(&take.attempt)), start.takes.len())
            })
            .collect();
        let plan = Plan { term: self.world.term, ..plan(decisions) };
        let Ok(Outcome::Adopted { dropped, .. }) = self.apply(REPLICA, Command::Adopt(plan)) else { return };
        for (n, (is_protected, takes)) in asked.into_iter().enumerate() {
            let why = dropped.iter().find(|(at, _)| usize::from(*at) == n).map(|(_, why)| *why);
            assert!(!is_protected || why.is_some(), "a decision that takes who is protected was adopted");
            self.seen.protected += u32::from(why == Some(Dropped::VictimProtected));
            let has_taken = why.is_none() && takes > 0;
            self.seen.taken += u32::from(has_taken);
        }
    }

    /// A decision that puts a job on the first GPUs of random nodes.
    fn taker(&mut self, id: JobId, is_told: &BTreeSet<AttemptId>) -> Start {
        let job = self.world.job(id).clone();
        let mut nodes = self.nodes.clone();
        let first = self.below(nodes.len());
        nodes.rotate_left(first);
        let mut on = Vec::new();
        let mut takes: BTreeSet<AttemptId> = BTreeSet::new();
        for node in nodes {
            let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("small");
            let gpus = &self.world.state.nodes.get(&node).expect("it joined").gpus;
            let free = (0u16..).zip(gpus).filter(|(_, gpu)| gpu.is_present && gpu.next.is_none());
            let slots: Vec<(u16, Option<AttemptId>)> =
                free.map(|(slot, gpu)| (slot, gpu.holder)).take(wanted).collect();
            let is_enough = on.len() == usize::try_from(job.terms.shape.nodes).expect("small");
            if is_enough || slots.len() < wanted {
                continue;
            }
            takes.extend(slots.iter().filter_map(|(_, holder)| *holder));
            on.push((node, slots.into_iter().map(|(slot, _)| slot).collect::<Vec<u16>>()));
        }
        let stays = |id: &AttemptId| {
            let attempt = self.world.state.attempts.get(id);
            attempt.is_some_and(|attempt| !attempt.is_leaving()) && !is_told.contains(id)
        };
        let takes: Vec<AttemptId> = takes.into_iter().filter(stays).collect();
        let takes: Vec<_> = takes.into_iter().map(|victim| (victim, self.right(&job, victim))).collect();
        let on: Vec<(NodeId, &[u16])> = on.iter().map(|(node, slots)| (*node, slots.as_slice())).collect();
        let mut start = self.world.start_of(id, &on, &takes);
        for take in &mut start.takes {
            if self.one_in(4) {
                let ago = u64::from(self.small(4_000));
                let ago = scheduler_core::unit::Span::from_secs(ago);
                take.price.saved_at = Some(self.world.now.minus(ago));
            }
            if self.one_in(20) {
                take.generation = scheduler_core::id::Generation::new(9);
            }
        }
        start
    }

    fn right(&mut self, job: &Job, victim: AttemptId) -> Right {
        let other = self.world.job(victim.job);
        let right = match other.terms.tier {
            Tier::Free => Right::FreeTier,
            Tier::Funded if other.budget == job.budget => Right::Turn,
            Tier::Funded => share(),
        };
        if self.one_in(20) { Right::FreeTier } else { right }
    }
}
