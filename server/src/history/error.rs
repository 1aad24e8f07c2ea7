//! Why history cannot be read or written.

use std::io;
use std::path::PathBuf;

/// Why history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk failed, or is full.
    #[error("failed to {doing} {}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// A file is not what it was when it was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The thread could not be started, or has ended.
    #[error("history is closed")]
    Closed,
}

impl Error {
    /// Returns what makes an error of ours of one of the system's.
    pub(super) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Io { doing, path, cause }
    }

    pub(super) fn damaged(path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.into(), what: what.into() }
    }

    /// Says it with its cause, on one line.
    #[must_use]
    pub fn report(&self) -> String {
        match std::error::Error::source(self) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}
