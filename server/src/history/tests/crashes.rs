use super::*;

/// Whatever of the tail a crash leaves behind what a snapshot counts on, replay from that snapshot makes whole.
#[test]
fn crash_at_every_byte_of_the_tail_is_made_whole_by_replay() {
    let (kept, reference) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    written(reference.path(), 56);
    let history = History::open(reference.path(), bounds()).unwrap();
    let wanted = history.digest(index(0), index(56)).unwrap().unwrap();
    history.close();

    let history = History::open(kept.path(), bounds()).unwrap();
    record(&history, 0..=51);
    history.flush_to(index(51)).unwrap();
    until("nobody waits", || !history.inner().queue().wants_durable);
    record(&history, 52..=56);
    settle(&history, 56);
    let claim = fs::metadata(kept.path().join(format!("{:020}.open", 48))).unwrap().len();
    history.abandon();
    let whole = claim;
    let trial = tempfile::tempdir().unwrap();
    let durable = {
        let catalogue = crate::history::catalogue::read(kept.path()).unwrap().unwrap();
        catalogue.tail.unwrap().bytes
    };
    assert!(durable < whole);
    for length in durable..=whole {
        copy(kept.path(), trial.path());
        let tail = trial.path().join(format!("{:020}.open", 48));
        fs::OpenOptions::new().write(true).open(&tail).unwrap().set_len(length).unwrap();
        let history = History::open(trial.path(), bounds()).unwrap();
        history.installed(index(51), Some(CLUSTER));
        record(&history, 52..=56);
        history.flush_to(index(56)).unwrap();
        let coverage = history.coverage();
        assert!(coverage.holes.is_empty() && coverage.trouble.is_empty(), "at {length}: {coverage:?}");
        assert_eq!(history.digest(index(0), index(56)).unwrap(), Some(wanted), "at {length}");
        history.close();
    }
}

#[test]
fn entries_applied_again_after_a_restart_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 40);
    let history = History::open(dir.path(), bounds()).unwrap();
    record(&history, 5..=45);
    settle(&history, 45);
    let all: Vec<u64> = (0..=45).filter(|at| at % 5 != 0).collect();
    assert_eq!(indexes(&history, &Query::all(TOLD)), all);
    history.close();
}

#[test]
fn what_was_durable_and_is_cut_off_is_damage_and_not_a_torn_end() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 60);
    let tail = &files(dir.path(), "open")[0];
    let length = fs::metadata(tail).unwrap().len();
    fs::OpenOptions::new().write(true).open(tail).unwrap().set_len(length - 1).unwrap();
    let history = History::open(dir.path(), bounds()).unwrap();
    let coverage = history.coverage();
    assert_eq!(coverage.holes.len(), 1, "{coverage:?}");
    assert!(coverage.holes[0].from > 48 && coverage.holes[0].through == 60, "what is good of it is kept");
    assert!(coverage.trouble[0].contains("damaged"), "{coverage:?}");
    history.installed(index(60), Some(CLUSTER));
    record(&history, 61..=70);
    history.flush_to(index(70)).unwrap();
    assert_eq!(history.coverage().holes.len(), 1, "a hole stays one");
    history.close();
    // The log still has it: then it is written again.
    let history = History::open(dir.path(), bounds()).unwrap();
    history.installed(index(55), Some(CLUSTER));
    record(&history, 56..=70);
    history.flush_to(index(70)).unwrap();
    let coverage = history.coverage();
    assert!(coverage.holes.is_empty() && coverage.trouble.is_empty(), "{coverage:?}");
    history.close();
}
