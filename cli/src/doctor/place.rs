//! A replica's data directory, looked at on its machine, without a server and without changing anything.

use std::path::Path;

use super::diagnose::{Finding, Severity};
use crate::codes;
use crate::failure::Failure;
use crate::form::size;

/// Looks into a directory; returns what it is in words, and what is wrong with it.
///
/// # Errors
/// When it cannot be read at all.
pub fn examine(dir: &Path) -> Result<(String, Vec<Finding>), Failure> {
    let scratch = tempdir()?;
    let seen = server::inspect(dir, scratch.path()).map_err(|error| {
        Failure::new(codes::FILE, format!("cannot look into {}", dir.display()))
            .why(error.to_string())
            .fix("run it as the account that the replica runs as")
    })?;
    let mut says = format!("{}: ", dir.display());
    match &seen.identity {
        Some((cluster, replica)) => says.push_str(&format!("r{replica} of {cluster}\n")),
        None => says.push_str("belongs to no control plane\n"),
    }
    if let Some(holder) = &seen.holder {
        says.push_str(&format!("held by process {holder}, which runs\n"));
    }
    let number = |n: Option<u64>| n.map_or("none".into(), |n| n.to_string());
    if seen.was_checked && seen.damage.is_none() {
        says.push_str(&format!(
            "log up to {}, snapshot at {}, last vote in term {}\n",
            number(seen.last_log),
            number(seen.snapshot),
            seen.term
        ));
    }
    says.push_str(&format!(
        "log {}, snapshots {}, {} free on the disk\n",
        size::show(seen.log_bytes),
        size::show(seen.snapshot_bytes),
        size::show(seen.free_bytes)
    ));
    Ok((says, findings(dir, &seen)))
}

fn findings(dir: &Path, seen: &server::Inspection) -> Vec<Finding> {
    let mut findings = Vec::new();
    let about = dir.display().to_string();
    let mut add = |severity, reason, says: String, fix: &str| {
        findings.push(Finding { severity, about: about.clone(), reason, says, fix: fix.into() });
    };
    let rebuild = "bursar server rebuild -c FILE, on this machine; it keeps this directory aside";
    if let Some(what) = &seen.damage {
        add(Severity::Error, "data.damaged", format!("the data is damaged: {what}"), rebuild);
    }
    if let Some(by) = seen.removed_by {
        let says = format!("this replica was removed from its cluster, by entry {by}");
        add(Severity::Error, "data.removed", says, rebuild);
    }
    if let Some(why) = &seen.unchecked {
        let says = format!("log and snapshots were not checked: {why}");
        add(
            Severity::Note,
            "data.unchecked",
            says,
            "stop the replica, or set TMPDIR to a larger disk, and repeat",
        );
    }
    if seen.identity.is_none() && seen.damage.is_none() {
        let says = "an empty directory waits; it never founds a cluster by itself".to_owned();
        add(
            Severity::Warning,
            "data.empty",
            says,
            "bursar server -c FILE, then bursar cluster member add ADDRESS; or bursar server rebuild -c FILE if it \
             was not empty before",
        );
    }
    if seen.is_low {
        let says = format!("the disk is nearly full: {} are free", size::show(seen.free_bytes));
        add(Severity::Error, "data.disk", says, "free space outside this directory");
    }
    findings
}

fn tempdir() -> Result<Scratch, Failure> {
    let path = std::env::temp_dir().join(format!("bursar-doctor-{}", std::process::id()));
    server::make_private(&path).map_err(|error| {
        Failure::new(codes::FILE, format!("cannot make {}", path.display())).why(error.to_string())
    })?;
    Ok(Scratch(path))
}

/// A folder that goes with the value.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
