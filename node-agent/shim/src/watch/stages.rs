//! The way out: notice, TERM, KILL, and the words for what survives even that.

use super::{Main, Watch, read, version};
use crate::files::{self, Readers};
use crate::format::{self, Phase, Stage, Stop};
use crate::notice::Notice;
use crate::procs::{self, Process};
use crate::timeline::Timeline;
use crate::{cgroup, sys};

/// The most processes that are named as unkillable.
const NAMED_MAX: usize = 4;
/// Pause between two tries to tell a job of its notice that nobody listened to.
const RETELL_MS: u64 = 500;

impl Watch {
    /// Reads the stop if it is new. `seen_ms` is when another shim first saw it.
    pub(super) fn look_for_stop(&mut self, seen_ms: Option<u64>) {
        let version = version(&self.directory.join(format::STOP));
        if version.is_none() || version == self.stop_version {
            return;
        }
        let Some(stop) = read(&self.directory, format::STOP).and_then(|bytes| Stop::decode(&bytes).ok())
        else {
            return;
        };
        self.stop_version = version;
        let known = self.stop.as_ref();
        if known.is_some_and(|(known, _)| stop.generation < known.generation) {
            return;
        }
        // The grace runs from the first stop: a second order never lengthens it, and an ending job stays ending.
        let now_ms = sys::boot_ms();
        let first_ms = seen_ms.or_else(|| known.map(|(_, seen)| *seen)).unwrap_or(now_ms);
        let elapsed_ms = now_ms.saturating_sub(first_ms);
        let mut stop = stop;
        if let Some((known, _)) = known {
            stop.term_after_ms = (elapsed_ms + stop.term_after_ms).min(known.term_after_ms);
            stop.kill_after_ms = (elapsed_ms + stop.kill_after_ms).min(known.kill_after_ms);
        }
        self.stop = Some((stop, first_ms));
    }

    /// Enters each stage once, in order; the notice of a stop is given also to a job that has that of its time limit.
    pub(super) fn advance(&mut self, timeline: &Timeline, now_ms: u64) {
        if matches!(self.state, Main::Ended) && !self.is_ending() {
            return;
        }
        let stage = timeline.stage(now_ms);
        let limited = timeline.by_limit && now_ms >= timeline.term_ms;
        let wants_notice = self.stop.as_ref().is_some_and(|(stop, _)| stop.notice);
        let owes_notice = wants_notice && !self.noticed && !limited && stage >= Stage::Noticing;
        if stage <= self.stage && !owes_notice {
            // A job that was only just started may not listen yet.
            if self.stage == Stage::Noticing
                && self.unheard_ms.is_some_and(|since| now_ms >= since + RETELL_MS)
            {
                self.signal_notice(now_ms);
            }
            return;
        }
        let stage = stage.max(self.stage);
        let before = std::mem::replace(&mut self.stage, stage);
        self.noticed |= owes_notice;
        // Durable before the job hears of it: an end that the notice caused must find the phase on disk, also after a loss
        // of power. A full disk puts the notice off, never TERM.
        if !self.write_phase() && owes_notice && stage == Stage::Noticing {
            self.noticed = false;
            self.stage = before;
            return;
        }
        if stage == Stage::Noticing || owes_notice {
            self.write_notice(timeline, now_ms);
        }
        match stage {
            Stage::Running => {}
            Stage::Noticing => self.signal_notice(now_ms),
            Stage::Terminating => self.terminate(),
            // Said again and again until nothing is left.
            Stage::Killing => {}
        }
    }

    /// Signals those that listen: the default action of most signals is death. As long as nobody does it is tried again; who
    /// begins to listen after somebody heard it was started by one that knows.
    fn signal_notice(&mut self, now_ms: u64) {
        let stop = self.stop.as_ref().map(|(stop, _)| stop).filter(|stop| stop.notice);
        let signal = stop.map_or(self.spec.signal, |stop| stop.signal);
        let members = self.members().unwrap_or_default();
        let listeners = members.iter().filter(|process| procs::catches(process.id.pid, signal));
        let heard = listeners.filter(|process| procs::signal(process, signal)).count();
        self.unheard_ms = (heard == 0).then_some(now_ms);
    }

    /// Asks for the end. What is frozen or stopped couldn't obey, so it goes on, with the signal waiting for it.
    fn terminate(&self) {
        let members = self.members().unwrap_or_default();
        for process in &members {
            procs::signal(process, libc::SIGTERM);
        }
        if let Some(group) = self.spec.group() {
            cgroup::thaw(group);
        }
        for process in members.iter().filter(|process| process.stopped) {
            procs::signal(process, libc::SIGCONT);
        }
    }

    /// Ends what is there, and says so once if it is there long after.
    pub(super) fn kill(&mut self, members: &[Process], now_ms: u64) {
        if members.is_empty() {
            return;
        }
        if let Some(group) = self.spec.group() {
            cgroup::kill(group);
        }
        for process in members {
            procs::signal(process, libc::SIGKILL);
        }
        let killed_ms = *self.killed_ms.get_or_insert(now_ms);
        if !self.unkillable_told && now_ms >= killed_ms.saturating_add(self.spec.unkillable_ms) {
            self.unkillable_told = tell_unkillable(&self.directory, members).is_ok();
        }
    }

    fn write_notice(&self, timeline: &Timeline, now_ms: u64) {
        let reason = match &self.stop {
            Some((stop, _)) if stop.notice => stop.reason.as_str(),
            _ => "its time limit comes",
        };
        let left_ms = timeline.kill_ms.saturating_sub(now_ms);
        let left_s = i64::try_from(left_ms / 1_000).unwrap_or(i64::MAX);
        let notice = Notice { reason, deadline_s: sys::wall_s().saturating_add(left_s), left_ms };
        let _ = files::replace_unsynced(&self.directory, format::NOTICE, &notice.encode(), Readers::Everyone);
    }

    /// Says whether it is written, and durable if it has to be.
    pub(super) fn write_phase(&self) -> bool {
        let phase = Phase {
            stage: self.stage,
            started_ms: self.started_ms,
            stop_seen_ms: self.stop.as_ref().map(|(_, seen)| *seen),
            noticed: self.noticed,
        };
        let (directory, content) = (&self.directory, phase.encode());
        let written = if self.noticed {
            files::replace(directory, format::PHASE, &content, Readers::Owner)
        } else {
            // Without a notice a phase means nothing in another boot.
            files::replace_unsynced(directory, format::PHASE, &content, Readers::Owner)
        };
        // Room for the next one, while there is some.
        let _ = files::reserve(directory, format::PHASE);
        written.is_ok()
    }
}

/// Writes down what can't be ended.
///
/// # Errors
///
/// The system's: to be tried again.
pub fn tell_unkillable(directory: &std::path::Path, members: &[Process]) -> std::io::Result<()> {
    let mut what: Vec<String> = members.iter().take(NAMED_MAX).map(procs::describe).collect();
    if members.len() > NAMED_MAX {
        what.push(format!("and {} more", members.len() - NAMED_MAX));
    }
    let mut out = format::Writer::new();
    out.put(format::WHAT, what.join("; ").as_bytes());
    files::replace(directory, format::UNKILLABLE, &out.finish(), Readers::Owner)
}
