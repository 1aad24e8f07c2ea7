//! What processes do: run, save, and start again. Pure arithmetic, from the start of an attempt's processes.

use scheduler_core::unit::{Span, Timestamp};

use super::Work;

/// One attempt's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempt {
    /// When all processes existed.
    pub started_at: Timestamp,
    /// Progress that the job had saved before.
    pub saved_before: Span,
    /// Whether it has to load what was saved.
    pub is_restart: bool,
}

/// What becomes of an attempt that is told to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaving {
    /// When its processes end.
    pub ends_at: Timestamp,
    /// Progress that is saved then, of the whole job.
    pub saved: Span,
    /// When its newest checkpoint was done, if this attempt made one.
    pub saved_at: Option<Timestamp>,
    /// Progress that is lost.
    pub lost: Span,
}

impl Attempt {
    /// Returns when its first new progress comes.
    pub(super) fn works_from(&self, work: &Work) -> Timestamp {
        if self.is_restart { self.started_at.plus(work.restart) } else { self.started_at }
    }

    /// Returns when it ends by itself.
    pub(super) fn ends_at(&self, work: &Work) -> Timestamp {
        let left = ms(work.length).saturating_sub(ms(self.saved_before));
        let saves = match work.save_every.map(ms) {
            // It does not save what is finished.
            Some(every) if every > 0 => left.saturating_sub(1) / every,
            _ => 0,
        };
        let saving = saves.saturating_mul(ms(work.save_takes));
        self.works_from(work).plus(Span::from_millis(left.saturating_add(saving)))
    }

    /// Returns its `n`th checkpoint, from 1: when it is done, and the whole job's progress that it holds; none if the
    /// work ends first.
    pub(super) fn save(&self, work: &Work, n: u64) -> Option<(Timestamp, Span)> {
        let every = work.save_every.map(ms).filter(|every| *every > 0)?;
        let progress = every.saturating_mul(n);
        if progress.saturating_add(ms(self.saved_before)) >= ms(work.length) {
            return None;
        }
        let took = progress.saturating_add(ms(work.save_takes).saturating_mul(n));
        let at = self.works_from(work).plus(Span::from_millis(took));
        Some((at, Span::from_millis(progress.saturating_add(ms(self.saved_before)))))
    }

    /// Returns its newest checkpoint that is done at `now`.
    fn newest_save(&self, work: &Work, now: Timestamp) -> Option<(Timestamp, Span)> {
        let every = work.save_every.map(ms).filter(|every| *every > 0)?;
        let cycle = every.saturating_add(ms(work.save_takes));
        let n = ms(now.since(self.works_from(work))) / cycle;
        if n == 0 { None } else { self.save(work, n) }
    }

    /// Returns its progress at `now`, saved or not, of the whole job.
    pub(super) fn progress(&self, work: &Work, now: Timestamp) -> Span {
        let ran = ms(now.since(self.works_from(work)));
        let new = match work.save_every.map(ms) {
            Some(every) if every > 0 => {
                let cycle = every.saturating_add(ms(work.save_takes));
                (ran / cycle).saturating_mul(every).saturating_add((ran % cycle).min(every))
            }
            _ => ran,
        };
        Span::from_millis(ms(self.saved_before).saturating_add(new).min(ms(work.length)))
    }

    /// Returns what becomes of it if it is told at `told_at` to leave, and killed `grace` later. The notice may come
    /// while it still loads: then there is nothing new to save.
    pub(super) fn leave(&self, work: &Work, told_at: Timestamp, grace: Span) -> Leaving {
        let killed_at = told_at.plus(grace);
        let progress = self.progress(work, told_at);
        let is_new = progress > self.saved_before;
        let (saved, saved_at, free_at) = if work.saves_at_notice && is_new && work.save_takes <= grace {
            let done = told_at.plus(work.save_takes);
            (progress, Some(done), done)
        } else {
            let last = if work.leaves_early { told_at } else { killed_at };
            let newest = self.newest_save(work, last);
            (newest.map_or(self.saved_before, |(_, saved)| saved), newest.map(|(at, _)| at), told_at)
        };
        let ends_at = if work.leaves_early { free_at } else { killed_at };
        let had = if ends_at > told_at && saved < progress { self.progress(work, ends_at) } else { progress };
        let lost = Span::from_millis(ms(had).saturating_sub(ms(saved)));
        Leaving { ends_at, saved, saved_at, lost }
    }

    /// Returns what is saved, and what is lost, if its node dies at `now`.
    pub(super) fn die(&self, work: &Work, now: Timestamp) -> (Span, Span) {
        let saved = self.newest_save(work, now).map_or(self.saved_before, |(_, saved)| saved);
        (saved, Span::from_millis(ms(self.progress(work, now)).saturating_sub(ms(saved))))
    }
}

const fn ms(span: Span) -> u64 {
    span.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::JobEnd;

    const fn min(mins: u64) -> Span {
        Span::from_mins(mins)
    }

    const fn at(mins: u64) -> Timestamp {
        Timestamp::from_millis(mins * 60_000)
    }

    const WORK: Work = Work {
        length: min(100),
        end: JobEnd::Completed,
        launch: Span::ZERO,
        restart: min(10),
        save_every: Some(min(30)),
        save_takes: min(1),
        saves_at_notice: false,
        leaves_early: false,
        reports: true,
    };
    const FIRST: Attempt = Attempt { started_at: at(0), saved_before: Span::ZERO, is_restart: false };

    #[test]
    fn it_runs_its_length_and_its_saves() {
        assert_eq!(FIRST.ends_at(&WORK), at(103), "saves at 30, 60, 90");
        assert_eq!(FIRST.save(&WORK, 1), Some((at(31), min(30))));
        assert_eq!(FIRST.save(&WORK, 3), Some((at(93), min(90))));
        assert_eq!(FIRST.save(&WORK, 4), None);
        let second = Attempt { started_at: at(200), saved_before: min(60), is_restart: true };
        assert_eq!(second.works_from(&WORK), at(210));
        assert_eq!(second.ends_at(&WORK), at(251), "40 left, one save");
        let exact = Work { length: min(60), ..WORK };
        assert_eq!(FIRST.ends_at(&exact), at(61), "what is finished is not saved");
    }

    #[test]
    fn who_is_taken_loses_what_was_not_saved() {
        // Told at 50, killed at 52: the save at 31 holds 30; 49 were done at the notice, 51 at the kill.
        let leaving = FIRST.leave(&WORK, at(50), min(2));
        let lost = Leaving { ends_at: at(52), saved: min(30), saved_at: Some(at(31)), lost: min(21) };
        assert_eq!(leaving, lost);
        let early = Work { leaves_early: true, ..WORK };
        assert_eq!(FIRST.leave(&early, at(50), min(2)).lost, min(19));
        let saver = Work { saves_at_notice: true, leaves_early: true, ..WORK };
        let leaving = FIRST.leave(&saver, at(50), min(2));
        let kept = Leaving { ends_at: at(51), saved: min(49), saved_at: Some(at(51)), lost: Span::ZERO };
        assert_eq!(leaving, kept);
        let slow = Work { save_takes: min(3), ..saver };
        assert_eq!(
            FIRST.leave(&slow, at(50), min(2)).saved,
            min(30),
            "a save that takes longer than the grace fails"
        );
    }

    #[test]
    fn while_it_loads_there_is_nothing_new() {
        let second = Attempt { started_at: at(200), saved_before: min(60), is_restart: true };
        let saver = Work { saves_at_notice: true, leaves_early: true, ..WORK };
        let leaving = second.leave(&saver, at(205), min(2));
        assert_eq!(leaving, Leaving { ends_at: at(205), saved: min(60), saved_at: None, lost: Span::ZERO });
        assert_eq!(second.die(&WORK, at(205)), (min(60), Span::ZERO));
        assert_eq!(second.die(&WORK, at(215)), (min(60), min(5)));
    }

    #[test]
    fn without_checkpoints_all_is_lost() {
        let never = Work { save_every: None, ..WORK };
        assert_eq!(FIRST.ends_at(&never), at(100));
        assert_eq!(FIRST.leave(&never, at(50), min(2)).lost, min(52));
        assert_eq!(FIRST.die(&never, at(50)), (Span::ZERO, min(50)));
    }
}
