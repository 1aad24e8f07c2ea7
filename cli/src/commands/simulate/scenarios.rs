//! `simulate scenarios`: what ships.

use serde::Serialize;
use simulator::scenario::{SHIPPED, Scenario, schema};

use super::ran;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::table::Table;
use crate::shell::Shell;

/// Arguments of `simulate scenarios`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar simulate scenarios\n  \
    bursar simulate scenarios week-of-a-lab > my.yaml    to begin one of your own\n  \
    bursar simulate scenarios --schema                   for editors")]
pub struct Args {
    /// Print this one
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print the JSON Schema of a scenario
    #[arg(long, conflicts_with = "name")]
    schema: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    about: String,
}

/// Runs the command.
pub fn run(shell: &Shell, args: &Args) -> Result<Exit, Failure> {
    if args.schema {
        shell.print(&format!("{}\n", schema()))?;
        return Ok(Exit::Done);
    }
    if let Some(name) = &args.name {
        // Says what there is if there is no such one.
        ran::find(name)?;
        let text = SHIPPED.iter().find(|(shipped, _)| shipped == name).map_or("", |(_, text)| text);
        shell.print(text)?;
        return Ok(Exit::Done);
    }
    let row = |(name, text): &(&'static str, &str)| {
        let about = Scenario::parse(name, text).map(|scenario| scenario.about).unwrap_or_default();
        Row { name, about }
    };
    let rows: Vec<Row> = SHIPPED.iter().map(row).collect();
    let names: Vec<String> = rows.iter().map(|row| row.name.to_owned()).collect();
    shell.show_rows(&rows, &rows, &names, |_| {
        let mut table = Table::new(&["SCENARIO", "WHAT IT SHOWS"]);
        for row in &rows {
            table.row([row.name, &row.about]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}
