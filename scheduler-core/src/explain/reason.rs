//! Reasons: a stable token, a sentence, who can change it.

use alloc::string::String;

use crate::decision::UseOf;
use crate::unit::Timestamp;

/// Where a job stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Not considered until somebody releases it.
    Held,
    /// In line.
    Waiting,
    /// Placed, no process yet.
    Starting,
    /// With its processes.
    Running,
    /// A stop is under way.
    Stopping,
    /// For good.
    Ended,
}

impl Stage {
    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
        }
    }
}

macro_rules! tokens {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// The kinds of reason. A token never changes its meaning: clients and records keep it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Token {
            $($(#[$doc])* $name),*
        }

        impl Token {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the token as text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text),*
                }
            }
        }
    };
}

tokens! {
    /// Its user holds it.
    HeldUser = "held.user",
    /// An owner or an operator holds it.
    HeldOperator = "held.operator",
    /// Its launches failed on three nodes.
    HeldLaunch = "held.launch",
    /// Preempted in the free tier: tried again by itself.
    HeldBackoff = "held.backoff",
    /// Preempted again and again without a new checkpoint.
    HeldBarren = "held.barren",
    /// Its submission says when it begins.
    HeldBegin = "held.begin",
    /// It waits for other jobs to end.
    HeldDependency = "held.dependency",
    /// It fits and starts with the next plan.
    WaitingEvaluation = "waiting.evaluation",
    /// The control plane starts nothing.
    WaitingSafeMode = "waiting.safe-mode",
    /// Others go first.
    WaitingOrder = "waiting.order",
    /// Its budget, or one above it, has more than its burst limit.
    WaitingBurst = "waiting.burst",
    /// It would fit if nodes that take no work were back.
    WaitingCapacity = "waiting.capacity",
    /// Its GPUs are protected.
    WaitingProtection = "waiting.protection",
    /// Its GPUs are with jobs past their protection, or with what is being cleared away.
    WaitingOccupied = "waiting.occupied",
    /// Enough GPUs, in the wrong places.
    WaitingShape = "waiting.shape",
    /// What it could have is reserved for the date of another job.
    WaitingReserved = "waiting.reserved",
    /// It would protect what longer jobs leave to the short lane.
    WaitingLane = "waiting.lane",
    /// Free tier, nothing to spare.
    WaitingIdle = "waiting.idle",
    /// Placed: those who give way to it save and leave.
    PlacedGrace = "placed.grace",
    /// Placed: its ranks start together, and not all are ready.
    StartingReady = "starting.ready",
    /// Placed: its node's agent starts it.
    StartingAgent = "starting.agent",
    /// Nobody may take its GPUs.
    RunningProtected = "running.protected",
    /// Its protection is over, and it runs on.
    RunningInterruptible = "running.interruptible",
    /// In the free tier.
    RunningFree = "running.free",
    /// An array: some of its tasks run.
    RunningArray = "running.array",
    /// It runs on a node that nobody hears of.
    RunningUnreachable = "running.unreachable",
    /// Its node drains: it leaves when nobody protects it any more.
    RunningDraining = "running.draining",
    /// A person's word.
    StoppingCancel = "stopping.cancel",
    /// The control plane ended this attempt.
    StoppingUnwanted = "stopping.unwanted",
    /// A person wants it to start again.
    StoppingRequeue = "stopping.requeue",
    /// Another rank has ended.
    StoppingRank = "stopping.rank",
    /// A budget further below its share takes its GPUs.
    PreemptedShare = "preempted.share",
    /// A job of its budget with an earlier turn takes its GPUs.
    PreemptedTurn = "preempted.turn",
    /// A job whose date has come takes its GPUs.
    PreemptedClaim = "preempted.claim",
    /// A short job takes its GPUs, by the short lane.
    PreemptedLane = "preempted.lane",
    /// The free tier makes way.
    PreemptedFree = "preempted.free",
    /// Its node is drained.
    PreemptedDrain = "preempted.drain",
    /// An operator or an owner takes its GPUs.
    PreemptedOperator = "preempted.operator",
    /// An attempt that never started, by its node's fault.
    LaunchNode = "launch.node",
    /// An attempt that never started, by the job's fault.
    LaunchJob = "launch.job",
    /// Exit 0.
    EndedCompleted = "ended.completed",
    /// Another end of its own.
    EndedFailed = "ended.failed",
    /// Its GPUs were taken and it does not resume.
    EndedPreempted = "ended.preempted",
    /// Its time limit.
    EndedTimedOut = "ended.timed-out",
    /// A person's word.
    EndedCancelled = "ended.cancelled",
    /// Its node was lost: a failure, not a preemption.
    EndedLost = "lost.node",
    /// Another attempt replaced it.
    EndedSuperseded = "ended.superseded",
}

/// Who can change a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// The job's user.
    You,
    /// The owner of its budget or of one above, in the long run.
    BudgetOwner,
    /// An operator.
    Operator,
    /// Nobody: it only takes time.
    Nobody,
}

impl Who {
    /// Returns it in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::BudgetOwner => "budget owner",
            Self::Operator => "operator",
            Self::Nobody => "nobody",
        }
    }
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Its kind.
    pub token: Token,
    /// What it is, without times.
    pub sentence: String,
    /// Who can change it.
    pub who: Who,
    /// When it ends by itself, if that is known.
    pub until: Option<Timestamp>,
    /// Both sides' uses where they part, the job's own first, if it is about order among budgets.
    pub sides: Option<(UseOf, UseOf)>,
}

impl Reason {
    pub(crate) fn new(token: Token, who: Who, sentence: String) -> Self {
        Self { token, sentence, who, until: None, sides: None }
    }

    pub(crate) fn until(self, until: Option<Timestamp>) -> Self {
        Self { until, ..self }
    }
}
