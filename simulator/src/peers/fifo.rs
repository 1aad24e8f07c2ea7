//! First in, first out: jobs start in the order of their submission, and nobody goes before one that waits.
//!
//! What Slurm does with `PriorityType=priority/basic` and `SchedulerType=sched/builtin` ("once any job or job array
//! task in a partition is left pending, no other jobs in that partition will be scheduled",
//! <https://slurm.schedmd.com/sched_config.html>).
//! Nobody is ever preempted; the free tier stands in the same line.

use scheduler_core::decision::Plan;
use scheduler_core::id::{JobId, Name};
use scheduler_core::job::Job;

use super::placing::{Decisions, Free, pools, waiting};
use crate::policy::{Policy, Round};

/// First in, first out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn plan(&mut self, round: &Round<'_>) -> Plan {
        let mut decisions = Decisions::new(round);
        for pool in pools(round.state) {
            let mut free = Free::of(round, &pool);
            if free.total() == 0 {
                continue;
            }
            for (id, job) in in_line(round, &pool) {
                if !decisions.has_place() {
                    break;
                }
                if decisions.starts(id) {
                    continue;
                }
                let Some(on) = free.fit(round.state, job) else { break };
                free.take(&on);
                decisions.start((id, job), on, Vec::new());
            }
        }
        decisions.end()
    }

    fn first(&mut self, round: &Round<'_>, pool: &Name) -> Option<JobId> {
        waiting(round, pool).iter().min_by_key(|(id, job)| (job.submitted_at, *id)).map(|(id, _)| *id)
    }
}

fn in_line<'a>(round: &Round<'a>, pool: &Name) -> Vec<(JobId, &'a Job)> {
    let mut jobs = waiting(round, pool);
    jobs.sort_by_key(|(id, job)| (job.submitted_at, *id));
    jobs
}
