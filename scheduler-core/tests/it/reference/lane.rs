//! The short lane, as POLICY 4 has it: counted anew for each job.

use scheduler_core::id::{JobId, Name};
use scheduler_core::job::Job;
use scheduler_core::spec::Tier;
use scheduler_core::unit::Span;

use super::Naive;

pub fn gpus(job: &Job) -> u64 {
    u64::from(job.terms.shape.nodes) * u64::from(job.terms.shape.gpus_per_node.get())
}

fn is_short(job: &Job) -> bool {
    job.terms.min_runtime <= Span::from_mins(15)
        && job.terms.time_limit.is_some_and(|limit| limit <= Span::from_mins(30))
}

pub fn is_lane(job: &Job) -> bool {
    job.terms.tier == Tier::Funded && is_short(job) && gpus(job) <= 8
}

pub fn is_longer(job: &Job) -> bool {
    job.terms.tier == Tier::Funded && !is_short(job)
}

impl Naive {
    /// GPUs of the lane, and of the rest; none without one.
    pub fn lane(&self, pool: &Name) -> Option<(u64, u64)> {
        let ppm = u64::from(self.state.meta.settings.short_lane_ppm);
        let nodes = self.state.nodes.values().filter(|node| node.pool == *pool);
        let whole: u64 = nodes.map(|node| node.gpus.len() as u64).sum();
        let part = whole * ppm / 1_000_000;
        (ppm > 0).then_some((part, whole - part))
    }

    /// GPUs of those who were decided to start.
    fn decided(&self, pool: &Name, which: impl Fn(&Job) -> bool) -> u64 {
        let here = self
            .starts
            .iter()
            .filter(|(_, on, _)| self.state.nodes.get(&on[0].0).is_some_and(|node| node.pool == *pool));
        let jobs = here.map(|(id, _, _)| self.state.jobs.get(id).expect("a known job"));
        jobs.filter(|job| which(job)).map(gpus).sum()
    }

    fn running(&self, pool: &Name, which: impl Fn(&Job) -> bool, protected: bool) -> u64 {
        let live = self.state.attempts.iter().filter(|(_, attempt)| {
            let until = attempt.started_at.map(|at| at.plus(attempt.protection));
            let is_protected = attempt.stop.is_none() && until.is_none_or(|until| self.now < until);
            attempt.pool == *pool && attempt.ended.is_none() && (is_protected || !protected)
        });
        let jobs = live.map(|(id, _)| self.state.jobs.get(&id.job).expect("it has a job"));
        jobs.filter(|job| which(job)).map(gpus).sum()
    }

    /// GPUs that jobs of the lane have.
    pub fn in_lane(&self, pool: &Name) -> u64 {
        self.running(pool, is_lane, false) + self.decided(pool, is_lane)
    }

    /// GPUs that longer jobs protect.
    pub fn protected_beside(&self, pool: &Name) -> u64 {
        self.running(pool, is_longer, true) + self.decided(pool, is_longer)
    }

    /// Whether a job has the right of the lane.
    pub(super) fn has_lane(&self, job: &Job, pool: &Name) -> bool {
        is_lane(job) && self.lane(pool).is_some_and(|(part, _)| self.in_lane(pool) < part)
    }

    /// Whether a job leaves the lane unprotected, or has a date that has come, or cannot.
    pub(super) fn leaves_lane(&self, id: JobId, job: &Job, pool: &Name) -> bool {
        let Some((_, rest)) = self.lane(pool).filter(|_| is_longer(job)) else { return true };
        let date = self.state.dates.get(&(id, pool.clone()));
        let is_due = date.is_some_and(|date| date.promise.at <= self.now);
        is_due || gpus(job) > rest || self.protected_beside(pool) + gpus(job) <= rest
    }
}
