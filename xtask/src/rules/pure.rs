//! Crates that decide and do nothing: no standard library, clock, threads, floats or unordered maps.

use super::source::{Source, word_starts};
use super::{Finding, Text};

/// The crates that must be `no_std`, by folder.
pub const PURE: &[&str] = &["scheduler-core"];

/// Words that have no place in such a crate, and why.
const BANNED: &[(&str, &str)] = &[
    ("std", "the core is no_std"),
    ("f32", "rounding of floats is not part of a replicated result"),
    ("f64", "rounding of floats is not part of a replicated result"),
    ("HashMap", "iteration order is part of the result: use an ordered map"),
    ("HashSet", "iteration order is part of the result: use an ordered set"),
    ("Instant", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("thread", "the core runs where it is called"),
    ("async", "the core never waits"),
    ("await", "the core never waits"),
    ("println", "the core returns values"),
    ("eprintln", "the core returns values"),
    ("getrandom", "randomness is a seeded generator that is passed in"),
];

/// Returns what breaks purity in the texts of `krate`: a missing `#![no_std]`, or a banned word in its code.
pub fn check(krate: &str, texts: &[Text]) -> Vec<Finding> {
    let root = format!("{krate}/src/lib.rs");
    let inside = format!("{krate}/src/");
    let mut findings = Vec::new();
    let mut has_no_std = false;
    for text in texts.iter().filter(|text| text.is_rust() && text.path.starts_with(&inside)) {
        let source = Source::scan(text);
        has_no_std |= text.path == root && source.code.contains("#![no_std]");
        for (number, line) in source.lines().filter(|(number, _)| !source.is_test(*number)) {
            for (word, why) in BANNED {
                if word_starts(line, word).next().is_some() {
                    findings.push(Finding::new(&text.path, number, format!("`{word}`: {why}")));
                }
            }
        }
    }
    if !has_no_std {
        findings.push(Finding::new(&root, 0, "`#![no_std]` is missing"));
    }
    findings
}
