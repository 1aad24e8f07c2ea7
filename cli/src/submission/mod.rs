//! A submission: from a file and flags to the messages that go out.

mod build;
mod example;
mod file;
pub mod flags;
mod place;
mod scalar;
mod schema;
#[cfg(test)]
mod tests;

pub use build::{Ready, build};
pub use example::EXAMPLE;
pub use file::{Submission, read};
pub use flags::Flags;
pub use place::{Origin, yaml};
pub use scalar::{Duration, Percent, percent, signal_name};
pub use schema::SCHEMA;

/// Makes a value that stands in no file.
pub fn unplaced<T>(value: T) -> serde_saphyr::Spanned<T> {
    let nowhere = serde_saphyr::Location::UNKNOWN;
    serde_saphyr::Spanned { value, referenced: nowhere, defined: nowhere }
}
