//! Which leaf a job belongs to.

use std::collections::BTreeMap;

use super::draw::{Draw, Purpose};
use super::{Budget, Error, Teams};
use crate::trace::TraceJob;

/// A leaf of the scenario's tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    /// `a/b/c`.
    pub path: String,
    /// Its part of the whole, 0 to 1.
    pub share: f64,
}

/// Returns the leaves in order.
pub(super) fn leaves(budgets: &[Budget]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for budget in budgets {
        walk(budget, "", 1.0, &mut leaves);
    }
    leaves
}

fn walk(budget: &Budget, above: &str, whole: f64, leaves: &mut Vec<Leaf>) {
    let path = if above.is_empty() { budget.name.clone() } else { format!("{above}/{}", budget.name) };
    let share = whole * budget.share / 100.0;
    if budget.children.is_empty() {
        leaves.push(Leaf { path, share });
        return;
    }
    for child in &budget.children {
        walk(child, &path, share, leaves);
    }
}

/// Deals jobs to leaves.
#[derive(Debug)]
pub(super) struct Dealer<'a> {
    leaves: &'a [Leaf],
    weights: Vec<f64>,
    teams: &'a Teams,
    seed: u64,
    known: BTreeMap<String, usize>,
}

impl<'a> Dealer<'a> {
    /// Checks that the leaves that are named are there.
    pub(super) fn new(leaves: &'a [Leaf], teams: &'a Teams, seed: u64) -> Result<Self, Error> {
        for (team, path) in &teams.map {
            find(leaves, path, &format!("teams.map.{team}"))?;
        }
        let weights = leaves.iter().map(|leaf| leaf.share).collect();
        Ok(Self { leaves, weights, teams, seed, known: BTreeMap::new() })
    }

    /// Returns a job's leaf: by its team or user as the scenario says, else dealt by chance, the same for all of them.
    pub(super) fn leaf(&mut self, job: &TraceJob) -> &'a Leaf {
        let team = job.team.as_deref().filter(|_| !self.teams.by_user);
        let who = team.or(job.user.as_deref()).unwrap_or("unknown");
        if let Some(at) = self.known.get(who) {
            return &self.leaves[*at];
        }
        let named =
            self.teams.map.get(who).and_then(|path| self.leaves.iter().position(|leaf| leaf.path == *path));
        let at = named.unwrap_or_else(|| {
            let mut draw = Draw::of(self.seed, Purpose::Team, digest(who));
            draw.weighted(&self.weights)
        });
        self.known.insert(who.to_owned(), at);
        &self.leaves[at]
    }
}

/// Returns the leaf of a path.
pub(super) fn find<'a>(leaves: &'a [Leaf], path: &str, place: &str) -> Result<&'a Leaf, Error> {
    leaves.iter().find(|leaf| leaf.path == path).ok_or_else(|| {
        let all: Vec<&str> = leaves.iter().map(|leaf| leaf.path.as_str()).collect();
        Error::value(
            place,
            format!("there is no leaf `{path}`"),
            format!("the leaves are {}", all.join(", ")),
        )
    })
}

/// FNV-1a: who is dealt where must not change with a library.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
