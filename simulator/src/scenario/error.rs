//! What can be wrong with a scenario.

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// It is no scenario.
    #[error("{path}: {what}")]
    NoScenario {
        /// Where.
        path: String,
        /// What the reader says, with line and column.
        what: String,
    },
    /// A value that cannot be.
    #[error("{place}: {what}; {fix}")]
    Value {
        /// Where in the scenario: `nodes[0].gpus`.
        place: String,
        /// What is wrong.
        what: String,
        /// What to write instead.
        fix: String,
    },
    /// Its trace cannot be read.
    #[error("{0}")]
    Trace(#[from] crate::import::Error),
}

impl Error {
    pub(super) fn value(place: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Value { place: place.into(), what: what.into(), fix: fix.into() }
    }
}
