//! Who may ask for something: people, operators, agents, replicas.

use alloc::string::String;

use crate::id::{Name, NodeId, ReplicaId, TokenHash};

/// A person or a machine account with a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The hash of its bearer token.
    pub token: TokenHash,
    /// The Unix account its jobs run as, looked up on the node.
    pub account: AccountName,
    /// Whether it may do what operators may.
    pub is_operator: bool,
    /// Whether its token still opens anything.
    pub is_revoked: bool,
}

/// The name of a Unix account: 1 to 32 bytes, no `:`, `/`, white space or control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(String);

impl AccountName {
    /// Checks and takes an account's name.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= 32 && !text.starts_with('-');
        let is_plain = text.chars().all(|c| !c.is_control() && !c.is_whitespace() && c != ':' && c != '/');
        (fits && is_plain).then(|| Self(String::from(text)))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who a log entry speaks for, filled in by the replica that authenticated the connection, never by the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A principal; whether it is an operator is judged from state when the entry is applied.
    Principal(Name),
    /// The agent of a node.
    Agent(NodeId),
    /// A replica, for what the control plane does by itself.
    Replica(ReplicaId),
}
