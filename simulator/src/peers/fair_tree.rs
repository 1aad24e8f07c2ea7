//! Fair Tree, Slurm's order among users (<https://slurm.schedmd.com/fair_tree.html>; Cox and Morrison, 2014).
//!
//! At each level a child's level value is its part of the siblings' shares through its part of the siblings' use: above 1
//! it had less than its share. The tree is walked from the root, the highest level value first; users get ranks in the
//! order in which they are met, and a user's factor is rank through number of users. Ties: users of one level value share
//! a rank; tied accounts are walked as one, their children merged; a user tied with an account has the rank of that
//! account's first user.

use std::cmp::Ordering;

/// A node of the tree: an account with children, or a user.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Shares among its siblings.
    pub shares: f64,
    /// What it is.
    pub kind: Kind,
}

/// What a node of the tree is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A user, by its place in the caller's list, with its decayed use.
    User {
        /// Which.
        user: usize,
        /// Its use.
        usage: f64,
    },
    /// An account.
    Account(Vec<Entry>),
}

impl Entry {
    /// Returns its use: that of all users below it.
    #[must_use]
    pub fn usage(&self) -> f64 {
        match &self.kind {
            Kind::User { usage, .. } => *usage,
            Kind::Account(children) => children.iter().map(Self::usage).sum(),
        }
    }

    fn users(&self) -> usize {
        match &self.kind {
            Kind::User { .. } => 1,
            Kind::Account(children) => children.iter().map(Self::users).sum(),
        }
    }
}

/// Returns a child's level value among its siblings: infinite without use, 0 without shares.
#[must_use]
pub fn level_value(shares: f64, all_shares: f64, usage: f64, all_usage: f64) -> f64 {
    if shares <= 0.0 || all_shares <= 0.0 {
        return 0.0;
    }
    if usage <= 0.0 || all_usage <= 0.0 {
        return f64::INFINITY;
    }
    (shares / all_shares) / (usage / all_usage)
}

/// Returns each user's rank: the first has as many as there are users. The factor is rank through that number.
#[must_use]
pub fn ranks(root: &[Entry]) -> Vec<(usize, usize)> {
    let all = root.iter().map(Entry::users).sum();
    let mut walk = Walk { next: all, ranks: Vec::new() };
    walk.children(&with_values(root), None);
    walk.ranks
}

/// Level values are of the siblings in the tree, also where tied accounts are walked as one.
fn with_values(siblings: &[Entry]) -> Vec<(f64, &Entry)> {
    let shares: f64 = siblings.iter().map(|entry| entry.shares).sum();
    let usage: f64 = siblings.iter().map(Entry::usage).sum();
    siblings.iter().map(|entry| (level_value(entry.shares, shares, entry.usage(), usage), entry)).collect()
}

struct Walk {
    /// The rank of the next user that shares it with nobody.
    next: usize,
    ranks: Vec<(usize, usize)>,
}

impl Walk {
    /// Walks children in order. `tied` is the rank of users that tie with an account above, if the first are such.
    fn children(&mut self, children: &[(f64, &Entry)], tied: Option<usize>) {
        let mut sorted: Vec<(f64, &Entry)> = children.to_vec();
        sorted.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal));
        let mut rest = sorted.as_slice();
        let mut tied = tied;
        while let Some((value, _)) = rest.first() {
            let same = rest.iter().take_while(|(other, _)| is_same(*other, *value)).count();
            let (group, after) = rest.split_at(same);
            self.group(group, tied.take());
            rest = after;
        }
    }

    /// Walks children of one level value: their users share a rank, which the first user of their accounts has too.
    fn group(&mut self, group: &[(f64, &Entry)], tied: Option<usize>) {
        let rank = tied.unwrap_or(self.next);
        let mut merged = Vec::new();
        let mut has_users = false;
        for (_, entry) in group {
            match &entry.kind {
                Kind::User { user, .. } => {
                    has_users = true;
                    self.ranks.push((*user, rank));
                    self.next -= 1;
                }
                Kind::Account(children) => merged.extend(with_values(children)),
            }
        }
        if !merged.is_empty() {
            let shared = (has_users || tied.is_some()).then_some(rank);
            self.children(&merged, shared);
        }
    }
}

fn is_same(one: f64, other: f64) -> bool {
    one.partial_cmp(&other) == Some(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: usize, shares: f64, usage: f64) -> Entry {
        Entry { shares, kind: Kind::User { user: number, usage } }
    }

    fn account(shares: f64, children: Vec<Entry>) -> Entry {
        Entry { shares, kind: Kind::Account(children) }
    }

    fn sorted(root: &[Entry]) -> Vec<(usize, usize)> {
        let mut ranks = ranks(root);
        ranks.sort_unstable();
        ranks
    }

    /// The output of `sshare` that EPFL's documentation of Fair Tree shows (scitas-data.epfl.ch, page 17564709): an account
    /// of 23 users with a share each and three who used something, among 300 users.
    #[test]
    fn level_values_are_those_that_sshare_prints() {
        for (usage, printed) in [(0.250_000, 0.173_913), (0.255_072, 0.170_455), (0.494_928, 0.087_848)] {
            let value = level_value(1.0, 23.0, usage, 1.0);
            assert!((value - printed).abs() < 1e-6, "{value} for {usage}, printed was {printed}");
        }
        assert_eq!(level_value(1.0, 23.0, 0.0, 1.0), f64::INFINITY);
    }

    /// The same page: those without use share a factor, then come 76, 75 and 74 three-hundredths in order of use.
    #[test]
    fn users_without_use_share_a_rank_and_the_next_comes_after_all_of_them() {
        let used = [(0, 344.0), (1, 351.0), (2, 681.0)];
        let mut users: Vec<Entry> = used.iter().map(|(number, usage)| user(*number, 1.0, *usage)).collect();
        users.extend((3..23).map(|number| user(number, 1.0, 0.0)));
        let ranks = sorted(&[account(1.0, users)]);
        assert_eq!(ranks[..3], [(0, 3), (1, 2), (2, 1)]);
        assert!(ranks[3..].iter().all(|(_, rank)| *rank == 23));
    }

    /// The tree of Slurm's own test of Fair Tree (testsuite, test24.4), without its accounts that take their parent's
    /// shares; the ranks follow from the rules of the page, worked by hand: tied accounts and users at infinity first, then
    /// by level value at the root 1.98, 0.82, 0.73, 0.33, 0.
    #[test]
    fn ranks_follow_the_documented_walk_with_all_kinds_of_ties() {
        let names = [
            "uAA1", "uAB1", "uAB2", "uBA1", "uBB1", "uC1", "aE1", "aE2", "u1", "uF1", "uF2", "uG1", "uGA1",
            "uGA2", "u2",
        ];
        let root = [
            account(
                40.0,
                vec![
                    account(30.0, vec![user(0, 1.0, 20.0)]),
                    account(10.0, vec![user(1, 1.0, 25.0), user(2, 1.0, 0.0)]),
                ],
            ),
            account(
                60.0,
                vec![account(25.0, vec![user(3, 1.0, 25.0)]), account(35.0, vec![user(4, 1.0, 0.0)])],
            ),
            account(0.0, vec![user(5, 0.0, 30.0)]),
            account(10.0, vec![user(6, 10.0, 0.0), user(7, 10.0, 0.0)]),
            user(8, 10.0, 0.0),
            account(20.0, vec![user(9, 10.0, 0.0), user(10, 20.0, 0.0)]),
            account(
                8.0,
                vec![user(11, 10.0, 10.0), account(10.0, vec![user(12, 20.0, 4.0), user(13, 20.0, 6.0)])],
            ),
            user(14, 10.0, 10.0),
        ];
        let found: Vec<_> = sorted(&root).into_iter().map(|(number, rank)| (names[number], rank)).collect();
        assert_eq!(
            found,
            [
                ("uAA1", 7),
                ("uAB1", 5),
                ("uAB2", 6),
                ("uBA1", 9),
                ("uBB1", 10),
                ("uC1", 1),
                ("aE1", 15),
                ("aE2", 15),
                ("u1", 15),
                ("uF1", 15),
                ("uF2", 15),
                ("uG1", 4),
                ("uGA1", 4),
                ("uGA2", 2),
                ("u2", 8),
            ]
        );
    }

    #[test]
    fn all_users_of_a_better_account_are_before_all_of_a_worse_sibling() {
        let better = account(1.0, vec![user(0, 1.0, 10.0), user(1, 1.0, 0.0)]);
        let worse = account(1.0, vec![user(2, 1.0, 0.0), user(3, 1.0, 11.0)]);
        assert_eq!(sorted(&[better, worse]), [(0, 3), (1, 4), (2, 2), (3, 1)]);
    }
}
