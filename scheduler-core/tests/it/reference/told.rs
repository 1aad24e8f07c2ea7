//! Plans as the slow planner has them, and what a comparison was about if it breaks.

use scheduler_core::decision::Plan;
use scheduler_core::job::Job;
use scheduler_core::unit::Timestamp;

use super::dates::Spot;
use super::room::{size, whole};
use super::{Naive, Start};

/// Shows a plan as the slow planner does.
pub fn decided(plan: &Plan) -> Vec<Start> {
    let one = |start: &scheduler_core::decision::Start| {
        let takes = start.takes.iter().map(|take| take.attempt).collect();
        (start.job, start.on.clone(), takes)
    };
    plan.decisions.iter().map(one).collect()
}

/// Says what it was about if it breaks.
pub(super) struct Told<'a>(pub(super) &'a str);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

impl Naive {
    /// A node as a date sees it, for a message.
    pub(super) fn shown(&self, job: &Job, spot: &Spot, at: Timestamp) -> String {
        let free = |free: Option<Timestamp>| {
            free.map_or(String::from("never"), |free| free.since(self.now).to_string())
        };
        let mut text = format!(
            "node {}, costs {:?}, {:?} wanted of {:?}, {:?} dated\n",
            spot.id,
            self.least(job, spot, at),
            size(job, &spot.node),
            whole(&spot.node),
            self.dated(spot, at, None)
        );
        for seat in &spot.seats {
            text += &format!("  {} in {} from {:?}\n", seat.slot, free(Some(seat.at)), seat.from);
        }
        for (by, at) in &spot.stays {
            text += &format!("  {by} has {:?} until {}\n", self.size_of(*by, &spot.node), free(*at));
        }
        text
    }
}
