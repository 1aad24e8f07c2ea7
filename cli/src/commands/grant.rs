//! `bursar budget grant`: more share for a time.

use clap::Subcommand;
use proto::v1::{BudgetGrantRequest, BudgetGrantsRequest, EndBudgetGrantRequest, GrantView, ReadAs};

use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;
use crate::submission::percent;

/// Arguments of `budget grant`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    bursar budget grant language/posttrain --share 10 --until \"2027-03-01 18:00\" --reason \"paper deadline\"\n  \
    bursar budget grant robotics --share 5 --from-budget language --until 3d --reason \"demo on Friday\"\n  \
    bursar budget grant list\n  \
    bursar budget grant end 12 --reason \"the demo is over\"\n\n\
    The share is of the budget above, as in the tree's file. It comes from a sibling, or from what nobody has there. It\n\
    counts for its own time alone: nobody goes later afterwards for having used it. It ends by itself.\n\n\
    Moments are `2h` (from now), `17:30`, or `2027-01-31 17:30`."
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Who gets it
    #[arg(value_name = "BUDGET", required = true)]
    budget: Option<String>,
    /// How much, in percent of the budget above
    #[arg(long, value_name = "PERCENT", required = true)]
    share: Option<String>,
    /// When it ends
    #[arg(long, value_name = "MOMENT", required = true)]
    until: Option<String>,
    /// When it begins; at once if not given
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// The sibling that gives it; what nobody has of the budget above if not given
    #[arg(long, value_name = "BUDGET")]
    from_budget: Option<String>,
    /// Why; kept with it and shown to those it affects
    #[arg(long, value_name = "TEXT", required = true)]
    reason: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the grants that run, will, or still count in the window
    List {
        /// Only those of this budget and of what is below it
        budget: Option<String>,
        /// Take any replica's word, which may be old
        #[arg(long)]
        stale: bool,
    },
    /// End a grant now, or take it back before it begins
    End {
        /// Its number
        #[arg(value_name = "ID")]
        grant: u32,
        /// Why; shown to those it affects
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.action {
        Some(Action::List { budget, stale }) => list(shell, budget, stale).await,
        Some(Action::End { grant, reason }) => end(shell, grant, reason).await,
        None => make(shell, args).await.map_err(|failure| failure.closing("nothing was changed")),
    }
}

async fn make(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let needed = |flag: &str, value: Option<String>| {
        value.ok_or_else(|| Failure::new(codes::USAGE, format!("{flag} is missing")))
    };
    let share = needed("--share", args.share)?;
    let share_ppm = percent(&share).map_err(|what| Failure::new(codes::USAGE, format!("--share: {what}")))?;
    let client = shell.client()?;
    let now = client.hello().await?.cluster_time_at;
    let moment = |flag: &str, text: &str| {
        let read = shell.look.zone.later(text, now);
        read.map_err(|what| Failure::new(codes::MOMENT, format!("{flag}: {what}")))
    };
    let request = BudgetGrantRequest {
        mark: Some(client.mark(None).await?),
        budget: needed("the budget", args.budget)?,
        from_budget: args.from_budget,
        share_ppm,
        begins_at: args.from.as_deref().map(|text| moment("--from", text)).transpose()?,
        until_at: moment("--until", &needed("--until", args.until)?)?,
        reason: needed("--reason", args.reason)?,
    };
    let view = client.budget_grant(request).await?;
    shown(shell, view)
}

async fn end(shell: &Shell, grant: u32, reason: String) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let request = EndBudgetGrantRequest { mark: Some(client.mark(None).await?), grant, reason };
    let ended = client.end_budget_grant(request).await;
    shown(shell, ended.map_err(|failure| failure.closing("nothing was changed"))?)
}

fn shown(shell: &Shell, mut view: GrantView) -> Result<Exit, Failure> {
    super::schema(&mut view.schema, "budget-grant/v1");
    shell.show(&view, &[view.grant.to_string()], |look| render::grant::one(&view, look))?;
    Ok(Exit::Done)
}

async fn list(shell: &Shell, budget: Option<String>, stale: bool) -> Result<Exit, Failure> {
    let request = BudgetGrantsRequest { read: Some(ReadAs { stale }), budget };
    let mut view = shell.client()?.budget_grants(request).await?;
    super::schema(&mut view.schema, "budget-grants/v1");
    let names: Vec<String> = view.grants.iter().map(|grant| grant.grant.to_string()).collect();
    shell.show_rows(&view, &view.grants, &names, |look| render::grant::grants(&view, look))?;
    Ok(Exit::Done)
}
