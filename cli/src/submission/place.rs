//! Where in a file something stands.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Location, Options};

use crate::codes;
use crate::failure::{Failure, Mark, Place};
use crate::form::suggest;

/// A file that was read, for pointing into it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// As it was named.
    pub file: String,
    /// Its text.
    pub text: String,
}

impl Origin {
    /// Makes it.
    pub fn new(path: &Path, text: &str) -> Self {
        let file = if path == Path::new("-") { "stdin".into() } else { path.display().to_string() };
        Self { file, text: text.into() }
    }

    /// Marks the value that begins at `location`.
    pub fn mark(&self, location: Location, label: &str) -> Option<Mark> {
        let line = usize::try_from(location.line()).ok().filter(|line| *line > 0)?;
        let column = usize::try_from(location.column()).ok()?.max(1);
        let rest: String = self.text.lines().nth(line - 1)?.chars().skip(column - 1).collect();
        // A plain value ends before a comment, a comma or a closing bracket; a quoted one at its quote.
        let end = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map_or(rest.len(), |end| end + 2),
            _ => rest.find([',', '}', ']', '#']).unwrap_or(rest.len()),
        };
        let value = rest[..end].trim_end();
        let value = value.split_once(": ").map_or(value, |(key, _)| key).trim_end_matches(':');
        Some(Mark { line, column, length: value.chars().count().max(1), label: label.into() })
    }

    /// Makes a place of marks; none if nothing can be pointed at.
    pub fn place(&self, marks: Vec<Mark>) -> Option<Place> {
        let (file, text) = (self.file.clone(), self.text.clone());
        (!marks.is_empty()).then_some(Place { file, text, marks })
    }
}

/// Reads a YAML document; unknown fields, fields that stand twice and values of the wrong kind point to their line.
///
/// # Errors
/// When it is not what it should be.
pub fn yaml<T: DeserializeOwned>(origin: &Origin) -> Result<T, Failure> {
    let mut options = Options::default();
    options.with_snippet = false;
    // Indentation and values are the writer's; what expands without bound is not taken (the budget is the crate's).
    serde_saphyr::from_str_with_options(&origin.text, options).map_err(|error| explain(&error, origin))
}

fn explain(error: &Error, origin: &Origin) -> Failure {
    let error = error.without_snippet();
    let marks = |label: &str| error.location().and_then(|at| origin.mark(at, label)).into_iter().collect();
    let at = |label: &str| origin.place(marks(label));
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let fix = match suggest::closest(field, expected) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("fields here are: {}", expected.join(", ")),
            };
            Failure::new(codes::BAD_FILE, format!("unknown field `{field}`")).at(at("no such field")).fix(fix)
        }
        Error::SerdeMissingField { field, .. } => {
            Failure::new(codes::BAD_FILE, format!("`{field}` is missing"))
                .at(at("in here"))
                .fix(format!("add `{field}:`"))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            Failure::new(codes::BAD_FILE, format!("`{variant}` is not one of {}", expected.join(", ")))
                .at(at(""))
        }
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            Failure::new(codes::BAD_FILE, format!("{unexpected} is not {expected}")).at(at(""))
        }
        Error::Message { msg, .. } => Failure::new(codes::BAD_FILE, msg.clone()).at(at("")),
        error => {
            let said = error.to_string();
            // The crate's sentence ends with the place, which is shown here in our own way.
            let said = said.split(" at line ").next().unwrap_or(&said).to_string();
            Failure::new(codes::BAD_FILE, format!("not valid YAML: {said}")).at(at(""))
        }
    }
}
