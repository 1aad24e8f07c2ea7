//! What cargo says about our packages and their dependencies.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::built::cargo;

/// The answer of `cargo metadata`, as far as it is read here.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// All packages of the graph.
    pub packages: Vec<Package>,
    /// Ids of our own.
    pub workspace_members: BTreeSet<String>,
}

/// A package.
#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    /// Its id in this answer.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence expression.
    pub license: Option<String>,
    /// Its dependencies as declared.
    pub dependencies: Vec<Dependency>,
}

/// A declared dependency.
#[derive(Debug, Clone, Deserialize)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// `None`, `dev` or `build`.
    pub kind: Option<String>,
    /// The version requirement.
    pub req: String,
}

impl Metadata {
    /// Asks cargo for the graph on Linux, the platform that Bursar runs on.
    ///
    /// # Errors
    ///
    /// When cargo fails, for example because `Cargo.lock` is stale.
    pub fn read() -> Result<Self> {
        let output = cargo()
            .args(["metadata", "--format-version=1", "--locked"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .output()
            .context("failed to start cargo")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        serde_json::from_slice(&output.stdout).context("failed to read cargo's metadata")
    }

    /// Returns our own packages, by name.
    pub fn ours(&self) -> Vec<&Package> {
        let mut ours: Vec<_> =
            self.packages.iter().filter(|package| self.workspace_members.contains(&package.id)).collect();
        ours.sort_by_key(|package| &package.name);
        ours
    }
}
