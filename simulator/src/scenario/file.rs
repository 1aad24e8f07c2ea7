//! The file, as it is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Error;
use super::written::{Bytes, Duration, Value};

/// A scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is called in reports.
    pub name: String,
    /// What it shows, in a sentence.
    #[serde(default)]
    pub about: String,
    /// How long it runs after its first submission; as long as its jobs come, if not said.
    #[serde(default)]
    pub length: Option<Duration>,
    /// What its chances are drawn from.
    #[serde(default = "one")]
    pub seed: u64,
    /// Its machines.
    pub nodes: Vec<Nodes>,
    /// Its budgets, below the root.
    pub budgets: Vec<Budget>,
    /// Settings that differ from the defaults, by the names of docs/operate/settings.md.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// Its jobs.
    pub jobs: Jobs,
    /// Which job belongs to which budget.
    #[serde(default)]
    pub teams: Teams,
    /// How much is asked for.
    #[serde(default)]
    pub load: Load,
    /// What jobs declare, where their source does not say it.
    #[serde(default)]
    pub rules: Rules,
    /// How processes and machines behave.
    #[serde(default)]
    pub models: Models,
}

const fn one() -> u64 {
    1
}

/// Machines of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// How many.
    pub count: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// Their type.
    #[serde(default = "h100")]
    pub gpu_type: String,
    /// Cores of each; 12 a GPU, if not said.
    #[serde(default)]
    pub cpus: Option<u32>,
    /// Memory of each; 128 GiB a GPU, if not said.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// Their cluster.
    #[serde(default = "main")]
    pub cluster: String,
    /// So many stand in one rack; all in one, if not said.
    #[serde(default)]
    pub rack: Option<u32>,
}

fn h100() -> String {
    "NVIDIA H100 80GB HBM3".into()
}

fn main() -> String {
    "main".into()
}

/// A budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Its level of the path.
    pub name: String,
    /// Its part of the budget above, in percent.
    pub share: f64,
    /// The budgets below it.
    #[serde(default)]
    pub children: Vec<Budget>,
}

/// Where jobs come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Jobs {
    /// A real trace.
    Trace(TraceFile),
    /// Made-up jobs.
    Made(Vec<Made>),
}

/// A trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceFile {
    /// Its file, from the scenario's folder.
    pub file: PathBuf,
    /// Its format; told from its content, if not said.
    #[serde(default)]
    pub format: Option<String>,
    /// A log without GPUs: so many of its processors, or nodes, stand for one.
    #[serde(default)]
    pub one_gpu: Option<String>,
    /// A second file that completes it.
    #[serde(default)]
    pub companion: Option<PathBuf>,
    /// Only jobs that came so long after the first one.
    #[serde(default)]
    pub after: Option<Duration>,
    /// Only so many jobs.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// A stream of made-up jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The leaf that they belong to; all of them, in proportion to their shares, if not said.
    #[serde(default)]
    pub budget: Option<String>,
    /// Their user's name; the budget's, if not said.
    #[serde(default)]
    pub user: Option<String>,
    /// When the first may come.
    #[serde(default)]
    pub from: Option<Duration>,
    /// When the last may come.
    #[serde(default)]
    pub until: Option<Duration>,
    /// How many.
    pub count: u32,
    /// All at once at the beginning, instead of by and by.
    #[serde(default)]
    pub at_once: bool,
    /// Their sizes, with how often each comes.
    pub sizes: Vec<Size>,
    /// How long they run: the median.
    pub runs: Duration,
    /// How much that varies: the factor between the median and the 84th percentile; 1 for always the same.
    #[serde(default = "same")]
    pub varies: f64,
    /// Their minimum runtime; by the rules, if not said. `0` is the free tier.
    #[serde(default)]
    pub min_runtime: Option<Duration>,
    /// Their time limit.
    #[serde(default)]
    pub time_limit: Option<Duration>,
    /// Whether they resume; by the rules, if not said.
    #[serde(default)]
    pub resumable: Option<bool>,
    /// How their processes save, where they differ from the scenario's.
    #[serde(default)]
    pub checkpoints: Option<Checkpoints>,
}

const fn same() -> f64 {
    1.0
}

/// A size of made-up jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// GPUs, on as few nodes as they fit.
    pub gpus: u32,
    /// How often, against the other sizes.
    #[serde(default = "same")]
    pub weight: f64,
}

/// Which leaf a job goes to: by its team in the trace, else by its user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Teams {
    /// Teams and users by name: their leaf. Who is not here is dealt to one leaf for good, by chance in proportion to the
    /// leaves' shares.
    #[serde(default)]
    pub map: BTreeMap<String, String>,
    /// Deals by user also where the trace has teams.
    #[serde(default)]
    pub by_user: bool,
}

/// How much is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Load {
    /// As in the trace.
    #[default]
    AsIs,
    /// Offered load: work submitted over what the machines could do meanwhile. Submissions are moved together, or apart,
    /// until it is this; whoever waits goes on waiting, so a backlog piles up above 1.
    Offered(f64),
    /// Demand at a moment: jobs come in the trace's order, each as soon as the GPUs that live jobs want or have are fewer
    /// than this times those there are.
    Demand(f64),
}

/// What jobs declare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Short jobs.
    pub debug: Option<Debug>,
    /// Minimum runtimes of the others.
    pub minimum: Minimum,
    /// The part of the longer jobs that is in the free tier, 0 to 1.
    pub free: f64,
    /// The part of all jobs that does not resume, 0 to 1.
    pub not_resumable: f64,
    /// A job that has not started after so long is withdrawn.
    pub patience: Option<Duration>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            debug: Some(Debug::default()),
            minimum: Minimum::default(),
            free: 0.2,
            not_resumable: 0.05,
            patience: None,
        }
    }
}

/// Short jobs declare a short minimum and a time limit, and so have turn `first`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Debug {
    /// Jobs that run at most so long.
    pub up_to: Duration,
    /// The least minimum runtime.
    pub least: Duration,
    /// The greatest.
    pub most: Duration,
}

impl Default for Debug {
    fn default() -> Self {
        let mins = |mins| Duration(scheduler_core::unit::Span::from_mins(mins));
        Self { up_to: mins(15), least: mins(5), most: mins(15) }
    }
}

/// Minimum runtimes: the job's length times one of some factors, within bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Minimum {
    /// Factors, each as often as the others.
    pub times: Vec<f64>,
    /// The least.
    pub least: Duration,
    /// The greatest; the cap, if not said.
    pub most: Option<Duration>,
}

impl Default for Minimum {
    fn default() -> Self {
        let least = Duration(scheduler_core::unit::Span::from_mins(15));
        Self { times: vec![0.5, 1.0, 1.5], least, most: None }
    }
}

/// How processes and machines behave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Models {
    /// From a launch to the first process.
    pub launch: Duration,
    /// From the first process of a later attempt to its first new progress.
    pub restart: Duration,
    /// How processes save.
    pub checkpoints: Checkpoints,
    /// How machines fail.
    pub failures: Option<Failures>,
}

impl Default for Models {
    fn default() -> Self {
        let secs = |secs| Duration(scheduler_core::unit::Span::from_secs(secs));
        Self { launch: secs(5), restart: secs(600), checkpoints: Checkpoints::default(), failures: None }
    }
}

/// How processes save.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Checkpoints {
    /// Progress between two saves; none to never save.
    pub every: Option<Duration>,
    /// How long one takes.
    pub takes: Duration,
    /// Whether they save when they are told to leave.
    pub at_notice: bool,
    /// Whether they leave once that is done.
    pub leave_early: bool,
    /// Whether they report it.
    pub report: bool,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self {
            every: Some(Duration(scheduler_core::unit::Span::from_mins(30))),
            takes: Duration(scheduler_core::unit::Span::from_secs(20)),
            at_notice: true,
            leave_early: true,
            report: true,
        }
    }
}

/// How machines fail: at random moments, each for itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failures {
    /// The mean time between two failures of one machine.
    pub every: Duration,
    /// The mean time until it is back.
    pub repair: Duration,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// When the file cannot be read, or is no scenario: with line, column and field.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| Error::Unreadable { path: path.display().to_string(), cause })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a scenario from text; `path` is what an error names.
    ///
    /// # Errors
    /// When it is no scenario.
    pub fn parse(path: &str, text: &str) -> Result<Self, Error> {
        serde_saphyr::from_str(text)
            .map_err(|cause| Error::NoScenario { path: path.to_owned(), what: cause.to_string() })
    }
}

/// Returns the JSON Schema of a scenario.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::schema_for!(Scenario);
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}
