//! What a tree must satisfy, whoever wants it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::fit::percent;
use super::{COUNT_MAX, DEPTH_MAX, MEMBERS_MAX, TreeNode};
use crate::command::{Code, Rejection};
use crate::id::Name;
use crate::unit::Share;

/// The most siblings that a refusal names.
const NAMED_MAX: usize = 20;

/// Checks a tree as a file says it.
///
/// # Errors
/// When siblings add up to more than their parent, share a name, or the tree is too deep or too large.
pub(super) fn check(root: &TreeNode) -> Result<(), Rejection> {
    if root.share != Share::WHOLE {
        let what = format!("the root `{}` has a share of {}", root.name, root.share);
        return Err(Rejection::new(Code::BadTree, what, "the root is all of it", String::from("write 100%")));
    }
    if !root.pools.is_empty() {
        let what = format!("the root `{}` has other shares in pools", root.name);
        return Err(Rejection::new(
            Code::BadTree,
            what,
            "the root is all of each",
            String::from("leave them out"),
        ));
    }
    if root.owner.is_none() {
        let what = format!("the root `{}` has no owner", root.name);
        let why = "a file says the whole tree, so this would take the root from its owner";
        return Err(Rejection::new(
            Code::BadTree,
            what,
            why,
            String::from("write `owner: NAME` at the root"),
        ));
    }
    let mut counts = Counts::default();
    check_below(root, root.name.as_str(), 0, &mut counts)
}

#[derive(Default)]
struct Counts {
    budgets: usize,
    members: usize,
}

fn check_below(node: &TreeNode, path: &str, depth: usize, counts: &mut Counts) -> Result<(), Rejection> {
    counts.budgets += 1;
    counts.members += node.members.len();
    if counts.members > MEMBERS_MAX {
        let what = format!("the tree names more than {MEMBERS_MAX} members");
        let fix = String::from("name them once, at a budget above: members there may submit below");
        return Err(Rejection::new(Code::BadTree, what, "", fix));
    }
    if counts.budgets > COUNT_MAX {
        let what = format!("the tree has more than {COUNT_MAX} budgets");
        return Err(Rejection::new(Code::BadTree, what, "", String::from("leave some out")));
    }
    if depth > DEPTH_MAX {
        let what = format!("budget `{path}` is more than {DEPTH_MAX} levels below the root");
        return Err(Rejection::new(Code::BadTree, what, "", String::from("flatten that branch")));
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = node.children.iter().find(|child| !names.insert(&child.name)) {
        let what = format!("two budgets below `{path}` are called `{}`", twice.name);
        let fix = String::from("give one another name");
        return Err(Rejection::new(Code::BadTree, what, "a path names one budget", fix));
    }
    check_sum(node, path)?;
    for child in &node.children {
        check_below(child, &format!("{path}/{}", child.name), depth + 1, counts)?;
    }
    Ok(())
}

/// Checks that siblings add up to at most their parent, in general and in each pool in which one has another share.
fn check_sum(node: &TreeNode, path: &str) -> Result<(), Rejection> {
    check_sum_in(node, path, None)?;
    let pools: BTreeSet<&Name> = node.children.iter().flat_map(|child| child.pools.keys()).collect();
    pools.into_iter().try_for_each(|pool| check_sum_in(node, path, Some(pool)))
}

fn check_sum_in(node: &TreeNode, path: &str, pool: Option<&Name>) -> Result<(), Rejection> {
    let share =
        |child: &TreeNode| pool.and_then(|pool| child.pools.get(pool)).copied().unwrap_or(child.share);
    let sum: u64 = node.children.iter().map(|child| u64::from(share(child).ppm())).sum();
    let Some(over) = sum.checked_sub(u64::from(Share::WHOLE.ppm())).filter(|over| *over > 0) else {
        return Ok(());
    };
    let mut siblings: Vec<String> = node
        .children
        .iter()
        .take(NAMED_MAX)
        .map(|child| format!("{} {}", child.name, share(child)))
        .collect();
    if node.children.len() > NAMED_MAX {
        siblings.push(format!("and {} more", node.children.len() - NAMED_MAX));
    }
    let (sum, over) = (percent(sum), percent(over));
    let place = pool.map_or_else(String::new, |pool| format!(" in pool {pool}"));
    let what = format!("the budgets below `{path}` add up to {sum}{place}: {}", siblings.join(", "));
    let why = "siblings divide what their parent has";
    Err(Rejection::new(Code::OverWhole, what, why, format!("take {over} away from them")))
}
