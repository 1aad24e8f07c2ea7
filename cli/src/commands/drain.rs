//! `bursar node drain`: empties a node, after it has shown who leaves when.

use proto::v1::{DrainNodeRequest, DrainView};

use crate::client::Client;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `node drain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar node drain node-17 --reason \"retired ECC page, RMA 3381\"\n  \
    bursar node drain node-17 --reason \"new driver\" --window \"2027-01-31 06:00\"   nothing runs there then\n  \
    bursar node drain node-17 --reason \"smoke\" --now                             takes protection away\n\n\
    Moments are `2h` (from now), `17:30`, or `2027-01-31 17:30`.")]
pub struct Args {
    /// Its name
    #[arg(value_name = "NODE")]
    name: String,
    /// Why; shown to everybody whose job leaves
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Empty by then, also if that takes protection away
    #[arg(long, value_name = "MOMENT", conflicts_with = "now")]
    deadline: Option<String>,
    /// Empty as soon as its jobs have saved, also if that takes protection away
    #[arg(long)]
    now: bool,
    /// Begin then: until then only work comes whose protection is over by then
    #[arg(long, value_name = "MOMENT", conflicts_with = "now")]
    window: Option<String>,
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
    let undone = |failure: Failure| failure.closing("nothing was changed");
    if args.reason.trim().is_empty() {
        return Err(undone(Failure::new(codes::USAGE, "the reason is empty").fix("--reason TEXT says why")));
    }
    let client = shell.client()?;
    let request = asked(shell, &client, &args).await.map_err(undone)?;
    let seen = preview(&client, &request).await.map_err(undone)?;
    if args.preview {
        return shown(shell, &seen, true);
    }
    if !args.yes && !may_go_on(shell, &seen).map_err(undone)? {
        shell.say("nothing was changed");
        return Ok(Exit::Done);
    }
    let request = DrainNodeRequest { mark: Some(client.mark(None).await.map_err(undone)?), ..request };
    let mut view = client.drain_node(request).await.map_err(undone)?;
    super::schema(&mut view.schema, "drain/v1");
    shown(shell, &view, false)
}

fn shown(shell: &Shell, view: &DrainView, is_preview: bool) -> Result<Exit, Failure> {
    let names: Vec<String> = view.jobs.iter().map(|job| job.attempt.clone()).collect();
    shell.show_rows(view, &view.jobs, &names, |look| render::drain::drain(view, is_preview, look))?;
    Ok(Exit::Done)
}

async fn asked(shell: &Shell, client: &Client, args: &Args) -> Result<DrainNodeRequest, Failure> {
    let now = client.hello().await?.cluster_time_at;
    let moment = |flag: &str, text: &Option<String>| {
        let read = text.as_ref().map(|text| shell.look.zone.later(text, now)).transpose();
        read.map_err(|what| Failure::new(codes::MOMENT, format!("{flag}: {what}")))
    };
    Ok(DrainNodeRequest {
        mark: None,
        name: args.name.clone(),
        reason: args.reason.clone(),
        deadline_at: moment("--deadline", &args.deadline)?,
        now: args.now,
        begins_at: moment("--window", &args.window)?,
        preview: false,
    })
}

async fn preview(client: &Client, request: &DrainNodeRequest) -> Result<DrainView, Failure> {
    let mut view = client.drain_node(DrainNodeRequest { preview: true, ..request.clone() }).await?;
    super::schema(&mut view.schema, "drain/v1");
    Ok(view)
}

/// Asks on a terminal. Off one a drain that takes nothing from anybody goes on; any other needs `--yes`.
fn may_go_on(shell: &Shell, seen: &DrainView) -> Result<bool, Failure> {
    // What it would do is what the answer depends on: it is talk here, and the outcome is the data.
    let show = || shell.tell(render::drain::drain(seen, true, &shell.look).trim_end());
    if shell.can_ask() {
        show();
        return shell.confirm(&format!("drain {}?", seen.node));
    }
    match seen.jobs.iter().find(|job| job.cuts_ms > 0) {
        None => Ok(true),
        Some(job) => {
            show();
            let what = format!("this takes protection away, from {} at least", job.attempt);
            Err(Failure::new(codes::CONFIRM, what).fix("look at what is shown, then give --yes"))
        }
    }
}
