//! An edit made for one tree, carried over to the tree that there is when its time comes.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::TreeNode;
use crate::id::Name;

/// Returns `now` with what `want` changed in `base`. Whatever else changed since stays.
///
/// # Errors
/// With what was changed since in another way than the edit wants it.
pub(super) fn merge(base: &TreeNode, want: &TreeNode, now: &TreeNode) -> Result<TreeNode, String> {
    merge_at(base, want, now, now.name.as_str())
}

fn merge_at(base: &TreeNode, want: &TreeNode, now: &TreeNode, path: &str) -> Result<TreeNode, String> {
    let (b, w, n) = (&base.defaults, &want.defaults, &now.defaults);
    let mut merged = TreeNode {
        name: one(&base.name, &want.name, &now.name, path, "name")?.clone(),
        share: *one(&base.share, &want.share, &now.share, path, "share")?,
        pools: now.pools.clone(),
        owner: one(&base.owner, &want.owner, &now.owner, path, "owner")?.clone(),
        members: now.members.clone(),
        defaults: n.clone(),
        children: Vec::new(),
    };
    merged.defaults.min_runtime =
        *one(&b.min_runtime, &w.min_runtime, &n.min_runtime, path, "default minimum runtime")?;
    merged.defaults.resumable = *one(&b.resumable, &w.resumable, &n.resumable, path, "default of resumable")?;
    merged.defaults.time_limit =
        *one(&b.time_limit, &w.time_limit, &n.time_limit, path, "default time limit")?;
    for pool in base.pools.keys().chain(want.pools.keys()) {
        let (b, w, n) = (base.pools.get(pool), want.pools.get(pool), now.pools.get(pool));
        match *one(&b, &w, &n, path, &format!("share in {pool}"))? {
            Some(share) => drop(merged.pools.insert(pool.clone(), *share)),
            None => drop(merged.pools.remove(pool)),
        }
    }
    merged.members.extend(want.members.difference(&base.members).cloned());
    merged.members.retain(|member| want.members.contains(member) || !base.members.contains(member));
    merged.children = children(base, want, now, path)?;
    Ok(merged)
}

/// Returns what the edit makes of one value.
fn one<'a, T: PartialEq>(
    base: &'a T,
    want: &'a T,
    now: &'a T,
    path: &str,
    what: &str,
) -> Result<&'a T, String> {
    if want == base || want == now {
        Ok(now)
    } else if now == base {
        Ok(want)
    } else {
        Err(format!("the {what} of `{path}` was changed since"))
    }
}

fn children(base: &TreeNode, want: &TreeNode, now: &TreeNode, path: &str) -> Result<Vec<TreeNode>, String> {
    let by_name = |tree: &'_ TreeNode| -> BTreeMap<Name, TreeNode> {
        tree.children.iter().map(|child| (child.name.clone(), child.clone())).collect()
    };
    let (before, mut wanted) = (by_name(base), by_name(want));
    let mut merged = Vec::new();
    for child in &now.children {
        let path = format!("{path}/{}", child.name);
        match (before.get(&child.name), wanted.remove(&child.name)) {
            (Some(base), Some(want)) => merged.push(merge_at(base, &want, child, &path)?),
            // The edit closes it.
            (Some(base), None) if base == child => {}
            (Some(_), None) => return Err(format!("`{path}` was changed since, and would be closed")),
            (None, Some(want)) if want == *child => merged.push(want),
            (None, Some(_)) => return Err(format!("`{path}` was opened since")),
            (None, None) => merged.push(child.clone()),
        }
    }
    // What is left the edit has and the tree has not: opened by the edit, or closed since.
    for want in want.children.iter().filter(|child| wanted.contains_key(&child.name)) {
        match before.get(&want.name) {
            None => merged.push(want.clone()),
            Some(base) if base == want => {}
            Some(_) => return Err(format!("`{path}/{}` was closed since", want.name)),
        }
    }
    Ok(merged)
}
