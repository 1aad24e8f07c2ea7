//! From an applied entry and the states around it to what people would say happened.
//!
//! What an entry asks is told from its command; what became of jobs, attempts and nodes from the difference of the two
//! states, since time alone changes them too (a drain begins, a job is tried again).

mod dates;
mod grants;
mod jobs;
mod nodes;

use proto::v1::EventView;
use scheduler_core::agent::RankEvent;
use scheduler_core::command::{Answer, Command, Entry, Outcome, SetTime, TimeSource};
use scheduler_core::id::{AttemptId, BudgetId, JobId, LogIndex, NodeId};
use scheduler_core::principal::Actor;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use crate::views::job::of;
use crate::views::words;

/// Returns the events of one entry, numbered.
pub fn events(
    before: &State,
    after: &State,
    index: LogIndex,
    entry: &Entry,
    answer: &Answer,
) -> Vec<EventView> {
    let mut out = Vec::new();
    let scene = Scene { before, after, actor: words::actor(&entry.actor) };
    scene.command(&entry.actor, &entry.command, answer, &mut out);
    scene.edits(&mut out);
    scene.grants(&mut out);
    scene.nodes(&mut out);
    scene.jobs(&mut out);
    scene.dates(&mut out);
    if before.meta.safe_mode.is_none()
        && let Some(mode) = &after.meta.safe_mode
    {
        out.push(event("safe-mode", &scene.actor, format!("safe mode began: {}", mode.what)));
    }
    for (n, event) in out.iter_mut().enumerate() {
        event.schema = "event/v1".to_owned();
        event.index = index.get();
        event.n = u32::try_from(n).unwrap_or(u32::MAX);
        event.at = after.meta.time.as_millis();
    }
    out
}

/// What time alone does is nobody's word.
const NOBODY: &str = "the control plane";

struct Scene<'a> {
    before: &'a State,
    after: &'a State,
    /// The entry's.
    actor: String,
}

impl Scene<'_> {
    /// What the command itself says.
    fn command(&self, actor: &Actor, command: &Command, answer: &Answer, out: &mut Vec<EventView>) {
        let Ok(outcome) = answer else { return };
        let who = words::actor(actor);
        match command {
            Command::Found(_) => out.push(event("cluster.founded", &who, "the control plane was founded")),
            Command::Cancel(cancel) => {
                let said = format!("its end was asked for{}", words::because(&cancel.reason));
                out.push(self.of_job(cancel.job, event("job.cancel", &who, said)));
            }
            Command::ApplyBudgets(apply) => {
                let (kind, said) = match outcome {
                    Outcome::EditPlanned { edit } => {
                        let at = apply.at.map_or(0, Timestamp::as_millis);
                        let when = proto::json::rfc3339(at);
                        (
                            "budget.edit-planned",
                            format!("edit {edit} takes effect at {when}: {}", apply.reason),
                        )
                    }
                    _ => ("budget.changed", format!("the tree is revision {}", self.after.meta.tree)),
                };
                out.push(event(kind, &who, said));
            }
            Command::CancelEdit(cancel) => {
                let said = format!("edit {} was taken back: {}", cancel.edit, cancel.reason);
                out.push(event("budget.edit-cancelled", &who, said));
            }
            Command::AddPrincipal(add) => {
                out.push(event("principal.added", &who, format!("{} may ask", add.name)));
            }
            Command::RevokePrincipal { name } => {
                let said = format!("{name}'s token opens nothing any more");
                out.push(event("principal.revoked", &who, said));
            }
            Command::IssueJoinToken(issue) => {
                out.push(event("node.token", &who, format!("{} may join", issue.name)));
            }
            Command::Join(join) => {
                if let Outcome::Joined { node } = outcome {
                    let said = format!("{} joined", join.name);
                    out.push(self.of_node(*node, event("node.joined", &who, said)));
                }
            }
            Command::SetNode(set) => {
                let said = format!("is in {}", words::path(&set.topology));
                out.push(self.of_node(set.node, event("node.set", &who, said)));
            }
            Command::SetPool(set) => {
                let said = format!("pool {}: {}", set.pool, words::pool(set));
                out.push(event("pool.set", &who, said));
            }
            Command::Reports { node, reports } => {
                for report in reports {
                    self.report(*node, &who, report.attempt, &report.event, out);
                }
            }
            Command::EndSafeMode { reason } => {
                out.push(event("safe-mode", &who, format!("safe mode ended: {reason}")));
            }
            Command::ResumeTime(resume) => {
                let kind = match resume.from {
                    TimeSource::LastEntry => "time.alarm",
                    TimeSource::Agents | TimeSource::WallClock => "time.resumed",
                };
                out.push(event(kind, &who, resume.what.clone()));
            }
            Command::SetTime(set) => out.push(event("time.set", &who, self.time_set(set))),
            Command::Batch(parts) => {
                let Outcome::Batch(answers) = outcome else { return };
                for ((actor, command), answer) in parts.iter().zip(answers) {
                    self.command(actor, command, answer, out);
                }
            }
            // Told from what became of the jobs, nodes and grants.
            Command::Submit(_)
            | Command::Grant(_)
            | Command::EndGrant(_)
            | Command::Hold(_)
            | Command::Release(_)
            | Command::Requeue(_)
            | Command::Cordon(_)
            | Command::Uncordon(_)
            | Command::Drain(_)
            | Command::Undrain(_)
            | Command::Saves { .. }
            | Command::NodeFacts { .. }
            | Command::NodeUnreachable { .. }
            | Command::NodeBack { .. }
            | Command::Adopt(_) => {}
        }
    }

    fn time_set(&self, set: &SetTime) -> String {
        let jump = self.after.meta.time_jump.filter(|_| set.to.is_some());
        let did = jump.map_or("said to be right".to_owned(), |jump| format!("set {} ahead", jump.span()));
        format!("cluster time was {did}: {}", set.reason)
    }

    fn report(
        &self,
        node: NodeId,
        who: &str,
        attempt: AttemptId,
        what: &RankEvent,
        out: &mut Vec<EventView>,
    ) {
        let said = match what {
            RankEvent::LaunchFailed { what, .. } => {
                event("attempt.launch-failed", who, format!("{attempt} could not start: {what}"))
            }
            RankEvent::Unkillable { what } => {
                event("attempt.unkillable", who, format!("{attempt} cannot be ended: {what}"))
            }
            RankEvent::Ready
            | RankEvent::Started
            | RankEvent::Exited { .. }
            | RankEvent::Freed
            | RankEvent::Unknown { .. } => return,
        };
        out.push(self.of_node(node, self.of_attempt(attempt, said)));
    }

    fn of_job(&self, job: JobId, mut event: EventView) -> EventView {
        event.job = Some(job.get());
        event.budget = of(self.after, job).map(|job| self.path(job.budget));
        event
    }

    fn of_attempt(&self, attempt: AttemptId, event: EventView) -> EventView {
        let mut event = self.of_job(attempt.job, event);
        event.attempt = Some(u32::from(attempt.no.get()));
        event
    }

    fn of_node(&self, node: NodeId, mut event: EventView) -> EventView {
        event.node = Some(words::node_name(self.after, node));
        event
    }

    fn path(&self, budget: BudgetId) -> String {
        words::budget_path(self.after, budget)
    }
}

fn event(kind: &str, actor: &str, sentence: impl Into<String>) -> EventView {
    EventView {
        kind: kind.to_owned(),
        actor: actor.to_owned(),
        sentence: sentence.into(),
        ..EventView::default()
    }
}
