//! `bursar whoami`: who you are to the control plane.

use proto::v1::{PrincipalView, WhoAmIRequest};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// What it says in JSON.
#[derive(Debug, Serialize)]
struct Said<'a> {
    schema: &'static str,
    #[serde(flatten)]
    view: &'a PrincipalView,
}

/// Runs the command.
///
/// # Errors
/// When the token opens nothing, or no replica answers.
pub async fn run(shell: &Shell) -> Result<Exit, Failure> {
    let view = shell.client()?.who_am_i(WhoAmIRequest {}).await?;
    let said = Said { schema: "whoami/v1", view: &view };
    shell.show(&said, std::slice::from_ref(&view.name), |_| render::principal::principal(&view))?;
    Ok(Exit::Done)
}
