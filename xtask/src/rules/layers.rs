//! Which crate may use which: the arrows of `docs/ARCHITECTURE.md` as data.
//!
//! A new arrow is a design change: a commit of its own, and a line here.

use super::Finding;
use super::metadata::{Metadata, Package};

/// One of our crates and the others of ours that it may use.
#[derive(Debug)]
pub struct Layer {
    /// The crate.
    pub name: &'static str,
    /// What it may use when it ships, build scripts included.
    pub uses: &'static [&'static str],
    /// What its tests may use besides.
    pub tests_use: &'static [&'static str],
}

/// The layer table.
pub const LAYERS: &[Layer] = &[
    Layer { name: "scheduler-core", uses: &[], tests_use: &[] },
    Layer { name: "proto", uses: &["scheduler-core"], tests_use: &[] },
    Layer { name: "raft-store", uses: &[], tests_use: &["xtask"] },
    Layer { name: "server", uses: &["scheduler-core", "proto", "raft-store"], tests_use: &["xtask"] },
    Layer {
        name: "node-agent",
        uses: &["scheduler-core", "proto", "shim"],
        tests_use: &["xtask", "fake-nvml"],
    },
    Layer { name: "shim", uses: &[], tests_use: &["xtask"] },
    Layer { name: "fake-nvml", uses: &[], tests_use: &[] },
    Layer { name: "simulator", uses: &["scheduler-core"], tests_use: &["xtask"] },
    Layer {
        name: "cli",
        uses: &["scheduler-core", "proto", "server", "node-agent", "simulator"],
        tests_use: &["xtask"],
    },
    Layer {
        name: "chaos-tests",
        uses: &["scheduler-core", "proto", "raft-store", "server", "node-agent", "simulator", "cli", "xtask"],
        tests_use: &[],
    },
    Layer { name: "xtask", uses: &[], tests_use: &[] },
];

/// Dependencies from outside that one or a few of our crates keep to themselves.
pub const CONFINED: &[(&str, &[&str])] = &[
    ("openraft", &["raft-store"]),
    ("sled", &["raft-store"]),
    ("bincode", &["raft-store"]),
    ("nvml-wrapper", &["node-agent", "fake-nvml"]),
    ("clap", &["cli"]),
    ("comfy-table", &["cli"]),
];

/// Dependencies that a crate must not have, however useful: it would stop being what it is.
pub const FORBIDDEN: &[(&str, &[&str])] = &[
    ("scheduler-core", &["tokio", "serde", "prost", "tonic", "getrandom", "tracing", "libc", "jiff"]),
    ("proto", &["tokio", "sled", "openraft"]),
    ("shim", &["tokio", "serde", "anyhow", "tracing"]),
];

/// Returns the arrows that the tables do not have.
pub fn check(metadata: &Metadata) -> Vec<Finding> {
    let ours = metadata.ours();
    let is_ours = |name: &str| ours.iter().any(|package| package.name == name);
    let mut findings = Vec::new();
    for package in &ours {
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == package.name) else {
            findings.push(Finding::new(&package.name, 0, "is not in the layer table"));
            continue;
        };
        for dependency in &package.dependencies {
            let is_for_tests = dependency.kind.as_deref() == Some("dev");
            let name = dependency.name.as_str();
            let is_allowed = layer.uses.contains(&name) || (is_for_tests && layer.tests_use.contains(&name));
            if is_ours(name) && !is_allowed {
                let whose = if is_for_tests { "its tests must not use" } else { "must not use" };
                findings.push(Finding::new(&package.name, 0, format!("{whose} `{name}`")));
            }
            findings.extend(outside(package, name));
        }
    }
    findings
}

fn outside(package: &Package, name: &str) -> Option<Finding> {
    if let Some((_, owners)) = CONFINED.iter().find(|(confined, _)| *confined == name)
        && !owners.contains(&package.name.as_str())
    {
        let what = format!("must not use `{name}`, which is confined to {}", owners.join(", "));
        return Some(Finding::new(&package.name, 0, what));
    }
    let (_, forbidden) = FORBIDDEN.iter().find(|(krate, _)| *krate == package.name)?;
    forbidden.contains(&name).then(|| Finding::new(&package.name, 0, format!("must not use `{name}`")))
}
