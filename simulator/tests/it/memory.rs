//! How many bytes a run takes. A year of a thousand GPUs is 780,000 jobs and 860,000 attempts: a byte more for each is a
//! mebibyte more, and what doubles while it grows, or is kept twice, is hundreds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use simulator::engine::SimJob;
use simulator::measure::measure;
use simulator::record::{AttemptRecord, GpuPlace, JobRecord, Record};
use simulator::scenario::{Jobs, prepare, shipped};

use crate::made::{Size, week};

/// The system's allocator, which counts what each thread has.
struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

thread_local! {
    /// Bytes that this thread took and did not give back, and the most of them there were.
    static TAKEN: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: usize, sign: isize) {
    let bytes = isize::try_from(bytes).unwrap_or(isize::MAX).saturating_mul(sign);
    // A thread that ends has no counter any more.
    let _ = TAKEN.try_with(|taken| {
        let (now, most) = taken.get();
        let now = now.saturating_add(bytes);
        taken.set((now, most.max(now)));
    });
}

// SAFETY: memory is only ever the system allocator's, asked with what the caller asked; counting allocates nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: it came from there, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Returns what `make` returns, how many bytes that has, and the most bytes that there were meanwhile.
fn counted<T>(make: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = TAKEN.get().0;
    TAKEN.set((before, before));
    let made = make();
    let (now, most) = TAKEN.get();
    let since = |bytes: isize| usize::try_from(bytes - before).expect("nothing from before was given back");
    (made, since(now), since(most))
}

#[test]
fn rows_stay_small() {
    let bytes =
        [size_of::<SimJob>(), size_of::<JobRecord>(), size_of::<AttemptRecord>(), size_of::<GpuPlace>()];
    let most = [160, 96, 136, 8];
    assert!(bytes.iter().zip(most).all(|(bytes, most)| *bytes <= most), "{bytes:?} of {most:?}");
}

#[test]
fn preparing_takes_little_more_than_the_jobs_that_it_makes() {
    const JOBS: u32 = 5000;
    let mut scenario = shipped("month-at-3x").expect("it ships").expect("it is valid");
    if let Jobs::Made(streams) = &mut scenario.jobs {
        streams[0].count = JOBS;
    }
    let (prepared, kept, most) = counted(|| prepare(&scenario, Path::new("."), 1, &[]).expect("it can be"));
    let jobs = prepared.setup.jobs.len();
    assert!(kept / jobs <= 200, "{} bytes a job", kept / jobs);
    assert!(most <= kept + kept / 4, "{most} bytes for {kept}");
}

#[test]
fn measuring_takes_less_than_the_record_itself() {
    let (record, kept, _): (Record, _, _) = counted(|| week(1, Size { nodes: 64, days: 60 }));
    let (measures, _, most) = counted(|| measure(&record));
    assert_eq!(measures.run.attempts, record.attempts.len() as u64);
    assert!(most <= kept, "{most} bytes for a record of {kept}");
}
