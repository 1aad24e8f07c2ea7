//! `bursar capacity`: how large a job could start.

use proto::v1::{CapacityRequest, ReadAs};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `capacity`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bursar capacity\n  bursar capacity -o wide      with all ends of protection"
)]
pub struct Args {
    /// Take any replica's word, which may be old
    #[arg(long)]
    pub stale: bool,
}

/// Runs the command.
///
/// # Errors
/// When no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let request = CapacityRequest { read: Some(ReadAs { stale: args.stale }) };
    let mut view = shell.client()?.capacity(request).await?;
    super::schema(&mut view.schema, "capacity/v1");
    let pools = view.pools.iter().filter_map(|pool| pool.gpus.as_ref());
    let names: Vec<String> = pools.map(|pool| pool.name.clone()).collect();
    shell.show_rows(&view, &view.pools, &names, |look| render::capacity::capacity(&view, look))?;
    Ok(Exit::Done)
}
