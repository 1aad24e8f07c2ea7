//! Reports on small clusters.

mod array_demand;
mod bill;
pub mod capacity;
mod dry_run;
mod empty;
mod hours;
mod room_law;
