//! Why a budget goes before or after its siblings.

use scheduler_core::budget::find;
use scheduler_core::explain::{self, BudgetStory};
use scheduler_core::state::State;

use crate::lab::{NOW, state};

fn story(state: &State, path: &str) -> BudgetStory {
    let id = find(state, path).expect("a known budget");
    explain::budget(state, id, NOW).expect("it is told")
}

/// The facts as lines: title, then what and value.
fn told(state: &State, path: &str) -> String {
    let story = story(state, path);
    let mut text = format!("{}\n", story.sentence);
    for group in &story.facts {
        text += &format!("{}\n", group.title);
        for fact in &group.facts {
            text += &format!("  {} | {}\n", fact.what, fact.value);
        }
    }
    text
}

const LAB: &str = "node n1 8 h100\nnode n2 8 h100\nbudget a 50\nbudget a/x 60\nbudget a/y 40\nbudget b 30\n";

#[test]
fn a_budget_is_told_level_by_level_with_both_sides_numbers() {
    let lab = state(&format!(
        "{LAB}runs 1.1 a/x 8 n1 0-7 for=100h min=2h\nruns 2.1 b 4 n2 0-3 for=20h min=40h\njob 9 a/y 2"
    ));
    let text = told(&lab, "a/x");
    // 16 GPUs of 168 h are 2,688 GPU-h; a has half of it, x 60 % of that.
    assert!(
        text.starts_with("a/x is at 0.99 of its allocation and goes 2 of 2, after a/y at 0.00\n"),
        "{text}"
    );
    for line in [
        "  1. b | 0.19: 80.00 GPU-h charged, 80.00 GPU-h set aside, of 806.40 GPU-h",
        "  2. a (its side) | 0.59: 800.00 GPU-h charged, 0.00 GPU-h set aside, of 1344.00 GPU-h",
        "  2. a/x (its side) | 0.99: 800.00 GPU-h charged, 0.00 GPU-h set aside, of 806.40 GPU-h",
        "  in 1 h | 0.00 GPU-h leave its window; its use goes from 0.99 to 1.00",
        "  is charged now | 8 GPUs each hour",
        "  set aside | 0.00 GPU-h",
        "  idle | 4 GPUs",
        // What could be taken from it: a/y waits and goes before it.
        "  past protection | 8 GPUs",
        "  by a/y (0.00, its side 0.99) | 8 GPUs; 1 job waits",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
    }
    let text = told(&lab, "b");
    for line in [
        "  set aside | 80.00 GPU-h",
        "  the next protection to end | 4 GPUs",
        // a goes after b by more than the margin.
        "  past protection, of a (0.59, its side 0.19) | 8 GPUs",
        "  past protection, of who goes before it or within the margin | 0 GPUs",
        "  who could take them | no budget with a job in line",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
    }
}

#[test]
fn the_root_is_the_whole_and_several_pools_are_told_apart() {
    let lab = state(&format!("{LAB}node n3 8 h100 pool=west\n"));
    let text = told(&lab, "a");
    assert!(text.starts_with("in main: a is at 0.00"), "{text}");
    assert!(text.contains("; in west: a is at 0.00"), "{text}");
    assert!(text.contains("  in pool | west\n"), "{text}");
    let root = explain::budget(&lab, scheduler_core::budget::ROOT, NOW).expect("there is a root");
    assert!(root.sentence.contains("is the whole"), "{}", root.sentence);
    assert_eq!(explain::budget(&lab, scheduler_core::id::BudgetId::new(99), NOW), None);
}

#[test]
fn what_leaves_the_window_is_what_was_charged_a_window_ago() {
    // 170 hours ago it began: the first two are out already, and each hour eight GPU-hours more leave.
    let lab = state("node n1 8 h100\nbudget a 100\nruns 1.1 a 8 n1 0-7 for=170h min=2h was\n");
    let text = told(&lab, "a");
    assert!(
        text.contains("  in 8 h | 64.00 GPU-h leave its window; its use goes from 1.00 to 0.95\n"),
        "{text}"
    );
    assert!(text.contains("with no sibling"), "{text}");
}
