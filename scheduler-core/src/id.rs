//! Names of things: numbers from the log, names that people chose, hashes of content.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name($inner);

        impl $name {
            /// Makes the id from its number.
            #[must_use]
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }

            /// Returns the number.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(/// A job's number, for life; from a counter in state, never reused.
    JobId(u32));
number!(/// The number of one run of a job, from 1. Every placing takes a new one.
    AttemptNo(u16));
number!(/// One process of a gang, from 0.
    Rank(u16));
number!(/// A node of the budget tree.
    BudgetId(u32));
number!(/// A machine with GPUs, given at joining.
    NodeId(u32));
number!(/// A GPU's place on its node, for display; the GPU itself is its [`GpuUuid`].
    Slot(u16));
number!(/// A scheduler replica.
    ReplicaId(u64));
number!(/// Rises when a control plane is restored from a backup.
    Epoch(u32));
number!(/// A position in the replicated log.
    LogIndex(u64));
number!(/// A leader's epoch in the replicated log.
    Term(u64));
number!(/// Count of a placement's changes of meaning (run is 1, a stop is more).
    Generation(u32));
number!(/// A grant of share, from a counter in state, never reused.
    GrantId(u32));
number!(/// An edit of the tree with a start time, from a counter in state, never reused.
    EditId(u32));
number!(/// Version of the budget tree; each accepted edit takes the next.
    Revision(u64));

macro_rules! bytes {
    ($(#[$doc:meta])* $name:ident($len:literal)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $len]);

        impl $name {
            /// Makes the id from its bytes.
            #[must_use]
            pub const fn new(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// Returns the bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }

            /// Reads the id from a slice of exactly its length.
            #[must_use]
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                <[u8; $len]>::try_from(bytes).ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

bytes!(/// A control plane's identity, made by `cluster init` only.
    ClusterId(16));
bytes!(/// A client's name for one write; the same id twice is one write.
    RequestId(16));
bytes!(/// BLAKE3 of a job specification's canonical bytes.
    SpecHash(32));
bytes!(/// BLAKE3 of a bearer token; the token itself is never stored.
    TokenHash(32));
bytes!(/// BLAKE3 of a command's canonical bytes, to tell a retry from a conflict.
    BodyHash(32));

/// One run of a job: `4190.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// Which of its runs.
    pub no: AttemptNo,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.no)
    }
}

/// A recorded decision: `d<index>.<n>`, the n-th of the entry at that index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId {
    /// The entry that adopted it.
    pub index: LogIndex,
    /// Its place in the entry.
    pub n: u16,
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}.{}", self.index, self.n)
    }
}

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not `[a-z0-9][a-z0-9-]{0,31}`.
    #[error("`{0}` is not a name: 1 to 32 of a-z, 0-9 and -, not starting with -")]
    Name(String),
    /// Empty, too long or not printable.
    #[error("a label is 1 to 128 printable characters")]
    Label,
}

/// A short name: a level of a budget path, a node, a pool, a principal: `[a-z0-9][a-z0-9-]{0,31}`. A copy of it is one
/// pointer, as with every text that records share: records are copied as they change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// When the text is not `[a-z0-9][a-z0-9-]{0,31}`.
    pub fn new(text: &str) -> Result<Self, Error> {
        let bytes = text.as_bytes();
        let is_word = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let fits = !bytes.is_empty() && bytes.len() <= 32 && is_word(&bytes[0]);
        if fits && bytes.iter().all(|b| is_word(b) || *b == b'-') {
            Ok(Self(Arc::from(text)))
        } else {
            Err(Error::Name(text.chars().filter(|c| !c.is_control()).take(64).collect()))
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A text for people (a job's name, a reason's subject): 1 to 128 bytes, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// Checks and takes a label.
    ///
    /// # Errors
    /// When the text is empty, longer than 128 bytes or has control characters.
    pub fn new(text: &str) -> Result<Self, Error> {
        if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
            return Err(Error::Label);
        }
        Ok(Self(Arc::from(text)))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A GPU's identity as its driver gives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuUuid(Arc<str>);

impl GpuUuid {
    /// Checks and takes a UUID: 1 to 80 of letters, digits and `-`.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= 80;
        let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        (fits && is_plain).then(|| Self(Arc::from(text)))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A budget's path from below the root, `language/posttrain`; the root's own path is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BudgetPath(Vec<Name>);

impl BudgetPath {
    /// Makes a path from its levels.
    #[must_use]
    pub fn new(levels: Vec<Name>) -> Self {
        Self(levels)
    }

    /// Reads `a/b/c`.
    ///
    /// # Errors
    /// When a level is not a name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        text.split('/').map(Name::new).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the levels.
    #[must_use]
    pub fn levels(&self) -> &[Name] {
        &self.0
    }
}

impl fmt::Display for BudgetPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, level) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            f.write_str(level.as_str())?;
        }
        Ok(())
    }
}
