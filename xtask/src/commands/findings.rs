//! `findings`: makes `docs/findings.md` anew.

use anyhow::{Context as _, Result, ensure};

use crate::built::cargo;

/// Runs real traces through the simulator and writes the page: all of it, or the parts that are named. `BURSAR_TRACES` names
/// the folder of the traces.
///
/// # Errors
///
/// When the traces are not there, or the program fails.
pub fn findings(parts: &[String]) -> Result<()> {
    ensure!(
        std::env::var_os("BURSAR_TRACES").is_some(),
        "BURSAR_TRACES names no folder with traces; docs/users/traces.md says where they come from"
    );
    let mut made = cargo();
    made.args([
        "run",
        "--release",
        "--package",
        "simulator",
        "--example",
        "findings",
        "--",
        "docs/findings.md",
    ]);
    made.args(parts);
    let status = made.status().context("failed to start cargo")?;
    ensure!(status.success(), "the findings were not made: {status}");
    println!("wrote docs/findings.md");
    Ok(())
}
