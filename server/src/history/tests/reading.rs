use std::time::Instant;

use super::*;
use crate::history::query::Direction;
use scheduler_core::id::JobId;

#[test]
fn records_are_found_by_index_time_and_job_in_both_directions_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::open(dir.path(), bounds()).unwrap();
    record(&history, 0..=99);
    settle(&history, 99);
    let all: Vec<u64> = (0..=99).filter(|at| at % 5 != 0).collect();
    for most in [1, 3, 1_000] {
        let query = Query { most, ..Query::all(TOLD) };
        assert_eq!(indexes(&history, &query), all);
        let back = Query { direction: Direction::Backward, ..query };
        assert_eq!(indexes(&history, &back), all.iter().rev().copied().collect::<Vec<_>>());
        let some = Query { from: index(13), through: index(57), ..query };
        assert_eq!(
            indexes(&history, &some),
            all.iter().copied().filter(|at| (13..=57).contains(at)).collect::<Vec<_>>()
        );
        let times = (Timestamp::from_millis(20_500), Timestamp::from_millis(71_000));
        let some = Query { from_time: times.0, through_time: times.1, ..query };
        assert_eq!(
            indexes(&history, &some),
            all.iter().copied().filter(|at| (21..=71).contains(at)).collect::<Vec<_>>()
        );
        let of_job = Query { job: Some(JobId::new(3)), ..back };
        assert_eq!(indexes(&history, &of_job), [93, 83, 73, 63, 53, 43, 33, 23, 13, 3]);
        let audit = Query { wants: Wants { audit: true, ..Wants::default() }, ..query };
        assert_eq!(
            indexes(&history, &audit),
            all.iter().copied().filter(|at| at % 2 == 0).collect::<Vec<_>>()
        );
    }
    let page = history.read(&Query { from: index(42), through: index(42), ..Query::all(TOLD) }).unwrap();
    let record = &page.records[0];
    assert_eq!(
        (record.audit[0].index, record.audit[0].at, record.audit[0].reason.as_str()),
        (42, 42_000, "at 42")
    );
    assert_eq!((record.events[1].n, record.events[1].schema.as_str()), (1, "event/v1"));
    history.close();
}

#[test]
fn oldest_segments_go_whole_when_there_is_too_much_or_they_are_too_old() {
    let dir = tempfile::tempdir().unwrap();
    let small = Bounds { keep_bytes: 20_000, ..bounds() };
    let history = History::open(dir.path(), small).unwrap();
    record(&history, 0..=999);
    settle(&history, 999);
    history.flush_to(index(999)).unwrap();
    until("segments gone", || history.coverage().bytes <= 20_000);
    let coverage = history.coverage();
    assert!(
        coverage.bytes <= 20_000 && coverage.floor > 0 && coverage.floor.is_multiple_of(16),
        "{coverage:?}"
    );
    assert_eq!(
        (coverage.holes, coverage.trouble),
        (Vec::new(), Vec::<String>::new()),
        "what goes on purpose is no hole"
    );
    assert_eq!(
        indexes(&history, &Query::all(TOLD))[0],
        coverage.floor + u64::from(coverage.floor.is_multiple_of(5))
    );
    // A segment is taken off the list before its file goes: nobody is promised what is not there.
    let lengths =
        || files(dir.path(), "seg").into_iter().filter_map(|path| Some(fs::metadata(path).ok()?.len()));
    until("files gone", || lengths().sum::<u64>() <= 20_000);
    history.close();

    let short = Bounds { keep: scheduler_core::unit::Span::from_secs(100), ..bounds() };
    let history = History::open(dir.path(), short).unwrap();
    record(&history, 1_000..=1_040);
    history.flush_to(index(1_040)).unwrap();
    until("old segments gone", || history.coverage().floor > 900);
    history.close();
}

#[test]
fn files_of_whole_windows_are_equal_however_they_came_to_be() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    written(one.path(), 100);
    for part in [0..=20, 21..=21, 22..=70, 60..=100_u64] {
        let history = History::open(other.path(), bounds()).unwrap();
        let through = *part.end();
        record(&history, part);
        history.flush_to(index(through)).unwrap();
        history.close();
    }
    let (ours, theirs) = (files(one.path(), "seg"), files(other.path(), "seg"));
    assert_eq!((ours.len(), theirs.len()), (6, 6));
    for (mine, its) in ours.iter().zip(&theirs) {
        assert_eq!(fs::read(mine).unwrap(), fs::read(its).unwrap());
    }
}

#[test]
fn bytes_of_a_segment_are_frozen() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 16);
    let bytes = fs::read(&files(dir.path(), "seg")[0]).unwrap();
    let digest = blake3::hash(&bytes).to_hex();
    assert_eq!(
        (bytes.len(), &digest.as_str()[..16]),
        (1805, "8c9a467b1f42524c"),
        "what is on disks must be readable for ever"
    );
}

/// No figure is asserted: machines differ.
#[test]
fn recording_costs_little() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::open(dir.path(), Bounds { window: 16_384, ..bounds() }).unwrap();
    let entries: Vec<_> = (0..50_000).map(|at| (at, told(at))).collect();
    let began = Instant::now();
    for (at, told) in entries {
        history.record(index(at), told);
    }
    let taken = began.elapsed();
    history.flush_to(index(49_999)).unwrap();
    println!(
        "record: {} ns an entry; 50,000 durable after {} ms",
        taken.as_nanos() / 50_000,
        began.elapsed().as_millis()
    );
    history.close();
}
