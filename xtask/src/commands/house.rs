//! The rules of the house over the whole repository.

use anyhow::Result;

use crate::rules::metadata::Metadata;
use crate::rules::{Finding, dependencies as deps, docs, layers as arrows, paths, pure, repository_texts};
use crate::rules::{tidy as lengths, words};

/// Returns what is untidy: lengths, banned calls, words, paths of a machine, dead links, impure core.
///
/// # Errors
///
/// When the repository cannot be read.
pub fn tidy() -> Result<Vec<Finding>> {
    let texts = repository_texts()?;
    let mut findings = Vec::new();
    for text in &texts {
        if text.is_rust() {
            findings.extend(lengths::lengths(text));
            findings.extend(lengths::banned_calls(text));
            findings.extend(lengths::borrowed_twice(text));
        }
        findings.extend(words::check(text));
        findings.extend(paths::check(text));
    }
    for krate in pure::PURE {
        findings.extend(pure::check(krate, &texts));
    }
    findings.extend(docs::dead_links(&texts));
    findings.sort();
    Ok(findings)
}

/// Returns arrows between crates that the layer table does not have.
///
/// # Errors
///
/// When cargo cannot describe the workspace.
pub fn layers() -> Result<Vec<Finding>> {
    Ok(arrows::check(&Metadata::read()?))
}

/// Returns dependencies with a licence, a pin or a duplicate that is not as agreed.
///
/// # Errors
///
/// When cargo cannot describe the workspace.
pub fn dependencies() -> Result<Vec<Finding>> {
    let metadata = Metadata::read()?;
    Ok([deps::licences(&metadata), deps::pins(&metadata), deps::duplicates(&metadata)].concat())
}
