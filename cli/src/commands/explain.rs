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
    bursar explain language/posttrain     why a budget goes before or after its siblings, what it could take and lose\n  \
    bursar explain 4190 --what-if gpus=16,min-runtime=1h     what would become of it then: also gpu-type, cluster,\n  \
    \x20                        unallocated, turn, node=NAME (back), share=BUDGET:PERCENT, cap\n  \
    bursar explain B1203       why a submission was refused, without a network")]
pub struct Args {
    /// A job, an attempt, a decision, a budget, or the code of a refusal
    #[arg(value_name = "JOB|ATTEMPT|DECISION|BUDGET|CODE")]
    pub subject: String,
    /// What would become of a waiting job if something were another, like `gpus=16,min-runtime=1h`; no promise
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub what_if: Vec<String>,
    /// For a job that waits: of so many simulated futures tell when it is likely to start; 0 for none [default: 50]
    #[arg(long, value_name = "N")]
    pub futures: Option<u32>,
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
    let mut view = shell
        .client()?
        .explain(ExplainRequest { read: None, subject: args.subject, futures: args.futures })
        .await?;
    super::schema(&mut view.schema, "explanation/v1");
    shell.show(&view, &[view.reason.clone()], |look| render::explain::explain(&view, look))?;
    Ok(Exit::Done)
}

/// Says what can be explained, where a subject is none of it.
fn check(subject: &str) -> Result<(), Failure> {
    let is_decision = subject.strip_prefix('d').is_some_and(|rest| {
        rest.split('.').count() == 2 && rest.split('.').all(|part| part.parse::<u64>().is_ok())
    });
    let is_level = |level: &str| {
        let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !level.is_empty() && !level.starts_with('-') && level.bytes().all(is_of_name)
    };
    let is_budget = subject.split('/').all(is_level);
    if is_decision || is_budget || super::subject::parse(subject).is_ok() {
        return Ok(());
    }
    Err(Failure::new(codes::USAGE, format!("`{subject}` is no job, attempt, decision or budget")).fix(
        "write 4190, 4190[7], 4190.2, d8841.0 or language/posttrain; nodes: bursar node show, codes: bursar help B1203",
    ))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_what_can_be_explained_is_asked_for() {
        for subject in ["4190", "4190.2", "4190[7]", "4190[7].2", "d8841.0", "language/posttrain", "lab"] {
            assert!(check(subject).is_ok(), "{subject}");
        }
        for subject in ["", "d12.", "d12.0.1", "Node", "language//posttrain", "/a", "-a", "4190.x"] {
            assert!(check(subject).is_err(), "{subject}");
        }
    }
}
