//! The log against a model, on engines that crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::engine::memory::MemoryEngine;
use crate::engine::{Change, Engine};
use crate::record::{Blob, Body};

/// Small enough that eviction happens all the time.
const SMALL_TAIL: usize = 200;

fn entry(term: u64, index: u64, length: usize) -> Entry {
    let byte = u8::try_from((term * 31 + index) % 256).expect("below 256");
    Entry { at: Position { term, index }, body: Body::Command(Blob(vec![byte; length].into())) }
}

fn entries(term: u64, indexes: Range<u64>, length: usize) -> Vec<Entry> {
    indexes.map(|index| entry(term, index, length)).collect()
}

fn wait(log: &LogStore) {
    log.flush().expect("the writer runs").blocking_recv().expect("the writer answers");
}

fn all(log: &LogStore) -> Vec<Entry> {
    log.read(0..u64::MAX, usize::MAX).expect("the log can be read")
}

struct Disk {
    engine: MemoryEngine,
    dir: TempDir,
}

impl Disk {
    fn new() -> Self {
        Self { engine: MemoryEngine::default(), dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn open(&self) -> Result<LogStore, OpenError> {
        LogStore::on(Arc::new(self.engine.clone()), &self.dir.path().join("mark"), SMALL_TAIL)
    }

    /// Returns the message of an opening that must find damage.
    fn damage(&self) -> String {
        match self.open() {
            Err(OpenError::Damaged(what)) => what,
            Err(OpenError::Io { cause, .. }) => panic!("damage is not a fault of the file system: {cause}"),
            Ok(_) => panic!("the damage went unnoticed"),
        }
    }
}

#[test]
fn callbacks_come_after_the_sync_and_in_order() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    let called = Arc::new(AtomicUsize::new(0));
    for index in 0..50 {
        let called = Arc::clone(&called);
        let expected = usize::try_from(index).expect("small");
        let durable = Box::new(move || assert_eq!(called.fetch_add(1, Ordering::SeqCst), expected));
        log.append(entries(1, index..index + 1, 100), durable).expect("it follows");
    }
    wait(&log);
    assert_eq!(called.load(Ordering::SeqCst), 50);
}

#[test]
fn a_hole_is_refused_at_once() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    log.append(entries(1, 0..3, 8), Box::new(|| ())).expect("it follows");
    assert!(log.append(entries(1, 4..5, 8), Box::new(|| ())).is_err());
}

#[test]
fn large_entries_are_kept_in_parts_below_the_engine_s_limit() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    let mixed = vec![entry(1, 0, 10), entry(1, 1, 300 << 10), entry(1, 2, 10), entry(1, 3, 100 << 10)];
    log.append(mixed.clone(), Box::new(|| ())).expect("it follows");
    log.append(entries(1, 4..100, 5000), Box::new(|| ())).expect("it follows");
    wait(&log);
    let values = disk.engine.scan(&[], &[255], usize::MAX).expect("memory reads");
    assert!(values.iter().all(|(_, value)| value.len() <= crate::engine::VALUE_MAX));
    drop(log);
    let log = disk.open().expect("a good log");
    assert_eq!(all(&log)[..4], mixed);
    assert_eq!(all(&log).len(), 100);
    log.truncate_after(Some(Position { term: 1, index: 2 })).expect("the writer runs");
    wait(&log);
    drop(log);
    assert_eq!(all(&disk.open().expect("a good log")), mixed[..3]);
}

#[test]
fn reads_are_cut_by_size_but_never_empty() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    log.append(entries(1, 0..100, 1000), Box::new(|| ())).expect("it follows");
    wait(&log);
    let read = log.read(5..90, 3500).expect("the log can be read");
    assert_eq!(read, entries(1, 5..8, 1000));
    assert_eq!(log.read(5..90, 1).expect("the log can be read"), entries(1, 5..6, 1000));
}

#[test]
fn every_lost_record_is_noticed() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    for index in 0..6 {
        log.append(entries(1, index..index + 1, 100), Box::new(|| ())).expect("it follows");
        wait(&log);
    }
    let vote = Vote { term: 3, voted_for: 2, committed: true };
    log.save_vote(vote).expect("the writer runs").blocking_recv().expect("the writer answers");
    wait(&log);
    drop(log);
    for (key, value) in disk.engine.scan(&[], &[255], usize::MAX).expect("memory reads") {
        disk.engine.write(vec![Change::Delete { key: key.clone() }]).expect("memory takes it");
        let what = disk.damage();
        assert!(!what.is_empty());
        for at in 0..value.len() {
            let mut flipped = value.clone();
            flipped[at] ^= 0x10;
            disk.engine.write(vec![Change::Put { key: key.clone(), value: flipped }]).expect("memory");
            disk.damage();
        }
        disk.engine.write(vec![Change::Put { key, value }]).expect("memory takes it");
    }
    assert_eq!(all(&disk.open().expect("everything is back")).len(), 6);
}

#[test]
fn an_engine_that_comes_back_empty_is_noticed() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    log.append(entries(1, 0..5, 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    drop(log);
    let emptied = Disk { engine: MemoryEngine::default(), dir: disk.dir };
    assert!(emptied.damage().contains("empty"));
}

#[test]
fn an_engine_that_comes_back_with_an_older_tail_is_noticed() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    log.append(entries(1, 0..10, 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    let older = disk.engine.batches();
    log.truncate_after(Some(Position { term: 1, index: 4 })).expect("the writer runs");
    log.append(entries(2, 5..8, 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    drop(log);
    let engine = disk.engine.replayed(older);
    assert!(Disk { engine, dir: disk.dir }.damage().contains("index 7 of term 2"));
}

#[test]
fn the_purged_position_survives_an_empty_log() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    log.append(entries(1, 0..5, 10), Box::new(|| ())).expect("it follows");
    // Beyond the end: a snapshot was installed.
    let beyond = Position { term: 4, index: 20 };
    log.purge(beyond).expect("the writer runs");
    assert_eq!(log.state(), State { purged: Some(beyond), last: Some(beyond) });
    log.append(entries(4, 21..23, 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    drop(log);
    let log = disk.open().expect("a good log");
    assert_eq!(log.state().purged, Some(beyond));
    assert_eq!(all(&log), entries(4, 21..23, 10));
}

/// What can happen to a log.
#[derive(Debug, Clone)]
enum Step {
    Append { count: u64, length: usize },
    Truncate { drop: u64 },
    Purge { keep: u64 },
    Vote,
    Committed,
    Reopen,
    Crash { surviving: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..20u64, 0..3000usize).prop_map(|(count, length)| Step::Append { count, length }),
        1 => Just(Step::Append { count: 1, length: 120 << 10 }),
        2 => (0..30u64).prop_map(|drop| Step::Truncate { drop }),
        2 => (0..30u64).prop_map(|keep| Step::Purge { keep }),
        1 => Just(Step::Vote),
        1 => Just(Step::Committed),
        1 => Just(Step::Reopen),
        2 => (0..4usize).prop_map(|surviving| Step::Crash { surviving }),
    ]
}

/// What the log must hold.
#[derive(Debug, Default, Clone)]
struct Model {
    entries: Vec<Entry>,
    purged: Option<Position>,
    vote: Option<Vote>,
    term: u64,
}

impl Model {
    fn next(&self) -> u64 {
        self.entries.last().map(|entry| entry.at).or(self.purged).map_or(0, |at| at.index + 1)
    }

    fn check(&self, log: &LogStore) {
        assert_eq!(all(log), self.entries);
        assert_eq!(log.state().purged, self.purged);
        assert_eq!(log.state().last, self.entries.last().map(|entry| entry.at).or(self.purged));
        assert_eq!(log.vote(), self.vote);
    }
}

fn run(steps: Vec<Step>) {
    let mut disk = Disk::new();
    let mut log = disk.open().expect("a new log");
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Append { count, length } => {
                let from = model.next();
                let added = entries(model.term, from..from + count, length);
                model.entries.extend(added.clone());
                log.append(added, Box::new(|| ())).expect("it follows");
            }
            Step::Truncate { drop } => {
                let left = model.entries.len().saturating_sub(usize::try_from(drop).expect("small"));
                model.entries.truncate(left);
                model.term += 1;
                let keep = model.entries.last().map(|entry| entry.at).or(model.purged);
                log.truncate_after(keep).expect("the writer runs");
            }
            Step::Purge { keep } => {
                let gone = model.entries.len().saturating_sub(usize::try_from(keep).expect("small"));
                if let Some(upto) = model.entries.drain(..gone).next_back() {
                    model.purged = Some(upto.at);
                    log.purge(upto.at).expect("the writer runs");
                }
            }
            Step::Vote => {
                model.term += 1;
                let vote = Vote { term: model.term, voted_for: 1, committed: model.term % 2 == 0 };
                model.vote = Some(vote);
                log.save_vote(vote).expect("the writer runs").blocking_recv().expect("it answers");
            }
            Step::Committed => {
                let last = log.state().last;
                log.save_committed(last).expect("the writer runs");
            }
            Step::Reopen => {
                drop(log);
                log = disk.open().expect("a good log");
            }
            Step::Crash { surviving } => {
                // What is acknowledged must survive any crash; what is written after that may.
                wait(&log);
                let engine = disk.engine.crashed(surviving);
                drop(log);
                disk = Disk { engine, dir: disk.dir };
                log = disk.open().expect("a crash is no damage");
            }
        }
        model.check(&log);
    }
    drop(log);
    model.check(&disk.open().expect("a good log"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn log_equals_its_model_through_truncation_purge_reopening_and_crashes(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        run(steps);
    }
}

#[test]
fn a_crash_between_any_two_writes_is_no_damage() {
    let disk = Disk::new();
    let log = disk.open().expect("a new log");
    log.append(entries(1, 0..20, 4000), Box::new(|| ())).expect("it follows");
    log.append(entries(1, 20..21, 200 << 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    log.truncate_after(Some(Position { term: 1, index: 7 })).expect("the writer runs");
    log.append(entries(2, 8..10, 200 << 10), Box::new(|| ())).expect("it follows");
    log.purge(Position { term: 1, index: 3 }).expect("the writer runs");
    wait(&log);
    for surviving in 0..disk.engine.batches() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let crashed = Disk { engine: disk.engine.replayed(surviving), dir };
        let log = match crashed.open() {
            Ok(log) => log,
            Err(OpenError::Damaged(what)) => panic!("after {surviving} batches: {what}"),
            Err(OpenError::Io { cause, .. }) => panic!("{cause}"),
        };
        let held = all(&log);
        let first = log.state().purged.map_or(0, |at| at.index + 1);
        for (entry, expected) in held.iter().zip(first..) {
            assert_eq!(entry.at.index, expected);
        }
    }
}

/// An engine whose syncs fail from the third on, and would succeed again later.
struct Failing {
    inner: MemoryEngine,
    syncs: AtomicUsize,
}

impl Engine for Failing {
    fn write(&self, changes: Vec<Change>) -> io::Result<()> {
        self.inner.write(changes)
    }

    fn sync(&self) -> io::Result<()> {
        match self.syncs.fetch_add(1, Ordering::SeqCst) {
            2 => Err(io::Error::from_raw_os_error(5)),
            _ => self.inner.sync(),
        }
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.inner.get(key)
    }

    fn floor(&self, key: &[u8]) -> io::Result<Option<crate::engine::Pair>> {
        self.inner.floor(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> io::Result<Vec<crate::engine::Pair>> {
        self.inner.scan(from, to, limit)
    }
}

const FAILING: &str = "RAFT_STORE_CHILD_FAILS";

/// Not a test of its own: the child of the test below.
#[test]
fn child_whose_disk_fails() {
    if std::env::var_os(FAILING).is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let engine = Failing { inner: MemoryEngine::default(), syncs: AtomicUsize::new(0) };
    let log = LogStore::on(Arc::new(engine), &dir.path().join("mark"), SMALL_TAIL).expect("a new log");
    for index in 0..10 {
        let durable = Box::new(move || println!("acknowledged {index}"));
        log.append(entries(1, index..index + 1, 10), durable).expect("it follows");
        wait(&log);
    }
}

#[test]
fn the_first_failed_sync_stops_the_process_before_it_acknowledges_more() {
    let child = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["log::tests::child_whose_disk_fails", "--exact", "--nocapture"])
        .env(FAILING, "1")
        .output()
        .expect("the child runs");
    let said = String::from_utf8_lossy(&child.stdout);
    let complained = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success());
    assert!(said.contains("acknowledged 0"), "{said}");
    assert!(!said.contains("acknowledged 1"), "{said}");
    assert!(complained.contains("failed to write the replicated log"), "{complained}");
}
