//! The exit codes that scripts may rely on.

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done; an accepted job that waits is success.
    Done,
    /// Another failure.
    Other,
    /// Wrong usage.
    Usage,
    /// Refused by policy or validation; nothing was queued.
    Refused,
    /// No such thing.
    NotFound,
    /// Not logged in, or not allowed.
    NotAllowed,
    /// No leader, or no replica reachable; safe to retry.
    Unreachable,
    /// What the request was made for has changed.
    Conflict,
    /// `wait` timed out.
    TimedOut,
    /// `ok-to-stop` says no.
    NotOk,
    /// `budget plan --exit-code` found changes.
    Changes,
    /// The client failed while a job's own exit code would be passed on.
    Client,
    /// The job's own exit code.
    Job(u8),
}

impl Exit {
    /// Returns the process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Other => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::NotFound => 4,
            Self::NotAllowed => 5,
            Self::Unreachable => 6,
            Self::Conflict => 7,
            Self::TimedOut => 8,
            Self::NotOk => 9,
            Self::Changes => 10,
            Self::Client => 125,
            Self::Job(code) => code,
        }
    }
}
