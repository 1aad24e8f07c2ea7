//! `bursar doctor`: what is wrong, and what to type.

use std::path::PathBuf;

use serde::Serialize;

use crate::doctor::{self, Finding, Severity};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::text::{plain, wrap};
use crate::shell::Shell;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar doctor                               asks every replica that can be found, and the nodes\n  \
    bursar doctor --data /var/lib/bursar-server looks into a replica's data, on its machine; changes nothing\n\n\
    Exit code 0: nothing is wrong (there may be notes). Exit code 1: something is.")]
pub struct Args {
    /// A replica's data directory on this machine, to be looked at without a server
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    /// Addresses that answered, of those that were asked.
    answered: usize,
    asked: usize,
    findings: &'a [Finding],
}

/// Runs the command.
///
/// # Errors
/// When the context cannot be read, or the directory cannot be looked at.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let (findings, asked, answered, intro) = match &args.data {
        Some(dir) => {
            let (says, findings) = doctor::examine(dir)?;
            (findings, 0, 0, says)
        }
        None => {
            let (servers, token) = shell.servers_and_token()?;
            let gathered = doctor::gather(&servers, token.as_deref()).await?;
            let asked = gathered.replicas.len();
            let answered = gathered.replicas.values().filter(|one| one.hello.is_some()).count();
            let intro = format!("{answered} of {asked} addresses answer, {} nodes\n", gathered.nodes.len());
            (doctor::diagnose(&gathered), asked, answered, intro)
        }
    };
    let report = Report { schema: "doctor/v1", answered, asked, findings: &findings };
    let names: Vec<String> = findings.iter().map(|finding| finding.reason.to_owned()).collect();
    shell.show_rows(&report, &findings, &names, |_| format!("{intro}{}", render(&findings)))?;
    let is_wrong = findings.iter().any(|finding| finding.severity != Severity::Note);
    Ok(if is_wrong { Exit::Other } else { Exit::Done })
}

fn render(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        for (n, line) in wrap(&plain(&finding.says), 88).into_iter().enumerate() {
            out.push_str(&format!("{:<9}{line}\n", if n == 0 { finding.severity.word() } else { "" }));
        }
        for (n, line) in wrap(&plain(&finding.fix), 84).into_iter().enumerate() {
            out.push_str(&format!("{:<9}{:<5}{line}\n", "", if n == 0 { "fix" } else { "" }));
        }
    }
    if !findings.iter().any(|finding| finding.severity != Severity::Note) {
        out.push_str("nothing is wrong\n");
    }
    out
}
