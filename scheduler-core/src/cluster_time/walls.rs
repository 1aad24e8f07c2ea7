//! The replicas' wall clocks: what cluster time is slewed towards, and when they deserve an alarm.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use super::witness::median;
use crate::id::ReplicaId;
use crate::unit::{Span, Timestamp};

/// Cluster time goes at most so much faster or slower than the boot clock, in parts per million.
pub const SLEW_PPM_MAX: i32 = 1_000;

/// Wall clocks of replicas that are further from each other than this are an alarm.
pub const APART: Span = Span::from_secs(5);

/// Cluster time that is further from the wall clocks than this is an alarm.
pub const FAR: Span = Span::from_mins(1);

/// One or two wall clocks, which nothing outvotes, are followed no further than this.
pub const TRUSTED_ALONE: Span = Span::from_mins(10);

/// A difference up to this is none: it is what messages take, and rounding.
const IN_STEP_MS: i128 = 20;

/// Within this time a small difference is made up for; a larger one takes as long as it takes.
const HORIZON_MS: i128 = 60_000;

/// A replica's wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wall {
    /// Whose.
    pub replica: ReplicaId,
    /// What it shows.
    pub at: Timestamp,
}

/// What the wall clocks amount to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walls {
    /// Their median, if there are any.
    pub median: Option<Timestamp>,
    /// How much faster or slower cluster time has to go, in parts per million.
    pub ppm: i32,
    /// What is wrong.
    pub alarms: Vec<Alarm>,
}

/// Something is wrong with the wall clocks, or with cluster time against them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alarm {
    /// Replicas' wall clocks are apart.
    Apart {
        /// The earliest.
        earliest: Wall,
        /// The latest.
        latest: Wall,
        /// Those that are far from the median, where there is a majority to say so.
        wrong: Vec<ReplicaId>,
    },
    /// Cluster time is far from the wall clocks.
    Far {
        /// By how much it is behind them.
        behind: Span,
        /// By how much it is ahead of them.
        ahead: Span,
        /// Whether it is slewed towards them.
        is_slewed: bool,
    },
}

/// Judges the wall clocks of the replicas that answered, all as of the moment at which cluster time is `now`.
///
/// Of three or more the median counts, so that one wrong clock moves nothing. One or two count only if nothing speaks
/// against them: they agree, and are near.
#[must_use]
pub fn look_at_walls(walls: &[Wall], now: Timestamp) -> Walls {
    let Some(median) = median(walls.iter().map(|wall| wall.at).collect()) else { return Walls::default() };
    let (behind, ahead) = (median.since(now), now.since(median));
    let off = behind.max(ahead);
    let apart = apart(walls, median);
    let is_slewed = walls.len() >= 3 || (apart.is_none() && off <= TRUSTED_ALONE);
    let far = (off > FAR).then_some(Alarm::Far { behind, ahead, is_slewed });
    let ppm = if is_slewed { rate(behind, ahead) } else { 0 };
    Walls { median: Some(median), ppm, alarms: apart.into_iter().chain(far).collect() }
}

fn apart(walls: &[Wall], median: Timestamp) -> Option<Alarm> {
    let earliest = *walls.iter().min_by_key(|wall| wall.at)?;
    let latest = *walls.iter().max_by_key(|wall| wall.at)?;
    if latest.at.since(earliest.at) <= APART {
        return None;
    }
    let is_off = |wall: &&Wall| wall.at.since(median).max(median.since(wall.at)) > APART;
    let wrong = walls.iter().filter(is_off).map(|wall| wall.replica).filter(|_| walls.len() >= 3).collect();
    Some(Alarm::Apart { earliest, latest, wrong })
}

/// Returns the rate at which a difference is made up for within the horizon, or the greatest one.
fn rate(behind: Span, ahead: Span) -> i32 {
    let off = i128::from(behind.as_millis()) - i128::from(ahead.as_millis());
    if off.abs() <= IN_STEP_MS {
        return 0;
    }
    let max = i128::from(SLEW_PPM_MAX);
    i32::try_from((off * 1_000_000 / HORIZON_MS).clamp(-max, max)).unwrap_or(0)
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apart { earliest, latest, wrong } => {
                let by = whole(latest.at.since(earliest.at));
                let (first, last) = (latest.replica, earliest.replica);
                write!(f, "the wall clocks of replicas are apart: r{first} is {by} ahead of r{last}")?;
                let wrong: Vec<String> = wrong.iter().map(|replica| alloc::format!("r{replica}")).collect();
                match wrong.as_slice() {
                    [] => Ok(()),
                    wrong => write!(f, "; off against the others: {}", wrong.join(", ")),
                }
            }
            Self::Far { behind, ahead, is_slewed } => {
                let (by, side) = if behind > ahead { (*behind, "behind") } else { (*ahead, "ahead of") };
                write!(f, "cluster time is {} {side} the replicas' wall clocks: ", whole(by))?;
                let ways = "`bursar cluster time set`, if they are right; their clocks, if not";
                let how = match (is_slewed, behind > ahead) {
                    (true, true) => {
                        alloc::format!("it is slewed, which takes {}; or {ways}", whole(long(by)))
                    }
                    (true, false) => alloc::format!("it is slewed, which takes {}", whole(long(by))),
                    (false, _) => alloc::format!("too far to follow so few clocks; {ways}"),
                };
                f.write_str(&how)
            }
        }
    }
}

/// Returns how long it takes to make up for a difference at the greatest rate.
fn long(by: Span) -> Span {
    Span::from_millis(by.as_millis().saturating_mul(1_000))
}

/// Writes a length of time in its two largest units.
pub(super) fn whole(span: Span) -> String {
    let ms = span.as_millis();
    let rounded = match ms {
        0..10_000 => ms,
        10_000..3_600_000 => ms / 1_000 * 1_000,
        3_600_000..86_400_000 => ms / 60_000 * 60_000,
        86_400_000.. => ms / 3_600_000 * 3_600_000,
    };
    Span::from_millis(rounded).to_string()
}
