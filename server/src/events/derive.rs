//! From an applied entry and the states around it to what people would say happened.

use std::collections::BTreeSet;

use proto::v1::EventView;
use scheduler_core::agent::RankEvent;
use scheduler_core::command::{Answer, Command, Entry, Outcome};
use scheduler_core::id::{AttemptId, BudgetId, JobId, LogIndex, NodeId};
use scheduler_core::job::{End, Job, Phase};
use scheduler_core::principal::Actor;
use scheduler_core::state::State;

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
    let mut jobs = BTreeSet::new();
    let scene = Scene { before, after };
    scene.command(&entry.actor, &entry.command, answer, &mut out, &mut jobs);
    for job in jobs {
        scene.job(job, &entry.actor, &mut out);
    }
    if before.meta.safe_mode.is_none()
        && let Some(mode) = &after.meta.safe_mode
    {
        out.push(event("safe-mode", &entry.actor, format!("safe mode began: {}", mode.what)));
    }
    for (n, event) in out.iter_mut().enumerate() {
        event.schema = "event/v1".to_owned();
        event.index = index.get();
        event.n = u32::try_from(n).unwrap_or(u32::MAX);
        event.at = after.meta.time.as_millis();
    }
    out
}

struct Scene<'a> {
    before: &'a State,
    after: &'a State,
}

impl Scene<'_> {
    /// What the command itself says, and the jobs it may have touched.
    fn command(
        &self,
        actor: &Actor,
        command: &Command,
        answer: &Answer,
        out: &mut Vec<EventView>,
        jobs: &mut BTreeSet<JobId>,
    ) {
        let Ok(outcome) = answer else { return };
        match command {
            Command::Found(_) => out.push(event("cluster.founded", actor, "the control plane was founded")),
            Command::Submit(_) => {
                if let Outcome::Submitted { job } = outcome {
                    jobs.insert(*job);
                }
            }
            Command::Cancel(cancel) => {
                jobs.insert(cancel.job);
                out.push(self.of_job(cancel.job, event("job.cancel", actor, "its end was asked for")));
            }
            Command::ApplyBudgets(_) => {
                out.push(event(
                    "budget.changed",
                    actor,
                    format!("the tree is revision {}", self.after.meta.tree),
                ));
            }
            Command::AddPrincipal(add) => {
                out.push(event("principal.added", actor, format!("{} may ask", add.name)));
            }
            Command::RevokePrincipal { name } => {
                out.push(event("principal.revoked", actor, format!("{name}'s token opens nothing any more")));
            }
            Command::IssueJoinToken(issue) => {
                out.push(event("node.token", actor, format!("{} may join", issue.name)));
            }
            Command::Join(join) => {
                if let Outcome::Joined { node } = outcome {
                    out.push(
                        self.of_node(*node, event("node.joined", actor, format!("{} joined", join.name))),
                    );
                }
            }
            Command::NodeFacts { node, .. } => self.facts(*node, actor, out, jobs),
            Command::Reports { node, reports } => {
                jobs.extend(reports.iter().map(|report| report.attempt.job));
                let failed = reports.iter().filter_map(|report| match &report.event {
                    RankEvent::LaunchFailed { what, .. } => Some((report.attempt, what)),
                    _ => None,
                });
                for (attempt, what) in failed {
                    let said =
                        event("attempt.launch-failed", actor, format!("{attempt} could not start: {what}"));
                    out.push(self.of_node(*node, self.of_attempt(attempt, said)));
                }
            }
            Command::NodeUnreachable { node } => {
                out.push(self.of_node(
                    *node,
                    event("node.unreachable", actor, "not heard of for long; its work stays its own"),
                ));
            }
            Command::NodeBack { node } => {
                out.push(self.of_node(*node, event("node.back", actor, "reports again")));
            }
            Command::Adopt(plan) => jobs.extend(plan.decisions.iter().map(|start| start.job)),
            Command::EndSafeMode { reason } => {
                out.push(event("safe-mode", actor, format!("safe mode ended: {reason}")));
            }
            Command::Batch(parts) => {
                let Outcome::Batch(answers) = outcome else { return };
                for ((actor, command), answer) in parts.iter().zip(answers) {
                    self.command(actor, command, answer, out, jobs);
                }
            }
        }
    }

    /// New facts: a first report, or another boot, which ended what ran there.
    fn facts(&self, node: NodeId, actor: &Actor, out: &mut Vec<EventView>, jobs: &mut BTreeSet<JobId>) {
        let boot =
            |state: &State| state.nodes.get(&node).and_then(|n| n.facts.as_ref()).map(|f| f.boot.clone());
        match (boot(self.before), boot(self.after)) {
            (None, Some(_)) => {
                out.push(self.of_node(node, event("node.ready", actor, "reported for the first time")))
            }
            (Some(old), Some(new)) if old != new => {
                out.push(self.of_node(node, event("node.restarted", actor, "came back from a restart")));
                let there =
                    self.before.attempts.iter().filter(|(_, a)| a.placements.iter().any(|p| p.node == node));
                jobs.extend(there.map(|(id, _)| id.job));
            }
            (None | Some(_), _) => {}
        }
    }

    /// What a job went through.
    fn job(&self, id: JobId, actor: &Actor, out: &mut Vec<EventView>) {
        let Some(job) = self.after.jobs.get(&id) else { return };
        let old = self.before.jobs.get(&id);
        if old.is_none() {
            let said = format!("{} submitted {}", job.user, job.name);
            out.push(self.of_job(id, event("job.submitted", actor, said)));
        }
        self.placed_and_started(id, job, actor, out);
        let old_phase = old.map(|old| &old.phase);
        match &job.phase {
            Phase::Ended { end, exit, .. } if !matches!(old_phase, Some(Phase::Ended { .. })) => {
                let how = exit.as_ref().map(|exit| format!(" ({})", words::exit(*exit))).unwrap_or_default();
                out.push(self.of_job(id, event("job.ended", actor, format!("{}{how}", end_word(*end)))));
            }
            Phase::Waiting { .. } if matches!(old_phase, Some(Phase::Live(_))) => {
                out.push(self.of_job(id, event("job.requeued", actor, "waits again under the same number")));
            }
            Phase::Held { .. } if !matches!(old_phase, Some(Phase::Held { .. })) => {
                out.push(self.of_job(id, event("job.held", actor, "is held")));
            }
            Phase::Held { .. } | Phase::Waiting { .. } | Phase::Live(_) | Phase::Ended { .. } => {}
        }
    }

    fn placed_and_started(&self, id: JobId, job: &Job, actor: &Actor, out: &mut Vec<EventView>) {
        let Phase::Live(no) = job.phase else { return };
        let attempt = AttemptId { job: id, no };
        let Some(now) = self.after.attempts.get(&attempt) else { return };
        let old = self.before.attempts.get(&attempt);
        if old.is_none() {
            let node = now.placements.first().map(|placement| placement.node);
            let on = node.map(|node| words::node_name(self.after, node)).unwrap_or_default();
            let mut said = event("job.placed", actor, format!("placed on {on} by {}", now.decision));
            said.node = node.map(|node| words::node_name(self.after, node));
            out.push(self.of_attempt(attempt, said));
        }
        if now.started_at.is_some() && old.is_none_or(|old| old.started_at.is_none()) {
            out.push(self.of_attempt(attempt, event("job.started", actor, "runs")));
        }
    }

    fn of_job(&self, job: JobId, mut event: EventView) -> EventView {
        event.job = Some(job.get());
        event.budget = self.after.jobs.get(&job).map(|job| self.path(job.budget));
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

fn end_word(end: End) -> &'static str {
    words::end(end)
}

fn event(kind: &str, actor: &Actor, sentence: impl Into<String>) -> EventView {
    EventView {
        kind: kind.to_owned(),
        actor: words::actor(actor),
        sentence: sentence.into(),
        ..EventView::default()
    }
}
