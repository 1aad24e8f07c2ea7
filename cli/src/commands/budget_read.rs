//! `bursar budget show|history|cancel`: one budget in full, and what was changed, when, by whom and why.

use proto::v1::{
    AuditRequest, AuditView, BudgetTreeRequest, CancelBudgetEditRequest, EditView, Reach, ReadAs,
    ShowBudgetRequest,
};
use serde::Serialize;

use super::past;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `budget show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// Its path, or the root's name
    budget: String,
    /// Take any replica's word, which may be old
    #[arg(long)]
    stale: bool,
}

/// Arguments of `budget history`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar budget history                       every edit and grant, the newest first, those to come on top\n  \
    bursar budget history language --since 30d  those of one budget and of what is below it")]
pub struct History {
    /// Only changes of this budget and of what is below it
    budget: Option<String>,
    /// Only from this moment on: `7d` (before now), `2027-01-31`, `2027-01-31 17:30`, or RFC 3339
    #[arg(long, value_name = "MOMENT")]
    since: Option<String>,
    /// Only before this moment
    #[arg(long, value_name = "MOMENT")]
    until: Option<String>,
    /// Also what was refused
    #[arg(long)]
    refused: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Take any replica's word, which may be old
    #[arg(long)]
    stale: bool,
}

/// Arguments of `budget cancel`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  bursar budget cancel 3 --reason \"the quarter begins later\"")]
pub struct Cancel {
    /// The edit's number: `budget history` lists those to come
    #[arg(value_name = "EDIT")]
    edit: u32,
    /// Why; kept with it
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// The history of the tree.
#[derive(Debug, Serialize)]
pub struct HistoryView {
    /// `budget-history/v1`.
    pub schema: String,
    /// Edits whose time has not come, the next one first.
    pub to_come: Vec<EditView>,
    /// Newest first.
    pub rows: Vec<AuditView>,
    /// How far back it reaches.
    pub reach: Option<Reach>,
}

/// Shows one budget in full.
///
/// # Errors
/// When there is none, or no replica answers.
pub async fn show(shell: &Shell, args: Show) -> Result<Exit, Failure> {
    let request = ShowBudgetRequest { read: Some(ReadAs { stale: args.stale }), budget: args.budget };
    let mut view = shell.client()?.show_budget(request).await?;
    super::schema(&mut view.schema, "budget/v1");
    shell.show(&view, &[view.path.clone()], |look| render::budget_one::budget(&view, look))?;
    Ok(Exit::Done)
}

/// Shows what was changed.
///
/// # Errors
/// When no replica answers, or a moment is none.
pub async fn history(shell: &Shell, args: History) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let time = past::time(shell, &client, args.since.as_deref(), args.until.as_deref()).await?;
    let read = Some(ReadAs { stale: args.stale });
    let tree = client.budget_tree(BudgetTreeRequest { read }).await?;
    let request = AuditRequest {
        read,
        since_at: time.since_at,
        until_at: time.until_at,
        action: Some("budget".into()),
        budget: args.budget.clone(),
        limit: args.limit,
        ..AuditRequest::default()
    };
    let list = client.audit(request).await?;
    let mut rows = list.rows;
    rows.retain(|row| args.refused || row.refused.is_none());
    let is_meant = |edit: &EditView| {
        let is_below = |path: &str, above: &str| {
            path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
        };
        args.budget.as_deref().is_none_or(|above| edit.changes.iter().any(|one| is_below(&one.path, above)))
    };
    let mut to_come: Vec<EditView> =
        tree.edits.into_iter().filter(|edit| edit.state == "to-come" && is_meant(edit)).collect();
    to_come.sort_by_key(|edit| edit.at);
    let schema = "budget-history/v1".to_owned();
    let view = HistoryView { schema, to_come, rows, reach: list.reach };
    let names: Vec<String> = view.rows.iter().map(|row| format!("{}.{}", row.index, row.n)).collect();
    let asked = time.since_at;
    shell.show_rows(&view, &view.rows, &names, |look| render::budget_edit::history(&view, asked, look))?;
    Ok(Exit::Done)
}

/// Takes an edit back whose time has not come.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn cancel(shell: &Shell, args: Cancel) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let mark = Some(client.mark(None).await?);
    let request = CancelBudgetEditRequest { mark, edit: args.edit, reason: args.reason };
    let done = client.cancel_budget_edit(request).await;
    done.map_err(|failure| failure.closing("nothing was changed"))?;
    shell.say(&format!("edit {} is taken back", args.edit));
    Ok(Exit::Done)
}
