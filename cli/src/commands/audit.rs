//! `bursar audit`: who asked what, and what became of it.

use proto::v1::{AuditList, AuditRequest, ReadAs};

use super::{past, subject};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar audit                             the newest hundred\n  \
    bursar audit --job 4190                  who submitted, held, cancelled it, and why\n  \
    bursar audit --actor ana --since 7d\n  \
    bursar audit --what node --since 2027-01-01 --until 2027-02-01\n  \
    bursar audit --refused -o jsonl\n\n\
    Newest first. Reasons are public; arguments and environment of jobs are not kept here.")]
pub struct Args {
    /// Only what this principal asked
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Only from this moment on: `7d` (before now), `2027-01-31`, `2027-01-31 17:30`, or RFC 3339
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<String>,
    /// Only before this moment
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<String>,
    /// Only this: `job.cancel`, `node.drain`; or a family of it: `job`, `node`, `budget`, `principal`, `cluster`
    #[arg(long, value_name = "WHAT")]
    pub what: Option<String>,
    /// Only about this job
    #[arg(long, value_name = "JOB")]
    pub job: Option<String>,
    /// Only about this node
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Only about this budget and what is below it
    #[arg(long, value_name = "BUDGET")]
    pub budget: Option<String>,
    /// Only what was refused
    #[arg(long)]
    pub refused: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u32,
    /// Take any replica's word, which may be old
    #[arg(long)]
    pub stale: bool,
}

/// Runs the command.
///
/// # Errors
/// When no replica answers, or a moment is none.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let job = args.job.as_deref().map(subject::job).transpose()?;
    let client = shell.client()?;
    let job = match job {
        Some(job) => Some(job.number(&client).await?),
        None => None,
    };
    let time = past::time(shell, &client, args.since.as_deref(), args.until.as_deref()).await?;
    let mut request = AuditRequest {
        read: Some(ReadAs { stale: args.stale }),
        actor: args.actor,
        since_at: time.since_at,
        until_at: time.until_at,
        action: args.what,
        job,
        node: args.node,
        budget: args.budget,
        refused: args.refused,
        limit: args.limit,
        from: None,
    };
    let mut all: Option<AuditList> = None;
    loop {
        let page = client.audit(request.clone()).await?;
        let next = page.next.clone();
        let found = u32::try_from(page.rows.len()).unwrap_or(u32::MAX);
        match &mut all {
            None => all = Some(page),
            Some(all) => {
                all.rows.extend(page.rows);
                all.next = page.next;
                past::reach(&mut all.reach, page.reach);
            }
        }
        request.limit = request.limit.saturating_sub(found);
        request.from = next;
        if request.limit == 0 || request.from.is_none() {
            break;
        }
    }
    let mut view = all.unwrap_or_default();
    super::schema(&mut view.schema, "audit-list/v1");
    let names: Vec<String> = view.rows.iter().map(|row| format!("{}.{}", row.index, row.n)).collect();
    let asked = time.since_at;
    shell.show_rows(&view, &view.rows, &names, |look| render::audit::audit(&view, asked, look))?;
    Ok(Exit::Done)
}
