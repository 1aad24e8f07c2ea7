//! The order among budgets: against Slurm's Fair Tree on the same usage, and what more share does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scheduler_core::budget::{self, ROOT};
use scheduler_core::id::{BudgetId, JobId};
use scheduler_core::plan::Links;
use scheduler_core::queue;
use scheduler_core::state::State;

use crate::lab::{NOW, name, state};
use crate::random::{Random, lab};

/// Budgets of up to four levels with usage at all leaves.
fn tree(random: &mut Random) -> String {
    let mut lines = String::from("node n1 500 h100\n");
    let mut runs = 1_000;
    let mut leaf = |lines: &mut String, random: &mut Random, path: &str| {
        if !random.one_in(6) {
            runs += 1;
            let (gpus, minutes) = (random.below(8), 1 + random.below(9_000));
            let _ = writeln!(lines, "runs {runs}.1 {path} {} n1 0-{gpus} for={minutes}m was", gpus + 1);
        }
    };
    for top in 0..2 + random.below(4) {
        let _ = writeln!(lines, "budget t{top} {}", 1 + random.below(16));
        let below = random.below(4);
        if below == 0 {
            leaf(&mut lines, random, &format!("t{top}"));
        }
        for mid in 0..below {
            let _ = writeln!(lines, "budget t{top}/m{mid} {}", 1 + random.below(24));
            let leaves = random.below(4);
            if leaves == 0 {
                leaf(&mut lines, random, &format!("t{top}/m{mid}"));
            }
            for low in 0..leaves {
                let path = format!("t{top}/m{mid}/l{low}");
                let _ = writeln!(lines, "budget {path} {}", 1 + random.below(24));
                leaf(&mut lines, random, &path);
            }
        }
    }
    lines
}

/// Slurm's Fair Tree (PEERS 4.1): level by level the child with the highest share / usage first, both among siblings.
/// None if two siblings are equal, which Slurm merges and we do not.
fn fair_tree(state: &State, charged: &BTreeMap<BudgetId, u128>, at: BudgetId) -> Option<Vec<BudgetId>> {
    let children: Vec<BudgetId> = state.budgets.get(&at)?.children.iter().copied().collect();
    if children.is_empty() {
        return Some(vec![at]);
    }
    let share = |id: BudgetId| state.budgets.get(&id).map_or(0, |budget| u128::from(budget.share.ppm()));
    let used = |id: BudgetId| charged.get(&id).copied().unwrap_or(0);
    let (shares, uses): (u128, u128) =
        children.iter().fold((0, 0), |(s, u), id| (s + share(*id), u + used(*id)));
    // (share / shares) / (use / uses), as a fraction; without usage it is infinite.
    let level = |id: BudgetId| (share(id) * uses, used(id) * shares);
    let mut ordered = children;
    ordered.sort_by(|a, b| {
        let ((a_above, a_below), (b_above, b_below)) = (level(*a), level(*b));
        // The higher level value first.
        (b_above * a_below).cmp(&(a_above * b_below))
    });
    let is_equal = |pair: &[BudgetId]| {
        let ((a_above, a_below), (b_above, b_below)) = (level(pair[0]), level(pair[1]));
        a_above * b_below == b_above * a_below
    };
    if ordered.windows(2).any(is_equal) {
        return None;
    }
    ordered
        .into_iter()
        .map(|child| fair_tree(state, charged, child))
        .collect::<Option<Vec<_>>>()
        .map(|all| all.concat())
}

#[test]
fn the_same_usage_sorts_as_slurms_fair_tree() {
    let mut compared = 0;
    for seed in 0..1_000 {
        let lines = tree(&mut Random::new(seed));
        let lab = state(&lines);
        let pools = budget::usage(&lab, NOW);
        let rows = &pools[0].rows;
        // Whole GPU-minutes.
        let charged = rows.iter().map(|row| (row.id, row.funded.charged.get() / 60_000_000)).collect();
        let Some(theirs) = fair_tree(&lab, &charged, ROOT) else { continue };
        let goes: BTreeMap<BudgetId, u32> = rows.iter().map(|row| (row.id, row.goes)).collect();
        assert_eq!(ours(&lab, &goes, ROOT), theirs, "seed {seed}\n{lines}");
        compared += 1;
    }
    assert!(compared > 300, "trees without equals: {compared}");
}

/// Leaves as they are visited.
fn ours(state: &State, goes: &BTreeMap<BudgetId, u32>, at: BudgetId) -> Vec<BudgetId> {
    let children = state.budgets.get(&at).map(|budget| budget.children.clone()).unwrap_or_default();
    if children.is_empty() {
        return vec![at];
    }
    let mut children: Vec<BudgetId> = children.into_iter().collect();
    children.sort_by_key(|child| goes[child]);
    children.into_iter().flat_map(|child| ours(state, goes, child)).collect()
}

#[test]
fn more_share_never_sorts_later() {
    let mut raised = 0;
    for seed in 0..400 {
        let random = &mut Random::new(seed);
        let lines = lab(random).replace("pool=west", "pool=main");
        let tops: Vec<(String, u32)> = lines.lines().filter_map(top).collect();
        let sum: u32 = tops.iter().map(|(_, share)| share).sum();
        let (path, share) = random.pick(&tops).clone();
        let more = share + 1 + u32::try_from(random.below(u64::from(100 - sum).max(1))).expect("small");
        if sum - share + more > 100 {
            continue;
        }
        let richer = lines.replace(&format!("budget {path} {share}\n"), &format!("budget {path} {more}\n"));
        let (before, after) = (line(&lines, &path), line(&richer, &path));
        assert_eq!(before.len(), after.len());
        let count = |of: &[bool], upto: usize| of[..upto].iter().filter(|is_mine| **is_mine).count();
        for upto in 0..=before.len() {
            assert!(
                count(&before, upto) <= count(&after, upto),
                "seed {seed}: {path} with {more} % instead of {share} %\n{lines}"
            );
        }
        raised += usize::from(before.iter().any(|is_mine| *is_mine));
    }
    assert!(raised > 150, "budgets with jobs that got more: {raised}");
}

fn top(line: &str) -> Option<(String, u32)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["budget", path, share] if !path.contains('/') => Some(((*path).to_owned(), share.parse().ok()?)),
        _ => None,
    }
}

/// For each funded job in line for the pool, in order, whether it is of a budget below `path`.
fn line(lines: &str, path: &str) -> Vec<bool> {
    let lab = state(lines);
    let above = budget::find(&lab, path).expect("a known budget");
    let is_below = |id: JobId| {
        let job = lab.jobs.get(&id).expect("a known job");
        budget::path(&lab, job.budget).contains(&above)
    };
    let is_funded =
        |id: &JobId| lab.jobs.get(id).is_some_and(|job| job.terms.tier == scheduler_core::spec::Tier::Funded);
    let rows = queue::rows(&lab, &Links::all_ready(&lab), NOW);
    let main = rows.into_iter().filter(|row| row.pool == Some(name("main"))).map(|row| row.job);
    main.filter(is_funded).map(is_below).collect()
}
