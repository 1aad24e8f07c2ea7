//! Backfill: a job starts before others only if it delays none of them.
//!
//! After Slurm's `sched/backfill` (<https://slurm.schedmd.com/sched_config.html>): jobs are looked at in order; each gets the
//! earliest time at which its GPUs are expected to be free for as long as it may run, around those that were planned
//! before it; whoever's time is now starts. When running jobs end is known only by their limits.

use scheduler_core::unit::{Span, Timestamp};

/// When a GPU is expected to be taken: from and until, in order.
type Timeline = Vec<(Timestamp, Timestamp)>;

/// What is expected of the GPUs of some nodes.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    nodes: Vec<Vec<Timeline>>,
}

/// What a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// On how many nodes.
    pub nodes: usize,
    /// GPUs on each.
    pub gpus: usize,
    /// How long it may run.
    pub limit: Span,
}

/// When a job is planned to start, and where: nodes by place, with their GPUs by place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// When.
    pub at: Timestamp,
    /// Where.
    pub on: Vec<(usize, Vec<usize>)>,
}

/// A time is looked for in so many steps; a job that has none by then is not planned (Slurm: `bf_window`).
const STEPS_MAX: usize = 64;

impl Expected {
    /// Adds a node: for each GPU, until when it is taken; none if it is idle.
    pub fn node(&mut self, now: Timestamp, until: &[Option<Timestamp>]) {
        let timelines = until.iter().map(|until| until.iter().map(|until| (now, *until)).collect());
        self.nodes.push(timelines.collect());
    }

    /// Returns the earliest time from `now` on at which a job fits, within `window`, and takes its place there.
    pub fn plan(&mut self, ask: &Ask, now: Timestamp, window: Span) -> Option<Planned> {
        if ask.nodes == 0 || ask.gpus == 0 {
            return None;
        }
        let mut from = now;
        for _ in 0..STEPS_MAX {
            let mut earliest: Vec<Timestamp> =
                self.nodes.iter().filter_map(|node| earliest_on(node, ask, from)).collect();
            earliest.sort_unstable();
            let at = *earliest.get(ask.nodes - 1)?;
            if at > now.plus(window) {
                return None;
            }
            if let Some(on) = self.at(ask, at) {
                self.take(&on, at, ask.limit);
                return Some(Planned { at, on });
            }
            // A node that was free earlier is planned for somebody else by then.
            from = self.next_change(at)?;
        }
        None
    }

    /// Returns where a job fits now around all that is planned, and takes its place there; none if it would have to wait.
    pub fn plan_now(&mut self, ask: &Ask, now: Timestamp) -> Option<Planned> {
        if ask.nodes == 0 || ask.gpus == 0 {
            return None;
        }
        let on = self.at(ask, now)?;
        self.take(&on, now, ask.limit);
        Some(Planned { at: now, on })
    }

    /// Returns where a job fits at a time: on the nodes with the fewest such GPUs.
    fn at(&self, ask: &Ask, at: Timestamp) -> Option<Vec<(usize, Vec<usize>)>> {
        let mut able: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let free: Vec<usize> =
                (0..node.len()).filter(|gpu| is_free(&node[*gpu], at, ask.limit)).collect();
            if free.len() >= ask.gpus {
                able.push((free.len(), place, free.into_iter().take(ask.gpus).collect()));
            }
        }
        able.sort_unstable();
        let on: Vec<(usize, Vec<usize>)> =
            able.into_iter().take(ask.nodes).map(|(_, place, gpus)| (place, gpus)).collect();
        (on.len() == ask.nodes).then_some(on)
    }

    fn take(&mut self, on: &[(usize, Vec<usize>)], at: Timestamp, limit: Span) {
        for (place, gpus) in on {
            for gpu in gpus {
                if let Some(timeline) = self.nodes.get_mut(*place).and_then(|node| node.get_mut(*gpu)) {
                    timeline.push((at, at.plus(limit)));
                    timeline.sort_unstable();
                }
            }
        }
    }

    /// Returns the next end of anything after a time.
    fn next_change(&self, after: Timestamp) -> Option<Timestamp> {
        let ends = self.nodes.iter().flatten().flatten().map(|(_, until)| *until);
        ends.filter(|until| *until > after).min()
    }
}

fn is_free(timeline: &Timeline, at: Timestamp, limit: Span) -> bool {
    let until = at.plus(limit);
    timeline.iter().all(|(from, to)| until <= *from || *to <= at)
}

/// Returns the earliest time from which a node has enough GPUs free for long enough.
fn earliest_on(node: &[Timeline], ask: &Ask, from: Timestamp) -> Option<Timestamp> {
    if node.len() < ask.gpus {
        return None;
    }
    let mut times: Vec<Timestamp> =
        node.iter().flatten().map(|(_, until)| *until).filter(|until| *until > from).chain([from]).collect();
    times.sort_unstable();
    times.dedup();
    let fits =
        |at: &Timestamp| node.iter().filter(|timeline| is_free(timeline, *at, ask.limit)).count() >= ask.gpus;
    times.into_iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn hours(hours: u64) -> Span {
        Span::from_hours(hours)
    }

    /// Four nodes of one GPU; job A runs on the first for four hours more.
    fn beside_a() -> Expected {
        let mut expected = Expected::default();
        expected.node(NOW, &[Some(NOW.plus(hours(4)))]);
        (0..3).for_each(|_| expected.node(NOW, &[None]));
        expected
    }

    fn at(expected: &mut Expected, nodes: usize, limit: Span) -> Option<Timestamp> {
        expected.plan(&Ask { nodes, gpus: 1, limit }, NOW, hours(24 * 7)).map(|planned| planned.at)
    }

    /// The worked example of FU Berlin's documentation of Slurm's backfill (zedat.fu-berlin.de/HPC/EN/Backfill): A runs; B needs
    /// A's node and more, so it waits for A's end; C, whose limit is shorter than what A has left, starts before B
    /// without delaying it. The same C with a longer limit has to wait until B is over.
    #[test]
    fn c_starts_before_b_only_if_its_limit_ends_before_a() {
        let mut expected = beside_a();
        assert_eq!(at(&mut expected, 4, hours(2)), Some(NOW.plus(hours(4))), "B waits for A");
        assert_eq!(at(&mut expected, 1, hours(3)), Some(NOW), "C is over before B begins");
        let mut expected = beside_a();
        assert_eq!(at(&mut expected, 4, hours(2)), Some(NOW.plus(hours(4))));
        assert_eq!(at(&mut expected, 1, hours(5)), Some(NOW.plus(hours(6))), "C would delay B");
    }

    /// "Backfill scheduling will start lower priority jobs if doing so does not delay the expected start time of any higher
    /// priority jobs" (slurm.conf, SchedulerType): of any, not of the first alone.
    #[test]
    fn no_earlier_job_is_delayed() {
        let mut expected = beside_a();
        assert_eq!(at(&mut expected, 4, hours(2)), Some(NOW.plus(hours(4))));
        assert_eq!(at(&mut expected, 3, hours(4)), Some(NOW), "three nodes are idle for just as long");
        assert_eq!(
            at(&mut expected, 1, hours(1)),
            Some(NOW.plus(hours(6))),
            "and nothing is left beside them"
        );
    }

    #[test]
    fn a_job_beyond_the_window_is_not_planned() {
        let mut expected = Expected::default();
        expected.node(NOW, &[Some(NOW.plus(hours(30)))]);
        let ask = Ask { nodes: 1, gpus: 1, limit: hours(1) };
        assert_eq!(expected.plan(&ask, NOW, hours(24)), None);
        assert_eq!(expected.plan(&Ask { gpus: 2, ..ask }, NOW, hours(48)), None);
    }

    #[test]
    fn gpus_of_one_node_are_planned_apart() {
        let mut expected = Expected::default();
        expected.node(NOW, &[None, Some(NOW.plus(hours(1)))]);
        expected.node(NOW, &[None, None]);
        let planned = expected.plan(&Ask { nodes: 1, gpus: 1, limit: hours(9) }, NOW, hours(24));
        assert_eq!(planned, Some(Planned { at: NOW, on: vec![(0, vec![0])] }), "where the fewest are idle");
        let whole = expected.plan(&Ask { nodes: 2, gpus: 1, limit: hours(1) }, NOW, hours(24));
        assert_eq!(whole.map(|planned| planned.at), Some(NOW.plus(hours(1))));
    }
}
