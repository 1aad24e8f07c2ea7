//! Whether an election was needless: nobody was elected, or this machine itself let replicas wait until one was due.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::cluster::Lab;
use super::wait::try_until;

/// Between two looks at how long threads had to wait.
const LOOK: Duration = Duration::from_millis(50);
/// So often something is done again when it met an election that was due.
const TRIES: usize = 3;

/// What became of the leader while something was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elections {
    /// Nobody was elected.
    None,
    /// Somebody was, and this machine had let a thread wait so many ms that it may have been due.
    Due(u64),
    /// Somebody was, and no thread had waited longer than so many ms.
    Needless(u64),
}

/// A watch over a lab's replicas: how long the kernel let their threads, and one that wants nothing, wait for a moment on
/// a core within the time after which followers elect.
#[derive(Debug)]
pub struct Calm {
    begun: Instant,
    longest_ms: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    terms: usize,
    window: Duration,
}

impl Calm {
    /// Begins to watch.
    pub fn watch(lab: &Lab) -> Self {
        let window = Duration::from_millis(lab.timing().election_min_ms);
        let pids: Vec<i32> = lab.replicas.iter().filter_map(super::Replica::pid).collect();
        let (longest, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let calm = Self {
            begun: Instant::now(),
            longest_ms: Arc::clone(&longest),
            is_over: Arc::clone(&is_over),
            terms: lab.leaders().len(),
            window,
        };
        std::thread::spawn(move || {
            let mut waits = Waits::default();
            while !is_over.load(Ordering::Relaxed) {
                let before = Instant::now();
                let _ = try_until(LOOK, || is_over.load(Ordering::Relaxed).then_some(()));
                let own = before.elapsed().saturating_sub(LOOK);
                let seen = own.max(waits.look(&pids, window));
                longest.fetch_max(u64::try_from(seen.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        calm
    }

    /// Returns for how long it has watched.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns what became of the leader.
    pub fn elections(&self, lab: &Lab) -> Elections {
        let longest = self.longest_ms.load(Ordering::Relaxed);
        let is_due = u128::from(longest) > self.window.as_millis() / 2;
        match (lab.leaders().len() == self.terms, is_due) {
            (true, _) => Elections::None,
            (false, true) => Elections::Due(longest),
            (false, false) => Elections::Needless(longest),
        }
    }
}

impl Drop for Calm {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Does something that must cost no election; does it again when one came that was due for this machine's sake. Returns
/// whether it was seen to cost none.
///
/// # Errors
/// When it fails.
///
/// # Panics
/// When there was an election without need.
#[track_caller]
pub fn costs_no_election(lab: &Lab, mut act: impl FnMut(&Calm) -> Result<()>) -> Result<bool> {
    for _ in 0..TRIES {
        let calm = Calm::watch(lab);
        act(&calm)?;
        match calm.elections(lab) {
            Elections::None => return Ok(true),
            Elections::Due(ms) => eprintln!("an election was due: a thread had to wait {ms} ms"),
            Elections::Needless(ms) => {
                panic!("an election without need; the longest wait of a thread was {ms} ms\n{}", lab.logs())
            }
        }
    }
    Ok(false)
}

/// How long threads have waited for a core, by thread: when it was looked, and the sum until then.
#[derive(Default)]
struct Waits(BTreeMap<i32, VecDeque<(Instant, Duration)>>);

impl Waits {
    /// Looks at all threads of some processes; returns the longest that one waited within a window up to now.
    fn look(&mut self, pids: &[i32], window: Duration) -> Duration {
        let (now, mut longest) = (Instant::now(), Duration::ZERO);
        for task in pids.iter().flat_map(|pid| tasks(*pid)) {
            let Some(waited) = waited(task) else { continue };
            let seen = self.0.entry(task).or_default();
            while seen.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= window) {
                seen.pop_front();
            }
            seen.push_back((now, waited));
            let first = seen.front().map_or(waited, |(_, first)| *first);
            longest = longest.max(waited.saturating_sub(first));
        }
        longest
    }
}

fn tasks(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns how long a thread was ready to run and had no core, ever.
fn waited(task: i32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{task}/schedstat")).ok()?;
    Some(Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_within_the_window_are_counted_and_those_before_it_are_not() {
        let own = i32::try_from(std::process::id()).expect("Linux has no larger process numbers");
        let mut waits = Waits::default();
        assert_eq!(
            waits.look(&[own], Duration::from_secs(60)),
            Duration::ZERO,
            "nothing before the first look"
        );
        let task = *waits.0.keys().next().expect("this process has a thread");
        let ago = |ms| Instant::now().checked_sub(Duration::from_millis(ms)).expect("the machine was up");
        // A kernel may not count waits.
        let Some(now) = waited(task) else { return };
        let earlier = now.saturating_sub(Duration::from_millis(900));
        let later = now.saturating_sub(Duration::from_millis(300));
        waits.0.insert(task, VecDeque::from([(ago(2_000), earlier), (ago(600), later), (ago(400), later)]));
        let longest = waits.look(&[own], Duration::from_millis(500));
        assert!(
            longest >= now - later && longest < now - earlier + Duration::from_millis(200),
            "{longest:?}"
        );
    }
}
