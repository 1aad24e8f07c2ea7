//! `bursar queue`: the line, in the order in which jobs start.

use proto::v1::{QueueRequest, ReadAs};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `queue`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bursar queue\n  bursar queue --budget language --top 100\n  bursar queue --mine -o json"
)]
pub struct Args {
    /// Only this budget and what is below it
    #[arg(long, value_name = "BUDGET")]
    pub budget: Option<String>,
    /// Only this user's jobs
    #[arg(long, value_name = "NAME", conflicts_with = "mine")]
    pub user: Option<String>,
    /// Only my jobs
    #[arg(long)]
    pub mine: bool,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub top: u32,
    /// Take any replica's word, which may be old
    #[arg(long)]
    pub stale: bool,
}

/// Runs the command.
///
/// # Errors
/// When no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let user = match args.mine {
        true => Some(client.who_am_i(proto::v1::WhoAmIRequest {}).await?.name),
        false => args.user,
    };
    let read = Some(ReadAs { stale: args.stale });
    let request = QueueRequest { read, budget: args.budget, user, top: args.top };
    let mut view = client.queue(request).await?;
    super::schema(&mut view.schema, "queue/v1");
    let names: Vec<String> = view.rows.iter().map(|row| row.job.to_string()).collect();
    shell.show_rows(&view, &view.rows, &names, |look| render::queue::queue(&view, look))?;
    Ok(Exit::Done)
}
