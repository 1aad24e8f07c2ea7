//! The consensus library, fitted to our storage, machine and transport. No type of it leaves this crate, its
//! disk or its wire: everything is converted in `types`.

pub(crate) mod log_storage;
pub(crate) mod machine_thread;
pub(crate) mod network;
pub(crate) mod state_machine;
pub(crate) mod types;

#[cfg(test)]
mod suite;

pub(crate) use self::types::Raft;
