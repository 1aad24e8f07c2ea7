//! Licences, pins and duplicates of what we depend on.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::metadata::Metadata;

/// Licences under which anybody may use Bursar for anything.
pub const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages pinned to one exact version, because formats and safety depend on them (docs/adr/0002).
pub const PINNED: &[&str] =
    &["bincode", "openraft", "prost", "prost-build", "sled", "tonic", "tonic-prost", "tonic-prost-build"];

/// Packages that the graph has in more than one version, and who brings the second.
pub const DUPLICATES: &[(&str, &str)] = &[
    ("base64", "0.22: tonic; 0.23: serde-saphyr"),
    ("cpufeatures", "0.2: sha2 of openraft's quorum-set; 0.3: rand"),
    ("hashbrown", "0.15: petgraph, at build time"),
    ("miniz_oxide", "0.8: png, in the simulator's tests; 0.9: flate2"),
    ("parking_lot", "0.11: sled"),
    ("parking_lot_core", "0.8: sled"),
    ("prettyplease", "0.2: tonic-build; 0.3: prost-build; at build time"),
    ("rand", "0.8: phf_generator, at build time"),
    ("rand_core", "0.6: phf_generator, at build time"),
    ("syn", "3: async-trait and the newest derives; 2: the rest; at build time"),
    ("thiserror", "1: nvml-wrapper"),
    ("thiserror-impl", "1: nvml-wrapper"),
    ("unicode-width", "0.1: miette of protox, at build time"),
];

/// Returns the packages whose licence is not permissive.
pub fn licences(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        match &package.license {
            None => findings.push(Finding::new(&package.name, 0, "names no licence")),
            Some(licence) if !is_permissive(licence) => {
                findings.push(Finding::new(&package.name, 0, format!("`{licence}` is not permissive")));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Returns whether some choice that `expression` leaves us is permissive throughout. One that cannot be read is not.
pub fn is_permissive(expression: &str) -> bool {
    let tokens = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = tokens.split_whitespace().collect();
    let mut at = 0;
    any_of(&tokens, &mut at).unwrap_or(false) && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize) -> Option<bool> {
    let mut permissive = all_of(tokens, at)?;
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        permissive |= all_of(tokens, at)?;
    }
    Some(permissive)
}

fn all_of(tokens: &[&str], at: &mut usize) -> Option<bool> {
    let mut permissive = one(tokens, at)?;
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        permissive &= one(tokens, at)?;
    }
    Some(permissive)
}

fn one(tokens: &[&str], at: &mut usize) -> Option<bool> {
    let token = tokens.get(*at)?;
    *at += 1;
    if *token == "(" {
        let permissive = any_of(tokens, at)?;
        (*tokens.get(*at)? == ")").then_some(())?;
        *at += 1;
        return Some(permissive);
    }
    if tokens.get(*at) == Some(&"WITH") {
        let name = format!("{token} WITH {}", tokens.get(*at + 1)?);
        *at += 2;
        return Some(PERMISSIVE.contains(&name.as_str()));
    }
    Some(PERMISSIVE.contains(token))
}

/// Returns the pinned packages that are not pinned exactly, or that the graph has more than once.
pub fn pins(metadata: &Metadata) -> Vec<Finding> {
    let versions = versions(metadata);
    let mut findings = Vec::new();
    for name in PINNED {
        if versions.get(name).is_some_and(|found| found.len() > 1) {
            findings.push(Finding::new(name, 0, "is pinned, and in the graph more than once"));
        }
    }
    for package in metadata.ours() {
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            if PINNED.contains(&name) && !dependency.req.starts_with('=') {
                let what = format!("uses `{name}` {}, which is pinned with `=`", dependency.req);
                findings.push(Finding::new(&package.name, 0, what));
            }
        }
    }
    findings
}

/// Returns duplicates that are not listed, and listed ones that are gone.
pub fn duplicates(metadata: &Metadata) -> Vec<Finding> {
    let versions = versions(metadata);
    let mut findings = Vec::new();
    for (name, found) in &versions {
        if found.len() > 1 && !DUPLICATES.iter().any(|(known, _)| known == name) {
            let found: Vec<_> = found.iter().copied().collect();
            let what = format!("in the graph as {}: unite them, or list who brings it", found.join(" and "));
            findings.push(Finding::new(name, 0, what));
        }
    }
    for (name, _) in DUPLICATES {
        if versions.get(name).is_none_or(|found| found.len() < 2) {
            findings.push(Finding::new(name, 0, "is listed as a duplicate and is none any more"));
        }
    }
    findings
}

fn versions(metadata: &Metadata) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    versions
}
