//! The figures that operators may change, with DESIGN's defaults. Each goes down to 50 ms, so that tests need no scaled clock.

mod by_name;

pub use by_name::{Error, Kind, set};

use crate::unit::Span;

/// Times and limits of one control plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The look-back of charge and allocation.
    pub window: Span,
    /// The longest minimum runtime.
    pub cap: Span,
    /// The longest time from a placing's latest go to the start of its processes.
    pub start_limit: Span,
    /// Grace of a preemption, where the job names none.
    pub grace: Span,
    /// Grace in the free tier, where the job names none.
    pub free_grace: Span,
    /// The longest grace a job may ask for.
    pub grace_max: Span,
    /// From the end signal to the kill of a cancelled job.
    pub cancel_grace: Span,
    /// From one rank's wrong end to the kill of the others.
    pub rank_grace: Span,
    /// By how much the taker's use must be below the other side's, in parts per million of allocation.
    pub margin_ppm: u32,
    /// Whether the job that is first in order gets a date if it cannot be placed.
    pub dates: bool,
    /// How long after the issue of a date a budget within the margin keeps what is past its protection; at most the cap.
    pub date_margin: Span,
    /// Up to which part of a pool's GPUs jobs that are not first get dates too, in parts per million; zero for the first
    /// alone.
    pub more_dates_ppm: u32,
    /// Which part of a pool's GPUs is the short lane, in parts per million; zero for none.
    pub short_lane_ppm: u32,
    /// A budget that has more than so many percent of its share of a pool goes after everybody else that waits; zero for
    /// no limit.
    pub burst_limit_pct: u32,
    /// Whether later attempts are protected only until they could save once more.
    pub short_later: bool,
    /// What a restart is taken to cost until the job's own were measured.
    pub restart_guess: Span,
    /// How long a free-tier job is not tried after preemptions: this, doubled for each of them, at most
    /// `free_backoff_max`.
    pub free_backoff: Span,
    /// The longest wait of a free-tier job after preemptions.
    pub free_backoff_max: Span,
    /// A job that reports checkpoints and was preempted so often in a row without a new one is held.
    pub barren_max: u32,
    /// How often rights to take are judged again by time alone, while a funded job waits.
    pub recheck: Span,
    /// From the first change that could let somebody start to the plan: changes that come together are seen together.
    pub debounce: Span,
    /// How often an agent reports that it lives.
    pub beat: Span,
    /// Without a beat for so long, a node gets no new work.
    pub silent_after: Span,
    /// Without a beat for so long, a node is committed as unreachable.
    pub unreachable_after: Span,
    /// How long a node waits after its first failed launch; doubles up to `launch_backoff_max`.
    pub launch_backoff: Span,
    /// The longest wait of a node after failed launches.
    pub launch_backoff_max: Span,
    /// How long a request id is remembered.
    pub request_memory: Span,
    /// How far a new request's own time may be from the entry's.
    pub request_skew: Span,
    /// How long an ended job stays in state.
    pub keep_ended: Span,
    /// How many ended jobs stay in state.
    pub keep_ended_max: u32,
    /// How many jobs may be live at once.
    pub live_jobs_max: u32,
    /// How long it is known how a job ended that is not in state any more; counted from its end.
    pub keep_results: Span,
    /// Of how many such jobs that is known.
    pub keep_results_max: u32,
    /// How many MiB what nodes read of all jobs in state may take.
    pub specs_mib_max: u32,
    /// How many answers are remembered at once.
    pub requests_max: u32,
    /// How many decisions and past attempts stay in state, all jobs together.
    pub decisions_max: u32,
    /// How many bills stay in state.
    pub bills_max: u32,
    /// How many breakpoints the curves of the ledger have, all together.
    pub curve_points_max: u32,
    /// How many jobs all that wait for others wait for, together.
    pub dependencies_max: u32,
    /// How many tasks all arrays in state have, together.
    pub array_tasks_max: u32,
    /// Whether nodes whose NVML is simulated may join.
    pub allow_simulated: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: Span::from_hours(7 * 24),
            cap: Span::from_hours(8),
            start_limit: Span::from_mins(10),
            grace: Span::from_secs(120),
            free_grace: Span::from_secs(15),
            grace_max: Span::from_secs(600),
            cancel_grace: Span::from_secs(30),
            rank_grace: Span::from_secs(10),
            margin_ppm: 100_000,
            dates: true,
            date_margin: Span::from_hours(2),
            more_dates_ppm: 0,
            short_lane_ppm: 0,
            burst_limit_pct: 0,
            short_later: false,
            restart_guess: Span::from_mins(5),
            free_backoff: Span::from_mins(1),
            free_backoff_max: Span::from_hours(2),
            barren_max: 3,
            recheck: Span::from_secs(10),
            debounce: Span::from_millis(10),
            beat: Span::from_secs(5),
            silent_after: Span::from_secs(20),
            unreachable_after: Span::from_secs(90),
            launch_backoff: Span::from_secs(10),
            launch_backoff_max: Span::from_mins(10),
            request_memory: Span::from_mins(10),
            request_skew: Span::from_mins(5),
            keep_ended: Span::from_hours(1),
            keep_ended_max: 20_000,
            live_jobs_max: 250_000,
            keep_results: Span::from_hours(8 * 24),
            keep_results_max: 1_000_000,
            specs_mib_max: 1_024,
            requests_max: 500_000,
            decisions_max: 500_000,
            bills_max: 100_000,
            curve_points_max: 2_000_000,
            dependencies_max: 1_000_000,
            array_tasks_max: 20_000_000,
            allow_simulated: false,
        }
    }
}

impl Settings {
    /// Returns the longest time that anybody who leaves may take for it.
    #[must_use]
    pub fn longest_grace(&self) -> Span {
        self.grace_max.max(self.cancel_grace).max(self.rank_grace).max(self.free_grace)
    }
}
