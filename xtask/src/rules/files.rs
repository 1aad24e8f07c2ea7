//! The texts of the repository.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::built::workspace_root;

/// A text file of the repository.
#[derive(Debug, Clone)]
pub struct Text {
    /// The path relative to the repository, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

impl Text {
    /// Returns a text; tests make their own this way.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Returns whether this is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Directories at the root that hold no text of ours, tracked or not.
const NOT_OURS: [&str; 3] = ["target", ".git", "shared"];

/// Reads all text files that are, or could be, in the repository: what git tracks and what it does not ignore. What is no
/// text, a picture, is there without one: pages link to it.
///
/// # Errors
///
/// When a directory or a file cannot be read.
pub fn repository_texts() -> Result<Vec<Text>> {
    let root = workspace_root();
    let mut paths = match listed_by_git(&root) {
        Some(paths) => paths,
        None => {
            let mut paths = Vec::new();
            walk(&root, "", &mut paths)?;
            paths
        }
    };
    let is_ours = |path: &String| !NOT_OURS.iter().any(|dir| path.split('/').next() == Some(dir));
    paths.retain(is_ours);
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let file = root.join(&path);
        if !file.is_file() {
            continue;
        }
        let bytes = std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
        texts.push(Text { path, text: String::from_utf8(bytes).unwrap_or_default() });
    }
    ensure!(texts.len() > 10, "only {} texts found in {}", texts.len(), root.display());
    Ok(texts)
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()?;
    let listed = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> = listed.split('\0').filter(|path| !path.is_empty()).map(String::from).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(dir: &Path, prefix: &str, paths: &mut Vec<String>) -> Result<()> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("failed to list {}", dir.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type().with_context(|| format!("failed to look at {path}"))?;
        if kind.is_dir() && !(prefix.is_empty() && NOT_OURS.contains(&name.as_str())) {
            walk(&entry.path(), &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}
