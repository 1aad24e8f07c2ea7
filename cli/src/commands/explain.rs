//! `bursar explain`: why.

use proto::v1::ExplainRequest;

use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar explain 4190        why this job waits, runs, or ended; if it gave way: for whom, why it, at what cost\n  \
    bursar explain 4190.1      one attempt\n  \
    bursar explain 4190[7]     one task of an array; 4190 is all of it\n  \
    bursar explain d8841.0     one decision, with both sides' numbers as they were\n  \
    bursar explain 4190 --what-if gpus=16,min-runtime=1h     what would become of it then: also gpu-type, cluster,\n  \
    \x20                        unallocated, turn, node=NAME (back), share=BUDGET:PERCENT, cap\n  \
    bursar explain B1203       why a submission was refused, without a network")]
pub struct Args {
    /// A job, an attempt, a decision, or the code of a refusal
    #[arg(value_name = "JOB|ATTEMPT|DECISION|CODE")]
    pub subject: String,
    /// What would become of a waiting job if something were another, like `gpus=16,min-runtime=1h`; no promise
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub what_if: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When there is no such thing, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    if !args.what_if.is_empty() {
        return super::what_if::run(shell, &args.subject, &args.what_if).await;
    }
    if let Some(text) = super::help::of_code(&args.subject) {
        shell.print(&text)?;
        return Ok(Exit::Done);
    }
    check(&args.subject)?;
    let mut view = shell.client()?.explain(ExplainRequest { read: None, subject: args.subject }).await?;
    super::schema(&mut view.schema, "explanation/v1");
    shell.show(&view, &[view.reason.clone()], |look| render::explain::explain(&view, look))?;
    Ok(Exit::Done)
}

/// Says what can be explained, where a subject is none of it.
fn check(subject: &str) -> Result<(), Failure> {
    let is_decision = subject.strip_prefix('d').is_some_and(|rest| {
        rest.split('.').count() == 2 && rest.split('.').all(|part| part.parse::<u64>().is_ok())
    });
    if is_decision || super::subject::parse(subject).is_ok() {
        return Ok(());
    }
    Err(Failure::new(codes::USAGE, format!("`{subject}` is no job, attempt or decision")).fix(
        "write 4190, 4190[7], 4190.2 or d8841.0; nodes: bursar node show, budgets: bursar budget tree, codes: bursar help B1203",
    ))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_what_can_be_explained_is_asked_for() {
        for subject in ["4190", "4190.2", "4190[7]", "4190[7].2", "d8841.0"] {
            assert!(check(subject).is_ok(), "{subject}");
        }
        for subject in ["", "d", "d12", "d12.", "d12.0.1", "node-17", "language/posttrain", "4190.x"] {
            assert!(check(subject).is_err(), "{subject}");
        }
    }
}
