//! The file of a budget tree: what `budget plan` and `budget apply` read.

use std::collections::BTreeMap;
use std::path::Path;

use proto::v1::{ContractDefaults, PoolShare, TreeNode};
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::failure::Failure;
use crate::submission::{Duration, Origin, Percent, yaml};

/// The whole of the parent.
const WHOLE_PPM: u32 = 1_000_000;

/// A budget as a file says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    name: Spanned<String>,
    share: Option<Spanned<Percent>>,
    /// Another share in these pools.
    #[serde(default)]
    pools: BTreeMap<String, Percent>,
    owner: Option<String>,
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    children: Vec<Budget>,
}

/// What an owner sets for submissions that say nothing themselves.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    min_runtime: Option<Duration>,
    resumable: Option<bool>,
    time_limit: Option<Duration>,
}

/// A tree, and where its budgets stand.
#[derive(Debug)]
pub struct TreeFile {
    /// As it goes out.
    pub tree: TreeNode,
    origin: Origin,
    budget: Budget,
}

/// Reads a tree.
///
/// # Errors
/// When the file cannot be read, or is not a tree.
pub fn read(path: &Path) -> Result<TreeFile, Failure> {
    parse(Origin::new(path, &crate::shell::read_text(path)?))
}

/// Reads a tree from text.
///
/// # Errors
/// When it is not a tree.
pub fn parse(origin: Origin) -> Result<TreeFile, Failure> {
    let budget: Budget = yaml(&origin)?;
    if let Some(share) = budget.share.as_ref().filter(|share| share.value.0 != WHOLE_PPM) {
        let mark = origin.mark(share.referenced, "the root is the whole").into_iter().collect();
        return Err(Failure::new(1306, "the root's share is not 100")
            .at(origin.place(mark))
            .fix("leave `share` out here"));
    }
    let tree = node(&budget, true, &origin)?;
    Ok(TreeFile { tree, origin, budget })
}

fn node(budget: &Budget, is_root: bool, origin: &Origin) -> Result<TreeNode, Failure> {
    let share_ppm = match &budget.share {
        Some(share) => share.value.0,
        None if is_root => WHOLE_PPM,
        None => {
            let mark = origin.mark(budget.name.referenced, "no share").into_iter().collect();
            return Err(Failure::new(
                crate::codes::BAD_FILE,
                format!("budget `{}` has no share", budget.name.value),
            )
            .at(origin.place(mark))
            .fix("add `share:` with percent of the budget above; 0 is allowed"));
        }
    };
    let children =
        budget.children.iter().map(|child| node(child, false, origin)).collect::<Result<_, _>>()?;
    let d = &budget.defaults;
    let has_defaults = d.min_runtime.is_some() || d.resumable.is_some() || d.time_limit.is_some();
    let defaults = ContractDefaults {
        min_runtime_ms: d.min_runtime.map(|time| time.0),
        resumable: d.resumable,
        time_limit_ms: d.time_limit.map(|time| time.0),
    };
    Ok(TreeNode {
        name: budget.name.value.clone(),
        share_ppm,
        pools: budget
            .pools
            .iter()
            .map(|(pool, share)| PoolShare { pool: pool.clone(), share_ppm: share.0 })
            .collect(),
        owner: budget.owner.clone(),
        members: budget.members.clone(),
        defaults: has_defaults.then_some(defaults),
        children,
    })
}

impl TreeFile {
    /// Points a refusal to the budget it is about, where one can be told.
    pub fn point(&self, failure: Failure) -> Failure {
        let marks = match failure.code {
            1305 => over_whole(&self.budget).map(|children| {
                let mark = |child: &Budget| self.origin.mark(child.share.as_ref()?.referenced, "");
                children.iter().filter_map(mark).collect()
            }),
            1306 => repeated(&self.budget)
                .map(|names| names.iter().filter_map(|name| self.origin.mark(name.referenced, "")).collect()),
            _ => None,
        };
        let place = marks.and_then(|marks| self.origin.place(marks));
        failure.at(place).closing("nothing was changed")
    }
}

/// Returns the first siblings that add up to more than their parent.
fn over_whole(budget: &Budget) -> Option<&[Budget]> {
    let share = |child: &Budget| child.share.as_ref().map_or(0, |share| u64::from(share.value.0));
    let sum: u64 = budget.children.iter().map(share).sum();
    if sum > u64::from(WHOLE_PPM) {
        return Some(&budget.children);
    }
    budget.children.iter().find_map(over_whole)
}

/// Returns the first two siblings of one name.
fn repeated(budget: &Budget) -> Option<Vec<&Spanned<String>>> {
    for (n, child) in budget.children.iter().enumerate() {
        let is_same = |other: &&Budget| other.name.value == child.name.value;
        if let Some(other) = budget.children[n + 1..].iter().find(is_same) {
            return Some(vec![&child.name, &other.name]);
        }
    }
    budget.children.iter().find_map(repeated)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::failure::Failure;
    use crate::form::Style;
    use crate::submission::Origin;

    fn origin(text: &str) -> Origin {
        Origin { file: "budgets.yaml".into(), text: text.into() }
    }

    #[test]
    fn the_demo_tree_is_one() {
        let tree = parse(origin(include_str!("../../examples/budgets.yaml"))).expect("the example").tree;
        assert_eq!((tree.name.as_str(), tree.share_ppm, tree.children.len()), ("lab", 1_000_000, 3));
        let agents = &tree.children[0].children[0];
        assert_eq!(agents.members, ["ana", "amir"]);
        assert_eq!(agents.defaults.and_then(|defaults| defaults.min_runtime_ms), Some(3_600_000));
    }

    #[test]
    fn faults_point_to_their_line() {
        let bad =
            parse(origin("name: a\nchildren:\n  - name: b\n    shre: 20\n")).expect_err("unknown field");
        assert_eq!(
            bad.render(Style::plain()),
            "error[B1012]: unknown field `shre`
  budgets.yaml:4:5
   4 |     shre: 20
     |     ^^^^ no such field
  fix   did you mean `share`?
"
        );
        let bad = parse(origin("name: a\nchildren:\n  - { name: b, share: 120 }\n")).expect_err("too much");
        assert!(bad.render(Style::plain()).contains("more than the whole"), "{bad:?}");
        let bad = parse(origin("name: a\nchildren:\n  - { name: b }\n")).expect_err("no share");
        assert_eq!(bad.what, "budget `b` has no share");
    }

    #[test]
    fn siblings_over_the_whole_are_marked() {
        let text = "name: a\nchildren:\n  - { name: b, share: 60 }\n  - { name: c, share: 50 }\n";
        let file = parse(origin(text)).expect("the sum is judged by the control plane");
        let told = file.point(Failure::new(1305, "b and c add up to 110 %")).render(Style::plain());
        assert!(
            told.contains("budgets.yaml:3:23") && told.contains("   4 |   - { name: c, share: 50 }"),
            "{told}"
        );
        assert!(told.ends_with("nothing was changed\n"), "{told}");
    }
}
