//! The processes of all attempts: who runs since when, what they saved, and when they end.

use std::collections::{BTreeMap, HashMap};

use scheduler_core::agent::{EndedBy, RankId};
use scheduler_core::id::{AttemptId, GpuUuid, JobId, NodeId};
use scheduler_core::unit::{Span, Timestamp};

use super::work::{Attempt, Leaving};
use super::{SimJob, Work};

/// All processes, and what jobs saved.
#[derive(Debug, Default)]
pub(super) struct Processes {
    attempts: HashMap<AttemptId, Live>,
    /// Progress that jobs saved.
    saved: HashMap<JobId, Span>,
    /// Attempts whose node died, until their end is committed.
    lost: Vec<AttemptId>,
}

#[derive(Debug)]
struct Live {
    ranks: BTreeMap<RankId, Rank>,
    /// How many ranks it has.
    of: u32,
    started: u32,
    runs: Option<Attempt>,
    leaving: Option<(Leaving, EndedBy)>,
    /// Counts what was decided about its end: an older one comes too late.
    version: u32,
}

#[derive(Debug)]
struct Rank {
    node: NodeId,
    gpus: Vec<GpuUuid>,
}

/// What came of the start of a process.
pub(super) enum Told {
    /// All run now: when they end by themselves, and when the first new progress comes.
    Runs { ends_at: Timestamp, version: u32, signs_at: Timestamp },
    /// Others are still to start, or it is to leave already.
    Nothing,
}

/// How all processes of an attempt end.
pub(super) struct Ending {
    pub ranks: Vec<(RankId, NodeId)>,
    pub by: EndedBy,
    pub saved_at: Option<Timestamp>,
}

/// A checkpoint that is reported.
pub(super) struct Saved {
    pub rank: RankId,
    pub node: NodeId,
    pub saved_at: Option<Timestamp>,
    pub signed_at: Timestamp,
    pub next_at: Option<Timestamp>,
}

impl Processes {
    /// A rank is launched.
    pub(super) fn launch(&mut self, rank: RankId, node: NodeId, gpus: Vec<GpuUuid>, of: u32) {
        let live = self.attempts.entry(rank.attempt).or_insert_with(|| Live {
            ranks: BTreeMap::new(),
            of,
            started: 0,
            runs: None,
            leaving: None,
            version: 0,
        });
        live.ranks.insert(rank, Rank { node, gpus });
    }

    /// Returns a rank's GPUs.
    pub(super) fn gpus_of(&self, rank: RankId) -> Option<Vec<GpuUuid>> {
        Some(self.attempts.get(&rank.attempt)?.ranks.get(&rank)?.gpus.clone())
    }

    /// A rank's process exists.
    pub(super) fn started(&mut self, rank: RankId, now: Timestamp, work: &Work) -> Told {
        let saved = self.saved.get(&rank.attempt.job).copied();
        let Some(live) = self.attempts.get_mut(&rank.attempt) else { return Told::Nothing };
        live.started += 1;
        if live.started < live.of || live.leaving.is_some() {
            return Told::Nothing;
        }
        let runs = Attempt {
            started_at: now,
            saved_before: saved.unwrap_or(Span::ZERO),
            is_restart: rank.attempt.no.get() > 1 && saved.is_some(),
        };
        live.runs = Some(runs);
        Told::Runs { ends_at: runs.ends_at(work), version: live.version, signs_at: runs.works_from(work) }
    }

    /// Returns the attempt of a rank that only now has a process and is to leave already.
    pub(super) fn leaves_at_once(&self, rank: RankId) -> Option<(AttemptId, u32)> {
        let live = self.attempts.get(&rank.attempt)?;
        (live.leaving.is_some() && live.runs.is_none()).then_some((rank.attempt, live.version))
    }

    /// An attempt is told to leave: returns when it has left, and the GPU-milliseconds that this loses; none if it was told
    /// before.
    pub(super) fn stop(
        &mut self,
        id: AttemptId,
        now: Timestamp,
        grace: Span,
        has_notice: bool,
        work: &Work,
        resumes: bool,
    ) -> Option<(Timestamp, u32, u64)> {
        let live = self.attempts.get_mut(&id)?;
        if live.leaving.is_some() {
            return None;
        }
        live.version += 1;
        let by = if has_notice { EndedBy::Notice } else { EndedBy::Stop };
        let none = Leaving { ends_at: now, saved: Span::ZERO, saved_at: None, lost: Span::ZERO };
        let grace = if has_notice { grace } else { Span::ZERO };
        let leaving = live.runs.map_or(none, |runs| runs.leave(work, now, grace));
        live.leaving = Some((leaving, by));
        let gpus: u64 = live.ranks.values().map(|rank| rank.gpus.len() as u64).sum();
        let version = live.version;
        let saved = live.runs.map(|_| leaving.saved);
        if let Some(saved) = saved {
            self.saved.insert(id.job, saved);
        }
        let each = if resumes { leaving.lost.plus(work.restart) } else { leaving.saved.plus(leaving.lost) };
        Some((leaving.ends_at, version, gpus * each.as_millis()))
    }

    /// All processes of an attempt end, if that is still what was decided.
    pub(super) fn end(&mut self, id: AttemptId, version: u32) -> Option<Ending> {
        if self.attempts.get(&id)?.version != version {
            return None;
        }
        let live = self.attempts.remove(&id)?;
        let (by, saved_at) = match live.leaving {
            Some((leaving, by)) => (by, leaving.saved_at),
            None => (EndedBy::Itself, None),
        };
        Some(Ending {
            ranks: live.ranks.into_iter().map(|(id, rank)| (id, rank.node)).collect(),
            by,
            saved_at,
        })
    }

    /// Returns what an attempt reports with its `number`th checkpoint; none if it leaves or is gone.
    pub(super) fn saved(&self, id: AttemptId, version: u32, number: u64, work: &Work) -> Option<Saved> {
        let live = self.attempts.get(&id).filter(|live| live.version == version)?;
        let runs = live.runs?;
        let (rank, first) = live.ranks.first_key_value()?;
        Some(Saved {
            rank: *rank,
            node: first.node,
            saved_at: runs.save(work, number).filter(|_| number > 0).map(|(at, _)| at),
            signed_at: runs.works_from(work),
            next_at: runs.save(work, number + 1).map(|(at, _)| at),
        })
    }

    /// A node died: returns the attempts that had processes there, with the GPU-milliseconds that they lose.
    pub(super) fn node_died<'a>(
        &mut self,
        node: NodeId,
        now: Timestamp,
        job: impl Fn(JobId) -> Option<&'a SimJob>,
    ) -> Vec<(AttemptId, u64)> {
        let has_part = |live: &Live| live.ranks.values().any(|rank| rank.node == node);
        let mut ids: Vec<_> =
            self.attempts.iter().filter(|(_, live)| has_part(live)).map(|(id, _)| *id).collect();
        ids.sort();
        let mut lost = Vec::new();
        for id in ids {
            let Some(live) = self.attempts.get_mut(&id) else { continue };
            let gpus: u64 = live.ranks.values().map(|rank| rank.gpus.len() as u64).sum();
            if let (Some(runs), Some(job)) = (live.runs, job(id.job)) {
                let (saved, gone) = runs.die(&job.work, now);
                self.saved.insert(id.job, saved);
                lost.push((id, gpus * gone.plus(job.work.restart).as_millis()));
            }
            live.version += 1;
            // Its other ranks live, and do nothing, until the control plane says what becomes of them.
            live.ranks.retain(|_, rank| rank.node != node);
            (live.runs, live.leaving) = (None, None);
            let (version, is_gone) = (live.version, live.ranks.is_empty());
            self.lost.push(id);
            if is_gone {
                let _ = self.end(id, version);
            }
        }
        lost
    }

    /// Returns the attempts whose node died since this was asked.
    pub(super) fn take_lost(&mut self) -> Vec<AttemptId> {
        std::mem::take(&mut self.lost)
    }

    /// A job has ended for good.
    pub(super) fn forget_job(&mut self, id: JobId) {
        self.saved.remove(&id);
    }
}
