//! What a log does, on both engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::Change;
use crate::engine::disk_model::{Faults, Keep};
use crate::ground::{Ground, Modelled, Real};
use crate::record::{Blob, Body};

pub(super) fn entry(term: u64, index: u64, length: usize) -> Entry {
    let byte = u8::try_from((term * 31 + index) % 256).expect("below 256");
    Entry { at: Position { term, index }, body: Body::Command(Blob(vec![byte; length].into())) }
}

pub(super) fn entries(term: u64, indexes: Range<u64>, length: usize) -> Vec<Entry> {
    indexes.map(|index| entry(term, index, length)).collect()
}

pub(super) fn wait(log: &LogStore) {
    log.flush().expect("the writer runs").blocking_recv().expect("the writer answers");
}

pub(super) fn all(log: &LogStore) -> Vec<Entry> {
    log.read(0..u64::MAX, usize::MAX).expect("the log can be read")
}

fn open(ground: &impl Ground) -> LogStore {
    ground.open_log().unwrap_or_else(|error| panic!("{error:?}"))
}

fn callbacks_come_in_order<G: Ground>() {
    let ground = G::new();
    let log = open(&ground);
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
fn callbacks_come_after_the_sync_and_in_order() {
    callbacks_come_in_order::<Modelled>();
    callbacks_come_in_order::<Real>();
}

#[test]
fn a_hole_is_refused_at_once() {
    let log = open(&Modelled::new());
    log.append(entries(1, 0..3, 8), Box::new(|| ())).expect("it follows");
    assert!(log.append(entries(1, 4..5, 8), Box::new(|| ())).is_err());
}

fn large_entries_are_kept<G: Ground>() {
    let ground = G::new();
    let log = open(&ground);
    let mixed = vec![entry(1, 0, 10), entry(1, 1, 300 << 10), entry(1, 2, 10), entry(1, 3, 100 << 10)];
    log.append(mixed.clone(), Box::new(|| ())).expect("it follows");
    log.append(entries(1, 4..100, 5000), Box::new(|| ())).expect("it follows");
    wait(&log);
    drop(log);
    let values = ground.log_engine().scan(&[], &[255], usize::MAX).expect("it reads");
    assert!(values.iter().all(|(_, value)| value.len() <= crate::engine::VALUE_MAX));
    let log = open(&ground);
    assert_eq!(all(&log)[..4], mixed);
    assert_eq!(all(&log).len(), 100);
    log.truncate_after(Some(Position { term: 1, index: 2 })).expect("the writer runs");
    wait(&log);
    drop(log);
    assert_eq!(all(&open(&ground)), mixed[..3]);
}

#[test]
fn large_entries_are_kept_in_parts_below_the_engine_s_limit() {
    large_entries_are_kept::<Modelled>();
    large_entries_are_kept::<Real>();
}

fn reads_are_cut<G: Ground>() {
    let ground = G::new();
    let log = open(&ground);
    log.append(entries(1, 0..100, 1000), Box::new(|| ())).expect("it follows");
    wait(&log);
    let read = log.read(5..90, 3500).expect("the log can be read");
    assert_eq!(read, entries(1, 5..8, 1000));
    assert_eq!(log.read(5..90, 1).expect("the log can be read"), entries(1, 5..6, 1000));
}

#[test]
fn reads_are_cut_by_size_but_never_empty() {
    reads_are_cut::<Modelled>();
    reads_are_cut::<Real>();
}

#[test]
fn every_lost_record_is_noticed() {
    let ground = Modelled::new();
    let log = open(&ground);
    for index in 0..6 {
        log.append(entries(1, index..index + 1, 100), Box::new(|| ())).expect("it follows");
        wait(&log);
    }
    let vote = Vote { term: 3, voted_for: 2, committed: true };
    log.save_vote(vote).expect("the writer runs").blocking_recv().expect("the writer answers");
    wait(&log);
    drop(log);
    let engine = ground.log_engine();
    for (key, value) in engine.scan(&[], &[255], usize::MAX).expect("memory reads") {
        let change = |change| ground.log_engine().write(vec![change]).expect("memory takes it");
        change(Change::Delete { key: key.clone() });
        assert!(!ground.damage().is_empty());
        for at in (0..value.len()).step_by(3) {
            let mut flipped = value.clone();
            flipped[at] ^= 0x10;
            change(Change::Put { key: key.clone(), value: flipped });
            ground.damage();
        }
        change(Change::Put { key, value });
    }
    assert_eq!(all(&open(&ground)).len(), 6);
}

fn an_empty_engine_is_noticed<G: Ground>() {
    let ground = G::new();
    let log = open(&ground);
    log.append(entries(1, 0..5, 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    drop(log);
    ground.forget_log();
    assert!(ground.damage().contains("empty"));
}

#[test]
fn an_engine_that_comes_back_empty_is_noticed() {
    an_empty_engine_is_noticed::<Modelled>();
    an_empty_engine_is_noticed::<Real>();
}

#[test]
fn an_engine_that_comes_back_with_an_older_tail_is_noticed() {
    let ground = Modelled::new();
    let log = open(&ground);
    log.append(entries(1, 0..10, 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    let then = ground.disk.operations();
    log.truncate_after(Some(Position { term: 1, index: 4 })).expect("the writer runs");
    log.append(entries(2, 5..8, 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    drop(log);
    let old = Modelled { disk: ground.disk.with_stale("log", then) };
    assert!(old.damage().contains("index 7 of term 2"));
}

fn the_purged_position_survives<G: Ground>() {
    let ground = G::new();
    let log = open(&ground);
    log.append(entries(1, 0..5, 10), Box::new(|| ())).expect("it follows");
    // Beyond the end: a snapshot was installed.
    let beyond = Position { term: 4, index: 20 };
    log.purge(beyond).expect("the writer runs");
    assert_eq!(log.state(), State { purged: Some(beyond), last: Some(beyond) });
    log.append(entries(4, 21..23, 10), Box::new(|| ())).expect("it follows");
    wait(&log);
    drop(log);
    let log = open(&ground);
    assert_eq!(log.state().purged, Some(beyond));
    assert_eq!(all(&log), entries(4, 21..23, 10));
}

#[test]
fn the_purged_position_survives_an_empty_log() {
    the_purged_position_survives::<Modelled>();
    the_purged_position_survives::<Real>();
}

const FAILING: &str = "RAFT_STORE_CHILD_FAILS";

/// Not a test of its own: the child of the tests below, whose disk fails once after four entries.
#[test]
fn child_whose_disk_fails() {
    let Some(how) = std::env::var_os(FAILING) else { return };
    let ground = Modelled::new();
    let log = open(&ground);
    for index in 0..10 {
        if index == 4 {
            // Each entry is one write and one sync of the log; those of the mark may come between.
            let once = |fails: bool| fails.then_some(0);
            ground.disk.fail(Faults {
                sync_fails_after: once(how == "sync"),
                write_fails_after: once(how == "write"),
                ..Faults::default()
            });
        }
        let durable = Box::new(move || println!("acknowledged {index}"));
        log.append(entries(1, index..index + 1, 10), durable).expect("it follows");
        wait(&log);
    }
}

fn stops_at_once(how: &str) {
    let child = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["log::tests::child_whose_disk_fails", "--exact", "--nocapture"])
        .env(FAILING, how)
        .output()
        .expect("the child runs");
    let said = String::from_utf8_lossy(&child.stdout);
    let complained = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success());
    assert!(said.contains("acknowledged 3"), "{said}");
    assert!(!said.contains("acknowledged 4"), "{said}");
    assert!(complained.contains("failed to write the replicated log"), "{complained}");
}

#[test]
fn the_first_failed_write_or_sync_stops_the_process_before_it_acknowledges_more() {
    stops_at_once("sync");
    stops_at_once("write");
}

#[test]
fn a_disk_that_cannot_be_read_is_not_called_damaged() {
    let ground = Modelled::new();
    drop(open(&ground));
    let disk = ground.disk.cut(Keep::All);
    disk.fail(Faults { reads_fail: true, ..Faults::default() });
    let Err(OpenError::Io { cause, .. }) = (Modelled { disk }).open() else { panic!("it cannot be read") };
    assert_eq!(cause.raw_os_error(), Some(5));
}
