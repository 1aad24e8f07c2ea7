//! `bursar budget usage`: what was owed, and what of it was delivered.

use proto::v1::{BudgetUsageRequest, ReadAs};

use super::past;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `budget usage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar budget usage                        all budgets, over the window\n  \
    bursar budget usage language --since 24h   one budget, hour by hour\n  \
    bursar budget usage language -o jsonl\n\n\
    OWED is, hour by hour, what the share was worth or what its jobs had or wanted, whichever is less. DELIVERED is what\n\
    funded jobs occupied; HOURLY counts only what came in the hour in which it was owed, OVERALL also what came later.")]
pub struct Args {
    /// One budget with its hours; all of them if not given
    budget: Option<String>,
    /// Only from this moment on, at most the window ago: `24h` (before now), `2027-01-31 17:30`, or RFC 3339
    #[arg(long, value_name = "MOMENT")]
    since: Option<String>,
    /// Only before this moment
    #[arg(long, value_name = "MOMENT")]
    until: Option<String>,
    /// Take any replica's word, which may be old
    #[arg(long)]
    stale: bool,
}

/// Runs the command.
///
/// # Errors
/// When there is no such budget, no replica answers, or a moment is none.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let time = past::time(shell, &client, args.since.as_deref(), args.until.as_deref()).await?;
    let request = BudgetUsageRequest {
        read: Some(ReadAs { stale: args.stale }),
        budget: args.budget,
        since_at: time.since_at,
        until_at: time.until_at,
    };
    let mut view = client.budget_usage(request).await?;
    super::schema(&mut view.schema, "budget-usage/v1");
    let rows: Vec<_> = view.pools.iter().flat_map(|pool| pool.budgets.clone()).collect();
    let names: Vec<String> = rows.iter().map(|row| row.budget.clone()).collect();
    shell.show_rows(&view, &rows, &names, |look| render::budget_usage::usage(&view, look))?;
    Ok(Exit::Done)
}
