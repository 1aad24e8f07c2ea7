//! What people read, made from one state: plain functions, no clock, no decision.
//!
//! Who may see what is decided here too: arguments and environment's names are for the job's user alone, values of the
//! environment are for nobody.

pub mod array;
pub mod bill;
pub mod budget;
pub mod budget_edit;
pub mod budget_one;
pub mod capacity;
pub mod cluster;
pub mod cluster_pool;
pub mod cost;
pub mod date;
pub mod delivery;
pub mod drain;
pub mod dry_run;
pub mod explain;
pub mod job;
pub mod likely;
pub mod node;
pub mod pool;
pub mod principal;
pub mod queue;
pub mod receipt;
pub mod replicas;
pub mod time;
pub mod waits;
pub mod what_if;
pub mod words;

use proto::v1::{AsOf, UseView};
use scheduler_core::decision::UseOf;
use scheduler_core::id::ReplicaId;
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, Timestamp};

use crate::shared::Read;

/// What every view is made from.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The state and its index.
    pub read: &'a Read,
    /// Cluster time now.
    pub now: Timestamp,
    /// Which replica answers.
    pub replica: ReplicaId,
}

impl<'a> Scene<'a> {
    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> &'a State {
        &self.read.view.state
    }

    /// Returns what the view says of its own age.
    #[must_use]
    pub fn as_of(&self) -> Option<AsOf> {
        Some(AsOf {
            index: self.read.view.index.get(),
            time_at: self.now.as_millis(),
            replica: self.replica.get(),
            stale: self.read.is_stale,
        })
    }
}

/// Returns a charge as text.
#[must_use]
pub fn charge(charge: ChargeMillis) -> String {
    charge.get().to_string()
}

/// Returns a budget's use.
#[must_use]
pub fn use_view(state: &State, used: &UseOf) -> UseView {
    UseView {
        budget: words::budget_path(state, used.budget),
        charged_milli_gpu_ms: charge(used.charged),
        set_aside_milli_gpu_ms: charge(used.set_aside),
        allocation_milli_gpu_ms: charge(used.allocation),
        use_ppm: used.ppm(),
        headroom_milli_gpu_ms: used.headroom().to_string(),
    }
}
