//! When a job is told, asked and made to end. Pure: times in, stage out.

use crate::format::{Spec, Stage, Stop};

/// What the timeline depends on. Times are ms of the boot clock.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The limits.
    pub spec: &'a Spec,
    /// When the program started.
    pub started_ms: u64,
    /// The stop and when it was seen.
    pub stop: Option<(&'a Stop, u64)>,
    /// When a checkpoint newer than the stop was seen.
    pub saved_ms: Option<u64>,
}

/// The times at which the stages begin; `u64::MAX` is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// Start of [`Stage::Noticing`].
    pub notice_ms: u64,
    /// Start of [`Stage::Terminating`].
    pub term_ms: u64,
    /// Start of [`Stage::Killing`].
    pub kill_ms: u64,
    /// True if the time limit, not a stop, is what comes first.
    pub by_limit: bool,
}

const NEVER: Timeline =
    Timeline { notice_ms: u64::MAX, term_ms: u64::MAX, kill_ms: u64::MAX, by_limit: false };

impl Timeline {
    /// Works out the times. With both a stop and a limit, whatever comes first holds, stage by stage.
    pub fn of(view: View<'_>) -> Self {
        let limit = view.spec.time_limit_ms.map_or(NEVER, |limit_ms| {
            let end_ms = view.started_ms.saturating_add(limit_ms);
            Self {
                notice_ms: end_ms.saturating_sub(view.spec.grace_ms).max(view.started_ms),
                term_ms: end_ms,
                kill_ms: end_ms.saturating_add(view.spec.limit_kill_ms),
                by_limit: true,
            }
        });
        let Some((stop, seen_ms)) = view.stop else { return limit };
        let mut stopped = Self {
            notice_ms: if stop.notice { seen_ms } else { u64::MAX },
            term_ms: seen_ms.saturating_add(stop.term_after_ms),
            kill_ms: seen_ms.saturating_add(stop.kill_after_ms),
            by_limit: false,
        };
        if let Some(saved_ms) = view.saved_ms.filter(|_| stop.notice) {
            let lead_ms = stop.kill_after_ms.saturating_sub(stop.term_after_ms);
            stopped.term_ms = stopped.term_ms.min(saved_ms);
            stopped.kill_ms = stopped.kill_ms.min(saved_ms.saturating_add(lead_ms));
        }
        Self {
            notice_ms: limit.notice_ms.min(stopped.notice_ms),
            term_ms: limit.term_ms.min(stopped.term_ms),
            kill_ms: limit.kill_ms.min(stopped.kill_ms),
            by_limit: limit.term_ms < stopped.term_ms,
        }
    }

    /// The stage at a time.
    pub fn stage(&self, now_ms: u64) -> Stage {
        if now_ms >= self.kill_ms {
            Stage::Killing
        } else if now_ms >= self.term_ms {
            Stage::Terminating
        } else if now_ms >= self.notice_ms {
            Stage::Noticing
        } else {
            Stage::Running
        }
    }

    /// The next time at which the stage changes.
    pub fn next_ms(&self, now_ms: u64) -> Option<u64> {
        [self.notice_ms, self.term_ms, self.kill_ms]
            .into_iter()
            .filter(|at| *at > now_ms && *at < u64::MAX)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::{Timeline, View};
    use crate::format::{Spec, Stage, Stop};

    fn spec(time_limit_ms: Option<u64>) -> Spec {
        Spec {
            job: 1,
            attempt: 1,
            rank: 0,
            mark: String::new(),
            gpus: Vec::new(),
            argv: Vec::new(),
            script: None,
            env: Vec::new(),
            account: None,
            directory: Vec::new(),
            output: None,
            time_limit_ms,
            grace_ms: 120,
            limit_kill_ms: 30,
            signal: 10,
            checkpoint_glob: None,
            cgroup: None,
            unkillable_ms: 0,
        }
    }

    fn stop(notice: bool) -> Stop {
        let (kind, reason) = ("preempt".to_owned(), String::new());
        Stop { generation: 1, kind, reason, notice, signal: 10, term_after_ms: 110, kill_after_ms: 120 }
    }

    fn stages(timeline: Timeline, times: &[u64]) -> Vec<Stage> {
        times.iter().map(|now| timeline.stage(*now)).collect()
    }

    use Stage::{Killing, Noticing, Running, Terminating};

    #[test]
    fn without_stop_and_limit_a_job_runs_for_ever() {
        let spec = spec(None);
        let timeline = Timeline::of(View { spec: &spec, started_ms: 0, stop: None, saved_ms: None });
        assert_eq!(stages(timeline, &[0, u64::MAX - 1]), [Running, Running]);
        assert_eq!(timeline.next_ms(0), None);
    }

    #[test]
    fn the_limit_gives_notice_at_limit_less_grace_but_not_before_the_start() {
        let long = spec(Some(1_000));
        let timeline = Timeline::of(View { spec: &long, started_ms: 50, stop: None, saved_ms: None });
        let times = [50, 929, 930, 1_049, 1_050, 1_079, 1_080];
        let expected = [Running, Running, Noticing, Noticing, Terminating, Terminating, Killing];
        assert_eq!(stages(timeline, &times), expected);
        assert!(timeline.by_limit);
        let short = spec(Some(60));
        let timeline = Timeline::of(View { spec: &short, started_ms: 50, stop: None, saved_ms: None });
        assert_eq!(stages(timeline, &[50, 110, 140]), [Noticing, Terminating, Killing]);
    }

    #[test]
    fn grace_runs_from_notice_to_the_end_and_a_checkpoint_ends_it_early() {
        let (spec, stop) = (spec(None), stop(true));
        let mut view = View { spec: &spec, started_ms: 0, stop: Some((&stop, 1_000)), saved_ms: None };
        let times = [999, 1_000, 1_109, 1_110, 1_120];
        assert_eq!(stages(Timeline::of(view), &times), [Running, Noticing, Noticing, Terminating, Killing]);
        view.saved_ms = Some(1_020);
        assert_eq!(stages(Timeline::of(view), &[1_019, 1_020, 1_030]), [Noticing, Terminating, Killing]);
    }

    #[test]
    fn a_stop_never_gives_more_time_than_the_limit() {
        let (spec, stop) = (spec(Some(1_050)), stop(false));
        let view = View { spec: &spec, started_ms: 0, stop: Some((&stop, 1_000)), saved_ms: None };
        let timeline = Timeline::of(view);
        assert_eq!(stages(timeline, &[1_050, 1_080]), [Terminating, Killing]);
        assert!(timeline.by_limit);
    }
}
