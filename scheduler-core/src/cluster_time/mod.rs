//! Cluster time, as one replica carries it (DESIGN 8.2): a line through a point, drawn by rules and never by a clock
//! read here.
//!
//! ```text
//!   kept by the process before, same boot ──┐
//!   other replicas ─── else agents ─────────┼──> Line: cluster time = f(boot clock) ──> stamps of the leader
//!   else the wall clock, near the last entry┘      ^          ^             ^
//!   else the last entry, with an alarm             │          │             └ slewed towards the median of wall clocks
//!                                         entries ahead of it │               (the leader's line alone)
//!                                                  the leader's line (a follower's alone)
//! ```
//!
//! The boot clock counts through suspend and is set by nobody; a boot id says which boot it counts from. Readings come
//! in as arguments; what comes out is a line, and words for what is wrong with it.

mod line;
mod machine;
mod walls;
mod witness;

pub use line::{BootTime, Line, Slew};
pub use machine::{ClusterTime, FOLLOWED_AT_ONCE, Heard, RESUME_TOLERANCE, Reading};
pub use walls::{APART, Alarm, FAR, SLEW_PPM_MAX, TRUSTED_ALONE, Wall, Walls, look_at_walls};
pub use witness::{CREDIBLE, ENOUGH, Judged, Source, Witnesses, judge};
