//! The machine: keeps one replica's line.

use alloc::format;
use alloc::string::String;

use super::line::{BootTime, Line, Slew};
use super::walls::whole;
use super::witness::{CREDIBLE, Judged, Source, Witnesses, judge};
use crate::command::{ResumeTime, TimeSource};
use crate::unit::{Span, Timestamp};

/// A line that a process kept may be so much behind the last entry of its log; further behind it is an old one.
pub const RESUME_TOLERANCE: Span = Span::from_secs(1);

/// A follower that is further ahead of the leader than this takes its line at once; nearer, it waits for it.
pub const FOLLOWED_AT_ONCE: Span = Span::from_secs(1);

/// How fast a follower that is ahead lets the leader come up, as a rate and as the time it takes: its line is in no
/// entry.
const WAITING_PPM: i32 = -100_000;
const WAITING: u64 = 10;

/// A correction that is not renewed ends after this.
const RENEWED_WITHIN: Span = Span::from_secs(30);

/// What the clocks of this machine show at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Since its boot.
    pub boot: BootTime,
    /// Of the wall.
    pub wall: Timestamp,
}

/// Another replica's cluster time, as of now: its message was on its way for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// If it took no time.
    pub earliest: Timestamp,
    /// If it took all of the time.
    pub latest: Timestamp,
}

/// One replica's cluster time. Whatever is done to it, it never runs behind the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterTime {
    line: Option<(Line, Source)>,
    last_entry: Timestamp,
}

impl ClusterTime {
    /// Begins with what the process before kept on this boot, and the time of the last entry of this replica's log.
    ///
    /// A line that is behind the log, or that begins after `now`, is not of this boot's end: it was put back, or could
    /// not be replaced, and whoever kept it knew better. It is dropped, as if the machine had restarted.
    #[must_use]
    pub fn resume(kept: Option<(Line, Source)>, last_entry: Timestamp, now: BootTime) -> Self {
        let is_whole = |line: &Line| line.boot() <= now && line.at(now).plus(RESUME_TOLERANCE) >= last_entry;
        let line = kept.filter(|(line, _)| is_whole(line));
        let mut time = Self { line, last_entry: Timestamp::ZERO };
        time.seen(last_entry, now);
        time
    }

    /// Returns cluster time; none while nobody vouches for it.
    #[must_use]
    pub fn at(&self, boot: BootTime) -> Option<Timestamp> {
        self.line.map(|(line, _)| line.at(boot))
    }

    /// Returns cluster time, or the time of the last entry while nobody vouches for it.
    #[must_use]
    pub fn roughly(&self, boot: BootTime) -> Timestamp {
        self.at(boot).unwrap_or(self.last_entry)
    }

    /// Returns the line and where it is from.
    #[must_use]
    pub const fn line(&self) -> Option<(Line, Source)> {
        self.line
    }

    /// Returns the latest time of an entry.
    #[must_use]
    pub const fn last_entry(&self) -> Timestamp {
        self.last_entry
    }

    /// Takes note of an entry's time; the line never runs behind it. Without a line it vouches for nothing: it may be of
    /// long ago. Returns whether the line moved.
    pub fn seen(&mut self, entry: Timestamp, now: BootTime) -> bool {
        self.last_entry = self.last_entry.max(entry);
        match self.line {
            Some((line, source)) if line.at(now) < entry => self.draw(entry, source, now),
            Some(_) | None => false,
        }
    }

    /// Begins cluster time with the wall clock: a control plane is being founded. Returns whether the line moved.
    pub fn found(&mut self, reading: Reading) -> bool {
        match self.line {
            Some(_) => false,
            None => self.draw(reading.wall, Source::Founding, reading.boot),
        }
    }

    /// Judges what others say, as long as there is no line. Returns whether there is one now.
    pub fn ask(&mut self, said: &Witnesses<'_>, now: BootTime) -> bool {
        if self.line.is_some() {
            return false;
        }
        match judge(said, self.last_entry) {
            Judged::Time(time, source) => self.draw(time, source, now),
            Judged::Wait => false,
        }
    }

    /// Keeps a follower in step with the leader, whose time is in the log: forward at once, backward by waiting for it,
    /// unless that would take long. What lies within the way of a message is in step. Returns whether anything changed.
    pub fn follow(&mut self, leader: Heard, now: BootTime) -> bool {
        let Some((line, source)) = self.line else {
            return self.draw(leader.earliest, Source::Replicas(1), now);
        };
        let own = line.at(now);
        let (behind, ahead) = (leader.earliest.since(own), own.since(leader.latest));
        if !behind.is_zero() || ahead > FOLLOWED_AT_ONCE {
            return self.draw(leader.earliest, Source::Kept, now);
        }
        // Until the two meet: what the follower is ahead is lost at this rate.
        let span = Span::from_millis(ahead.as_millis().saturating_mul(WAITING));
        let slew = if ahead.is_zero() { 0 } else { WAITING_PPM };
        let is_same = slew == 0 && line.slew().ppm == 0 && source == Source::Kept;
        self.line = Some((line.slewed(now, Slew { ppm: slew, until: now.plus(span) }), Source::Kept));
        !is_same
    }

    /// Slews the leader's line, for a while. Returns whether anything changed.
    pub fn slew(&mut self, ppm: i32, now: BootTime) -> bool {
        let Some((line, source)) = self.line else { return false };
        let was_slewed = line.slew().ppm != 0 && line.slew().until > now;
        if ppm == 0 && !was_slewed {
            return false;
        }
        let ppm = ppm.clamp(-super::SLEW_PPM_MAX, super::SLEW_PPM_MAX);
        let until = now.plus(RENEWED_WITHIN);
        self.line = Some((line.slewed(now, Slew { ppm, until }), source));
        true
    }

    /// Returns what the leader has to have said of a line that no replica vouched for.
    #[must_use]
    pub fn to_say(&self) -> Option<ResumeTime> {
        let (_, source) = self.line?;
        let (from, what) = match source {
            Source::Founding | Source::Kept | Source::Replicas(_) => return None,
            Source::Agents(count) => (TimeSource::Agents, agents(count)),
            Source::WallClock { after } => {
                let what = "no replica and no agent had kept cluster time: it goes on by the wall clock";
                (TimeSource::WallClock, format!("{what}, {} after the last entry", whole(after)))
            }
            Source::LastEntry { after, before } => (TimeSource::LastEntry, last_entry(after, before)),
        };
        Some(ResumeTime { from, what })
    }

    /// Notes that it was said, or that an operator vouched for it.
    pub fn said(&mut self) {
        if let Some((_, source)) = &mut self.line {
            *source = Source::Kept;
        }
    }

    fn draw(&mut self, time: Timestamp, source: Source, now: BootTime) -> bool {
        self.line = Some((Line::through(now, time.max(self.last_entry)), source));
        true
    }
}

fn agents(count: usize) -> String {
    let who = match count {
        1 => String::from("one agent"),
        2 => String::from("two agents, by the earlier"),
        count => format!("{count} agents, by their median"),
    };
    format!("no replica had kept cluster time: it goes on by the word of {who}")
}

fn last_entry(after: Span, before: Span) -> String {
    let wall = if before.is_zero() {
        format!("{} after it, more than {}", whole(after), whole(CREDIBLE))
    } else {
        format!("{} before it", whole(before))
    };
    format!(
        "cluster time goes on from the last entry: no replica and no agent had kept it, and the wall clock is {wall}; \
         look at the clocks, then `bursar cluster time set`"
    )
}
