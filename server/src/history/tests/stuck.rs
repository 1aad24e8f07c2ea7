use super::*;
use std::os::unix::fs::MetadataExt as _;
use std::sync::mpsc;

/// A directory where the next file would be: nothing can be written until it is gone, as on a full disk.
fn block(dir: &Path, from: u64) -> PathBuf {
    let path = dir.join(format!("{from:020}.open"));
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn disk_that_takes_nothing_stops_snapshots_alone_and_all_goes_on_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::open(dir.path(), bounds()).unwrap();
    record(&history, 0..=10);
    history.flush_to(index(10)).unwrap();
    let blocked = block(dir.path(), 16);
    record(&history, 11..=40);
    let (done, snapshot) = mpsc::channel();
    let waiting = history.clone();
    let waits = std::thread::spawn(move || done.send(waiting.flush_to(index(40)).is_ok()).unwrap());
    until("trouble", || history.coverage().trouble.iter().any(|text| text.contains("no snapshot counts")));
    record(&history, 41..=45);
    assert!(snapshot.try_recv().is_err(), "a snapshot waits");
    fs::remove_dir(&blocked).unwrap();
    assert!(snapshot.recv_timeout(Duration::from_secs(120)).unwrap());
    waits.join().unwrap();
    settle(&history, 45);
    let all: Vec<u64> = (0..=45).filter(|at| at % 5 != 0).collect();
    assert_eq!(indexes(&history, &Query::all(TOLD)), all);
    until("no trouble", || history.coverage().trouble.is_empty());
    history.close();
}

#[test]
fn what_finds_no_room_in_memory_either_is_a_hole_until_the_log_writes_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds { waiting_bytes: 2_000, ..bounds() };
    let history = History::open(dir.path(), bounds).unwrap();
    record(&history, 0..=10);
    history.flush_to(index(10)).unwrap();
    let blocked = block(dir.path(), 16);
    record(&history, 11..=20);
    until("stuck", || !history.coverage().trouble.is_empty());
    record(&history, 21..=400);
    fs::remove_dir(&blocked).unwrap();
    until("a hole", || history.coverage().holes.len() == 1);
    let coverage = history.coverage();
    assert!(coverage.trouble.iter().any(|text| text.contains("no room")), "{coverage:?}");
    record(&history, 401..=410);
    settle(&history, 410);
    assert!(!history.inner().shape().is_durable_through(410), "no snapshot counts over it");
    history.close();
    let history = History::open(dir.path(), bounds).unwrap();
    assert_eq!(history.coverage().holes.len(), 1);
    history.installed(index(10), Some(CLUSTER));
    record(&history, 11..=420);
    history.flush_to(index(420)).unwrap();
    let all: Vec<u64> = (0..=420).filter(|at| at % 5 != 0).collect();
    assert_eq!(indexes(&history, &Query::all(TOLD)), all);
    assert_eq!(history.coverage().trouble, Vec::<String>::new());
    history.close();
}

/// The system takes what a failed sync did not write for written, so that the next sync of the same file proves nothing.
#[test]
fn file_whose_sync_failed_is_written_anew_before_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::open(dir.path(), bounds()).unwrap();
    record(&history, 0..=10);
    history.flush_to(index(10)).unwrap();
    let tail = files(dir.path(), "open").remove(0);
    for (from, through, ends) in [(11, 13, "open"), (14, 20, "seg")] {
        let before = fs::File::open(&tail).unwrap();
        *crate::history::files::FAILS.lock().unwrap() = Some(tail.clone());
        record(&history, from..=through);
        history.flush_to(index(through)).unwrap();
        let after = fs::metadata(tail.with_extension(ends)).unwrap();
        assert_ne!(before.metadata().unwrap().ino(), after.ino(), "it trusts a file whose sync failed");
    }
    let all: Vec<u64> = (0..=20).filter(|at| at % 5 != 0).collect();
    assert_eq!(indexes(&history, &Query::all(TOLD)), all);
    history.close();
    let history = History::open(dir.path(), bounds()).unwrap();
    assert_eq!(indexes(&history, &Query::all(TOLD)), all);
    assert_eq!(history.coverage().trouble, Vec::<String>::new());
    history.close();
}
