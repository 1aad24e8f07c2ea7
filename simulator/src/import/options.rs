//! What a person says about a source.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use scheduler_core::unit::Timestamp;

use super::error::Error;
use super::format::Format;
use super::value::{shown, something};

/// What a person says about a source. The default suits a file of a known format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What the trace is called; the file's name, if not said.
    pub name: Option<String>,
    /// Its format; told from its content, if not said.
    pub format: Option<Format>,
    /// What stands between the fields of `sacct`; told from its header, if not said.
    pub delimiter: Option<String>,
    /// Only jobs submitted from then on.
    pub since: Option<Timestamp>,
    /// Only jobs submitted before.
    pub until: Option<Timestamp>,
    /// Only so many jobs, by submission.
    pub limit: Option<usize>,
    /// More jobs than this are refused: each takes about 250 bytes of memory.
    pub jobs_max: usize,
    /// The moment of the first row, for logs that have only intervals.
    pub start: Option<Timestamp>,
    /// What stands for one GPU in a log without GPUs.
    pub one_gpu: Option<OneGpu>,
    /// The columns of a CSV by their names; fields that are not here are looked for under their usual names.
    pub columns: BTreeMap<Field, String>,
    /// A second file that completes the first: for `philly-attempts` the passed jobs with their virtual cluster.
    pub companion: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            format: None,
            delimiter: None,
            since: None,
            until: None,
            limit: None,
            jobs_max: 4_000_000,
            start: None,
            one_gpu: None,
            columns: BTreeMap::new(),
            companion: None,
        }
    }
}

impl Options {
    /// Takes the name of a column for a field, as `gpus=num_gpus`.
    ///
    /// # Errors
    ///
    /// When it is not of this form, or there is no such field.
    pub fn column(&mut self, given: &str) -> Result<(), Error> {
        let refused = || Error::Mapping { given: shown(given), fields: Field::names() };
        let (field, column) = given.split_once('=').ok_or_else(refused)?;
        let field = Field::ALL.into_iter().find(|known| known.name() == field.trim()).ok_or_else(refused)?;
        let column = Some(column.trim()).filter(|column| !column.is_empty()).ok_or_else(refused)?;
        self.columns.insert(field, column.to_owned());
        Ok(())
    }
}

/// What stands for one GPU in a log that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneGpu {
    /// How many.
    pub count: NonZeroU32,
    /// Of what.
    pub of: Unit,
}

/// What a log without GPUs counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Processors (CPUs).
    Processors,
    /// Nodes.
    Nodes,
}

impl OneGpu {
    /// Returns the GPUs that stand for `amount`; a part of one counts as one.
    #[must_use]
    pub const fn gpus(self, amount: u32) -> u32 {
        amount.div_ceil(self.count.get())
    }
}

impl fmt::Display for OneGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match (self.of, self.count.get()) {
            (Unit::Processors, 1) => "processor",
            (Unit::Processors, _) => "processors",
            (Unit::Nodes, 1) => "node",
            (Unit::Nodes, _) => "nodes",
        };
        write!(f, "{} {unit}", self.count)
    }
}

impl FromStr for OneGpu {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self, Error> {
        let refused = || Error::Rule { given: shown(given) };
        let text = given.trim();
        let (count, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(refused)?);
        let count = count.parse().map_err(|_| refused())?;
        let of = match unit.trim_start_matches(['-', ' ', '_']) {
            "processor" | "processors" | "cpu" | "cpus" => Unit::Processors,
            "node" | "nodes" => Unit::Nodes,
            _ => return Err(refused()),
        };
        Ok(Self { count, of })
    }
}

/// A field of a job, for naming the columns of a CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Its id.
    Job,
    /// When it was submitted.
    Submit,
    /// When it started.
    Start,
    /// When it ended.
    End,
    /// How long it ran.
    Duration,
    /// Its GPUs, on all nodes together.
    Gpus,
    /// Its nodes.
    Nodes,
    /// The type of its GPUs.
    GpuType,
    /// Its team.
    Team,
    /// Its user.
    User,
    /// How it ended.
    Status,
    /// The longest time that it asked for.
    TimeLimit,
    /// Its minimum runtime.
    MinRuntime,
    /// Whether it is in the free tier.
    Free,
    /// How long it waited.
    Wait,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 15] = [
        Self::Job,
        Self::Submit,
        Self::Start,
        Self::End,
        Self::Duration,
        Self::Gpus,
        Self::Nodes,
        Self::GpuType,
        Self::Team,
        Self::User,
        Self::Status,
        Self::TimeLimit,
        Self::MinRuntime,
        Self::Free,
        Self::Wait,
    ];

    /// Returns its name, as it is typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Submit => "submit",
            Self::Start => "start",
            Self::End => "end",
            Self::Duration => "duration",
            Self::Gpus => "gpus",
            Self::Nodes => "nodes",
            Self::GpuType => "gpu_type",
            Self::Team => "team",
            Self::User => "user",
            Self::Status => "status",
            Self::TimeLimit => "time_limit",
            Self::MinRuntime => "min_runtime",
            Self::Free => "free",
            Self::Wait => "wait",
        }
    }

    /// Returns all names, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Returns the names of columns that are taken for it when nothing was said; the first that is there counts.
    pub(super) const fn usual(self) -> &'static [&'static str] {
        match self {
            Self::Job => &["job", "job_id", "jobid", "id", "job_name", "name"],
            Self::Submit => &[
                "submit",
                "submit_s",
                "submit_ms",
                "submit_time",
                "submitted",
                "submitted_at",
                "submission_time",
                "timestamp",
                "arrival_time",
            ],
            Self::Start => &["start", "start_s", "start_ms", "start_time", "started_at"],
            Self::End => &["end", "end_s", "end_ms", "end_time", "ended_at"],
            Self::Duration => &["duration", "duration_s", "duration_ms", "run_time", "runtime", "elapsed"],
            Self::Gpus => &["gpus", "gpu_num", "num_gpu", "num_gpus", "gpus_req", "gpu_count"],
            Self::Nodes => &["nodes", "node_num", "num_nodes", "nodes_req"],
            Self::GpuType => &["gpu_type", "gpu_model"],
            Self::Team => &["team", "account", "vc", "organization", "project", "group", "queue"],
            Self::User => &["user", "user_id", "username"],
            Self::Status => &["status", "state"],
            Self::TimeLimit => &["time_limit", "time_limit_s", "time_limit_ms", "timelimit", "wallclock_req"],
            Self::MinRuntime => &["min_runtime", "min_runtime_s", "min_runtime_ms"],
            Self::Free => &["free", "is_free", "unallocated"],
            Self::Wait => &["wait", "wait_s", "wait_ms", "wait_time", "waited"],
        }
    }
}

/// Returns a name that stands for a person or a team, or nothing for what stands for nobody.
pub(super) fn named(text: Option<&str>) -> Option<String> {
    text.and_then(something).map(str::to_owned)
}
