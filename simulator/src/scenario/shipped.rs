//! Scenarios that come with the program, by name.

use super::{Error, Scenario};

/// Their names and texts.
pub const SHIPPED: &[(&str, &str)] = &[
    ("debug-storm", include_str!("../../scenarios/debug-storm.yaml")),
    ("everyone-max", include_str!("../../scenarios/everyone-max.yaml")),
    ("large-gang", include_str!("../../scenarios/large-gang.yaml")),
    ("restart-failures", include_str!("../../scenarios/restart-failures.yaml")),
    ("returning-team", include_str!("../../scenarios/returning-team.yaml")),
    ("week-of-a-lab", include_str!("../../scenarios/week-of-a-lab.yaml")),
    ("month-at-3x", include_str!("../../scenarios/month-at-3x.yaml")),
];

/// Returns a shipped scenario by its name; none if there is no such one.
///
/// # Errors
/// When its text is no scenario, which a test rules out.
pub fn shipped(name: &str) -> Option<Result<Scenario, Error>> {
    let (name, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
    Some(Scenario::parse(name, text))
}
