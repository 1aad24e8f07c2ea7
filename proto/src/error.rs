//! Why bytes or a message are not what they should be.

/// A message that can't become a core value: where, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are no message of this kind.
    #[error("the bytes are no {0}")]
    NoMessage(&'static str, #[source] prost::DecodeError),
    /// A field that must be there is not.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A field's value can't be.
    #[error("`{field}`: {problem}")]
    Bad {
        /// Which.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Makes the refusal of a field's value.
    pub fn bad(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Bad { field, problem: problem.into() }
    }
}
