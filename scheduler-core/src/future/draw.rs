//! Drawn numbers: each is a function of the seed, the future, the job and what it is drawn for, so none depends on the
//! order in which others are asked for.

use crate::id::JobId;
use crate::unit::Span;

/// What a number is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// How long the job runs in all.
    Length,
    /// How long it goes on that ran longer than any that is known.
    Rest,
    /// How much of its grace its attempt of this number uses.
    Grace(u16),
}

/// The numbers of one future.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    seed: u64,
}

impl Draw {
    /// Returns those of one of the futures of a seed.
    pub(super) fn new(seed: u64, future: u32) -> Self {
        Self { seed: mix(seed ^ mix(u64::from(future).wrapping_add(1))) }
    }

    fn number(self, job: JobId, what: For) -> u64 {
        let what = match what {
            For::Length => 1,
            For::Rest => 2,
            For::Grace(no) => 16 + u64::from(no),
        };
        mix(self.seed ^ mix(u64::from(job.get()) << 20 | what))
    }

    /// Returns one of so many places; the first of none.
    pub(super) fn place(self, job: JobId, what: For, of: usize) -> usize {
        let of = u64::try_from(of).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.number(job, what) % of).unwrap_or(0)
    }

    /// Returns a part of a span, from none to all of it.
    pub(super) fn part(self, job: JobId, what: For, of: Span) -> Span {
        Span::from_millis(self.number(job, what) % of.as_millis().saturating_add(1))
    }
}

/// The last steps of splitmix64.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
