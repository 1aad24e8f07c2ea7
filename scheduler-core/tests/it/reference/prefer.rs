//! Who gives way first among equals.

use std::cmp::Ordering;

use scheduler_core::id::{AttemptId, Name};

use super::Naive;

impl Naive {
    /// A set in order of preference: highest use first, then the lowest id.
    pub(super) fn preferred(&self, set: &[AttemptId], pool: &Name) -> Vec<AttemptId> {
        let mut set = set.to_vec();
        set.sort_by(|a, b| self.cmp_victims(*a, *b, pool));
        set
    }

    pub(super) fn cmp_victims(&self, a: AttemptId, b: AttemptId, pool: &Name) -> Ordering {
        let used = |id: AttemptId| {
            let attempt = self.attempt(id).expect("it runs");
            self.used(attempt.budget, pool, attempt.tier)
        };
        used(b).cmp_use(&used(a)).then(a.cmp(&b))
    }

    pub(super) fn cmp_sets(&self, a: &[AttemptId], b: &[AttemptId], pool: &Name) -> Ordering {
        let differs =
            a.iter().zip(b).map(|(a, b)| self.cmp_victims(*a, *b, pool)).find(|order| order.is_ne());
        differs.unwrap_or(a.len().cmp(&b.len()))
    }
}
