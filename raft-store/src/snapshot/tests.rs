use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::engine::disk_model::{Disk, Keep};
use crate::engine::memory::MemoryEngine;
use crate::record::{Membership, Position};

fn memory() -> MemoryEngine {
    on(&Disk::default())
}

fn on(disk: &Disk) -> MemoryEngine {
    MemoryEngine::open(disk.file("snap")).expect("the modelled disk reads")
}

fn store(engine: &MemoryEngine) -> SnapshotStore {
    SnapshotStore::on(Arc::new(engine.clone()), 1 << 30, Arc::default()).expect("an engine in memory opens")
}

pub(super) fn content(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| seed.wrapping_add(u8::try_from(at % 251).expect("below 251"))).collect()
}

pub(super) fn add(store: &SnapshotStore, index: u64, content: &[u8]) -> Handle {
    let mut writer = store.create();
    writer.write_all(content).expect("memory takes it");
    let (shape, staged) = writer.finish().expect("memory takes it");
    let description = Description {
        last: Some(Position { term: 1, index }),
        members_at: None,
        membership: Membership::default(),
        chunks: shape.chunks,
        bytes: shape.bytes,
        digest: shape.digest,
    };
    store.name(store.hold(&staged, description)).expect("memory takes it")
}

pub(super) fn read(handle: &Handle) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    handle.read().read_to_end(&mut content)?;
    Ok(content)
}

fn chunks(engine: &MemoryEngine) -> usize {
    engine.scan(b"c", b"d", usize::MAX).expect("memory reads").len()
}

#[test]
fn the_newest_snapshot_is_read_back_and_two_are_kept() {
    let engine = memory();
    let snapshots = store(&engine);
    for index in [10, 20, 30] {
        let seed = u8::try_from(index).expect("small");
        add(&snapshots, index, &content(seed, 3 * CHUNK_BYTES + 7));
    }
    let newest = store(&engine).newest().expect("three were made");
    assert_eq!(newest.description().last, Some(Position { term: 1, index: 30 }));
    assert_eq!(read(&newest).expect("nothing is damaged"), content(30, 3 * CHUNK_BYTES + 7));
    assert_eq!(chunks(&engine), 2 * 4);
}

#[test]
fn an_empty_snapshot_is_a_snapshot() {
    let engine = memory();
    add(&store(&engine), 5, &[]);
    assert!(read(&store(&engine).newest().expect("it is there")).expect("it reads").is_empty());
}

#[test]
fn a_snapshot_being_read_outlives_its_successors() {
    let engine = memory();
    let snapshots = store(&engine);
    let first = add(&snapshots, 1, &content(1, CHUNK_BYTES * 2));
    for index in 2..6 {
        add(&snapshots, index, &content(9, 10));
    }
    assert_eq!(read(&first).expect("its chunks stay"), content(1, CHUNK_BYTES * 2));
    drop(first);
    let deadline = Instant::now() + Duration::from_secs(120);
    while chunks(&engine) != 2 {
        assert!(Instant::now() < deadline, "its chunks go with its last reader");
        thread::yield_now();
    }
}

#[test]
fn a_crash_before_the_name_leaves_the_snapshot_before() {
    let disk = Disk::default();
    let snapshots = store(&on(&disk));
    add(&snapshots, 1, &content(1, 100));
    add(&snapshots, 2, &content(2, CHUNK_BYTES * 3));
    let complete = content(3, CHUNK_BYTES * 3);
    add(&snapshots, 3, &complete);
    // Naming syncs, so everything above is durable; half a snapshot on top is not.
    let named = disk.operations();
    let mut writer = snapshots.create();
    writer.write_all(&complete).expect("memory takes it");
    for cut in named..disk.operations() {
        let after = on(&disk.cut_after(cut, Keep::All).0);
        let newest = store(&after).newest().expect("two are named");
        assert_eq!(newest.description().last, Some(Position { term: 1, index: 3 }));
        assert_eq!(read(&newest).expect("it is whole"), complete);
        assert_eq!(chunks(&after), 6, "chunks without a name are removed");
    }
}

#[test]
fn any_damaged_chunk_turns_to_the_snapshot_before() {
    for at in 0..3 {
        let engine = memory();
        let snapshots = store(&engine);
        add(&snapshots, 1, &content(1, 100));
        let newest = add(&snapshots, 2, &content(2, CHUNK_BYTES * 3));
        let mut chunk = newest.chunk(at).expect("it is there");
        let middle = chunk.len() / 2;
        chunk[middle] ^= 4;
        let key = keys::chunk(newest.number, at);
        engine.write(vec![Change::Put { key, value: chunk }]).expect("memory takes it");
        assert!(read(&newest).is_err());
        let found = store(&engine).newest().expect("the older one is good");
        assert_eq!(found.description().last, Some(Position { term: 1, index: 1 }));
    }
}

/// A snapshot that lies with another replica: its description and its chunks as they are sent.
fn sent(index: u64, content: &[u8]) -> (Description, Vec<Vec<u8>>) {
    let handle = add(&store(&memory()), index, content);
    let description = handle.description().clone();
    let chunks = (0..description.chunks).map(|at| handle.chunk(at).expect("it is there")).collect();
    (description, chunks)
}

#[test]
fn an_interrupted_transfer_goes_on_where_any_power_cut_left_it() {
    let whole = content(5, CHUNK_BYTES * 4 + 9);
    let (description, chunks) = sent(9, &whole);
    let disk = Disk::default();
    let snapshots = store(&on(&disk));
    let mut writer = snapshots.receive(&description).expect("memory takes it");
    assert!(snapshots.receive(&description).is_err(), "one at a time");
    for chunk in &chunks[..3] {
        writer.put_sealed(chunk).expect("memory takes it");
    }
    drop(writer);
    let mut resumed = BTreeSet::new();
    for cut in 0..=disk.operations() {
        for keep in [Keep::Nothing, Keep::All, Keep::Some(u64::try_from(cut).expect("small"))] {
            let after = store(&on(&disk.cut_after(cut, keep).0));
            assert!(after.newest().is_none(), "half a snapshot is none");
            let mut writer = after.receive(&description).expect("memory takes it");
            let held = writer.chunks();
            resumed.insert(held);
            for chunk in &chunks[usize::try_from(held).expect("small")..] {
                writer.put_sealed(chunk).expect("memory takes it");
            }
            let (shape, staged) = writer.finish().expect("memory takes it");
            assert_eq!(shape.digest, description.digest);
            after.name(after.hold(&staged, description.clone())).expect("memory takes it");
            assert_eq!(read(&after.newest().expect("it is named")).expect("it is whole"), whole);
        }
    }
    assert!(resumed.contains(&3) && resumed.contains(&0), "{resumed:?}");
}

#[test]
fn another_snapshot_takes_the_place_of_one_half_received() {
    let (first, chunks_of_first) = sent(9, &content(5, CHUNK_BYTES * 3));
    let (second, chunks_of_second) = sent(12, &content(6, CHUNK_BYTES * 2));
    let disk = Disk::default();
    let snapshots = store(&on(&disk));
    let mut writer = snapshots.receive(&first).expect("memory takes it");
    writer.put_sealed(&chunks_of_first[0]).expect("memory takes it");
    drop(writer);
    let mut writer = snapshots.receive(&second).expect("memory takes it");
    assert_eq!(writer.chunks(), 0);
    for chunk in &chunks_of_second {
        writer.put_sealed(chunk).expect("memory takes it");
    }
    let (_, staged) = writer.finish().expect("memory takes it");
    snapshots.name(snapshots.hold(&staged, second)).expect("memory takes it");
    drop(staged);
    let engine = on(&disk.cut(Keep::Nothing));
    let reopened = store(&engine);
    assert_eq!(reopened.newest().expect("it is named").description().last.map(|last| last.index), Some(12));
    assert_eq!(chunks(&engine), 2, "nothing of the first is left");
    assert_eq!(reopened.receive(&first).expect("memory takes it").chunks(), 0);
}
