//! Calls to a control plane: any replica will do, and a lost one costs no call.
//!
//! A write is named once, by 16 random bytes and the cluster's own time, and carries that name on every retry, so
//! that a replica that has carried it out answers again instead of doing it twice.

mod calls;
mod founding;
mod refused;
mod replicas;
mod retry;

pub use calls::random;
pub use founding::found;
pub use retry::{Client, Learned};
