//! Cluster time of this replica, shared by all its tasks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use scheduler_core::cluster_time::{
    Alarm, BootTime, ClusterTime, Heard, Line, Source, Wall, Walls, Witnesses, look_at_walls,
};
use scheduler_core::command::ResumeTime;
use scheduler_core::id::NodeId;
use scheduler_core::unit::{Span, Timestamp};

use super::anchor;
use crate::clock;

/// A step of the line that is larger than this makes what agents said before it worth nothing.
const STEP: Span = Span::from_secs(5);

/// Cluster time as this replica carries it.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
    boot: String,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// None until the log is open: only then can be told whether what was kept is any good.
    time: Option<ClusterTime>,
    kept: Option<(Line, Source)>,
    /// The latest time of an entry before that.
    seen: Timestamp,
    /// What agents carried when they said hello: cluster time at a moment of this machine's boot clock.
    claims: BTreeMap<NodeId, (Timestamp, BootTime)>,
    walls: Walls,
    /// Why the file is older than the line.
    unkept: Option<String>,
}

impl Clock {
    /// Opens the clock of the replica in `data`. It reads no time until [`Clock::opened`].
    ///
    /// # Errors
    /// When the machine names no boot id, or the anchor's file cannot be read.
    pub fn open(data: &Path) -> io::Result<Self> {
        let boot = clock::boot_id()?;
        let file = data.join("clock");
        let kept = anchor::read(&file, &boot)?;
        let held = Held {
            time: None,
            kept,
            seen: Timestamp::ZERO,
            claims: BTreeMap::new(),
            walls: Walls::default(),
            unkept: None,
        };
        Ok(Self { file, boot, held: Mutex::new(held) })
    }

    /// The log is open and its entries are seen: cluster time goes on from what was kept, if that is any good.
    pub fn opened(&self) {
        let mut held = self.held();
        let time = ClusterTime::resume(held.kept, held.seen, clock::boot());
        if held.kept.is_some() && time.line().is_none() {
            tracing::warn!(path = %self.file.display(), "the anchor of cluster time is older than the log: ignored");
        }
        held.time = Some(time);
    }

    /// Returns cluster time; `None` while nothing vouches for it.
    #[must_use]
    pub fn now(&self) -> Option<Timestamp> {
        // Under the lock first: a reading from before a change of the line is not asked of the line after it.
        let held = self.held();
        held.time.as_ref()?.at(clock::boot())
    }

    /// Returns cluster time, or the last entry's while nothing vouches for it; before the founding the wall clock. For
    /// screens, dates of requests and agents, never for entries.
    #[must_use]
    pub fn roughly(&self) -> Timestamp {
        let held = self.held();
        let roughly = held.time.as_ref().map_or(held.seen, |time| time.roughly(clock::boot()));
        if roughly == Timestamp::ZERO { clock::wall() } else { roughly }
    }

    /// Takes note of a time that the log holds.
    pub fn seen(&self, entry: Timestamp) {
        let mut held = self.held();
        held.seen = held.seen.max(entry);
        self.change(&mut held, |time, _, now| time.seen(entry, now));
    }

    /// Begins cluster time with the wall clock: a control plane is being founded.
    pub fn found(&self) {
        self.change(&mut self.held(), |time, _, _| time.found(clock::read()));
    }

    /// Follows the leader, whose time was asked for at one moment and answered at another.
    pub fn follow(&self, leader: Timestamp, sent: BootTime, received: BootTime) {
        let mut held = self.held();
        held.walls = Walls::default();
        self.change(&mut held, |time, _, now| {
            let heard =
                Heard { earliest: leader.plus(now.since(received)), latest: leader.plus(now.since(sent)) };
            time.follow(heard, now)
        });
    }

    /// Judges what others say, while there is no line. `replicas` are as of now, and `agents` what other replicas
    /// heard of agents; those that spoke here are added. Returns whether there is a line now.
    pub fn ask(&self, replicas: &[Timestamp], agents: &BTreeMap<NodeId, Timestamp>, wait: Wait) -> bool {
        let mut held = self.held();
        self.change(&mut held, |time, claims, now| {
            let mut all = agents.clone();
            all.extend(claims.iter().map(|(node, (time, at))| (*node, time.plus(now.since(*at)))));
            let agents: Vec<Timestamp> = all.values().copied().collect();
            let said = Witnesses {
                replicas,
                agents: &agents,
                are_all: wait.have_replicas_answered && agents.len() >= wait.agents,
                is_time_up: wait.is_over,
                wall: clock::wall(),
            };
            time.ask(&said, now)
        })
    }

    /// Slews the line of the leader towards the replicas' wall clocks; `walls` are as of now.
    pub fn slew(&self, walls: &[Wall]) {
        let mut held = self.held();
        let Some(now) = held.time.as_ref().and_then(|time| time.at(clock::boot())) else { return };
        let seen = look_at_walls(walls, now);
        let ppm = seen.ppm;
        if seen.alarms != held.walls.alarms {
            for alarm in seen.alarms.iter().filter(|alarm| is_news(alarm, &held.walls.alarms)) {
                tracing::warn!(%alarm, "cluster time and the wall clocks");
            }
        }
        held.walls = seen;
        self.change(&mut held, |time, _, now| time.slew(ppm, now));
    }

    /// Notes what an agent carried when it said hello.
    pub fn claim(&self, node: NodeId, time: Timestamp) {
        self.held().claims.insert(node, (time, clock::boot()));
    }

    /// Returns what agents carried, as of now, at most `most` of them.
    #[must_use]
    pub fn claims(&self, most: usize) -> Vec<(NodeId, Timestamp)> {
        let now = clock::boot();
        let held = self.held();
        let claims = held.claims.iter().take(most);
        claims.map(|(node, (time, at))| (*node, time.plus(now.since(*at)))).collect()
    }

    /// Returns what has to be said of the line in the log.
    #[must_use]
    pub fn to_say(&self) -> Option<ResumeTime> {
        self.held().time.as_ref()?.to_say()
    }

    /// Notes that it was said.
    pub fn said(&self) {
        self.change(&mut self.held(), |time, _, _| {
            time.said();
            true
        });
    }

    /// Tries again to keep a line that could not be kept.
    pub fn keep(&self) {
        let mut held = self.held();
        if held.unkept.is_some() {
            self.write(&mut held);
        }
    }

    /// Returns the line and where it is from.
    #[must_use]
    pub fn line(&self) -> Option<(Line, Source)> {
        self.held().time.as_ref()?.line()
    }

    /// Returns this boot's id.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot
    }

    /// Returns what the wall clocks amount to; nothing unless this replica leads.
    #[must_use]
    pub fn walls(&self) -> Walls {
        self.held().walls.clone()
    }

    /// Returns what is wrong with cluster time at this replica alone.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let held = self.held();
        let is_founded = held.seen > Timestamp::ZERO;
        match held.time.as_ref().and_then(ClusterTime::line) {
            None if is_founded => {
                Some("it has no cluster time yet: its machine restarted, and it asks".to_owned())
            }
            None | Some(_) => held.unkept.clone(),
        }
    }

    fn change(
        &self,
        held: &mut Held,
        how: impl FnOnce(&mut ClusterTime, &BTreeMap<NodeId, (Timestamp, BootTime)>, BootTime) -> bool,
    ) -> bool {
        let now = clock::boot();
        let Held { time: Some(time), claims, .. } = held else { return false };
        let before = time.at(now);
        if !how(time, claims, now) {
            return false;
        }
        let after = time.at(now);
        if before.zip(after).is_some_and(|(before, after)| after.since(before) > STEP) {
            held.claims.clear();
        }
        self.write(held);
        true
    }

    /// Keeps the line. Under the lock, so that the file never goes back.
    fn write(&self, held: &mut Held) {
        let Some((line, source)) = held.time.as_ref().and_then(ClusterTime::line) else { return };
        held.unkept = match anchor::write(&self.file, &self.boot, line, source) {
            Ok(()) => None,
            Err(cause) => {
                let path = self.file.display();
                tracing::error!(%cause, %path, "failed to write the anchor of cluster time");
                Some(format!("cluster time cannot be kept in {path}: {cause}"))
            }
        };
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom one has to wait for.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Whether every other replica has answered.
    pub have_replicas_answered: bool,
    /// How many agents could speak.
    pub agents: usize,
    /// Whether all of them had their time to.
    pub is_over: bool,
}

/// Whether an alarm is of a kind that was not there before: its figures change all the time.
fn is_news(alarm: &Alarm, before: &[Alarm]) -> bool {
    let kind = std::mem::discriminant(alarm);
    before.iter().all(|known| std::mem::discriminant(known) != kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Timestamp = Timestamp::from_millis(1_795_972_127_000);

    fn opened(dir: &Path, entry: Timestamp) -> Clock {
        let clock = Clock::open(dir).unwrap();
        clock.seen(entry);
        clock.opened();
        clock
    }

    fn witness(clock: &Clock, time: Timestamp) {
        let wait = Wait { have_replicas_answered: true, agents: 0, is_over: true };
        assert!(clock.ask(&[time], &BTreeMap::new(), wait));
    }

    #[test]
    fn time_goes_on_over_a_restart_of_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let clock = opened(dir.path(), TIME);
        assert_eq!(clock.now(), None, "an old entry vouches for nothing");
        assert_eq!(clock.roughly(), TIME);
        witness(&clock, TIME);
        let before = clock.now().unwrap();
        let after = opened(dir.path(), TIME).now().unwrap();
        assert!(after >= before && after < before.plus(Span::from_mins(5)));
    }

    #[test]
    fn anchor_that_is_older_than_the_log_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        witness(&opened(dir.path(), TIME), TIME);
        assert_eq!(opened(dir.path(), TIME.plus(Span::from_hours(2))).now(), None);
    }

    #[test]
    fn time_in_the_log_pulls_the_line_forward_and_never_back() {
        let dir = tempfile::tempdir().unwrap();
        let clock = opened(dir.path(), TIME);
        witness(&clock, TIME);
        let later = TIME.plus(Span::from_hours(1));
        clock.claim(NodeId::new(1), TIME);
        clock.seen(later);
        clock.seen(TIME);
        assert!(clock.now().unwrap() >= later);
        assert!(clock.claims(9).is_empty(), "what an agent said before the step is old");
    }

    #[test]
    fn agents_that_spoke_here_are_witnesses() {
        let dir = tempfile::tempdir().unwrap();
        let clock = opened(dir.path(), TIME);
        let later = TIME.plus(Span::from_hours(1));
        let wait = Wait { have_replicas_answered: true, agents: 3, is_over: false };
        let elsewhere = BTreeMap::from([(NodeId::new(1), later), (NodeId::new(2), later)]);
        assert!(!clock.ask(&[], &elsewhere, wait));
        clock.claim(NodeId::new(2), later);
        assert!(!clock.ask(&[], &elsewhere, wait), "one node is one witness");
        clock.claim(NodeId::new(3), later);
        assert!(clock.ask(&[], &elsewhere, wait) && clock.now().unwrap() >= later);
        assert!(clock.to_say().is_some());
        clock.said();
        assert!(clock.to_say().is_none());
    }
}
