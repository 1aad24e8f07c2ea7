//! Simulated futures on this replica: bounded in number and in time, one question at a time, so many a person; and how
//! well the ranges held that were shown.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scheduler_core::future::{Likely, Question, Range, likely};
use scheduler_core::id::{JobId, Name};
use scheduler_core::plan::Links;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};
use tokio::sync::Semaphore;

use crate::clock::{Deadline, Moment};
use crate::machine;
use crate::shared::Shared;

/// So many futures are run where nobody says another number.
pub const FUTURES: u32 = 50;
/// And at most.
pub const FUTURES_MOST: u32 = 500;
/// How far each goes.
pub const HORIZON: Span = Span::from_hours(24);
/// For so long they are run: what was reached by then is told.
const PATIENCE: Duration = Duration::from_millis(900);
/// So many questions a person may ask within [`A_WHILE`].
const ASKED_MOST: usize = 12;
const A_WHILE: Duration = Duration::from_mins(1);
/// So many people's questions are remembered.
const PEOPLE_MOST: usize = 1_024;
/// How often it is looked whether shown ranges held.
pub const LOOK: Duration = Duration::from_secs(20);

/// What the futures say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// When it starts in each of them.
    Likely(Likely),
    /// Nothing, and why.
    Nothing(&'static str),
}

/// The futures of one replica.
#[derive(Debug)]
pub struct Futures {
    turn: Semaphore,
    asked: Mutex<BTreeMap<Name, VecDeque<Moment>>>,
    ranges: Mutex<Ranges>,
}

impl Default for Futures {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), asked: Mutex::default(), ranges: Mutex::default() }
    }
}

impl Futures {
    /// Runs the futures of a question on a thread of their own; nothing is said while another question is answered, or to
    /// who asks too often.
    pub async fn ask(
        &self,
        who: &Name,
        (state, links): (State, Links),
        question: Question,
        now: Timestamp,
    ) -> Said {
        if !self.may_ask(who) {
            return Said::Nothing("you asked for many futures in the last minute: ask again in a while");
        }
        let Ok(_turn) = self.turn.try_acquire() else {
            return Said::Nothing("this replica runs futures for somebody else: ask again");
        };
        let run = move || {
            let until = Deadline::after(PATIENCE);
            let run = || likely(&state, &links, &question, now, |_| !until.is_over());
            // A future that can't be is no answer, and must not end the replica.
            machine::caught(run)
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(Some(Some(likely))) if likely.range() == Range::Unknown => {
                Said::Nothing("too few futures could be run in the time there is")
            }
            Ok(Some(Some(likely))) => Said::Likely(likely),
            Ok(Some(None)) => Said::Nothing("it does not stand in line, or too many stand before it"),
            Ok(None) | Err(_) => Said::Nothing("the futures could not be run"),
        }
    }

    fn may_ask(&self, who: &Name) -> bool {
        let mut asked = lock(&self.asked);
        asked.retain(|_, moments| {
            moments.retain(|moment| moment.elapsed() < A_WHILE);
            !moments.is_empty()
        });
        if asked.len() >= PEOPLE_MOST && !asked.contains_key(who) {
            return false;
        }
        let moments = asked.entry(who.clone()).or_default();
        if moments.len() >= ASKED_MOST {
            return false;
        }
        moments.push_back(Moment::now());
        true
    }

    /// Remembers a range that is shown to somebody.
    pub fn shown(&self, likely: &Likely) {
        if let Range::Between { from, to } = likely.range() {
            lock(&self.ranges).show(likely.job, Shown { at: likely.at, from, to });
        }
    }

    /// Looks which of the jobs with a shown range started, and whether within it.
    pub fn look(&self, state: &State, now: Timestamp) {
        lock(&self.ranges).settle(state, now);
    }

    /// Returns how many of the shown ranges held, in percent, and of how many; none of too few.
    #[must_use]
    pub fn record(&self) -> Option<(u32, u32)> {
        lock(&self.ranges).record()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks now and then whether shown ranges held.
pub async fn run(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let view = shared.views.now();
        let now = shared.clock.roughly().max(view.state.meta.time);
        shared.futures.look(&view.state, now);
    }
}

/// With fewer settled ranges nothing is said of them.
const RECORD_LEAST: usize = 20;
/// So many ranges wait to be settled; others are not remembered.
const OPEN_MOST: usize = 2_048;
/// So many settled ones count, the newest.
const SETTLED_MOST: usize = 2_048;
/// And only those of this time.
const COUNTS: Span = Span::from_hours(7 * 24);

/// A range that was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    at: Timestamp,
    from: Timestamp,
    to: Timestamp,
}

/// The ranges that were shown, of each job the first one until it starts, and whether they held.
#[derive(Debug, Default)]
struct Ranges {
    open: BTreeMap<JobId, Shown>,
    settled: VecDeque<(Timestamp, bool)>,
}

impl Ranges {
    fn show(&mut self, job: JobId, shown: Shown) {
        // Who asks again and again shall not count more.
        if self.open.len() < OPEN_MOST {
            self.open.entry(job).or_insert(shown);
        }
    }

    fn settle(&mut self, state: &State, now: Timestamp) {
        let settled = &mut self.settled;
        self.open.retain(|id, shown| match became(state, *id, shown, now) {
            Became::Open => true,
            Became::Nothing => false,
            Became::Held(held) => {
                settled.push_back((now, held));
                false
            }
        });
        let too_many = settled.len().saturating_sub(SETTLED_MOST);
        settled.drain(..too_many);
        while settled.front().is_some_and(|(at, _)| now.since(*at) > COUNTS) {
            settled.pop_front();
        }
    }

    fn record(&self) -> Option<(u32, u32)> {
        if self.settled.len() < RECORD_LEAST {
            return None;
        }
        let held = self.settled.iter().filter(|(_, held)| *held).count();
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Some((count(held * 100 / self.settled.len()), count(self.settled.len())))
    }
}

/// What became of a shown range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    /// The job still waits, and the range is not over.
    Open,
    /// The job never started, or nobody knows: it tells nothing.
    Nothing,
    /// Whether it started within.
    Held(bool),
}

fn became(state: &State, id: JobId, shown: &Shown, now: Timestamp) -> Became {
    let Some(job) = state.jobs.get(&id) else { return Became::Nothing };
    let live = scheduler_core::lifecycle::phase::attempts_of(state, id);
    let live = live.filter_map(|attempt| state.attempts.get(attempt)?.go_at);
    let gone = job.past.iter().filter_map(|past| past.go_at);
    let started = gone.chain(live).filter(|go| *go >= shown.at).min();
    match started {
        Some(go) => Became::Held(shown.from <= go && go <= shown.to),
        None if job.phase.is_ended() => Became::Nothing,
        None if now > shown.to => Became::Held(false),
        None => Became::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn a_record_is_told_once_there_are_enough() {
        let mut ranges = Ranges::default();
        ranges.settled.extend((0..19).map(|n| (at(n), n % 4 != 0)));
        assert_eq!(ranges.record(), None);
        ranges.settled.push_back((at(19), true));
        assert_eq!(ranges.record(), Some((75, 20)));
        // A week later they count no more.
        ranges.settle(&State::default(), at(19).plus(COUNTS));
        assert_eq!((ranges.record(), ranges.settled.len()), (None, 1));
    }

    #[test]
    fn who_asks_again_and_again_counts_once_and_an_unknown_job_tells_nothing() {
        let mut ranges = Ranges::default();
        let shown = |to| Shown { at: at(0), from: at(1), to: at(to) };
        ranges.show(JobId::new(1), shown(5));
        ranges.show(JobId::new(1), shown(50));
        assert_eq!(ranges.open.values().copied().collect::<Vec<_>>(), [shown(5)]);
        ranges.settle(&State::default(), at(2));
        assert!(ranges.open.is_empty() && ranges.settled.is_empty());
        (0..5_000).for_each(|job| ranges.show(JobId::new(job), shown(9)));
        assert_eq!(ranges.open.len(), OPEN_MOST);
    }

    #[test]
    fn who_asks_too_often_waits() {
        let (futures, ana) = (Futures::default(), Name::new("ana").expect("a name"));
        assert!((0..ASKED_MOST).all(|_| futures.may_ask(&ana)));
        assert!(!futures.may_ask(&ana));
        assert!(futures.may_ask(&Name::new("bob").expect("a name")));
    }
}
