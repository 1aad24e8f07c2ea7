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

    /// What Slurm's own test of Fair Tree expects `sshare` to print (its test suite, `expect/test24.4`): shares and use of the
    /// siblings at the root, with the level value of each.
    #[test]
    fn level_values_are_those_that_the_test_of_slurm_expects() {
        let printed = [
            (10.0, 10.0, 1.153_846),
            (40.0, 45.0, 1.025_641),
            (60.0, 25.0, 2.769_231),
            (0.0, 30.0, 0.0),
            (50.0, 110.0, 0.524_476),
            (8.0, 20.0, 0.461_538),
        ];
        for (shares, usage, expected) in printed {
            let value = level_value(shares, 208.0, usage, 240.0);
            assert!((value - expected).abs() < 1e-6, "{value}, {expected} is expected");
        }
        for (shares, usage) in [(10.0, 0.0), (20.0, 0.0)] {
            assert_eq!(level_value(shares, 208.0, usage, 240.0), f64::INFINITY);
        }
    }

    /// The same test: its tree, and the factor that it expects of each of its 21 users, here as rank of 21.
    ///
    /// In `aD` some take their parent's shares, which we have nothing for: such a user is ranked first in its account, so it
    /// has no use here, and its use is dealt to the others in proportion, which changes no order. `uD2` has a hair more than is
    /// printed: the test says that it comes after `uD3` by digits which are not.
    #[test]
    fn ranks_are_those_that_the_test_of_slurm_expects() {
        let users = [
            ("uAA1", 0.619_048),
            ("uAB1", 0.523_810),
            ("uAB2", 0.571_429),
            ("uBA1", 0.714_286),
            ("uBB1", 0.761_905),
            ("uC1", 0.047_619),
            ("aE1", 1.0),
            ("aE2", 1.0),
            ("u1", 1.0),
            ("uF1", 1.0),
            ("uF2", 1.0),
            ("uG1", 0.190_476),
            ("uGA1", 0.190_476),
            ("uGA2", 0.095_238),
            ("u2", 0.666_667),
            ("uD1", 0.476_190),
            ("uD2", 0.238_095),
            ("uD3", 0.333_333),
            ("uDA1", 0.476_190),
            ("uDA2", 0.380_952),
            ("uDA3", 0.333_333),
        ];
        let leaf = |name: &str, shares: f64, usage: f64| {
            let at = users.iter().position(|(known, _)| *known == name).expect("it is in the list");
            user(at, shares, usage)
        };
        let root = [
            account(
                40.0,
                vec![
                    account(30.0, vec![leaf("uAA1", 1.0, 20.0)]),
                    account(10.0, vec![leaf("uAB1", 1.0, 25.0), leaf("uAB2", 1.0, 0.0)]),
                ],
            ),
            account(
                60.0,
                vec![
                    account(25.0, vec![leaf("uBA1", 1.0, 25.0)]),
                    account(35.0, vec![leaf("uBB1", 1.0, 0.0)]),
                ],
            ),
            account(0.0, vec![leaf("uC1", 0.0, 30.0)]),
            account(
                50.0,
                vec![
                    leaf("uD1", 1.0, 0.0),
                    leaf("uD2", 40.0, 27.5 + 1e-9),
                    leaf("uD3", 50.0, 34.375),
                    leaf("uDA1", 1.0, 0.0),
                    leaf("uDA2", 30.0, 13.75),
                    leaf("uDA3", 50.0, 34.375),
                ],
            ),
            account(10.0, vec![leaf("aE1", 10.0, 0.0), leaf("aE2", 10.0, 0.0)]),
            leaf("u1", 10.0, 0.0),
            account(20.0, vec![leaf("uF1", 10.0, 0.0), leaf("uF2", 20.0, 0.0)]),
            account(
                8.0,
                vec![
                    leaf("uG1", 10.0, 10.0),
                    account(10.0, vec![leaf("uGA1", 20.0, 4.0), leaf("uGA2", 20.0, 6.0)]),
                ],
            ),
            leaf("u2", 10.0, 10.0),
        ];
        for (at, rank) in ranks(&root) {
            let (name, expected) = users[at];
            let factor = f64::from(u32::try_from(rank).expect("few users")) / 21.0;
            assert!((factor - expected).abs() < 1e-6, "{name}: {factor}, {expected} is expected");
        }
        assert_eq!(ranks(&root).len(), users.len());
    }

    /// "Sibling accounts with the same Level Fairshare have their children lists merged before descending" (the page): the
    /// users of two accounts that are level are one list.
    #[test]
    fn children_of_tied_accounts_are_one_list() {
        let one = account(1.0, vec![user(0, 1.0, 9.0), user(1, 1.0, 1.0)]);
        let other = account(1.0, vec![user(2, 1.0, 8.0), user(3, 1.0, 2.0)]);
        assert_eq!(sorted(&[one, other]), [(0, 1), (1, 4), (2, 2), (3, 3)]);
    }

    #[test]
    fn all_users_of_a_better_account_are_before_all_of_a_worse_sibling() {
        let better = account(1.0, vec![user(0, 1.0, 10.0), user(1, 1.0, 0.0)]);
        let worse = account(1.0, vec![user(2, 1.0, 0.0), user(3, 1.0, 11.0)]);
        assert_eq!(sorted(&[better, worse]), [(0, 3), (1, 4), (2, 2), (3, 1)]);
    }
}
