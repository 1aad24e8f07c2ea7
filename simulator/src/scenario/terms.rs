//! What a job of a trace asks for, by the scenario's rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use scheduler_core::unit::{GpuCount, Span};

use super::draw::{Draw, Purpose};
use super::made::times;
use super::{Checkpoints, Models, Rules};
use crate::engine::{SimJob, Work};
use crate::record::JobEnd;
use crate::trace::{TraceEnd, TraceJob};

/// Short jobs have this time limit: DESIGN's bound for turn `first`.
const DEBUG_LIMIT: Span = Span::from_mins(30);

/// What does not depend on the job.
pub(super) struct Terms<'a> {
    pub rules: &'a Rules,
    pub models: &'a Models,
    pub cap: Span,
    pub seed: u64,
    /// GPUs of the largest machine.
    pub node_gpus: u32,
}

/// Whether a job says itself that it resumes, and how it saves.
#[derive(Clone, Copy, Default)]
pub(super) struct Own {
    pub resumable: Option<bool>,
    pub checkpoints: Option<Checkpoints>,
}

/// Whose a job is.
pub(super) struct Whose {
    pub user: Arc<str>,
    /// The path of its leaf.
    pub budget: Arc<str>,
}

/// Texts that many jobs have, each kept once.
#[derive(Default)]
pub(super) struct Texts(BTreeSet<Arc<str>>);

impl Texts {
    /// Returns the one that is kept.
    pub(super) fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(kept) = self.0.get(text) {
            return kept.clone();
        }
        let kept: Arc<str> = text.into();
        self.0.insert(kept.clone());
        kept
    }
}

impl Terms<'_> {
    /// Returns the job that a trace's `number`th becomes.
    pub(super) fn job(&self, number: u64, job: &TraceJob, whose: Whose, own: Own) -> SimJob {
        let mut draw = Draw::of(self.seed, Purpose::Terms, number);
        let is_short = self.rules.debug.is_some_and(|debug| job.duration <= debug.up_to.0);
        let (minimum, drawn_limit) = self.minimum(&mut draw, job, is_short);
        let resumes = !draw.happens(self.rules.not_resumable);
        let (nodes, gpus_per_node) = self.shape(job);
        SimJob {
            name: job.name.as_str().into(),
            user: whose.user,
            budget: whose.budget,
            nodes,
            gpus_per_node,
            min_runtime: minimum,
            time_limit: job.time_limit.filter(|limit| *limit >= job.duration).or(drawn_limit),
            is_resumable: own.resumable.unwrap_or(resumes),
            submitted_at: job.submitted_at,
            work: self.work(job, own),
        }
    }

    /// Returns a job's minimum runtime, and a time limit where the rules give it one.
    fn minimum(&self, draw: &mut Draw, job: &TraceJob, is_short: bool) -> (Span, Option<Span>) {
        let is_free = draw.happens(self.rules.free);
        if let Some(said) = job.min_runtime {
            return (said.min(self.cap), None);
        }
        if job.is_free == Some(true) {
            return (Span::ZERO, None);
        }
        let factor = draw.pick(&self.rules.minimum.times).copied().unwrap_or(1.0);
        match self.rules.debug.filter(|_| is_short) {
            Some(debug) => {
                let width = debug.most.0.as_millis().saturating_sub(debug.least.0.as_millis());
                let drawn = debug.least.0.plus(Span::from_millis(draw.below(width + 1)));
                (drawn.min(self.cap), Some(DEBUG_LIMIT.max(drawn).max(job.duration)))
            }
            None if is_free => (Span::ZERO, None),
            None => {
                let most = self.rules.minimum.most.map_or(self.cap, |most| most.0).min(self.cap);
                (times(job.duration, factor).max(self.rules.minimum.least.0).min(most), None)
            }
        }
    }

    /// Returns on how many nodes it runs, and GPUs on each: on one as long as it fits, else on whole nodes, rounded up.
    fn shape(&self, job: &TraceJob) -> (u32, GpuCount) {
        let (nodes, gpus_per_node) = match job.gpus <= self.node_gpus {
            true => (1, job.gpus),
            false => (job.gpus.div_ceil(self.node_gpus), self.node_gpus),
        };
        (nodes, GpuCount::new(gpus_per_node))
    }

    fn checkpoints(&self, own: Own) -> Checkpoints {
        own.checkpoints.unwrap_or(self.models.checkpoints)
    }

    /// Returns what a job's processes do.
    fn work(&self, job: &TraceJob, own: Own) -> Work {
        let saves = self.checkpoints(own);
        Work {
            length: job.duration.max(Span::from_secs(1)),
            end: match job.end {
                TraceEnd::Failed | TraceEnd::NodeFailed => JobEnd::Failed,
                TraceEnd::Cancelled => JobEnd::Cancelled,
                TraceEnd::TimedOut => JobEnd::TimedOut,
                TraceEnd::Completed | TraceEnd::Running | TraceEnd::Unknown => JobEnd::Completed,
            },
            launch: self.models.launch.0,
            restart: self.models.restart.0,
            save_every: saves.every.map(|every| every.0),
            save_takes: saves.takes.0,
            saves_at_notice: saves.at_notice,
            leaves_early: saves.leave_early,
            reports: saves.report,
        }
    }
}
