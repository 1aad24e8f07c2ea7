//! One replica of Bursar's control plane: the state machine over the replicated log, the leader's loop, the APIs.
//!
//! ```text
//!   clients, agents ──gRPC──> api ──write──> log (raft-store) ──committed──> machine (core::apply) ──> views ──> api
//!                              │                ^                                                        │
//!                              └──links──> lead (core::leader) ──proposals──┘ <──────────────────────────┘
//!   peers ──gRPC──> raft-store's service, and `Peer`: writes passed on, logs read through
//! ```
//!
//! This crate carries out; it never decides placement, and no module but [`clock`] reads a clock. What a reader sees is
//! a frozen [`view`] of the state; what a writer asks becomes an entry, whoever asks is filled in here by the token that
//! the connection showed, and whether they may is judged by `apply`.

mod addresses;
mod api;
mod auth;
pub mod clock;
mod config;
mod disk;
mod error;
mod events;
mod futures;
mod hand_over;
pub mod history;
mod incoming;
mod inspect;
mod lead;
mod limits;
mod links;
mod logging;
mod machine;
mod past;
mod peers;
mod refusal;
mod replica;
mod run;
mod setup;
mod shared;
pub mod time;
pub mod view;
mod views;
mod write;

pub use addresses::Addresses;
pub use config::{Config, LogFormat};
pub use error::Error;
pub use inspect::{Inspection, holder, identity, inspect, make_private};
pub use refusal::RETRY_AFTER;
pub use replica::Replica;
pub use run::run;
pub use shared::Shared;
