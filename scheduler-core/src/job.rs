//! Jobs, their attempts, and the ways both end (DESIGN 5).

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::array::Task;
use crate::decision::{Price, Right};
use crate::id::{
    AttemptId, AttemptNo, BudgetId, DecisionId, Generation, JobId, Label, Name, NodeId, Rank, Slot, SpecHash,
};
use crate::principal::AccountName;
use crate::spec::{Shape, TermSource, Tier, Turn, Wants};
use crate::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

/// What a person submitted; keeps one number for life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    /// Its name.
    pub name: Label,
    /// The principal who submitted it.
    pub user: Name,
    /// The Unix account it runs as.
    pub account: AccountName,
    /// The leaf it is charged to.
    pub budget: BudgetId,
    /// What the node reads to start it.
    pub launch: SpecHash,
    /// What it declared, with defaults filled in.
    pub terms: Terms,
    /// When it was first submitted: its place among its budget's jobs, for life.
    pub submitted_at: Timestamp,
    /// Where it stands.
    pub phase: Phase,
    /// The number that its next attempt takes.
    pub next_attempt: AttemptNo,
    /// How many retries were used.
    pub retries_used: u16,
    /// Nodes whose fault it was that a launch failed, since it last started: after three it is held.
    pub failed_on: BTreeSet<NodeId>,
    /// Its ended attempts, oldest first, the last 100.
    pub past: Vec<PastAttempt>,
    /// What all its attempts were charged so far, the ended ones.
    pub charged: ChargeMillis,
    /// What is known of its checkpoints, restarts and preemptions.
    pub progress: Progress,
    /// What it waits for, or did, before it stands in line.
    pub before: Before,
    /// Its place in an array, if it is a task of one.
    pub array: Option<Task>,
    /// The pools in whose books its GPUs count as demand: those where it may start, or the one where it is; none while
    /// it is held, has ended, or is in the free tier.
    pub wants: Vec<Name>,
}

/// What a job waits for before it stands in line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Before {
    /// It is held until then.
    pub begin: Option<Timestamp>,
    /// What must have ended, each job once; at most [`Before::NEEDS_MAX`].
    pub needs: Vec<Need>,
}

impl Before {
    /// A job waits for so many others at most.
    pub const NEEDS_MAX: usize = 64;

    /// Returns what keeps the job out of line at `now`: none if nothing does.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> Option<HeldBy> {
        let of = |met: Met| self.needs.iter().find(|need| need.met == met);
        match (of(Met::Never), of(Met::Open), self.begin) {
            (Some(never), _, _) => Some(HeldBy::Dependency { never: Some(never.job) }),
            (None, Some(_), _) => Some(HeldBy::Dependency { never: None }),
            (None, None, Some(until)) if now < until => Some(HeldBy::Begin { until }),
            (None, None, _) => None,
        }
    }
}

/// A job that must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Need {
    /// Which.
    pub job: JobId,
    /// How it must have ended.
    pub wants: Wants,
    /// Whether it has.
    pub met: Met,
}

/// Whether a job ended as another one needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Met {
    /// It has not ended yet.
    Open,
    /// It has.
    Yes,
    /// It ended otherwise, for good.
    Never,
}

/// What is known of a job's checkpoints, restarts and preemptions over all its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Progress {
    /// Its newest durable checkpoint: by which attempt, and when.
    pub saved: Option<(AttemptNo, Timestamp)>,
    /// Times between two of its reports within an attempt, oldest first, the last nine.
    pub intervals: Vec<Span>,
    /// Times from the start of an attempt to its first sign of progress, oldest first, the last nine.
    pub restarts: Vec<Span>,
    /// How often it was preempted.
    pub preemptions: u16,
    /// How often in a row it was preempted without a new checkpoint.
    pub barren: u16,
}

impl Progress {
    /// So many intervals and restarts are kept.
    pub const KEPT: usize = 9;

    /// Returns what a restart of the job takes: the median of those that were measured, else `guess`.
    #[must_use]
    pub fn usual_restart(&self, guess: Span) -> Span {
        Span::median(&self.restarts).unwrap_or(guess)
    }

    /// Notes a time between two reports of one attempt.
    pub fn note_interval(&mut self, interval: Span) {
        keep(&mut self.intervals, interval);
    }

    /// Notes a time from the start of an attempt to its first sign of progress.
    pub fn note_restart(&mut self, restart: Span) {
        keep(&mut self.restarts, restart);
    }
}

fn keep(kept: &mut Vec<Span>, new: Span) {
    kept.push(new);
    if kept.len() > Progress::KEPT {
        kept.remove(0);
    }
}

impl Job {
    /// Returns its usual time between two checkpoints: the median of its own reports, at most what it declared; what it
    /// declared if it never reported two; none if it said nothing at all.
    #[must_use]
    pub fn usual_interval(&self) -> Option<Span> {
        match (Span::median(&self.progress.intervals), self.terms.checkpoint_every) {
            (Some(measured), Some(declared)) => Some(measured.min(declared)),
            (measured, declared) => measured.or(declared),
        }
    }
}

/// The contract of a job, complete.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The pool it must run in; any if none.
    pub cluster: Option<Name>,
    /// Its GPUs.
    pub shape: Shape,
    /// Nodes that it is never placed on.
    pub exclude: BTreeSet<NodeId>,
    /// Funded or free.
    pub tier: Tier,
    /// Where the tier came from.
    pub tier_source: TermSource,
    /// The length of its protection; zero in the free tier.
    pub min_runtime: Span,
    /// The longest time of an attempt.
    pub time_limit: Option<Span>,
    /// Whether it goes on from a checkpoint when started again.
    pub resumable: bool,
    /// Where `resumable` came from.
    pub resumable_source: TermSource,
    /// From a preemption's notice to the kill.
    pub grace: Span,
    /// The notice signal's number.
    pub signal: u8,
    /// How often it says it saves.
    pub checkpoint_every: Option<Span>,
    /// The exit code that means "start me again".
    pub requeue_code: Option<u8>,
    /// How often a failed attempt is tried again.
    pub retries: u16,
    /// Order among the jobs of its budget.
    pub turn: Turn,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not considered until somebody releases it.
    Held {
        /// Since when.
        since: Timestamp,
        /// Why.
        by: HeldBy,
    },
    /// In line.
    Waiting {
        /// Since when, this time.
        since: Timestamp,
    },
    /// With an attempt: the record is in the table of attempts.
    Live(AttemptNo),
    /// For good.
    Ended {
        /// When.
        at: Timestamp,
        /// How.
        end: End,
        /// The exit of its last attempt, if one ran.
        exit: Option<Exit>,
    },
}

impl Phase {
    /// Whether the job is in line.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting { .. })
    }

    /// Whether the job has ended for good.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}

/// Why a job is held.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HeldBy {
    /// Its user, or an owner or operator with a reason.
    Person {
        /// Who.
        who: Name,
        /// Why, as told.
        reason: String,
    },
    /// Launches failed on three different nodes.
    FailedLaunches {
        /// What the last node said.
        reason: String,
    },
    /// In the free tier, after preemptions: tried again by itself.
    Backoff {
        /// When.
        until: Timestamp,
    },
    /// It reports checkpoints, and was preempted too often without a new one.
    Barren {
        /// How often in a row.
        preemptions: u16,
    },
    /// Its submission says so: until then.
    Begin {
        /// When.
        until: Timestamp,
    },
    /// Its submission says so: until others have ended.
    Dependency {
        /// The first of them that can never end as it must; none if all still can.
        never: Option<JobId>,
    },
}

/// What stays of a job that is not in state any more, until nobody may depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobResult {
    /// When it ended.
    pub at: Timestamp,
    /// How.
    pub end: End,
    /// The exit of its last attempt, if one ran.
    pub exit: Option<Exit>,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Exit 0.
    Completed,
    /// Another exit, a signal, or it could not start by its own fault.
    Failed,
    /// Its GPUs were taken and it does not resume.
    Preempted,
    /// Its time limit.
    TimedOut,
    /// A person's word.
    Cancelled,
    /// Its node was lost and it does not resume.
    Lost,
    /// Another attempt replaced it.
    Superseded,
}

/// How a process ended, as far as anyone knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// By itself, with a code.
    Code(u8),
    /// By a signal.
    Signal(u8),
    /// Nobody saw it.
    Unknown,
}

/// One run of a job, from its placing until its GPUs are proven empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The leaf it is charged to.
    pub budget: BudgetId,
    /// Funded or free.
    pub tier: Tier,
    /// The pool it runs in.
    pub pool: Name,
    /// Its GPUs by node, one entry a rank.
    pub placements: Vec<Placement>,
    /// What it is charged a millisecond, in milli-GPUs (the free tier: what it would be).
    pub rate: MilliGpus,
    /// The decision that placed it.
    pub decision: DecisionId,
    /// When it was placed.
    pub placed_at: Timestamp,
    /// When all its GPUs were proven free and every rank ready; charge runs from here.
    pub go_at: Option<Timestamp>,
    /// When it has its GPUs at the latest, if its victims use their whole grace.
    pub latest_go: Timestamp,
    /// No rank starts after this; then the launch has failed, and so has an attempt without go.
    pub start_by: Timestamp,
    /// The port of rank 0 where its ranks meet; only with several.
    pub port: Option<u16>,
    /// The length of its protection.
    pub protection: Span,
    /// When all ranks had a process; protection runs from here.
    pub started_at: Option<Timestamp>,
    /// Its newest durable checkpoint that is committed.
    pub saved_at: Option<Timestamp>,
    /// Its first sign of progress: a checkpoint, or its own word that it works.
    pub signed_at: Option<Timestamp>,
    /// The committed stop, if one was ordered.
    pub stop: Option<Stop>,
    /// The first wrong end of a rank: once all have ended it is the attempt's.
    pub first_end: Option<Ended>,
    /// When and how it ended; its GPUs may still be with it.
    pub ended: Option<Ended>,
}

impl Attempt {
    /// Whether it gives its GPUs up: its stop is committed, or it has ended and they are not yet proven empty.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        self.stop.is_some() || self.ended.is_some()
    }

    /// Whether the GPUs of one of its placements are its own still, held or promised: from its placing until they are
    /// proven empty, and in any case until it has ended.
    #[must_use]
    pub const fn has(&self, placement: &Placement) -> bool {
        self.ended.is_none() || placement.freed_at.is_none()
    }

    /// Returns the slots that it has, or is promised, on a node.
    pub fn slots_on(&self, node: NodeId) -> impl Iterator<Item = Slot> + '_ {
        let here =
            self.placements.iter().filter(move |placement| placement.node == node && self.has(placement));
        here.flat_map(|placement| placement.slots.iter().copied())
    }

    /// Returns its placement on `node` with the GPU in `slot`, if it has that.
    #[must_use]
    pub fn placement_of(&self, node: NodeId, slot: Slot) -> Option<&Placement> {
        self.placements.iter().find(|placement| {
            placement.node == node && placement.slots.contains(&slot) && self.has(placement)
        })
    }

    /// Returns when its last process is gone at the latest, if it dies when it is killed: none as long as nothing makes
    /// it end.
    #[must_use]
    pub fn leaves_by(&self) -> Option<Timestamp> {
        match (&self.ended, &self.stop) {
            (Some(ended), _) => Some(ended.at),
            (None, Some(stop)) => Some(stop.killed_at()),
            (None, None) => None,
        }
    }

    /// Returns the end of its protection: none before it started, and in the free tier.
    #[must_use]
    pub fn protected_until(&self) -> Option<Timestamp> {
        match self.tier {
            Tier::Free => None,
            Tier::Funded => self.started_at.map(|at| at.plus(self.protection)),
        }
    }

    /// Whether nobody may take its GPUs at `now`: a funded attempt from its placing to the end of its protection.
    #[must_use]
    pub fn is_protected(&self, now: Timestamp) -> bool {
        match self.tier {
            Tier::Free => false,
            Tier::Funded => {
                self.ended.is_none()
                    && !self.protection.is_zero()
                    && self.protected_until().is_none_or(|until| now < until)
            }
        }
    }
}

/// The GPUs of one node with one rank of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Which process of the gang.
    pub rank: Rank,
    /// Where.
    pub node: NodeId,
    /// Its GPUs there.
    pub slots: Vec<Slot>,
    /// Count of its changes of meaning.
    pub generation: Generation,
    /// When its node had everything ready for it, as the agent reported; only with several ranks.
    pub ready_at: Option<Timestamp>,
    /// When its process existed, as the agent reported.
    pub started_at: Option<Timestamp>,
    /// How its process ended, as the agent reported; also that it never had one.
    pub exited: Option<(Timestamp, Exit)>,
    /// When its GPUs were proven empty again. Before the attempt's end that is only remembered: they stay with it.
    pub freed_at: Option<Timestamp>,
}

/// A committed stop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stop {
    /// When it was committed.
    pub at: Timestamp,
    /// What for.
    pub cause: StopCause,
    /// From the notice (without one, from the end signal) to the kill; zero kills at once.
    pub grace: Span,
}

impl Stop {
    /// Returns when what is left is killed.
    #[must_use]
    pub const fn killed_at(&self) -> Timestamp {
        self.at.plus(self.grace)
    }

    /// Whether the job is told first, and asked to save: then an end after the notice counts as preempted.
    #[must_use]
    pub const fn has_notice(&self) -> bool {
        matches!(self.cause, StopCause::Preempt(_) | StopCause::Drain { .. } | StopCause::Requeue { .. })
    }
}

/// What a stop is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StopCause {
    /// A person cancelled the job.
    Cancel {
        /// Who.
        who: Name,
        /// Why, if told.
        reason: String,
    },
    /// The control plane never placed this attempt, or ended it already.
    Unwanted,
    /// Its GPUs are for another attempt.
    Preempt(Taken),
    /// Its node is drained.
    Drain {
        /// By whom.
        who: Name,
        /// Why.
        reason: String,
        /// How much of its protection this takes from it, which only an operator may.
        cuts: Span,
    },
    /// A person wants it to start again.
    Requeue {
        /// Who.
        who: Name,
        /// Why, if told.
        reason: String,
    },
    /// Another rank of it ended wrongly.
    Rank {
        /// Which.
        rank: Rank,
    },
}

/// Why an attempt gives way, and to whom: both sides' numbers as they were.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taken {
    /// For which attempt.
    pub by: AttemptId,
    /// By which decision.
    pub decision: DecisionId,
    /// By which right.
    pub right: Right,
    /// What choosing it counted.
    pub price: Price,
    /// How many attempts might have been taken instead or as well.
    pub considered: u32,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ended {
    /// When, in cluster time, as the agent reported and `apply` clamped.
    pub at: Timestamp,
    /// How.
    pub cause: AttemptEnd,
    /// The exit of its process, if there was one.
    pub exit: Option<Exit>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptEnd {
    /// Its process ended by itself.
    Exited,
    /// Its time limit.
    TimeLimit,
    /// A committed stop.
    Stopped,
    /// Whatever its exit was, it came after the notice of a preemption, a drain or a requeue.
    Preempted,
    /// It never started, and its node is to blame.
    LaunchFailedNode(String),
    /// It never started, and the job is to blame.
    LaunchFailedJob(String),
    /// Its node restarted or was proven down.
    NodeLost,
}

/// What stays of an attempt once its GPUs are free.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PastAttempt {
    /// Which.
    pub no: AttemptNo,
    /// Its nodes, in order of rank.
    pub nodes: Vec<NodeId>,
    /// All its GPUs' number.
    pub gpus: u32,
    /// The decision that placed it.
    pub decision: DecisionId,
    /// When it was placed.
    pub placed_at: Timestamp,
    /// When its charge began.
    pub go_at: Option<Timestamp>,
    /// When all ranks had a process.
    pub started_at: Option<Timestamp>,
    /// Its newest durable checkpoint.
    pub saved_at: Option<Timestamp>,
    /// The stop that was ordered, if one was.
    pub stop: Option<Stop>,
    /// When and how it ended.
    pub ended: Ended,
    /// What it was charged.
    pub charged: ChargeMillis,
}
