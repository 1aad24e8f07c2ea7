//! `bench`: figures that the pages promise, measured here and now.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::built::{Place, cargo};

/// A bench: its name, the package and the program that measures it.
#[derive(Debug)]
pub struct Bench {
    /// What to type.
    pub name: &'static str,
    /// The package of its program.
    pub package: &'static str,
    /// Its program, called as `PROGRAM NAME --out FILE`.
    pub program: &'static str,
    /// What it measures.
    pub measures: &'static str,
}

/// The benches there are.
pub const BENCHES: &[Bench] = &[
    Bench {
        name: "churn",
        package: "chaos-tests",
        program: "bench",
        measures: "state through days of jobs in virtual time; BURSAR_CHURN_JOBS=10000000 is a year",
    },
    Bench {
        name: "failover",
        package: "chaos-tests",
        program: "bench",
        measures: "leader killed to next acknowledged write, three real replicas",
    },
    Bench {
        name: "plan",
        package: "chaos-tests",
        program: "bench",
        measures: "rounds of the planner at 1,024, 10,000 and 100,000 GPUs, full, with up to a million jobs waiting",
    },
    Bench {
        name: "preempt",
        package: "chaos-tests",
        program: "bench",
        measures: "a job that takes GPUs on a full cluster of 1,024: to the notice, to the GPUs, to its start",
    },
    Bench {
        name: "replicate",
        package: "chaos-tests",
        program: "bench",
        measures: "durable submissions against an etcd of three members, and against a plain file",
    },
    Bench {
        name: "simulate",
        package: "chaos-tests",
        program: "bench",
        measures: "30 days of 1,024 GPUs at three times the demand, in virtual time on one core",
    },
    Bench {
        name: "state",
        package: "chaos-tests",
        program: "bench",
        measures: "the replicated state: entries a second, clones, snapshots and memory with 100,000 waiting jobs",
    },
    Bench {
        name: "submit",
        package: "chaos-tests",
        program: "bench",
        measures: "durable submissions a second, and submission to process start",
    },
];

/// One measured figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub figure: String,
    /// The result.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What the design asks for, if it does: a number in the same unit, or words.
    #[serde(default)]
    pub target: serde_json::Value,
    /// Whether the target is met, if there is one.
    #[serde(default)]
    pub holds: Option<bool>,
}

/// Runs the bench called `name`, prints its table and keeps its rows in `target/bench/NAME.json`.
///
/// # Errors
///
/// When the bench fails, and, if `is_strict`, when a target is missed.
pub fn bench(name: &str, is_strict: bool) -> Result<()> {
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        let known: Vec<_> = BENCHES.iter().map(|b| format!("{} ({})", b.name, b.measures)).collect();
        bail!("no bench `{name}`; there are: {}", known.join("; "));
    };
    let place = Place::of_this_process()?;
    let folder = place.target_dir().join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let file = folder.join(format!("{name}.json"));
    let rows = measure(bench, &folder.join(format!("{name}.new.json")))?;
    std::fs::write(&file, serde_json::to_vec_pretty(&rows).context("failed to encode the rows")?)
        .with_context(|| format!("failed to write {}", file.display()))?;
    print!("{}", table(&rows));
    println!("kept in {}", file.display());
    let missed = rows.iter().filter(|row| row.holds == Some(false)).count();
    ensure!(!is_strict || missed == 0, "{missed} targets missed");
    Ok(())
}

fn measure(bench: &Bench, out: &Path) -> Result<Vec<Row>> {
    let status = cargo()
        .args([
            "run",
            "--release",
            "--package",
            bench.package,
            "--bin",
            bench.program,
            "--",
            bench.name,
            "--out",
        ])
        .arg(out)
        // It prints the same table; progress comes on standard error.
        .stdout(Stdio::null())
        .status()
        .context("failed to start cargo")?;
    ensure!(status.success(), "bench {} failed ({status})", bench.name);
    let bytes = std::fs::read(out).with_context(|| format!("failed to read {}", out.display()))?;
    let rows: Vec<Row> =
        serde_json::from_slice(&bytes).with_context(|| format!("{} holds no rows", out.display()))?;
    std::fs::remove_file(out).with_context(|| format!("failed to remove {}", out.display()))?;
    ensure!(!rows.is_empty(), "bench {} measured nothing", bench.name);
    Ok(rows)
}

/// Returns the rows as a table for people.
pub fn table(rows: &[Row]) -> String {
    let head = ["FIGURE", "VALUE", "UNIT", "TARGET", "HOLDS"].map(String::from);
    let cells: Vec<[String; 5]> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &cells {
        let [figure, value, unit, target, holds] = row;
        let (f, v, u, t) = (width(0), width(1), width(2), width(3));
        let line = format!("{figure:<f$}  {value:>v$}  {unit:<u$}  {target:>t$}  {holds}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn cells(row: &Row) -> [String; 5] {
    let target = match &row.target {
        serde_json::Value::Null => String::from("-"),
        serde_json::Value::String(words) => words.clone(),
        number => number.to_string(),
    };
    let holds = match row.holds {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    };
    let value =
        if row.value.fract() == 0.0 { format!("{:.0}", row.value) } else { format!("{:.2}", row.value) };
    [row.figure.clone(), value, row.unit.clone(), target, holds.into()]
}
