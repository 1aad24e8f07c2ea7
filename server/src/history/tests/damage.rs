use super::*;
use crate::history::frame::{self, Kind, Label};
use crate::history::{pages, segment};

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Reads everything, holes included.
fn read_all(history: &History) -> (Vec<u64>, usize) {
    let (mut query, mut all, mut holes) = (Query::all(TOLD), Vec::new(), 0);
    loop {
        let page = history.read(&query).unwrap();
        all.extend(page.records.iter().map(|record| record.index));
        holes += usize::from(page.hole.is_some());
        match page.next {
            Some(next) => query = query.on_from(next),
            None => return (all, holes),
        }
    }
}

#[test]
fn flipped_bit_in_a_record_costs_that_record_and_is_never_passed_over() {
    let kept = tempfile::tempdir().unwrap();
    written(kept.path(), 60);
    let trial = tempfile::tempdir().unwrap();
    let length = fs::read(&files(kept.path(), "seg")[1]).unwrap().len();
    let all = (0..=60).filter(|at| at % 5 != 0).count();
    for at in (0..length).step_by(7) {
        copy(kept.path(), trial.path());
        flip(&files(trial.path(), "seg")[1], at);
        let history = History::open(trial.path(), bounds()).unwrap();
        let (found, holes) = read_all(&history);
        let coverage = history.coverage();
        if found.len() < all {
            assert!(holes > 0 && !coverage.trouble.is_empty(), "byte {at}: {coverage:?}");
            assert!(!files(&trial.path().join("aside"), "seg").is_empty());
        }
        assert!(found.len() >= all - 14, "byte {at}: {} of {all}", found.len());
        history.close();
        fs::remove_dir_all(trial.path()).unwrap();
    }
}

/// Entries of one frame and of several, as a job that leaves with what somebody said makes them.
#[test]
fn what_is_left_of_an_entry_whose_other_frames_are_damaged_is_no_entry() {
    use Kind::{Bills, Jobs, Told};
    let entries: [(u64, &[Kind]); 7] = [
        (1, &[Told, Jobs]),
        (2, &[Told]),
        (3, &[Told, Bills, Jobs, Jobs]),
        (5, &[Jobs, Jobs]),
        (6, &[Told, Jobs]),
        (7, &[Bills]),
        (9, &[Told, Jobs]),
    ];
    let mut bytes = segment::header(CLUSTER, 0);
    let mut whole = Vec::new();
    for (index, kinds) in entries {
        let start = bytes.len();
        for (n, kind) in kinds.iter().enumerate() {
            let label = Label { kind: *kind, is_last: n + 1 == kinds.len(), index, time_ms: 5 };
            frame::seal(label, b"what it holds", &mut bytes);
        }
        whole.push((index, start..bytes.len()));
    }
    assert_eq!(segment::walk(&bytes).runs, [whole.clone()]);
    for at in whole[0].1.start..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        let walk = segment::walk(&flipped);
        let found: Vec<_> = walk.runs.concat();
        assert!(found.iter().all(|entry| whole.contains(entry)), "byte {at}: {found:?}");
        assert!(found.iter().all(|(_, range)| !range.contains(&at)), "byte {at}: {found:?}");
        // The damaged one, the one behind it if it may be the end of that, and what a wrong length leads past.
        assert!(walk.bad_at.is_some_and(|bad| bad <= at), "byte {at}");
    }
}

#[test]
fn slow_reader_of_everything_finds_a_flipped_bit_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 60);
    flip(&files(dir.path(), "seg")[2], 100);
    let history = History::open(dir.path(), Bounds { scrub_rate: 1 << 30, ..bounds() }).unwrap();
    until("damage found", || !history.coverage().holes.is_empty());
    assert!(history.coverage().trouble[0].contains("damaged"));
    history.close();
}

#[test]
fn missing_older_and_foreign_segments_are_found_at_opening() {
    let dir = tempfile::tempdir().unwrap();
    let (old, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    written(dir.path(), 60);
    written(old.path(), 40);
    let mut bytes = fs::read(&files(dir.path(), "seg")[2]).unwrap();
    bytes[15] ^= 1;
    let sum = crc32fast::hash(&bytes[..36]).to_le_bytes();
    bytes[36..40].copy_from_slice(&sum);
    fs::write(foreign.path().join("x"), bytes).unwrap();

    let paths = files(dir.path(), "seg");
    fs::remove_file(&paths[0]).unwrap();
    // A segment that ends earlier under the same name, as an older copy does.
    let mut short = fs::read(&paths[1]).unwrap();
    short.truncate(short.len() / 2);
    fs::write(&paths[1], short).unwrap();
    fs::copy(foreign.path().join("x"), &paths[2]).unwrap();
    let history = History::open(dir.path(), bounds()).unwrap();
    let coverage = history.coverage();
    assert_eq!(coverage.holes.len(), 2, "{coverage:?}");
    assert_eq!((coverage.holes[0].from, coverage.holes[0].through), (0, 15));
    assert_eq!(coverage.holes[1].through, 47);
    let text = coverage.trouble.join("\n");
    assert!(text.contains("missing") && text.contains("another control plane"), "{text}");
    history.close();
    // Known after a restart too.
    let history = History::open(dir.path(), bounds()).unwrap();
    assert_eq!(history.coverage(), coverage);
    history.close();
}

#[test]
fn directory_of_another_control_plane_is_set_aside_whole() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 60);
    let history = History::open(dir.path(), bounds()).unwrap();
    let other = ClusterId::new([9; 16]);
    for at in 0..=20 {
        history.record(index(at), told(at).map(|told| Told { cluster: other, ..told }));
    }
    history.flush_to(index(20)).unwrap();
    let coverage = history.coverage();
    assert_eq!((coverage.cluster, coverage.through, coverage.holes.len()), (Some(other), Some(20), 0));
    assert_eq!(files(&dir.path().join(format!("of-{CLUSTER}")), "seg").len(), 3);
    history.close();
}

#[test]
fn lost_catalogue_is_made_anew_from_the_segments() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 60);
    let history = History::open(dir.path(), bounds()).unwrap();
    let wanted = history.digest(index(0), index(60)).unwrap();
    history.close();
    flip(&dir.path().join("catalogue"), 20);
    let history = History::open(dir.path(), bounds()).unwrap();
    record(&history, 50..=60);
    history.flush_to(index(60)).unwrap();
    assert_eq!(history.digest(index(0), index(60)).unwrap(), wanted);
    assert!(history.coverage().trouble.is_empty());
    history.close();
}

#[test]
fn snapshot_from_a_peer_leaves_a_hole_that_is_known_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 20);
    let history = History::open(dir.path(), bounds()).unwrap();
    record(&history, 21..=22);
    history.installed(index(70), Some(CLUSTER));
    record(&history, 71..=90);
    history.flush_to(index(90)).unwrap();
    let holes = history.coverage().holes;
    assert_eq!((holes.len(), holes[0].from, holes[0].through), (1, 23, 70));
    let page = history.read(&Query { from: index(23), ..Query::all(TOLD) }).unwrap();
    assert_eq!((page.records.len(), page.hole, page.next), (0, Some(holes[0]), Some(index(71))));
    assert_eq!(history.digest(index(0), index(90)).unwrap(), None);
    let raw = pages::frames(history.inner(), holes[0], 0, 1 << 20).unwrap();
    assert!(raw.is_none(), "nobody is given what is not here");
    history.close();
    let history = History::open(dir.path(), bounds()).unwrap();
    assert_eq!(history.coverage().holes, holes);
    history.close();
}
