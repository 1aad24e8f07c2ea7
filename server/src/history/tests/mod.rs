//! History on real files: written, torn, damaged, thinned, read.

mod crashes;
mod damage;
mod poll;
mod reading;
mod stuck;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::v1::{AuditView, EventView};
use scheduler_core::id::{ClusterId, LogIndex};
use scheduler_core::unit::Timestamp;

use self::poll::until;
use super::bounds::Bounds;
use super::handle::History;
use super::query::{Query, Wants};
use super::record::Told;

const CLUSTER: ClusterId = ClusterId::new([7; 16]);
const TOLD: Wants = Wants { audit: true, events: true, jobs: false, bills: false };

fn bounds() -> Bounds {
    Bounds { window: 16, scrub_rate: 0, again: Duration::from_millis(5), ..Bounds::default() }
}

fn index(index: u64) -> LogIndex {
    LogIndex::new(index)
}

/// What the entry at an index tells: every fifth nothing, the others something about one of ten jobs; at a time that
/// rises by 1 s.
fn told(at: u64) -> Option<Told> {
    let job = u32::try_from(at % 10).unwrap();
    let event = EventView {
        kind: "job.started".into(),
        job: Some(job),
        sentence: "x".repeat(usize::try_from(job * 7).unwrap()),
        ..EventView::default()
    };
    let line = AuditView {
        action: "job.hold".into(),
        job: Some(job),
        reason: format!("at {at}"),
        ..AuditView::default()
    };
    (!at.is_multiple_of(5)).then(|| Told {
        index: index(at),
        time: Timestamp::from_millis(at * 1_000),
        cluster: CLUSTER,
        audit: if at.is_multiple_of(2) { vec![line] } else { Vec::new() },
        events: vec![event.clone(), event],
        left: None,
    })
}

fn record(history: &History, entries: impl Iterator<Item = u64>) {
    entries.for_each(|at| history.record(index(at), told(at)));
}

/// Waits until everything up to an index can be read.
fn settle(history: &History, through: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(runtime.block_on(history.settle(index(through), Duration::from_secs(120))));
}

/// Returns a directory with entries 0 to `through`, durable and closed.
fn written(dir: &Path, through: u64) {
    let history = History::open(dir, bounds()).unwrap();
    record(&history, 0..=through);
    history.flush_to(index(through)).unwrap();
    history.close();
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let found = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = found.filter(|path| path.extension().is_some_and(|is| is == ending)).collect();
    found.sort();
    found
}

fn indexes(history: &History, query: &Query) -> Vec<u64> {
    let mut query = *query;
    let mut all = Vec::new();
    loop {
        let page = history.read(&query).unwrap();
        assert_eq!(page.hole, None);
        all.extend(page.records.iter().map(|record| record.index));
        match page.next {
            Some(next) => query = query.on_from(next),
            None => return all,
        }
    }
}
