//! `bursar budget`: the tree that divides GPU time, and changes to it.

use std::path::PathBuf;

use clap::Subcommand;
use proto::v1::{BudgetApplyRequest, BudgetPlanReply, BudgetPlanRequest, BudgetTreeRequest, ReadAs};

use super::{budget_read, budget_usage};
use crate::client::Client;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::{Format, Shell};
use crate::tree_file::{self, TreeFile};

/// Arguments of `budget`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the tree: shares, allocation, charge, use, and whose turn it is
    Tree {
        /// Only this budget and what is below it
        budget: Option<String>,
        /// Take any replica's word, which may be old
        #[arg(long)]
        stale: bool,
    },
    /// Show what a file would change
    Plan(Plan),
    /// Make a file's tree the present one
    Apply(Apply),
    /// Show one budget in full
    Show(budget_read::Show),
    /// Show what was owed and delivered; of one budget, hour by hour
    Usage(budget_usage::Args),
    /// Show who changed what, when and why, and edits to come
    History(budget_read::History),
    /// Take an edit back whose time has not come
    Cancel(budget_read::Cancel),
    /// Give a budget more share for a time; `grant list` and `grant end` look after them
    Grant(super::grant::Args),
}

#[derive(Debug, clap::Args)]
struct Plan {
    /// The tree (YAML)
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// End with exit code 10 if there is a difference
    #[arg(long)]
    exit_code: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bursar budget apply -f budgets.yaml --reason \"grasp has a deadline in May\"\n  \
    bursar budget apply -f budgets.yaml --at \"2027-01-01 00:00\" --reason \"the new year's shares\"\n\n\
    Moments are `2h` (from now), `17:30`, or `2027-01-31 17:30`. What an edit with a start time changes is carried over\n\
    to the tree of that moment; if that was changed in another way since, it is dropped, and an event says so."
)]
struct Apply {
    /// The tree (YAML)
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Why; kept with the change and shown to those it affects
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// When it takes effect; at once if not given
    #[arg(long, value_name = "MOMENT")]
    at: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.action {
        Action::Tree { budget, stale } => tree(shell, budget, stale).await,
        Action::Plan(args) => plan(shell, args).await,
        Action::Apply(args) => apply(shell, args).await,
        Action::Show(args) => budget_read::show(shell, args).await,
        Action::Usage(args) => budget_usage::run(shell, args).await,
        Action::History(args) => budget_read::history(shell, args).await,
        Action::Cancel(args) => budget_read::cancel(shell, args).await,
        Action::Grant(args) => super::grant::run(shell, args).await,
    }
}

async fn tree(shell: &Shell, budget: Option<String>, stale: bool) -> Result<Exit, Failure> {
    let request = BudgetTreeRequest { read: Some(ReadAs { stale }) };
    let mut view = shell.client()?.budget_tree(request).await?;
    super::schema(&mut view.schema, "budget-tree/v1");
    if let Some(budget) = budget {
        let is_below = |path: &str| {
            path == budget || path.strip_prefix(&budget).is_some_and(|rest| rest.starts_with('/'))
        };
        let is_root = view.tree.as_ref().is_some_and(|root| root.name == budget);
        for pool in view.pools.iter_mut().filter(|_| !is_root) {
            pool.rows.retain(|row| is_below(&row.path));
        }
        if view.pools.iter().all(|pool| pool.rows.is_empty()) && !view.pools.is_empty() {
            return Err(Failure::new(1301, format!("no budget `{budget}`"))
                .fix("bursar budget tree")
                .exit(Exit::NotFound));
        }
    }
    let names: Vec<String> = view
        .pools
        .first()
        .map(|pool| pool.rows.iter().map(|row| row.path.clone()).collect())
        .unwrap_or_default();
    shell.show(&view, &names, |look| render::budget::tree(&view, look))?;
    Ok(Exit::Done)
}

async fn difference(client: &Client, file: &TreeFile) -> Result<BudgetPlanReply, Failure> {
    let request = BudgetPlanRequest { tree: Some(file.tree.clone()) };
    let mut plan = client.budget_plan(request).await.map_err(|failure| file.point(failure))?;
    super::schema(&mut plan.schema, "budget-plan/v1");
    Ok(plan)
}

async fn plan(shell: &Shell, args: Plan) -> Result<Exit, Failure> {
    let file = tree_file::read(&args.file)?;
    let plan = difference(&shell.client()?, &file).await?;
    let names: Vec<String> = plan.changes.iter().map(|change| change.path.clone()).collect();
    shell.show_rows(&plan, &plan.changes, &names, |look| render::budget::plan(&plan, look))?;
    Ok(if args.exit_code && !plan.changes.is_empty() { Exit::Changes } else { Exit::Done })
}

async fn apply(shell: &Shell, args: Apply) -> Result<Exit, Failure> {
    if args.reason.trim().is_empty() {
        return Err(Failure::new(codes::USAGE, "the reason is empty").fix("--reason TEXT says why"));
    }
    let file = tree_file::read(&args.file).map_err(|failure| failure.closing("nothing was changed"))?;
    let client = shell.client()?;
    let at = match &args.at {
        None => None,
        Some(text) => {
            let read = shell.look.zone.later(text, client.hello().await?.cluster_time_at);
            Some(read.map_err(|what| Failure::new(codes::MOMENT, format!("--at: {what}")))?)
        }
    };
    let plan = difference(&client, &file).await?;
    if plan.changes.is_empty() {
        shell.say("no difference: the tree is as the file says");
        return Ok(Exit::Done);
    }
    // The difference is what the answer depends on: it is talk here, and the outcome is the data.
    shell.say(render::budget::plan(&plan, &shell.look).trim_end());
    if !args.yes && !shell.confirm("apply?").map_err(|failure| failure.closing("nothing was changed"))? {
        shell.say("nothing was changed");
        return Ok(Exit::Done);
    }
    let request = BudgetApplyRequest {
        mark: Some(client.mark(None).await?),
        tree: Some(file.tree.clone()),
        revision: plan.revision,
        reason: args.reason,
        at,
    };
    let reply = client.budget_apply(request).await.map_err(|failure| file.point(failure))?;
    let text = match (reply.edit, at) {
        (Some(edit), Some(at)) => format!(
            "edit {edit} takes effect {}; bursar budget cancel {edit} takes it back\n",
            shell.look.zone.full(at)
        ),
        (_, _) => format!("the tree is now revision {}\n", reply.revision),
    };
    let is_table = matches!(shell.format, Format::Table | Format::Wide);
    if is_table {
        shell.print(&text)?
    } else {
        shell.show(&reply, &[reply.revision.to_string()], |_| text)?
    }
    Ok(Exit::Done)
}
