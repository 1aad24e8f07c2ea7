//! `bursar node`: machines with GPUs.

use std::path::PathBuf;

use clap::Subcommand;
use proto::v1::{IssueNodeTokenRequest, ListNodesRequest, SetNodeRequest, ShowNodeRequest};

use super::drain;
use super::node_word::{self, Word};
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::duration;
use crate::render;
use crate::secret::Token;
use crate::shell::Shell;

/// Arguments of `node`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the nodes: what runs there, what is idle, when they are empty, their health
    List,
    /// Show one node with its GPUs
    Show {
        /// Its name
        name: String,
    },
    /// Keep new work from nodes; what runs there stays
    #[command(after_help = "Example:\n  bursar node cordon node-17 --reason \"slow disk, looking at it\"")]
    Cordon(node_word::Args),
    /// Let new work come to nodes again
    #[command(after_help = "Example:\n  bursar node uncordon node-17")]
    Uncordon(node_word::Args),
    /// Empty a node: no new work, and each job leaves when its protection ends
    Drain(drain::Args),
    /// End the emptying of nodes; jobs that were already told to leave still do
    #[command(after_help = "Example:\n  bursar node undrain node-17")]
    Undrain(node_word::Args),
    /// Say where a node is
    #[command(
        after_help = "Example:\n  bursar node set node-17 --topology block-1/rack-3\n  bursar node set node-17 --topology \"\"       in no group"
    )]
    Set(Set),
    /// Make a token for one node to join with, once
    Token(MakeToken),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  bursar node token node-07 --file node-07.token\n  (on the node)  bursar agent --name node-07 --join-token-file node-07.token ..."
)]
struct MakeToken {
    /// The name the node gets
    name: String,
    /// The cluster it joins
    #[arg(long, value_name = "NAME", alias = "pool", default_value = "main")]
    cluster: String,
    /// Where the node is, from the outermost group to the innermost, like block-1/rack-3
    #[arg(long, value_name = "PATH", default_value = "")]
    topology: String,
    /// How long the token is good
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true)]
    valid: String,
    /// Write the token to this file (mode 0600) instead of printing it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Set {
    /// Its name
    name: String,
    /// Where it is, from the outermost group to the innermost, like block-1/rack-3
    #[arg(long, value_name = "PATH")]
    topology: String,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.action {
        Action::List => list(shell).await,
        Action::Show { name } => show(shell, name).await,
        Action::Cordon(args) => node_word::run(shell, Word::Cordon, args).await,
        Action::Uncordon(args) => node_word::run(shell, Word::Uncordon, args).await,
        Action::Drain(args) => drain::run(shell, args).await,
        Action::Undrain(args) => node_word::run(shell, Word::Undrain, args).await,
        Action::Set(args) => set(shell, args).await,
        Action::Token(args) => token(shell, args).await,
    }
}

async fn list(shell: &Shell) -> Result<Exit, Failure> {
    let mut view = shell.client()?.list_nodes(ListNodesRequest { read: None }).await?;
    super::schema(&mut view.schema, "node-list/v1");
    let names: Vec<String> = view.nodes.iter().map(|node| node.name.clone()).collect();
    shell.show_rows(&view, &view.nodes, &names, |look| render::node::nodes(&view, look))?;
    Ok(Exit::Done)
}

async fn show(shell: &Shell, name: String) -> Result<Exit, Failure> {
    let mut view = shell.client()?.show_node(ShowNodeRequest { read: None, name }).await?;
    super::schema(&mut view.schema, "node/v1");
    shell.show(&view, std::slice::from_ref(&view.name), |look| render::node::node(&view, look))?;
    Ok(Exit::Done)
}

async fn set(shell: &Shell, args: Set) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let mark = Some(client.mark(None).await?);
    let request = SetNodeRequest { mark, name: args.name, topology: args.topology };
    let mut view = client.set_node(request).await?;
    super::schema(&mut view.schema, "node/v1");
    shell.show(&view, std::slice::from_ref(&view.name), |look| render::node::node(&view, look))?;
    Ok(Exit::Done)
}

async fn token(shell: &Shell, args: MakeToken) -> Result<Exit, Failure> {
    let valid = duration::parse(&args.valid)
        .map_err(|what| Failure::new(codes::DURATION, format!("--valid: {what}")))?;
    let client = shell.client()?;
    let token = Token::make()?;
    if let Some(path) = &args.file {
        token.write(path)?;
    }
    let request = IssueNodeTokenRequest {
        mark: Some(client.mark(None).await?),
        name: args.name.clone(),
        pool: args.cluster,
        topology: args.topology,
        token_hash: token.hash(),
        valid_ms: valid.as_millis(),
    };
    let reply = client.issue_node_token(request).await?;
    let until = shell.look.zone.full(reply.expires_at);
    match args.file {
        Some(path) => {
            shell.say(&format!("{} may join once until {until}, with {}", args.name, path.display()))
        }
        None => {
            shell.say(&format!("{} may join once until {until}, with this token, shown once:", args.name));
            shell.print(&format!("{}\n", token.text()))?;
        }
    }
    Ok(Exit::Done)
}
