//! `simulate compare`: several runs beside each other.

use std::path::PathBuf;

use simulator::measure::Measures;
use simulator::report;
use simulator::sweep::Case;

use super::ran;
use super::runs::write;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// Arguments of `simulate compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar simulate compare week-of-a-lab --set cap=8h,4h,2h\n  \
    bursar simulate compare week-of-a-lab --policy bursar,fifo --seeds 3\n  \
    bursar simulate compare before.yaml after.yaml --html both.html\n\n\
    Every combination is run, on all cores. Runs of one seed have the same jobs: what differs between them is what was \
    set. Direction is reliable, exact size is not.")]
pub struct Args {
    /// Scenarios: files, or names of those that ship
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<String>,
    /// Settings and their values
    #[arg(long = "set", value_name = "KEY=VALUE,…")]
    sets: Vec<String>,
    /// Who decides
    #[arg(long = "policy", value_name = "NAME,…", value_delimiter = ',')]
    policies: Vec<String>,
    /// So many seeds, from the scenario's on
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// All figures, instead of the most important ones
    #[arg(long)]
    all: bool,
    /// Also write all figures as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Of two runs, also write a page with them beside each other
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(shell: &Shell, args: &Args) -> Result<Exit, Failure> {
    let found = args.scenarios.iter().map(|name| ran::find(name)).collect::<Result<Vec<_>, _>>()?;
    let policies = ran::policies(&args.policies)?;
    let variants = ran::sets(&args.sets)?;
    let mut cases = Vec::new();
    for found in &found {
        for policy in &policies {
            for variant in &variants {
                for seed in 0..args.seeds {
                    cases.push(Case {
                        scenario: &found.scenario,
                        folder: &found.folder,
                        seed: found.scenario.seed + seed,
                        policy: policy.clone(),
                        variant: variant.clone(),
                    });
                }
            }
        }
    }
    if args.html.is_some() && cases.len() != 2 {
        let many = format!("a page has two runs beside each other, and these are {}", cases.len());
        return Err(Failure::new(codes::USAGE, many).fix("leave some values, policies or seeds out"));
    }
    let measured: Vec<Measures> = ran::make(shell, &cases, &|_, ran| ran.measures)?;
    if let Some(file) = &args.csv {
        write(file, &report::csv(&measured))?;
        shell.say(&format!("wrote {}", file.display()));
    }
    if let (Some(file), [one, two]) = (&args.html, measured.as_slice()) {
        write(file, &report::beside(one, two))?;
        shell.say(&format!("wrote {}", file.display()));
    }
    let names: Vec<String> = measured.iter().map(|run| run.run.scenario.clone()).collect();
    shell.show_rows(&measured, &measured, &names, |_| {
        let table = if args.all { report::figures(&measured) } else { report::table(&measured) };
        format!("{}Direction is reliable, exact size is not.\n", ran::table(&table))
    })?;
    Ok(Exit::Done)
}
