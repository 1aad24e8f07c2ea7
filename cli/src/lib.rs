//! `bursar`: client, server, agent and development cluster in one binary.
//!
//! ```text
//! arguments -> command -> client -> any replica        (retried with the same request id on the next one)
//!                  |
//!                  +----> render: message -> text      (pure; stdout carries data, stderr talk)
//! ```
//!
//! This crate asks and shows; it never decides. A command is one file in `commands`, a screen one pure function in
//! `render`, and every refusal is a `Failure` with a code that `bursar help CODE` explains.

mod args;
mod client;
mod clock;
mod codes;
mod commands;
mod config;
mod dev;
mod doctor;
mod entry;
mod exit;
mod failure;
mod form;
mod render;
mod secret;
mod shell;
mod submission;
mod tree_file;
mod usage;

pub use entry::main;
