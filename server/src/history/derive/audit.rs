//! Who asked what, and what was answered. Facts, reports and plans are nobody's word and are not in it; nor are tokens,
//! arguments, and values of environment variables.

use proto::Wire as _;
use proto::v1::{AuditView, BudgetChange};
use scheduler_core::budget::{self, Became};
use scheduler_core::command::{
    Answer, ApplyBudgets, Command, DrainNode, EndGrant, Entry, GrantShare, NodeWord, Outcome, SetPool, Submit,
};
use scheduler_core::id::{JobId, LogIndex, NodeId, ReplicaId};
use scheduler_core::node::Urgency;
use scheduler_core::principal::Actor;
use scheduler_core::state::State;

use crate::views;
use crate::views::words;

/// Returns the audit lines of an entry, numbered and dated.
pub(super) fn audit(
    before: &State,
    after: &State,
    index: LogIndex,
    entry: &Entry,
    answer: &Answer,
) -> Vec<AuditView> {
    let mut out = Vec::new();
    let scene = Scene { before, after };
    // What time alone did came before the command.
    scene.edits(&mut out);
    if !is_repeated(after, index, entry) {
        scene.one(&entry.actor, &entry.command, answer, &mut out);
    }
    for (n, line) in out.iter_mut().enumerate() {
        line.schema = "audit/v1".to_owned();
        line.index = index.get();
        line.n = u32::try_from(n).unwrap_or(u32::MAX);
        line.at = after.meta.time.as_millis();
        line.via = entry.via.map(ReplicaId::get);
    }
    out
}

/// Whether an earlier entry did this and only its answer was given again.
fn is_repeated(after: &State, index: LogIndex, entry: &Entry) -> bool {
    let known = entry.request.as_ref().and_then(|mark| Some((mark, after.requests.get(&mark.id)?)));
    known.is_some_and(|(mark, known)| known.index != index && known.body == mark.body)
}

struct Scene<'a> {
    before: &'a State,
    after: &'a State,
}

/// What a line says beside who, when and the answer.
#[derive(Default)]
struct Said {
    action: &'static str,
    subject: String,
    reason: String,
    sentence: String,
    job: Option<JobId>,
    node: Option<NodeId>,
    budget: Option<String>,
    changes: Vec<BudgetChange>,
}

impl Scene<'_> {
    fn one(&self, actor: &Actor, command: &Command, answer: &Answer, out: &mut Vec<AuditView>) {
        if let (Command::Batch(parts), Ok(Outcome::Batch(answers))) = (command, answer) {
            for ((actor, command), answer) in parts.iter().zip(answers) {
                self.one(actor, command, answer, out);
            }
            return;
        }
        let is_asked = matches!(actor, Actor::Principal(_)) || matches!(command, Command::Found(_));
        let Some(said) = is_asked.then(|| self.said(command, answer)).flatten() else { return };
        out.push(AuditView {
            actor: words::actor(actor),
            actor_kind: self.kind(actor).to_owned(),
            action: said.action.to_owned(),
            subject: said.subject,
            reason: said.reason,
            sentence: said.sentence,
            job: said.job.map(JobId::get),
            node: said.node.map(|node| words::node_name(self.after, node)),
            budget: said.budget.or_else(|| said.job.and_then(|job| self.budget_of(job))),
            refused: answer.as_ref().err().map(|rejection| rejection.to_wire()),
            changes: said.changes,
            ..AuditView::default()
        });
    }

    /// Edits whose time came: in the name of who asked for them.
    fn edits(&self, out: &mut Vec<AuditView>) {
        for (id, edit) in self.after.edits.iter() {
            let was_open = self.before.edits.get(id).is_some_and(|was| was.became.is_none());
            let Some(became) = edit.became.as_ref().filter(|_| was_open) else { continue };
            let (action, sentence, changes) = match became {
                Became::Applied { changes, .. } => {
                    let changes: Vec<BudgetChange> = changes.iter().map(views::budget_edit::edited).collect();
                    ("budget.edit-applied", format!("the edit {id} of {} took effect", edit.by), changes)
                }
                Became::Dropped { why } => (
                    "budget.edit-dropped",
                    format!("the edit {id} of {} was dropped: {why}", edit.by),
                    Vec::new(),
                ),
            };
            let actor = Actor::Principal(edit.by.clone());
            out.push(AuditView {
                actor: words::actor(&actor),
                actor_kind: self.kind(&actor).to_owned(),
                action: action.to_owned(),
                subject: self.root(),
                reason: edit.reason.clone(),
                sentence,
                changes,
                ..AuditView::default()
            });
        }
    }

    fn root(&self) -> String {
        let root = self.after.budgets.get(&budget::ROOT).map(|root| root.name.to_string());
        root.unwrap_or_default()
    }

    /// What the actor was when it asked.
    fn kind(&self, actor: &Actor) -> &'static str {
        match actor {
            Actor::Principal(name) if budget::is_operator(self.before, name) => "operator",
            Actor::Principal(_) => "user",
            Actor::Agent(_) => "agent",
            Actor::Replica(_) => "replica",
        }
    }

    fn said(&self, command: &Command, answer: &Answer) -> Option<Said> {
        Some(match command {
            Command::Found(found) => Said {
                action: "cluster.found",
                subject: found.root.to_string(),
                sentence: format!("founded the control plane; its first operator is {}", found.admin),
                ..Said::default()
            },
            Command::Submit(submit) => submitted(submit, answer),
            Command::Cancel(cancel) => {
                let how = if cancel.is_now { "wants the job killed at once" } else { "wants the job to end" };
                of_job("job.cancel", cancel.job, &cancel.reason, how)
            }
            Command::Hold(word) => of_job("job.hold", word.job, &word.reason, "keeps the job out of line"),
            Command::Release(word) => {
                of_job("job.release", word.job, &word.reason, "puts the job in line again")
            }
            Command::Requeue(word) => {
                of_job("job.requeue", word.job, &word.reason, "wants the job to save, stop and start again")
            }
            Command::Cordon(word) => self.of_node("node.cordon", word, "keeps new work from the node"),
            Command::Uncordon(word) => self.of_node("node.uncordon", word, "lets work on the node again"),
            Command::Undrain(word) => self.of_node("node.undrain", word, "takes the drain back"),
            Command::SetNode(set) => Said {
                action: "node.set",
                subject: words::node_name(self.after, set.node),
                sentence: format!("says that it is in {}", words::path(&set.topology)),
                node: Some(set.node),
                ..Said::default()
            },
            Command::SetPool(set) => pool_set(set),
            Command::Drain(order) => self.drained(order),
            Command::ApplyBudgets(apply) => self.tree_applied(apply, answer),
            Command::CancelEdit(cancel) => Said {
                action: "budget.edit-cancel",
                subject: format!("edit {}", cancel.edit),
                reason: cancel.reason.clone(),
                sentence: format!("takes edit {} back", cancel.edit),
                ..Said::default()
            },
            Command::Grant(grant) => self.granted(grant, answer),
            Command::EndGrant(end) => self.grant_ended(end),
            Command::AddPrincipal(add) => {
                let role = if add.is_operator { "an operator" } else { "a user" };
                let account = add.account.as_str();
                Said {
                    action: "principal.add",
                    subject: add.name.to_string(),
                    sentence: format!("made {} {role}, whose jobs run as {account}", add.name),
                    ..Said::default()
                }
            }
            Command::RevokePrincipal { name } => Said {
                action: "principal.revoke",
                subject: name.to_string(),
                sentence: format!("lets {name}'s token open nothing any more"),
                ..Said::default()
            },
            Command::IssueJoinToken(issue) => Said {
                action: "node.token",
                subject: issue.name.to_string(),
                sentence: format!(
                    "lets {} join {} until {}",
                    issue.name,
                    issue.pool,
                    moment(issue.expires_at)
                ),
                ..Said::default()
            },
            Command::EndSafeMode { reason } => Said {
                action: "safe-mode.end",
                subject: "safe mode".to_owned(),
                reason: reason.clone(),
                sentence: "ends safe mode".to_owned(),
                ..Said::default()
            },
            Command::SetTime(set) => Said {
                action: "time.set",
                subject: "cluster time".to_owned(),
                reason: set.reason.clone(),
                sentence: set.to.map_or_else(
                    || "says that cluster time is right as it is".to_owned(),
                    |to| format!("sets cluster time to {}", moment(to)),
                ),
                ..Said::default()
            },
            Command::ResumeTime(_)
            | Command::Join(_)
            | Command::Saves { .. }
            | Command::NodeFacts { .. }
            | Command::Reports { .. }
            | Command::NodeUnreachable { .. }
            | Command::NodeBack { .. }
            | Command::Adopt(_)
            | Command::Batch(_) => return None,
        })
    }

    fn of_node(&self, action: &'static str, word: &NodeWord, sentence: &str) -> Said {
        Said {
            action,
            subject: words::node_name(self.after, word.node),
            reason: word.reason.clone(),
            sentence: sentence.to_owned(),
            node: Some(word.node),
            ..Said::default()
        }
    }

    fn drained(&self, order: &DrainNode) -> Said {
        let from = order.begins_at.map_or_else(String::new, |at| format!(", from {} on", moment(at)));
        let sentence = format!("wants the node empty{}{from}", urgency(&order.urgency));
        let word = NodeWord { node: order.node, reason: order.reason.clone() };
        self.of_node("node.drain", &word, &sentence)
    }

    /// The changes are those that it would have made to the tree as it was, also if it was refused.
    fn tree_applied(&self, apply: &ApplyBudgets, answer: &Answer) -> Said {
        let changes = budget::diff(self.before, &apply.root).unwrap_or_default();
        let when = match (apply.at, answer) {
            (Some(at), Ok(Outcome::EditPlanned { edit })) => {
                format!(", from {} on (edit {edit})", moment(at))
            }
            (Some(at), _) => format!(", from {} on", moment(at)),
            (None, _) => String::new(),
        };
        Said {
            action: "budget.apply",
            subject: self.root(),
            reason: apply.reason.clone(),
            sentence: format!("{}{when}", tree(&changes)),
            changes: changes.iter().map(views::budget::change).collect(),
            ..Said::default()
        }
    }

    fn granted(&self, asked: &GrantShare, answer: &Answer) -> Said {
        let from = asked.from.as_ref().map_or("what nobody has".to_owned(), Clone::clone);
        let begin = asked.begins_at.map_or_else(String::new, |at| format!(" from {}", moment(at)));
        let number = match answer {
            Ok(Outcome::Granted { grant }) => format!(" (grant {grant})"),
            Ok(_) | Err(_) => String::new(),
        };
        let until = moment(asked.until);
        Said {
            action: "budget.grant",
            subject: asked.to.clone(),
            reason: asked.reason.clone(),
            sentence: format!("grants {} more{begin} until {until}, from {from}{number}", asked.share),
            budget: Some(asked.to.clone()),
            ..Said::default()
        }
    }

    fn grant_ended(&self, end: &EndGrant) -> Said {
        let grant = self.before.grants.get(&end.grant);
        let to = grant.map(|grant| budget::label(self.before, grant.to));
        let what = grant.map_or_else(String::new, |grant| {
            format!(" of {} to {}", grant.share, to.clone().unwrap_or_default())
        });
        Said {
            action: "budget.grant-end",
            subject: to.clone().unwrap_or_else(|| format!("grant {}", end.grant)),
            reason: end.reason.clone(),
            sentence: format!("ends grant {}{what}", end.grant),
            budget: to,
            ..Said::default()
        }
    }

    fn budget_of(&self, job: JobId) -> Option<String> {
        let job = self.after.jobs.get(&job).or_else(|| self.before.jobs.get(&job))?;
        Some(words::budget_path(self.after, job.budget))
    }
}

fn of_job(action: &'static str, job: JobId, reason: &str, sentence: &str) -> Said {
    Said {
        action,
        subject: job.to_string(),
        reason: reason.to_owned(),
        sentence: sentence.to_owned(),
        job: Some(job),
        ..Said::default()
    }
}

fn pool_set(set: &SetPool) -> Said {
    Said { action: "pool.set", subject: set.pool.to_string(), sentence: words::pool(set), ..Said::default() }
}

fn submitted(submit: &Submit, answer: &Answer) -> Said {
    let request = &submit.request;
    let job = match answer {
        Ok(Outcome::Submitted { job }) => Some(*job),
        Ok(_) | Err(_) => None,
    };
    let (nodes, gpus) = (request.shape.nodes, request.shape.gpus_per_node);
    let shape = if nodes > 1 { format!("{nodes} x {gpus} GPUs") } else { format!("{gpus} GPUs") };
    let term = match request.min_runtime {
        Some(span) if span.is_zero() => ", free tier".to_owned(),
        Some(span) => format!(", minimum runtime {span}"),
        None => String::new(),
    };
    let tasks =
        request.asks.array.as_ref().map_or_else(String::new, |tasks| format!(", an array of {tasks}"));
    let mut held = if request.is_held { ", held".to_owned() } else { String::new() };
    if let Some(at) = request.asks.begin {
        held += &format!(", not before {}", moment(at));
    }
    if !request.asks.after.is_empty() {
        let after: Vec<String> = request.asks.after.iter().map(|after| after.job.to_string()).collect();
        held += &format!(", after {}", after.join(", "));
    }
    Said {
        action: "job.submit",
        subject: job.map_or_else(|| request.name.to_string(), |job| job.to_string()),
        sentence: format!("submitted {}: {shape}{tasks}{term}{held}", request.name),
        job,
        budget: Some(request.budget.clone()),
        ..Said::default()
    }
}

fn tree(changes: &[budget::Change]) -> String {
    match changes {
        [] => "wants a tree of budgets that changes nothing or cannot be".to_owned(),
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first}; and {} more changes of budgets", rest.len()),
    }
}

fn urgency(urgency: &Urgency) -> String {
    match urgency {
        Urgency::Normal => String::new(),
        Urgency::Deadline(at) => format!(" by {}, also if that cuts protection", moment(*at)),
        Urgency::Now => " now, also if that cuts protection".to_owned(),
    }
}

fn moment(at: scheduler_core::unit::Timestamp) -> String {
    proto::json::rfc3339(at.as_millis())
}
