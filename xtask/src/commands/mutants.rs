//! `mutants`: mistakes planted in the planner and the ledger, each of which a law of the tests has to find.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::built::cargo;

/// A mistake, by its name in the core, and the law that finds it.
#[derive(Debug)]
pub struct Planted {
    /// What is planted.
    pub mutant: &'static str,
    /// The test that fails then.
    pub law: &'static str,
}

const fn planted(mutant: &'static str, law: &'static str) -> Planted {
    Planted { mutant, law }
}

/// All of them.
pub const PLANTED: &[Planted] = &[
    planted("highest-use-first", "lives::every_decision_is_the_one_that_the_rules_make"),
    planted("set-aside-forgotten", "lives::every_decision_is_the_one_that_the_rules_make"),
    planted("set-aside-kept", "lives::what_was_set_aside_returns_exactly"),
    planted("no-margin", "lives::whoever_gives_way_is_needed_and_somebody_starts_for_it_in_the_same_plan"),
    planted("leaves-compared", "lives::every_decision_is_the_one_that_the_rules_make"),
    planted(
        "anybody-is-taken",
        "lives::whoever_gives_way_is_needed_and_somebody_starts_for_it_in_the_same_plan",
    ),
    planted("nothing-trimmed", "victims::of_those_who_leave_for_a_gang_everybody_is_needed"),
    planted(
        "silence-is-dear",
        "lessons::lesson_13_whoever_reports_its_checkpoints_is_dearer_to_take_than_who_is_silent",
    ),
    planted("window-ignored", "reference::laws::the_planner_agrees_with_a_slow_and_obvious_one"),
    planted("one-fails-for-all", "lives::no_idle_gpu_is_left_that_a_waiting_job_could_use_at_any_moment"),
    planted("date-moves", "dates::laws::dates_move_by_nodes_that_fail_and_by_nothing_else"),
    planted(
        "backfill-anything",
        "reference::laws::every_date_is_the_one_that_a_slow_and_obvious_planner_gives",
    ),
    planted(
        "claim-with-margin",
        "adversaries::an_endless_job_of_its_own_budget_does_not_keep_a_gang_waiting",
    ),
    planted(
        "no-longer-protection",
        "adversaries::a_minimum_below_restart_and_checkpoint_still_makes_progress",
    ),
];

/// Runs each law with its mistake, and all laws without any.
///
/// # Errors
///
/// When a law does not find its mistake, or finds one where none was planted.
pub fn mutants() -> Result<()> {
    let mut laws: Vec<&str> = PLANTED.iter().map(|planted| planted.law).collect();
    laws.sort_unstable();
    laws.dedup();
    ensure!(keeps(&laws, None)?, "a law is broken though nothing was planted");
    println!("{} laws hold with nothing planted", laws.len());
    let mut missed = Vec::new();
    for Planted { mutant, law } in PLANTED {
        let is_found = !keeps(&[law], Some(mutant))?;
        println!("{mutant:<24} {} {law}", if is_found { "is found by" } else { "IS MISSED by" });
        if !is_found {
            missed.push(*mutant);
        }
    }
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

/// Whether the tests of those names pass.
fn keeps(laws: &[&str], mutant: Option<&str>) -> Result<bool> {
    let mut tests: Command = cargo();
    tests.args([
        "test",
        "--quiet",
        "--package",
        "scheduler-core",
        "--features",
        "mutants",
        "--test",
        "it",
        "--",
    ]);
    tests.arg("--exact").args(laws);
    match mutant {
        Some(mutant) => tests.env("BURSAR_MUTANT", mutant).stdout(Stdio::null()).stderr(Stdio::null()),
        None => tests.env_remove("BURSAR_MUTANT"),
    };
    let status = tests.status().context("failed to start cargo")?;
    Ok(status.success())
}
