//! Who a connection speaks for.
//!
//! A bearer token is compared by its BLAKE3 hash only, with every hash that state has and without an early end, so
//! that neither tokens nor the time that a refusal takes tell anything.

use scheduler_core::id::{Name, NodeId, TokenHash};
use scheduler_core::state::State;
use tonic::metadata::MetadataMap;

/// Who asks, as a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A person or a program.
    Principal(Name),
    /// The agent of a node.
    Agent(NodeId),
}

/// Returns the hash of a token's text.
#[must_use]
pub fn hash(token: &str) -> TokenHash {
    TokenHash::new(*blake3::hash(token.as_bytes()).as_bytes())
}

/// Returns the hash of the bearer token in a call's metadata.
#[must_use]
pub fn bearer(metadata: &MetadataMap) -> Option<TokenHash> {
    let value = metadata.get("authorization")?.to_str().ok()?;
    let token = value.strip_prefix("Bearer ")?.trim();
    (!token.is_empty() && token.len() <= 512).then(|| hash(token))
}

/// Returns who a token's hash belongs to. A revoked principal's opens nothing.
#[must_use]
pub fn who(state: &State, shown: &TokenHash) -> Option<Caller> {
    let mut found = None;
    for (name, principal) in state.principals.iter() {
        if is_same(&principal.token, shown) && !principal.is_revoked {
            found = Some(Caller::Principal(name.clone()));
        }
    }
    for (id, node) in state.nodes.iter() {
        if is_same(&node.credential, shown) {
            found = Some(Caller::Agent(*id));
        }
    }
    found
}

/// Compares in the same time wherever they differ.
#[must_use]
pub fn is_same(one: &TokenHash, other: &TokenHash) -> bool {
    blake3::Hash::from_bytes(*one.as_bytes()) == blake3::Hash::from_bytes(*other.as_bytes())
}

#[cfg(test)]
mod tests {
    use scheduler_core::principal::{AccountName, Principal};

    use super::*;

    fn metadata(value: &str) -> MetadataMap {
        let mut map = MetadataMap::new();
        map.insert("authorization", value.parse().unwrap());
        map
    }

    fn state(is_revoked: bool) -> State {
        let mut state = State::default();
        let account = AccountName::new("ana").unwrap();
        let principal = Principal { token: hash("secret"), account, is_operator: false, is_revoked };
        state.principals.insert(Name::new("ana").unwrap(), principal);
        state
    }

    #[test]
    fn token_opens_what_its_hash_belongs_to_and_nothing_else() {
        let shown = bearer(&metadata("Bearer secret")).unwrap();
        assert_eq!(who(&state(false), &shown), Some(Caller::Principal(Name::new("ana").unwrap())));
        assert_eq!(who(&state(true), &shown), None);
        assert_eq!(who(&state(false), &hash("Secret")), None);
    }

    #[test]
    fn what_is_no_bearer_token_is_none() {
        for value in ["secret", "Basic secret", "Bearer ", "bearer secret"] {
            assert_eq!(bearer(&metadata(value)), None, "{value}");
        }
        assert_eq!(bearer(&MetadataMap::new()), None);
    }
}
