//! The ledger: two books that never mix (DESIGN 4).
//!
//! ```text
//!   occupancy, physical: installed = Idle + Unavailable + Handover + Overhead + sum of Occupied    (GpuMillis)
//!   charge, the price:   one account per budget and tier; an inner budget's is the sum of its children's (ChargeMillis)
//! ```
//!
//! Where types of GPU have weights, capacity counts each GPU in service by its weight, and a rate of charge does too; both
//! from the moment that a weight holds on. Occupancy is physical.
//!
//! Every account is a [`Curve`]: a cumulative total with its breakpoints. A change of rate applies **from a moment on**,
//! and that moment may be in the past: the totals after it are rewritten, on both sides, so a late report leaves the
//! books as if it had come in time. Nothing here waits for a timer: use is computed for any moment from the curve and
//! from the ends of protections. [`Books::thin`] only saves memory.

mod account;
mod books;
mod compare;
mod curve;
pub mod invariants;
mod pool;
mod set_aside;
#[cfg(test)]
mod tests;
mod weighed;
mod worth;

pub use account::Account;
pub use books::{Books, FREE_FLOOR, Run};
pub use curve::{Curve, Merged};
pub use pool::{Class, PoolBooks, Tally};
pub use set_aside::SetAside;
pub use weighed::{Weighed, WeighedCurves};
pub use worth::part_now;
