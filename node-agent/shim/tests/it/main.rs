//! The shim as a process: launches, limits, stops, exits, and what happens when the shim itself dies.

mod checkpoints;
mod ends;
mod full;
mod launches;
mod nurses;
mod stops;
mod support;
mod unkillable;
