//! `bursar principal`: who may do what.

use std::path::PathBuf;

use clap::Subcommand;
use proto::v1::{AddPrincipalRequest, ListPrincipalsRequest, RevokePrincipalRequest};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::secret::Token;
use crate::shell::Shell;

/// Arguments of `principal`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a principal, and print its token once
    Add(Add),
    /// List all of them
    List,
    /// Close a principal's token; its jobs run on
    Revoke {
        /// Its name
        name: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  bursar principal add ana --account ana --token-file ana.token")]
struct Add {
    /// Its name
    name: String,
    /// The Unix account that its jobs run as, looked up on each node
    #[arg(long, value_name = "ACCOUNT")]
    account: String,
    /// It looks after nodes and the control plane
    #[arg(long)]
    operator: bool,
    /// Write the token to this file (mode 0600) instead of printing it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.action {
        Action::Add(args) => add(shell, args).await,
        Action::List => list(shell).await,
        Action::Revoke { name, yes } => revoke(shell, name, yes).await,
    }
}

async fn add(shell: &Shell, args: Add) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let token = Token::make()?;
    // Written first: a token that is known to the control plane and to nobody else would be of no use.
    if let Some(path) = &args.token_file {
        token.write(path)?;
    }
    let request = AddPrincipalRequest {
        mark: Some(client.mark(None).await?),
        name: args.name.clone(),
        token_hash: token.hash(),
        account: args.account,
        operator: args.operator,
    };
    client.add_principal(request).await?;
    match args.token_file {
        Some(path) => shell.say(&format!("added {}; its token is in {}", args.name, path.display())),
        None => {
            shell.say(&format!("added {}; its token is shown once, here:", args.name));
            shell.print(&format!("{}\n", token.text()))?;
        }
    }
    Ok(Exit::Done)
}

async fn list(shell: &Shell) -> Result<Exit, Failure> {
    let mut view = shell.client()?.list_principals(ListPrincipalsRequest { read: None }).await?;
    super::schema(&mut view.schema, "principal-list/v1");
    let names: Vec<String> = view.principals.iter().map(|one| one.name.clone()).collect();
    shell.show_rows(&view, &view.principals, &names, |look| render::principal::principals(&view, look))?;
    Ok(Exit::Done)
}

async fn revoke(shell: &Shell, name: String, yes: bool) -> Result<Exit, Failure> {
    if !yes
        && !shell.confirm(&format!(
            "{name}'s token will open nothing any more, and the name stays taken. revoke?"
        ))?
    {
        shell.say("nothing was changed");
        return Ok(Exit::Done);
    }
    let client = shell.client()?;
    let mark = Some(client.mark(None).await?);
    client.revoke_principal(RevokePrincipalRequest { mark, name: name.clone() }).await?;
    shell.say(&format!("revoked {name}"));
    Ok(Exit::Done)
}
