//! `bursar cluster time`: what it is, and an operator's word about it.

use clap::Subcommand;
use proto::v1::{ClusterTimeRequest, ClusterTimeView, ReadAs, SetClusterTimeRequest, SetTimeView};

use crate::client::Client;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `cluster time`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show cluster time, each replica's wall clock and boot, and what is wrong with them
    Show {
        /// Take any replica's word, which may be old: works without a leader
        #[arg(long)]
        stale: bool,
    },
    /// Set cluster time forward, or say that it is right as it is
    Set(Set),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar cluster time set wall --reason \"power cut of two weeks, NTP is fine\"\n  \
    bursar cluster time set \"2027-01-31 17:30\" --reason \"by the clock on the wall\" --preview\n  \
    bursar cluster time set now --reason \"it is right, the wall clocks are not\"\n\n\
    It goes forward at once, and never back: a time ahead of the wall clocks is slewed towards them by itself.")]
struct Set {
    /// A moment (`2027-01-31 17:30`, or `2h` from cluster time), `wall` (the median of the wall clocks), or `now` (it is
    /// right as it is)
    #[arg(value_name = "TIME")]
    time: String,
    /// Why; kept for ever
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Only show what would happen
    #[arg(long)]
    preview: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, nobody can be asked, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.action {
        None => show(shell, false).await,
        Some(Action::Show { stale }) => show(shell, stale).await,
        Some(Action::Set(args)) => {
            set(shell, args).await.map_err(|failure| failure.closing("nothing was changed"))
        }
    }
}

async fn show(shell: &Shell, stale: bool) -> Result<Exit, Failure> {
    let view = read(&shell.client()?, stale).await?;
    let name = view.cluster_time_at.to_string();
    shell.show(&view, std::slice::from_ref(&name), |look| render::time::clocks(&view, look))?;
    Ok(Exit::Done)
}

async fn read(client: &Client, stale: bool) -> Result<ClusterTimeView, Failure> {
    let mut view = client.cluster_time(ClusterTimeRequest { read: Some(ReadAs { stale }) }).await?;
    super::schema(&mut view.schema, "cluster-time/v1");
    Ok(view)
}

async fn set(shell: &Shell, args: Set) -> Result<Exit, Failure> {
    if args.reason.trim().is_empty() {
        return Err(Failure::new(codes::USAGE, "the reason is empty").fix("--reason TEXT says why"));
    }
    let client = shell.client()?;
    let to_at = target(shell, &client, args.time.trim()).await?;
    let request = SetClusterTimeRequest { mark: None, to_at, reason: args.reason, preview: false };
    let mut seen =
        client.set_cluster_time(SetClusterTimeRequest { preview: true, ..request.clone() }).await?;
    super::schema(&mut seen.schema, "set-time/v1");
    if args.preview {
        return shown(shell, &seen, true);
    }
    if !args.yes {
        // What it would do is what the answer depends on: it is talk here, and the outcome is the data.
        shell.tell(render::time::set(&seen, true, &shell.look).trim_end());
        if !shell.confirm("set cluster time?")? {
            shell.say("nothing was changed");
            return Ok(Exit::Done);
        }
    }
    // The person may have thought for long: what was meant as a distance from now is one still.
    let to_at = match to_at {
        Some(_) => target(shell, &client, args.time.trim()).await?,
        None => None,
    };
    let request = SetClusterTimeRequest { mark: Some(client.mark(None).await?), to_at, ..request };
    let mut view = client.set_cluster_time(request).await?;
    super::schema(&mut view.schema, "set-time/v1");
    shown(shell, &view, false)
}

/// Returns the moment that was typed; none if time is said to be right.
async fn target(shell: &Shell, client: &Client, text: &str) -> Result<Option<u64>, Failure> {
    if text == "now" {
        return Ok(None);
    }
    let view = read(client, false).await?;
    if text == "wall" {
        return Ok(view.wall_at);
    }
    let read = shell.look.zone.at(text, view.cluster_time_at);
    read.map(Some).map_err(|what| Failure::new(codes::MOMENT, what))
}

fn shown(shell: &Shell, view: &SetTimeView, is_preview: bool) -> Result<Exit, Failure> {
    let name = view.to_at.to_string();
    shell.show(view, std::slice::from_ref(&name), |look| render::time::set(view, is_preview, look))?;
    Ok(Exit::Done)
}
