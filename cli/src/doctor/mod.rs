//! `bursar doctor`: what is wrong, and what to type. Gathering asks every replica that can be found; judging is a plain
//! function of what they said.

mod diagnose;
mod gather;
mod place;

pub use diagnose::{Finding, Severity, diagnose};
pub use gather::gather;
pub use place::examine;
