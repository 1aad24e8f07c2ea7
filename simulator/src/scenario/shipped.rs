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
    ("acme-kalos", include_str!("../../scenarios/acme-kalos.yaml")),
    ("anl-intrepid", include_str!("../../scenarios/anl-intrepid.yaml")),
    ("eagle", include_str!("../../scenarios/eagle.yaml")),
    ("helios-venus", include_str!("../../scenarios/helios-venus.yaml")),
    ("nasa-ipsc", include_str!("../../scenarios/nasa-ipsc.yaml")),
    ("openb", include_str!("../../scenarios/openb.yaml")),
    ("philly", include_str!("../../scenarios/philly.yaml")),
];

/// Where the traces of scenarios that ship are looked for: they are others' and not part of the program
/// (docs/users/traces.md).
pub const TRACES: &str = "BURSAR_TRACES";

/// Returns a shipped scenario by its name; none if there is no such one.
///
/// # Errors
/// When its text is no scenario, which a test rules out.
pub fn shipped(name: &str) -> Option<Result<Scenario, Error>> {
    let (name, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
    Some(Scenario::parse(name, text))
}
