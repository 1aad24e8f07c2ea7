//! What is wrong with a source as a whole. Each message says where, what, and what to do about it.

use std::io;

use super::format::Format;

/// Why a source could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be opened.
    #[error("failed to open {path}")]
    Open {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It could not be read to its end.
    #[error("failed to read {path} after line {line}")]
    Read {
        /// The file.
        path: String,
        /// The last whole line.
        line: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its packed data is cut short or damaged.
    #[error(
        "{path}: the {packed} data is cut short or damaged after line {line}: copy or download the file again, \
         then test it with `{test}`"
    )]
    Packed {
        /// The file.
        path: String,
        /// `gzip` or `zstd`.
        packed: &'static str,
        /// The last whole line before the damage.
        line: u64,
        /// A command that finds the same.
        test: &'static str,
        /// What the unpacking said.
        #[source]
        source: io::Error,
    },
    /// It has nothing in it.
    #[error("{path} is empty: no rows and no header; export it again")]
    Empty {
        /// The file.
        path: String,
    },
    /// Nobody knows this form.
    #[error(
        "{path}:{line}: no known format begins like this: `{found}`; name the format if it is one of {known}, or \
         give the columns of a CSV by name"
    )]
    UnknownFormat {
        /// The file.
        path: String,
        /// The line that was looked at.
        line: u64,
        /// How it begins.
        found: String,
        /// All names of formats.
        known: String,
    },
    /// Two formats look like this.
    #[error("{path}:{line}: this header is that of {first} and of {second}: name one of them as the format")]
    Ambiguous {
        /// The file.
        path: String,
        /// The header's line.
        line: u64,
        /// One.
        first: Format,
        /// The other.
        second: Format,
    },
    /// There is no such format.
    #[error("no format is called `{name}`: the formats are {known}")]
    NoSuchFormat {
        /// What was asked for.
        name: String,
        /// All names of formats.
        known: String,
    },
    /// Its header lacks a column that is needed.
    #[error("{path}:{line}: {format} needs a column {missing}; the columns here are {found}; {fix}")]
    Columns {
        /// The file.
        path: String,
        /// The header's line.
        line: u64,
        /// The format.
        format: Format,
        /// What is missing.
        missing: String,
        /// What is there.
        found: String,
        /// What to do.
        fix: String,
    },
    /// It is not of this format.
    #[error("{path}:{line}: this is not {format}: {what}; {fix}")]
    Form {
        /// The file.
        path: String,
        /// Where.
        line: u64,
        /// The format.
        format: Format,
        /// What was found.
        what: String,
        /// What to do.
        fix: String,
    },
    /// Not one row gave a job.
    #[error("{path}: none of its {rows} rows is a job that can be replayed: {reasons}; {fix}")]
    NoJobs {
        /// The file.
        path: String,
        /// How many rows there are.
        rows: u64,
        /// The reasons, with one line of each.
        reasons: String,
        /// What to do.
        fix: String,
    },
    /// It has more jobs than memory is meant to hold.
    #[error(
        "{path}:{line}: more than {most} jobs: take a shorter time with `since` and `until`, or raise the limit"
    )]
    TooMany {
        /// The file.
        path: String,
        /// The row that was one too many.
        line: u64,
        /// The limit.
        most: usize,
    },
    /// An option is missing or cannot be used.
    #[error("{path}: {what}; {fix}")]
    Option {
        /// The file.
        path: String,
        /// What.
        what: String,
        /// What to do.
        fix: String,
    },
    /// The columns of a CSV were given in a way nobody understands.
    #[error("`{given}` names no column: write FIELD=COLUMN, where FIELD is one of {fields}")]
    Mapping {
        /// What was given.
        given: String,
        /// All fields.
        fields: String,
    },
    /// The rule for logs without GPUs was given in a way nobody understands.
    #[error("`{given}` is no rule for one GPU: write a number and a unit, as `256 processors` or `1 node`")]
    Rule {
        /// What was given.
        given: String,
    },
}
