//! `bench NAME [--out FILE] [--rounds N]`: measures, prints, and writes rows for `cargo xtask bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use chaos_tests::bench::{self, Figures};

const USAGE: &str =
    "bench churn|failover|plan|preempt|replicate|simulate|state|submit [--out FILE] [--rounds N]";

/// State is copied in small pieces as it changes: docs/adr/0029. As `bursar` does it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Arguments {
    name: String,
    out: Option<PathBuf>,
    rounds: Option<usize>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let name = words.next().context(USAGE)?;
    if name == "stamp" {
        // The job of a measurement.
        return bench::stamp(&PathBuf::from(words.next().context("a file")?));
    }
    let arguments = read(name, words)?;
    let mut figures = Figures::default();
    let measured = match arguments.name.as_str() {
        "churn" => bench::churn(&mut figures, arguments.rounds.map_or_else(churn_jobs, Ok)?),
        "failover" => bench::failover(&mut figures, arguments.rounds.unwrap_or(20)),
        "plan" => bench::plan(&mut figures, arguments.rounds.unwrap_or(20)),
        "preempt" => bench::preempt(&mut figures, arguments.rounds.unwrap_or(200)),
        "replicate" => bench::replicate(&mut figures, arguments.rounds.unwrap_or(5)),
        "simulate" => bench::simulate(&mut figures, arguments.rounds.unwrap_or(30)),
        "state" => bench::state(&mut figures, arguments.rounds.unwrap_or(100)),
        "submit" => bench::submit(&mut figures, arguments.rounds.unwrap_or(100)),
        other => bail!("no bench `{other}`: {USAGE}"),
    };
    // What was measured before something failed is worth reading.
    print!("{}", figures.table());
    measured?;
    arguments.out.map_or(Ok(()), |file| figures.write(&file))
}

/// Returns how many jobs a churn has: as said in the environment, or a few days of them.
fn churn_jobs() -> Result<usize> {
    match std::env::var("BURSAR_CHURN_JOBS") {
        Ok(text) => text.parse().context("BURSAR_CHURN_JOBS is a number"),
        Err(_) => Ok(100_000),
    }
}

fn read(name: String, mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments { name, out: None, rounds: None };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" => arguments.out = Some(words.next().context("--out FILE")?.into()),
            "--rounds" => {
                let count = words.next().context("--rounds N")?;
                arguments.rounds = Some(count.parse().context("--rounds takes a number")?);
            }
            other => bail!("unknown argument `{other}`: {USAGE}"),
        }
    }
    Ok(arguments)
}
