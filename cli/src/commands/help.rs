//! `bursar help`: explains a command, or a code that an error shows.

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::codes::{self, Explained};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::suggest;
use crate::form::text::wrap;
use crate::shell::Shell;

/// Arguments of `help`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bursar help submit\n  bursar help budget apply\n  bursar help B1203\n  bursar help codes"
)]
pub struct Args {
    /// A command, a code like B1203, or `codes` for all of them
    #[arg(value_name = "COMMAND|CODE")]
    pub topic: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When there is no such topic.
pub fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let text = match args.topic.first() {
        Some(topic) if topic == "codes" => codes::CODES.iter().map(line).collect(),
        Some(topic) => match code(topic) {
            Some(number) => explain(codes::find(number).ok_or_else(|| unknown(topic))?),
            None => command(&args.topic)?,
        },
        None => Cli::command().render_help().to_string(),
    };
    shell.print(&text)?;
    Ok(Exit::Done)
}

fn code(topic: &str) -> Option<u16> {
    topic.strip_prefix(['B', 'b']).unwrap_or(topic).parse().ok()
}

/// Returns what a code like `B1203` means; none if it is no code, or there is none of that number.
pub fn of_code(topic: &str) -> Option<String> {
    let number = topic.strip_prefix(['B', 'b'])?.parse().ok()?;
    codes::find(number).map(explain)
}

fn line(explained: &Explained) -> String {
    format!("B{}  {:<46}  exit code {}\n", explained.code, explained.title, explained.exit.code())
}

fn explain(explained: &Explained) -> String {
    let part = |name: &str, text: &str| {
        let lines = wrap(text, 86);
        let lines = lines.iter().enumerate().map(|(n, line)| {
            let name = if n == 0 { name } else { "" };
            format!("  {name:<10} {line}\n")
        });
        lines.collect::<String>()
    };
    format!(
        "B{}: {}\n\n{}{}{}",
        explained.code,
        explained.title,
        part("cause", explained.causes),
        part("fix", explained.fix),
        part("exit code", &explained.exit.code().to_string()),
    )
}

fn command(topic: &[String]) -> Result<String, Failure> {
    let mut command = Cli::command();
    command.build();
    let mut found = &mut command;
    for name in topic {
        found = found.find_subcommand_mut(name).ok_or_else(|| unknown(&topic.join(" ")))?;
    }
    Ok(found.render_long_help().to_string())
}

fn unknown(topic: &str) -> Failure {
    let command = Cli::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let fix = match suggest::closest(topic, &names) {
        Some(close) => format!("did you mean `bursar help {close}`?"),
        None => "bursar help lists the commands, bursar help codes the codes".into(),
    };
    Failure::new(codes::USAGE, format!("there is no command or code `{topic}`")).fix(fix)
}

#[cfg(test)]
mod tests {
    use super::{code, explain};
    use crate::codes;

    #[test]
    fn codes_are_explained_in_a_hundred_columns() {
        assert_eq!(
            (code("B1203"), code("b1203"), code("1203"), code("budget")),
            (Some(1203), Some(1203), Some(1203), None)
        );
        for explained in codes::CODES {
            let text = explain(explained);
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }
}
