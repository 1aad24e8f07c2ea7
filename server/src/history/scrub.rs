//! Reads all sealed segments again and again, slowly, so that damage is found while a peer still has what it hit.

use std::sync::Weak;
use std::thread;
use std::time::Duration;

use super::directory::verify;
use super::error::Error;
use super::files::{self, Role};
use super::handle::Inner;
use super::pages;
use super::segment;
use super::shape::Segment;

/// How often the thread looks whether everything is closing.
const TICK: Duration = Duration::from_millis(500);

/// Runs until history is closed.
pub(super) fn run(inner: &Weak<Inner>) {
    // The first segment that was not read in this round.
    let mut from = 0;
    let mut owed = Duration::ZERO;
    loop {
        thread::sleep(TICK);
        let Some(inner) = inner.upgrade().filter(|inner| !inner.is_closed()) else { return };
        owed = owed.saturating_sub(TICK);
        if !owed.is_zero() {
            continue;
        }
        let next = inner.shape().segments.range(from..).next().map(|(_, segment)| segment.clone());
        let Some(segment) = next else {
            from = 0;
            continue;
        };
        from = segment.range.from + 1;
        owed = Duration::from_millis(segment.bytes.saturating_mul(1000) / inner.bounds.scrub_rate.max(1));
        if let Err(cause) = one(&inner, &segment) {
            tracing::error!(cause = cause.report(), "failed to look after a segment of history");
        }
    }
}

/// Reads one segment whole; what is damaged is set aside.
pub(super) fn one(inner: &Inner, segment: &Segment) -> Result<(), Error> {
    let path = files::path(&inner.dir, segment.range.from, Role::Sealed);
    let checked = match files::open(&path)? {
        None => Err(Error::damaged(&path, "its file is missing")),
        Some(file) => segment::map(&path, &file, inner.shape().cluster, segment.range.from).and_then(|map| {
            if map.segment == *segment {
                verify(&path, map.end, segment)
            } else {
                Err(Error::damaged(
                    &path,
                    "its file is another than the catalogue names, as an older copy is",
                ))
            }
        }),
    };
    match checked {
        Err(Error::Damaged { what, .. }) => pages::found_damage(inner, segment, &what),
        other => other,
    }
}
