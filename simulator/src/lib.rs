//! Days of a cluster in seconds: submissions of a real trace, or made-up ones, through the decision code that the server
//! runs, in virtual time.
//!
//! ```text
//!   import ──> Trace ──┐
//!                      ├──> run (Leader, apply, plan, Agent) ──> Record ──> measure, report
//!   Scenario ──────────┘
//! ```
//!
//! A [`Record`](record::Record) is what happened, whoever decided it: every figure and picture is made from it alone, so
//! that all policies are measured by the same code. Nothing here decides who starts: that is `scheduler-core`'s.

pub mod engine;
pub mod import;
pub mod measure;
pub mod peers;
pub mod policy;
pub mod record;
pub mod report;
pub mod scenario;
pub mod sweep;
pub mod toy;
pub mod trace;
