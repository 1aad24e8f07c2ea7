//! Bursar under faults: real processes, real disks, and the figures that its pages promise.
//!
//! ```text
//!   tests/it (laws)     bin/bench (figures)
//!         |                    |
//!         +---> work: jobs that save, resume, listen or do not, and write down where they were and when
//!         +---> lab: replicas, agents, shims, jobs as processes of this machine, ended by pid
//!         +---> client: many callers in one process, one request id over all tries
//!         +---> disk: disks in files, and what can happen to a disk
//!                              |
//!                     bench: loads, scripted agents, quantiles, rows
//! ```
//!
//! A lab starts the same programs that people run, founds its control plane by the same commands, and looks at it from
//! outside: by what `bursar` prints, by what replicas answer, and by what `/proc` says about jobs.
//!
//! What this crate must never do: touch a process that a lab did not start, listen anywhere but on loopback, or judge
//! by how long something took (benches measure, tests do not).

pub mod bench;
pub mod churn;
pub mod client;
pub mod disk;
pub mod lab;
pub mod work;

/// Builders of the core's own tests.
#[allow(dead_code, missing_docs, unreachable_pub)]
#[path = "../../scheduler-core/tests/it/world.rs"]
mod world;
