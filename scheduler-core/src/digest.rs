//! One number for a whole state: replicas that applied the same log have the same.

use core::hash::Hash;

use crate::state::State;
use crate::table::{Store, Table, digest_of};

impl State {
    /// Returns the BLAKE3 hash over the digests of all tables and the one-of-a-kind facts.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let parts = [
            digest_of(&self.meta),
            part(&self.budgets),
            part(&self.edits),
            part(&self.grants),
            part(&self.principals),
            part(&self.join_tokens),
            part(&self.pools),
            part(&self.nodes),
            part(&self.jobs),
            part(&self.arrays),
            part(&self.attempts),
            digest_of(&self.books),
            part(&self.launches),
            part(&self.decisions),
            part(&self.bills),
            part(&self.requests),
            part(&self.strays),
            part(&self.dates),
            part(&self.line),
            part(&self.ended),
            part(&self.results),
            part(&self.results_by_end),
            part(&self.dependents),
            part(&self.timers),
        ];
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&part.to_le_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

fn part<K: Ord + Hash, V: Hash, S: Store<V>>(table: &Table<K, V, S>) -> u64 {
    digest_of(&(table.len(), table.digest()))
}
