//! What a tree file would change, one line each.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::check::check;
use super::lookup::{children_by_name, label, open_children};
use super::{Budget, ROOT, TreeNode};
use crate::command::{Code, Rejection};
use crate::id::{BudgetId, Name};
use crate::job::Phase;
use crate::state::State;
use crate::unit::{Share, Span};

/// One change of one budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Change {
    /// What people call the budget: its path, or the root's name.
    pub budget: String,
    /// Its id; none for one that does not exist yet.
    pub id: Option<BudgetId>,
    /// The nearest existing budget above it; the root's is itself.
    pub above: BudgetId,
    /// What changes.
    pub what: What,
}

/// What can change about a budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// It is new.
    Opened(Share),
    /// It was closed and takes submissions again.
    Reopened(Share),
    /// It takes no submissions any more and lets work finish; its share goes back to its parent.
    Closed(Share),
    /// The root has another name.
    Renamed {
        /// The name it had.
        from: Name,
        /// The name it gets.
        to: Name,
    },
    /// Its part of the parent.
    Share {
        /// Before.
        from: Share,
        /// After.
        to: Share,
    },
    /// Another part of the parent in one pool; none where it has its usual one there.
    PoolShare {
        /// Which pool.
        pool: Name,
        /// Before.
        from: Option<Share>,
        /// After.
        to: Option<Share>,
    },
    /// Who edits what is below it.
    Owner {
        /// Before.
        from: Option<Name>,
        /// After.
        to: Option<Name>,
    },
    /// One more principal who may submit.
    MemberAdded(Name),
    /// One fewer.
    MemberRemoved(Name),
    /// The minimum runtime of jobs that say none; zero is the free tier.
    DefaultMinRuntime {
        /// Before.
        from: Option<Span>,
        /// After.
        to: Option<Span>,
    },
    /// Whether jobs that say nothing resume from a checkpoint.
    DefaultResumable {
        /// Before.
        from: Option<bool>,
        /// After.
        to: Option<bool>,
    },
    /// The time limit of jobs that say none.
    DefaultTimeLimit {
        /// Before.
        from: Option<Span>,
        /// After.
        to: Option<Span>,
    },
}

impl What {
    /// Returns one stable word for the kind of change.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Opened(_) => "added",
            Self::Reopened(_) => "reopened",
            Self::Closed(_) => "closed",
            Self::Renamed { .. } => "name",
            Self::Share { .. } => "share",
            Self::PoolShare { .. } => "pool-share",
            Self::Owner { .. } => "owner",
            Self::MemberAdded(_) | Self::MemberRemoved(_) => "members",
            Self::DefaultMinRuntime { .. }
            | Self::DefaultResumable { .. }
            | Self::DefaultTimeLimit { .. } => "defaults",
        }
    }

    /// Returns what was and what will be, as people read it; empty where there is nothing.
    #[must_use]
    pub fn sides(&self) -> (String, String) {
        let (none, of) = (String::new, |side: &dyn fmt::Display| side.to_string());
        match self {
            Self::Opened(share) | Self::Reopened(share) => (none(), of(share)),
            Self::Closed(share) => (of(share), none()),
            Self::Renamed { from, to } => (of(from), of(to)),
            Self::Share { from, to } => (of(from), of(to)),
            Self::PoolShare { pool, from, to } => (in_pool(pool, *from), in_pool(pool, *to)),
            Self::Owner { from, to } => (person(from.as_ref()), person(to.as_ref())),
            Self::MemberAdded(who) => (none(), of(who)),
            Self::MemberRemoved(who) => (of(who), none()),
            Self::DefaultMinRuntime { from, to } => (min_runtime(*from), min_runtime(*to)),
            Self::DefaultTimeLimit { from, to } => (span(*from), span(*to)),
            Self::DefaultResumable { from, to } => (yes(*from), yes(*to)),
        }
    }
}

fn in_pool(pool: &Name, share: Option<Share>) -> String {
    share.map_or_else(|| format!("as elsewhere in {pool}"), |share| format!("{share} in {pool}"))
}

fn person(who: Option<&Name>) -> String {
    who.map_or(String::from("nobody"), Name::to_string)
}

fn span(span: Option<Span>) -> String {
    span.map_or(String::from("none"), |span| span.to_string())
}

fn min_runtime(length: Option<Span>) -> String {
    match length {
        Some(Span::ZERO) => String::from("free tier"),
        Some(_) | None => span(length),
    }
}

fn yes(answer: Option<bool>) -> String {
    String::from(match answer {
        None => "none",
        Some(true) => "yes",
        Some(false) => "no",
    })
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.budget, self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.sides();
        match self {
            Self::Opened(_) => write!(f, "opened with share {to}"),
            Self::Reopened(_) => write!(f, "reopened with share {to}"),
            Self::Closed(_) => {
                write!(f, "closed, takes no more submissions and lets work finish (share was {from})")
            }
            Self::Renamed { .. } => write!(f, "renamed from {from} to {to}"),
            Self::Share { .. } | Self::PoolShare { .. } => write!(f, "share {from} -> {to}"),
            Self::Owner { .. } => write!(f, "owner {from} -> {to}"),
            Self::MemberAdded(_) => write!(f, "member {to} added"),
            Self::MemberRemoved(_) => write!(f, "member {from} removed"),
            Self::DefaultMinRuntime { .. } => write!(f, "default minimum runtime {from} -> {to}"),
            Self::DefaultResumable { .. } => write!(f, "default resumable {from} -> {to}"),
            Self::DefaultTimeLimit { .. } => write!(f, "default time limit {from} -> {to}"),
        }
    }
}

/// Returns what would change if the tree became `file`: parents before children, in the file's order, what closes
/// last at each level. Empty if nothing would.
///
/// # Errors
/// When the file is no tree, or a leaf with live jobs would get budgets below it.
pub fn diff(state: &State, file: &TreeNode) -> Result<Vec<Change>, Rejection> {
    check(file)?;
    let Some(root) = state.budgets.get(&ROOT) else {
        let what = String::from("there is no budget tree yet");
        return Err(Rejection::new(Code::Founding, what, "", String::from("run `bursar cluster init`")));
    };
    let mut changes = Vec::new();
    if root.name != file.name {
        let what = What::Renamed { from: root.name.clone(), to: file.name.clone() };
        changes.push(Change { budget: root.name.to_string(), id: Some(ROOT), above: ROOT, what });
    }
    compare(state, ROOT, root, file, &mut changes);
    refuse_children_of_busy_leaves(state, &changes)?;
    Ok(changes)
}

fn compare(state: &State, id: BudgetId, now: &Budget, file: &TreeNode, changes: &mut Vec<Change>) {
    let name = label(state, id);
    let above = now.parent.unwrap_or(ROOT);
    if now.is_closed {
        changes.push(Change { budget: name.clone(), id: Some(id), above, what: What::Reopened(file.share) });
    } else if now.share != file.share {
        let what = What::Share { from: now.share, to: file.share };
        changes.push(Change { budget: name.clone(), id: Some(id), above, what });
    }
    let terms = compare_terms(now, file);
    changes.extend(terms.into_iter().map(|what| Change { budget: name.clone(), id: Some(id), above, what }));
    let existing = children_by_name(state, now);
    for below in &file.children {
        match existing.get(&below.name).and_then(|&id| Some((id, state.budgets.get(&id)?))) {
            Some((child, record)) => compare(state, child, record, below, changes),
            None => open(below, &path_below(state, id, &below.name), id, changes),
        }
    }
    let stays: BTreeSet<&Name> = file.children.iter().map(|child| &child.name).collect();
    for (child, record) in open_children(state, now).filter(|(_, record)| !stays.contains(&record.name)) {
        close(state, child, record, changes);
    }
}

/// Compares all but name, share and children.
fn compare_terms(now: &Budget, file: &TreeNode) -> Vec<What> {
    let mut found = pool_shares(&now.pools, &file.pools);
    if now.owner != file.owner {
        found.push(What::Owner { from: now.owner.clone(), to: file.owner.clone() });
    }
    found.extend(file.members.difference(&now.members).cloned().map(What::MemberAdded));
    found.extend(now.members.difference(&file.members).cloned().map(What::MemberRemoved));
    let (from, to) = (&now.defaults, &file.defaults);
    if from.min_runtime != to.min_runtime {
        found.push(What::DefaultMinRuntime { from: from.min_runtime, to: to.min_runtime });
    }
    if from.resumable != to.resumable {
        found.push(What::DefaultResumable { from: from.resumable, to: to.resumable });
    }
    if from.time_limit != to.time_limit {
        found.push(What::DefaultTimeLimit { from: from.time_limit, to: to.time_limit });
    }
    found
}

fn pool_shares(from: &BTreeMap<Name, Share>, to: &BTreeMap<Name, Share>) -> Vec<What> {
    let pools: BTreeSet<&Name> = from.keys().chain(to.keys()).collect();
    let change = |pool: &Name| {
        let (from, to) = (from.get(pool).copied(), to.get(pool).copied());
        (from != to).then(|| What::PoolShare { pool: pool.clone(), from, to })
    };
    pools.into_iter().filter_map(change).collect()
}

fn open(file: &TreeNode, path: &str, above: BudgetId, changes: &mut Vec<Change>) {
    let budget = String::from(path);
    changes.push(Change { budget: budget.clone(), id: None, above, what: What::Opened(file.share) });
    let pools = pool_shares(&BTreeMap::new(), &file.pools);
    changes.extend(pools.into_iter().map(|what| Change { budget: budget.clone(), id: None, above, what }));
    for child in &file.children {
        open(child, &format!("{path}/{}", child.name), above, changes);
    }
}

fn close(state: &State, id: BudgetId, record: &Budget, changes: &mut Vec<Change>) {
    let above = record.parent.unwrap_or(ROOT);
    changes.push(Change { budget: label(state, id), id: Some(id), above, what: What::Closed(record.share) });
    for (child, below) in open_children(state, record) {
        close(state, child, below, changes);
    }
}

fn path_below(state: &State, parent: BudgetId, name: &Name) -> String {
    if parent == ROOT { name.to_string() } else { format!("{}/{name}", label(state, parent)) }
}

/// Jobs are in leaves only, so a leaf with live jobs gets no budgets below it.
fn refuse_children_of_busy_leaves(state: &State, changes: &[Change]) -> Result<(), Rejection> {
    let grows = |change: &&Change| matches!(change.what, What::Opened(_) | What::Reopened(_));
    let is_leaf = |id: &BudgetId| state.budgets.get(id).is_some_and(|b| b.children.is_empty());
    let growing: BTreeSet<BudgetId> =
        changes.iter().filter(grows).map(|change| change.above).filter(is_leaf).collect();
    if growing.is_empty() {
        return Ok(());
    }
    let is_live = |phase: &Phase| !matches!(phase, Phase::Ended { .. });
    let Some((_, job)) =
        state.jobs.iter().find(|(_, job)| is_live(&job.phase) && growing.contains(&job.budget))
    else {
        return Ok(());
    };
    let name = label(state, job.budget);
    let what = format!("budget `{name}` has jobs of its own and would get budgets below it");
    let fix = format!("wait until its jobs have ended, or open the new budgets beside `{name}`");
    Err(Rejection::new(Code::BadTree, what, "jobs are in leaves only", fix))
}
