//! Snapshots of state: a stream of length-delimited records, one an object, in key order.
//!
//! ```text
//!   Header {format, index, term}   Meta   Budget*  Principal*  ...  Timer*   Trailer {records, digest}
//! ```
//!
//! [`read`] takes nothing on trust: a record that can't be, a number of records or a digest that differs is an error.

mod arrays;
mod attempts;
mod bills;
mod books;
mod dates;
mod edits;
mod grants;
mod jobs;
mod one;
mod people;
mod read;
mod write;

pub use one::{
    array_record, bill_record, decision_record, job_record, launch_record, past_attempt, read_array_record,
    read_bill_record, read_decision_record, read_job_record, read_launch_record, read_past_attempt,
};
pub use read::{Error, read};
pub use write::write;

/// The format this build writes and reads.
pub const FORMAT: u32 = 1;
