//! Paths of the machine that something was written on, kept out of the repository.

use super::{Finding, Text};

/// Beginnings of such paths, in two halves so that this file does not contain them.
const MACHINE: &[(&str, &str)] = &[("/wo", "rk/"), ("/ro", "ot/"), ("/tmp/", "b/"), ("/home/", "user/")];

/// Returns the paths of a machine in `text`.
pub fn check(text: &Text) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.text.lines()) {
        for (head, tail) in MACHINE {
            let path = format!("{head}{tail}");
            let is_start = |at: usize| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}'))
            };
            if line.match_indices(&path).any(|(at, _)| is_start(at)) {
                findings.push(Finding::new(
                    &text.path,
                    number,
                    format!("`{path}…` is a path of one machine"),
                ));
            }
        }
    }
    findings
}
