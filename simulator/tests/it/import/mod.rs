//! Traces from outside.

mod broken;
mod formats;
mod hostile;
mod published;
mod sacct;

use std::path::PathBuf;

use simulator::import::{Error, Options, read};
use simulator::trace::Trace;

/// Returns an excerpt.
fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Imports a text.
fn text(text: &str, options: &Options) -> Result<Trace, Error> {
    read("log", text.as_bytes(), options)
}

/// Returns the reasons with their counts, as one line each.
fn reasons(trace: &Trace) -> Vec<String> {
    trace.import.reasons.iter().map(|(why, rows)| format!("{rows} {why}")).collect()
}

/// Returns whether a note has this in it.
fn notes(trace: &Trace, what: &str) -> bool {
    trace.import.notes.iter().any(|note| note.contains(what))
}
