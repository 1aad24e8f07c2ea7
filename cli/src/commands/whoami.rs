//! `bursar whoami`: who you are to the control plane.

use proto::v1::WhoAmIRequest;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Runs the command.
///
/// # Errors
/// When the token opens nothing, or no replica answers.
pub async fn run(shell: &Shell) -> Result<Exit, Failure> {
    let view = shell.client()?.who_am_i(WhoAmIRequest {}).await?;
    shell.show(&view, std::slice::from_ref(&view.name), |_| render::principal::principal(&view))?;
    Ok(Exit::Done)
}
