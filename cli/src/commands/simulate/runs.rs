//! `simulate run` and `simulate report`: one scenario.

use std::path::{Path, PathBuf};

use simulator::report;
use simulator::sweep::Case;

use super::ran;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// What a run is of.
#[derive(Debug, clap::Args)]
pub struct Of {
    /// The scenario: a file, or the name of one that ships
    #[arg(value_name = "SCENARIO")]
    scenario: String,
    /// Draw chances from this, instead of the scenario's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Who decides
    #[arg(long, value_name = "NAME", default_value = "bursar")]
    policy: String,
    /// A setting that differs from the scenario
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// Arguments of `simulate run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar simulate run week-of-a-lab\n  \
    bursar simulate run my.yaml --seed 2 --html week.html\n  \
    bursar simulate run large-gang --set dates=no\n\n\
    The decisions are the server's own; run times, checkpoints and failures are the scenario's. Direction is reliable, \
    exact size is not.")]
pub struct Args {
    #[command(flatten)]
    of: Of,
    /// Also write the run's page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write all figures as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Arguments of `simulate report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar simulate report week-of-a-lab --html week.html")]
pub struct ReportArgs {
    #[command(flatten)]
    of: Of,
    /// The page's file
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
}

/// Runs `simulate run`.
pub fn run(shell: &Shell, args: &Args) -> Result<Exit, Failure> {
    let ran = make(shell, &args.of)?;
    ran::notes(shell, &ran);
    if let Some(file) = &args.html {
        page(shell, &ran.record, file)?;
    }
    if let Some(file) = &args.csv {
        write(file, &report::csv(std::slice::from_ref(&ran.measures)))?;
    }
    shell.show(&ran.measures, std::slice::from_ref(&ran.measures.run.scenario), |_| {
        let mut out = ran::table(&report::figures(std::slice::from_ref(&ran.measures)));
        for table in report::details(&ran.measures) {
            out.push('\n');
            out.push_str(&ran::table(&table));
        }
        out
    })?;
    Ok(Exit::Done)
}

/// Runs `simulate report`.
pub fn report(shell: &Shell, args: &ReportArgs) -> Result<Exit, Failure> {
    let ran = make(shell, &args.of)?;
    ran::notes(shell, &ran);
    page(shell, &ran.record, &args.html)?;
    Ok(Exit::Done)
}

fn make(shell: &Shell, of: &Of) -> Result<simulator::sweep::Ran, Failure> {
    let found = ran::find(&of.scenario)?;
    let policy = ran::policies(std::slice::from_ref(&of.policy))?;
    let mut variants = ran::sets(&of.sets)?;
    if variants.len() != 1 {
        return Err(Failure::new(codes::USAGE, "a run has one value for each setting")
            .fix("bursar simulate compare takes several"));
    }
    let case = Case {
        scenario: &found.scenario,
        folder: &found.folder,
        seed: of.seed.unwrap_or(found.scenario.seed),
        policy: policy.into_iter().next().unwrap_or_default(),
        variant: variants.remove(0),
    };
    let mut made = ran::make(shell, std::slice::from_ref(&case), &|_, ran| ran)?;
    made.pop().ok_or_else(|| Failure::new(codes::PROCESS, "the run was not made"))
}

fn page(shell: &Shell, record: &simulator::record::Record, file: &Path) -> Result<(), Failure> {
    let text = report::page(record).map_err(ran::bad)?;
    write(file, &text)?;
    shell.say(&format!("wrote {}", file.display()));
    Ok(())
}

pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| {
        Failure::new(codes::FILE, format!("cannot write {}", file.display())).why(error.to_string())
    })
}
