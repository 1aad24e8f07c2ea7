//! The rules hold over the repository as it is.

use xtask::commands;
use xtask::rules::Finding;

fn none(findings: Vec<Finding>) {
    let listed: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(listed.is_empty(), "{} findings:\n{}", listed.len(), listed.join("\n"));
}

#[test]
fn repository_is_tidy() {
    none(commands::tidy().unwrap());
}

#[test]
fn arrows_between_crates_are_those_of_the_table() {
    none(commands::layers().unwrap());
}

#[test]
fn dependencies_are_permissive_pinned_and_single() {
    none(commands::dependencies().unwrap());
}
