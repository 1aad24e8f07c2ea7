//! The submission file: every field but the program has a default or a flag; unknown fields are errors.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::place::{Origin, yaml};
use super::scalar::{After, Array, Duration, OneOrMore, Signal, Size};
use super::unplaced;
use crate::codes;
use crate::failure::Failure;

/// A submission as a file says it. Fields that a refusal may point at know where they stand.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The job's name.
    pub name: Option<Spanned<String>>,
    /// The leaf that pays.
    pub budget: Option<Spanned<String>>,
    /// What runs: program and arguments.
    pub command: Option<Spanned<Vec<String>>>,
    /// What runs: a script.
    pub script: Option<Spanned<String>>,
    /// Where it runs.
    pub working_dir: Option<Spanned<String>>,
    /// Its log file.
    pub output: Option<Spanned<String>>,
    /// Its own environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Files on the node whose content is put into the environment.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// The hardware.
    #[serde(default)]
    pub resources: Resources,
    /// The terms.
    #[serde(default)]
    pub contract: Contract,
    /// Which tasks, if it is an array.
    pub array: Option<Spanned<Array>>,
    /// When it may start at the earliest.
    pub begin: Option<Spanned<String>>,
    /// What must have ended first.
    #[serde(default)]
    pub after: Vec<Spanned<After>>,
    /// The pool it must run in.
    pub cluster: Option<Spanned<String>>,
}

/// The hardware of a submission.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// All GPUs.
    pub gpus: Option<Spanned<u32>>,
    /// Nodes.
    pub nodes: Option<Spanned<u32>>,
    /// GPUs on each node.
    pub gpus_per_node: Option<Spanned<u32>>,
    /// The GPU's name, or a part of it; or several that do, in order.
    pub gpu_type: Option<Spanned<OneOrMore>>,
    /// The level of topology that its nodes have in common.
    pub within: Option<Spanned<u32>>,
    /// Nodes that it is never placed on.
    #[serde(default)]
    pub exclude: Vec<Spanned<String>>,
    /// Cores on each node.
    pub cpus: Option<Spanned<u32>>,
    /// Memory on each node.
    pub memory: Option<Spanned<Size>>,
}

/// The terms of a submission.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Protection from the start; `0` is the free tier.
    pub min_runtime: Option<Spanned<Duration>>,
    /// The free tier.
    pub unallocated: Option<Spanned<bool>>,
    /// The longest time of an attempt.
    pub time_limit: Option<Spanned<Duration>>,
    /// Whether it goes on from a checkpoint.
    pub resumable: Option<Spanned<bool>>,
    /// From the notice to the end.
    pub grace: Option<Spanned<Duration>>,
    /// The notice signal.
    pub signal: Option<Spanned<Signal>>,
    /// How often it saves.
    pub checkpoint_every: Option<Spanned<Duration>>,
    /// Which files are complete checkpoints.
    pub checkpoint_glob: Option<Spanned<String>>,
    /// The exit code that asks for another attempt.
    pub requeue_code: Option<Spanned<u32>>,
    /// Order among the jobs of its budget.
    pub turn: Option<Spanned<Turn>>,
    /// How often a failed attempt is tried again.
    pub retries: Option<Spanned<u32>>,
}

/// Order among the jobs of one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// Before the others.
    First,
    /// In order of submission.
    Normal,
    /// After the others.
    Last,
}

impl Turn {
    /// Returns its word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Normal => "normal",
            Self::Last => "last",
        }
    }
}

/// Reads a submission file. A file that begins with `#!` is a script as it is.
///
/// # Errors
/// When it cannot be read, or is not what it should be.
pub fn read(path: &Path) -> Result<(Submission, Origin), Failure> {
    let text = crate::shell::read_text(path)?;
    let origin = Origin::new(path, &text);
    if text.starts_with("#!") {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let submission =
            Submission { name: name.map(unplaced), script: Some(unplaced(text)), ..Submission::default() };
        return Ok((submission, origin));
    }
    if text.trim().is_empty() {
        return Err(Failure::new(codes::BAD_FILE, format!("{} is empty", origin.file))
            .fix("bursar submit --example prints one that works"));
    }
    Ok((yaml(&origin)?, origin))
}
