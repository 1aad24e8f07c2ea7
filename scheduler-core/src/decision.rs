//! What the planner proposes, and the record of what was adopted and why.

use alloc::vec::Vec;

use crate::date::{Promise, Trouble};
use crate::id::{
    AttemptId, AttemptNo, BudgetId, DecisionId, Generation, JobId, LogIndex, Name, NodeId, Slot, Term,
};
use crate::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

/// Decisions made from one view of state; adopted one by one after being checked again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The leader's term; `apply` refuses a plan of another.
    pub term: Term,
    /// The index of the view it was made from.
    pub index: LogIndex,
    /// In order; at most [`Plan::DECISIONS_MAX`].
    pub decisions: Vec<Start>,
    /// What becomes of dates, in order; at most [`Plan::DATES_MAX`]. They are numbered after the decisions.
    pub dates: Vec<DateStep>,
}

impl Plan {
    /// The most decisions of one entry.
    pub const DECISIONS_MAX: usize = 256;

    /// Of these the most that take somebody: each of them looks at the whole pool again, and the leader's next plan
    /// goes on where this one ends.
    pub const TAKING_MAX: usize = 32;

    /// The most steps of dates of one entry.
    pub const DATES_MAX: usize = 256;

    /// Whether it decides nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty() && self.dates.is_empty()
    }
}

/// What becomes of the date of one job in one pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DateStep {
    /// How many of the plan's decisions come before it.
    pub after: u16,
    /// Whose date.
    pub job: JobId,
    /// In which pool.
    pub pool: Name,
    /// What becomes of it.
    pub step: Step,
}

/// What becomes of a date.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// The job gets one.
    Issue(Promise),
    /// A node of it is no good any more: it moves.
    Move {
        /// To what.
        to: Promise,
        /// Because of what.
        trouble: Trouble,
    },
    /// A node of it is no good any more, and there are no others for it.
    Drop {
        /// Because of what.
        trouble: Trouble,
    },
}

/// The decision to start a job, and to take what it lacks: one decision, adopted whole or not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Start {
    /// Which job.
    pub job: JobId,
    /// The number its attempt takes: its count must still be as planned.
    pub attempt: AttemptNo,
    /// Which GPUs, by node and in order of rank; idle when planned, or coming free, or taken by this decision.
    pub on: Vec<(NodeId, Vec<Slot>)>,
    /// The attempts that give way to it; none of them can be left out.
    pub takes: Vec<Take>,
    /// Why this job, now.
    pub why: Why,
}

/// Why a job went first: for each level of its path, its side's numbers and the next side's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Why {
    /// Its place in line in this round, from 1.
    pub place: u32,
    /// From the root's children down to the leaf.
    pub levels: Vec<Level>,
    /// How its victims were chosen, if it takes any.
    pub choice: Option<Choice>,
    /// The date that it had, if it had one.
    pub date: Option<Dated>,
}

/// The date of a job that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dated {
    /// The decision that issued it.
    pub decision: DecisionId,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// What it was in the end.
    pub at: Timestamp,
}

/// How the victims of a decision were chosen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Choice {
    /// GPUs that it lacked: what was not idle or coming free anyway.
    pub lacked: u32,
    /// GPUs that its victims give up.
    pub freed: u32,
    /// Attempts that it had the right to take.
    pub considered: u32,
    /// The cheapest of those that stay, with its price, if there is one.
    pub runner_up: Option<(AttemptId, Price)>,
}

/// An attempt that gives way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Take {
    /// Which.
    pub attempt: AttemptId,
    /// The generation of its first rank when it was chosen: another one means that its meaning has changed since.
    pub generation: Generation,
    /// By which right.
    pub right: Right,
    /// What choosing it counted.
    pub price: Price,
    /// GPUs that it gives up, on all its nodes.
    pub gpus: u32,
}

/// Why one attempt may be taken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// It is in the free tier: it always gives way to funded work.
    FreeTier,
    /// It is past its protection, and of the same budget with a later turn.
    Turn,
    /// It is past its protection, and at the level where the paths part the taker's side is further below its share
    /// by more than the margin.
    Share {
        /// The taker's side there.
        mine: UseOf,
        /// The side of the attempt that gives way.
        theirs: UseOf,
    },
    /// It is past its protection, and the taker is a short job of a pool whose short lane has room.
    Lane {
        /// GPUs that short jobs had then.
        occupied: u32,
        /// GPUs of the lane.
        part: u32,
    },
    /// It is past its protection, on a node of the taker's date, which has come.
    Claim {
        /// The decision that issued the date.
        date: DecisionId,
        /// The date.
        at: Timestamp,
    },
}

/// What preempting an attempt would cost, as the choice counts it (DESIGN 6):
/// rate x (lost + restart) x (1 + preemptions / 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Price {
    /// Its rate.
    pub rate: MilliGpus,
    /// Occupied time since its last durable checkpoint or its go, at most twice the job's usual interval; zero for a
    /// job that never reported.
    pub lost: Span,
    /// The restart that is expected.
    pub restart: Span,
    /// How often the job was preempted before.
    pub preemptions: u16,
    /// Its last durable checkpoint, as the leader knew it: evidence that adoption makes part of state.
    pub saved_at: Option<Timestamp>,
    /// How its lost time is known.
    pub basis: Basis,
}

impl Price {
    /// Returns the price in milli-GPU-milliseconds.
    #[must_use]
    pub fn amount(&self) -> u128 {
        let time = u128::from(self.lost.as_millis()) + u128::from(self.restart.as_millis());
        let once = u128::from(self.rate.get()).saturating_mul(time);
        once.saturating_mul(2 + u128::from(self.preemptions)) / 2
    }
}

/// How the time that a preemption loses is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// The job reported its checkpoints: the true age.
    Reported,
    /// It declared an interval: at most that, an upper bound.
    Declared,
    /// It said nothing: everything since its go, an upper bound.
    Unknown,
}

/// One level at which budgets were compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Level {
    /// The budget on the job's path.
    pub chosen: UseOf,
    /// The sibling with waiting jobs that came next, if there was one.
    pub next: Option<UseOf>,
}

/// A budget's use as it was: (charged + set aside) / allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UseOf {
    /// Whose.
    pub budget: BudgetId,
    /// Charged in the window (free tier: its time in the window).
    pub charged: ChargeMillis,
    /// Set aside.
    pub set_aside: ChargeMillis,
    /// What its share is worth in the window.
    pub allocation: ChargeMillis,
}

/// An adopted decision, kept until its job ended and an hour more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// When it was adopted.
    pub at: Timestamp,
    /// The view it was made from.
    pub made_at: LogIndex,
    /// The term it was made in.
    pub term: Term,
    /// What was decided.
    pub start: Start,
}

/// Why one decision of a plan was not adopted; the others are judged alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The job does not wait any more.
    NotWaiting,
    /// The job was placed since.
    AttemptTaken,
    /// A GPU is occupied or gone.
    GpuTaken,
    /// A node takes no work.
    NodeNotReady,
    /// The shape of the decision isn't the job's.
    WrongShape,
    /// The node's cores or memory are with other attempts.
    NodeFull,
    /// An attempt that was to give way has ended, stops already, or changed its meaning.
    VictimChanged,
    /// An attempt that was to give way is protected.
    VictimProtected,
    /// It would not be over before the date of another job that the GPUs, cores or memory are reserved for.
    Reserved,
    /// A claim without a date that has come, or on other nodes than the date's.
    NotDue,
    /// The job has a date already, which nothing is wrong with; or it has none.
    DateStands,
    /// There are as many dates as there may be.
    TooManyDates,
    /// The right to take is the short lane's, and the job is none of it, or it is full.
    NoLane,
    /// It would protect what longer jobs leave to the short lane.
    LaneKept,
}
