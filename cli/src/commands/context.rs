//! `bursar context`: which control plane is spoken to.

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use crate::codes;
use crate::config::{self, Context};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::suggest;
use crate::form::table::Table;
use crate::shell::Shell;

/// Arguments of `context`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the contexts; * is the selected one
    List,
    /// Select a context
    Use {
        /// Its name
        name: String,
    },
    /// Add a context, or replace it, and select it
    Add(Add),
    /// Remove a context
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  bursar context add lab --servers 127.0.0.1:7700,127.0.0.1:7701 --token-file ~/.bursar-token"
)]
struct Add {
    /// Its name
    name: String,
    /// Addresses of the replicas
    #[arg(long, value_delimiter = ',', required = true, value_name = "HOST:PORT")]
    servers: Vec<String>,
    /// A file that holds the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The budget of submissions that name none
    #[arg(long, value_name = "BUDGET")]
    budget: Option<String>,
}

/// A context as it is listed: without its token.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    name: &'a str,
    selected: bool,
    servers: &'a [String],
    budget: Option<&'a str>,
    has_token: bool,
}

#[derive(Debug, Serialize)]
struct List<'a> {
    schema: &'static str,
    contexts: Vec<Listed<'a>>,
}

/// Runs the command.
///
/// # Errors
/// When the file cannot be read or written, or the context is unknown.
pub fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.action {
        Action::List => list(shell)?,
        Action::Use { name } => {
            let mut config = config::load()?;
            known(&config, &name)?;
            config.context = Some(name.clone());
            config::save(&config)?;
            shell.say(&format!("context {name} is selected"));
        }
        Action::Add(add) => {
            let mut config = config::load()?;
            let token_file = add.token_file.map(|path| std::path::absolute(&path).unwrap_or(path));
            let context =
                Context { servers: add.servers, token_file, budget: add.budget, ..Context::default() };
            config.contexts.insert(add.name.clone(), context);
            config.context = Some(add.name.clone());
            config::save(&config)?;
            shell.say(&format!("context {} is selected", add.name));
        }
        Action::Remove { name } => {
            let mut config = config::load()?;
            known(&config, &name)?;
            config.contexts.remove(&name);
            config.context = config.context.filter(|selected| *selected != name);
            config::save(&config)?;
        }
    }
    Ok(Exit::Done)
}

fn list(shell: &Shell) -> Result<(), Failure> {
    let config = config::load()?;
    let contexts: Vec<Listed<'_>> = config
        .contexts
        .iter()
        .map(|(name, context)| Listed {
            name,
            selected: config.context.as_ref() == Some(name),
            servers: &context.servers,
            budget: context.budget.as_deref(),
            has_token: context.token.is_some() || context.token_file.is_some(),
        })
        .collect();
    let names: Vec<String> = contexts.iter().map(|context| context.name.to_string()).collect();
    let list = List { schema: "contexts/v1", contexts };
    shell.show_rows(&list, &list.contexts, &names, |_| render(&list.contexts))
}

fn render(contexts: &[Listed<'_>]) -> String {
    if contexts.is_empty() {
        return "no contexts yet: `bursar dev` makes one, `bursar context add` another\n".into();
    }
    let mut table = Table::new(&["", "NAME", "BUDGET", "TOKEN", "REPLICAS"]);
    for one in contexts {
        table.row([
            if one.selected { "*" } else { "" },
            one.name,
            one.budget.unwrap_or("-"),
            if one.has_token { "yes" } else { "no" },
            &one.servers.join(","),
        ]);
    }
    table.render()
}

fn known(config: &config::Config, name: &str) -> Result<(), Failure> {
    if config.contexts.contains_key(name) {
        return Ok(());
    }
    let names: Vec<&str> = config.contexts.keys().map(String::as_str).collect();
    let fix = match suggest::closest(name, &names) {
        Some(close) => format!("did you mean `{close}`?"),
        None => "bursar context list".into(),
    };
    Err(Failure::new(codes::CONTEXT, format!("no context `{name}`")).fix(fix))
}
