//! Plans as the slow planner has them, and what a comparison was about if it breaks.

use scheduler_core::decision::Plan;

use super::Start;

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
