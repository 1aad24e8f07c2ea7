//! What every command is given.

use crate::id::LogIndex;
use crate::principal::Actor;
use crate::unit::Timestamp;

/// Of which entry, when, and for whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// The entry's place in the log.
    pub index: LogIndex,
    /// The entry's time.
    pub now: Timestamp,
    /// Who asks.
    pub actor: &'a Actor,
}
