//! Traces from outside: what clusters wrote about their jobs, read into a [`Trace`](crate::trace::Trace).
//!
//! ```text
//!   file (.gz, .zst) ─> Lines ─> one file a format ─> Collector ─> Trace
//!        told by content          told by header       counts what is left out, with line and reason
//! ```
//!
//! A source is read once, a line at a time: only the jobs are held. Columns are found by name, unknown ones are noted and
//! passed over. A row that cannot be used is counted and shown with its line; a file that cannot be used is an
//! [`Error`] that says where, what, and what to do. Nothing here panics on what a file says.

mod acme;
mod attempts;
mod collect;
mod describe;
mod error;
mod format;
mod generic;
mod helios;
mod kalos;
mod machines;
mod open;
mod openb;
mod options;
mod own;
mod philly;
mod philly_pass;
mod sacct;
mod sacct_row;
mod source;
mod swf;
mod table;
mod tres;
mod value;

pub use describe::{Sizes, Summary, describe};
pub use error::Error;
pub use format::Format;
pub use machines::{Machine, machines};
pub use open::{open, read};
pub use options::{Field, OneGpu, Options, Unit};
pub use own::write;
