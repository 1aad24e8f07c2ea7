//! Reports on small clusters.

mod bill;
mod capacity;
mod empty;
