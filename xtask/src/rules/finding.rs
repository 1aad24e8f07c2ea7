//! One breach of a rule.

use std::fmt;

/// A breach: where, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the repository, or the package.
    pub place: String,
    /// The line, from 1; 0 for the whole of it.
    pub line: usize,
    /// What is wrong, and what to do instead.
    pub what: String,
}

impl Finding {
    /// Returns a breach at `line` of `place`.
    pub fn new(place: &str, line: usize, what: impl Into<String>) -> Self {
        Self { place: place.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.place, self.what),
            line => write!(f, "{}:{line}: {}", self.place, self.what),
        }
    }
}
