//! Explanations of what preemption, gangs and drains do to a job.

mod budget;
mod closed;
mod planned;
mod preempted;
mod running;
mod starting;
mod tokens;
mod waiting;

use scheduler_core::explain::Explanation;
use scheduler_core::unit::{Span, Timestamp};

/// Shows an explanation: its sentence, each reason with its token and end, groups of facts, changes and help; moments
/// as time from `now`.
pub fn show(found: &Explanation, now: Timestamp) -> Vec<String> {
    let from = |at: Timestamp| {
        let (sign, span) = if at < now { ('-', now.since(at)) } else { ('+', at.since(now)) };
        format!("{sign}{span}")
    };
    let mut shown = vec![found.sentence.clone()];
    shown.extend(found.reasons.iter().map(|reason| {
        let until = reason.until.map_or(String::new(), |at| format!(" until {}", from(at)));
        format!("{}{until}, {}: {}", reason.token.as_str(), reason.who.as_str(), reason.sentence)
    }));
    for group in &found.facts {
        let facts = group.facts.iter().map(|fact| {
            let at = fact.at.map_or(String::new(), |at| format!(" {}", from(at)));
            let value = if fact.value.is_empty() { String::new() } else { format!(" {}", fact.value) };
            format!("  {}:{value}{at}", fact.what)
        });
        shown.push(group.title.to_owned());
        shown.extend(facts);
    }
    shown.extend(found.earliest.map(|at| format!("earliest {}", from(at))));
    shown.extend(found.would_change.iter().map(|line| format!("change {line}")));
    shown.extend(found.could_help.iter().map(|line| format!("help {line}")));
    shown
}

/// Compares all lines but the groups that `leave` names.
pub fn check(found: &Explanation, now: Timestamp, leave: &[&str], expected: &str) {
    let mut shown = Vec::new();
    let mut is_left = false;
    for line in show(found, now) {
        if !line.starts_with("  ") {
            is_left = leave.contains(&line.as_str());
        }
        if !is_left {
            shown.push(line.trim().to_owned());
        }
    }
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown, expected, "found\n{}", shown.join("\n"));
}

pub const MINUTE: Span = Span::from_mins(1);
