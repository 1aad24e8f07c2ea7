//! Log entries and answers.

use std::sync::Arc;

use prost::Message;
use scheduler_core::agent::Report;
use scheduler_core::budget::TreeNode;
use scheduler_core::command::{
    AddPrincipal, Answer, ApplyBudgets, Blob, Cancel, CancelEdit, Command, DrainNode, EndGrant, Entry, Found,
    GrantShare, IssueJoinToken, JobWord, Join, NodeWord, Outcome, Rejection, RequestMark, ResumeTime, Saved,
    SetNode, SetPool, SetTime, Submit,
};
use scheduler_core::decision::{Dropped, Plan};
use scheduler_core::id::{
    BodyHash, ClusterId, EditId, Epoch, GrantId, JobId, NodeId, ReplicaId, RequestId, Revision, SpecHash,
    TokenHash,
};
use scheduler_core::node::Facts;
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::spec::Request;
use scheduler_core::unit::{Span, Timestamp};

use crate::error::Error;
use crate::log::v1 as log;
use crate::log::v1::command::Command as Kind;
use crate::wire::{Wire, account, fixed, label, moment, name, names, narrow, required, share};

/// Returns an entry's bytes, as the log holds them.
#[must_use]
pub fn encode_entry(entry: &Entry) -> Vec<u8> {
    entry.to_wire().encode_to_vec()
}

/// Reads an entry from the log's bytes.
///
/// # Errors
/// When the bytes are no entry, or one that can't be.
pub fn decode_entry(bytes: &[u8]) -> Result<Entry, Error> {
    Entry::from_wire(log::Entry::decode(bytes).map_err(|error| Error::NoMessage("log entry", error))?)
}

/// Returns a command's bytes: what a request's body hash is taken of.
#[must_use]
pub fn encode_command(command: &Command) -> Vec<u8> {
    command.to_wire().encode_to_vec()
}

/// Returns an answer's bytes.
#[must_use]
pub fn encode_answer(answer: &Answer) -> Vec<u8> {
    answer_to_wire(answer).encode_to_vec()
}

/// Reads an answer.
///
/// # Errors
/// When the bytes are no answer, or one that can't be.
pub fn decode_answer(bytes: &[u8]) -> Result<Answer, Error> {
    answer_from_wire(log::Answer::decode(bytes).map_err(|error| Error::NoMessage("answer", error))?)
}

impl Wire for Entry {
    type Message = log::Entry;

    fn to_wire(&self) -> log::Entry {
        log::Entry {
            time_ms: self.time.as_millis(),
            actor: Some(self.actor.to_wire()),
            mark: self.request.as_ref().map(Wire::to_wire),
            command: Some(self.command.to_wire()),
            via: self.via.map(ReplicaId::get),
        }
    }

    fn from_wire(m: log::Entry) -> Result<Self, Error> {
        Ok(Self {
            time: moment(m.time_ms),
            actor: Actor::from_wire(required("actor", m.actor)?)?,
            via: m.via.map(ReplicaId::new),
            request: m.mark.map(RequestMark::from_wire).transpose()?,
            command: Command::from_wire(required("command", m.command)?)?,
        })
    }
}

impl Wire for Actor {
    type Message = log::Actor;

    fn to_wire(&self) -> log::Actor {
        let actor = match self {
            Self::Principal(name) => log::actor::Actor::Principal(name.to_string()),
            Self::Agent(node) => log::actor::Actor::Agent(node.get()),
            Self::Replica(replica) => log::actor::Actor::Replica(replica.get()),
        };
        log::Actor { actor: Some(actor) }
    }

    fn from_wire(m: log::Actor) -> Result<Self, Error> {
        Ok(match required("actor", m.actor)? {
            log::actor::Actor::Principal(text) => Self::Principal(name("principal", &text)?),
            log::actor::Actor::Agent(node) => Self::Agent(NodeId::new(node)),
            log::actor::Actor::Replica(replica) => Self::Replica(ReplicaId::new(replica)),
        })
    }
}

impl Wire for RequestMark {
    type Message = log::Mark;

    fn to_wire(&self) -> log::Mark {
        log::Mark {
            id: self.id.as_bytes().to_vec(),
            made_at_ms: self.made_at.as_millis(),
            body: self.body.as_bytes().to_vec(),
        }
    }

    fn from_wire(m: log::Mark) -> Result<Self, Error> {
        Ok(Self {
            id: fixed("id", &m.id, RequestId::from_slice)?,
            made_at: moment(m.made_at_ms),
            body: fixed("body", &m.body, BodyHash::from_slice)?,
        })
    }
}

impl Wire for Command {
    type Message = log::Command;

    fn to_wire(&self) -> log::Command {
        let kind = match self {
            Self::Found(found) => Kind::Found(found.to_wire()),
            Self::Submit(submit) => Kind::Submit(submit.to_wire()),
            Self::Cancel(cancel) => Kind::Cancel(cancel.to_wire()),
            Self::Hold(word) => Kind::Hold(word.to_wire()),
            Self::Release(word) => Kind::Release(word.to_wire()),
            Self::Requeue(word) => Kind::Requeue(word.to_wire()),
            Self::Cordon(word) => Kind::Cordon(word.to_wire()),
            Self::Uncordon(word) => Kind::Uncordon(word.to_wire()),
            Self::Drain(drain) => Kind::Drain(drain.to_wire()),
            Self::Undrain(word) => Kind::Undrain(word.to_wire()),
            Self::SetNode(set) => Kind::SetNode(set.to_wire()),
            Self::SetPool(set) => Kind::SetPool(set.to_wire()),
            Self::Saves { node, saves } => {
                Kind::Saves(log::Saves { node: node.get(), saves: saves.iter().map(Wire::to_wire).collect() })
            }
            Self::ApplyBudgets(apply) => Kind::ApplyBudgets(apply.to_wire()),
            Self::CancelEdit(cancel) => {
                Kind::CancelEdit(log::CancelEdit { edit: cancel.edit.get(), reason: cancel.reason.clone() })
            }
            Self::Grant(grant) => Kind::Grant(grant.to_wire()),
            Self::EndGrant(end) => {
                Kind::EndGrant(log::EndGrant { grant: end.grant.get(), reason: end.reason.clone() })
            }
            Self::AddPrincipal(add) => Kind::AddPrincipal(add.to_wire()),
            Self::RevokePrincipal { name } => Kind::RevokePrincipal(name.to_string()),
            Self::IssueJoinToken(issue) => Kind::IssueJoinToken(issue.to_wire()),
            Self::Join(join) => Kind::Join(join.to_wire()),
            Self::NodeFacts { node, facts } => {
                Kind::NodeFacts(log::NodeFacts { node: node.get(), facts: Some(facts.to_wire()) })
            }
            Self::Reports { node, reports } => Kind::Reports(log::Reports {
                node: node.get(),
                reports: reports.iter().map(Wire::to_wire).collect(),
            }),
            Self::NodeUnreachable { node } => Kind::NodeUnreachable(node.get()),
            Self::NodeBack { node } => Kind::NodeBack(node.get()),
            Self::Adopt(plan) => Kind::Adopt(plan.to_wire()),
            Self::EndSafeMode { reason } => Kind::EndSafeMode(reason.clone()),
            Self::ResumeTime(resume) => Kind::ResumeTime(resume.to_wire()),
            Self::SetTime(set) => Kind::SetTime(set.to_wire()),
            Self::Batch(items) => Kind::Batch(log::Batch { items: items.iter().map(item_to_wire).collect() }),
        };
        log::Command { command: Some(kind) }
    }

    fn from_wire(m: log::Command) -> Result<Self, Error> {
        Ok(match required("command", m.command)? {
            Kind::Found(found) => Self::Found(Found::from_wire(found)?),
            Kind::Submit(submit) => Self::Submit(Submit::from_wire(submit)?),
            Kind::Cancel(cancel) => Self::Cancel(Cancel::from_wire(cancel)?),
            Kind::Hold(word) => Self::Hold(JobWord::from_wire(word)?),
            Kind::Release(word) => Self::Release(JobWord::from_wire(word)?),
            Kind::Requeue(word) => Self::Requeue(JobWord::from_wire(word)?),
            Kind::Cordon(word) => Self::Cordon(NodeWord::from_wire(word)?),
            Kind::Uncordon(word) => Self::Uncordon(NodeWord::from_wire(word)?),
            Kind::Drain(drain) => Self::Drain(DrainNode::from_wire(drain)?),
            Kind::Undrain(word) => Self::Undrain(NodeWord::from_wire(word)?),
            Kind::SetNode(set) => Self::SetNode(SetNode::from_wire(set)?),
            Kind::SetPool(set) => Self::SetPool(SetPool::from_wire(set)?),
            Kind::Saves(m) => Self::Saves {
                node: NodeId::new(m.node),
                saves: m.saves.into_iter().map(Saved::from_wire).collect::<Result<_, _>>()?,
            },
            Kind::ApplyBudgets(apply) => Self::ApplyBudgets(ApplyBudgets::from_wire(apply)?),
            Kind::CancelEdit(m) => {
                Self::CancelEdit(CancelEdit { edit: EditId::new(m.edit), reason: m.reason })
            }
            Kind::Grant(grant) => Self::Grant(GrantShare::from_wire(grant)?),
            Kind::EndGrant(m) => Self::EndGrant(EndGrant { grant: GrantId::new(m.grant), reason: m.reason }),
            Kind::AddPrincipal(add) => Self::AddPrincipal(AddPrincipal::from_wire(add)?),
            Kind::RevokePrincipal(text) => Self::RevokePrincipal { name: name("name", &text)? },
            Kind::IssueJoinToken(issue) => Self::IssueJoinToken(IssueJoinToken::from_wire(issue)?),
            Kind::Join(join) => Self::Join(Join::from_wire(join)?),
            Kind::NodeFacts(m) => Self::NodeFacts {
                node: NodeId::new(m.node),
                facts: Facts::from_wire(required("facts", m.facts)?)?,
            },
            Kind::Reports(m) => Self::Reports {
                node: NodeId::new(m.node),
                reports: m.reports.into_iter().map(Report::from_wire).collect::<Result<_, _>>()?,
            },
            Kind::NodeUnreachable(node) => Self::NodeUnreachable { node: NodeId::new(node) },
            Kind::NodeBack(node) => Self::NodeBack { node: NodeId::new(node) },
            Kind::Adopt(plan) => Self::Adopt(Plan::from_wire(plan)?),
            Kind::EndSafeMode(reason) => Self::EndSafeMode { reason },
            Kind::ResumeTime(resume) => Self::ResumeTime(ResumeTime::from_wire(resume)?),
            Kind::SetTime(set) => Self::SetTime(SetTime::from_wire(set)?),
            Kind::Batch(batch) => {
                Self::Batch(batch.items.into_iter().map(item_from_wire).collect::<Result<_, _>>()?)
            }
        })
    }
}

fn item_to_wire((actor, command): &(Actor, Command)) -> log::Item {
    log::Item { actor: Some(actor.to_wire()), command: Some(command.to_wire()) }
}

fn item_from_wire(m: log::Item) -> Result<(Actor, Command), Error> {
    let actor = Actor::from_wire(required("actor", m.actor)?)?;
    let command = Command::from_wire(required("command", m.command)?)?;
    if matches!(command, Command::Batch(_)) {
        return Err(Error::bad("batch", "a batch holds no batch"));
    }
    Ok((actor, command))
}

impl Wire for Found {
    type Message = log::Found;

    fn to_wire(&self) -> log::Found {
        log::Found {
            cluster: self.cluster.as_bytes().to_vec(),
            epoch: self.epoch.get(),
            root: self.root.to_string(),
            admin: self.admin.to_string(),
            admin_token: self.admin_token.as_bytes().to_vec(),
            admin_account: self.admin_account.as_str().to_owned(),
            settings: Some(self.settings.to_wire()),
        }
    }

    fn from_wire(m: log::Found) -> Result<Self, Error> {
        Ok(Self {
            cluster: fixed("cluster", &m.cluster, ClusterId::from_slice)?,
            epoch: Epoch::new(m.epoch),
            root: name("root", &m.root)?,
            admin: name("admin", &m.admin)?,
            admin_token: fixed("admin_token", &m.admin_token, TokenHash::from_slice)?,
            admin_account: account("admin_account", &m.admin_account)?,
            settings: Settings::from_wire(required("settings", m.settings)?)?,
        })
    }
}

impl Wire for Settings {
    type Message = log::Settings;

    fn to_wire(&self) -> log::Settings {
        log::Settings {
            window_ms: self.window.as_millis(),
            cap_ms: self.cap.as_millis(),
            start_limit_ms: self.start_limit.as_millis(),
            grace_ms: self.grace.as_millis(),
            grace_max_ms: self.grace_max.as_millis(),
            free_grace_ms: self.free_grace.as_millis(),
            cancel_grace_ms: self.cancel_grace.as_millis(),
            beat_ms: self.beat.as_millis(),
            silent_after_ms: self.silent_after.as_millis(),
            unreachable_after_ms: self.unreachable_after.as_millis(),
            launch_backoff_ms: self.launch_backoff.as_millis(),
            launch_backoff_max_ms: self.launch_backoff_max.as_millis(),
            request_memory_ms: self.request_memory.as_millis(),
            request_skew_ms: self.request_skew.as_millis(),
            keep_ended_ms: self.keep_ended.as_millis(),
            keep_ended_max: self.keep_ended_max,
            live_jobs_max: self.live_jobs_max,
            keep_results_ms: self.keep_results.as_millis(),
            keep_results_max: self.keep_results_max,
            specs_mib_max: self.specs_mib_max,
            requests_max: self.requests_max,
            decisions_max: self.decisions_max,
            bills_max: self.bills_max,
            curve_points_max: self.curve_points_max,
            dependencies_max: self.dependencies_max,
            array_tasks_max: self.array_tasks_max,
            allow_simulated: self.allow_simulated,
            rank_grace_ms: self.rank_grace.as_millis(),
            margin_ppm: self.margin_ppm,
            restart_guess_ms: self.restart_guess.as_millis(),
            free_backoff_ms: self.free_backoff.as_millis(),
            free_backoff_max_ms: self.free_backoff_max.as_millis(),
            barren_max: self.barren_max,
            recheck_ms: self.recheck.as_millis(),
            debounce_ms: self.debounce.as_millis(),
            no_dates: !self.dates,
            date_margin_ms: self.date_margin.as_millis(),
            more_dates_ppm: self.more_dates_ppm,
            short_later: self.short_later,
            short_lane_ppm: self.short_lane_ppm,
            burst_limit_pct: self.burst_limit_pct,
        }
    }

    fn from_wire(m: log::Settings) -> Result<Self, Error> {
        let ms = Span::from_millis;
        Ok(Self {
            window: ms(m.window_ms),
            cap: ms(m.cap_ms),
            start_limit: ms(m.start_limit_ms),
            grace: ms(m.grace_ms),
            grace_max: ms(m.grace_max_ms),
            free_grace: ms(m.free_grace_ms),
            cancel_grace: ms(m.cancel_grace_ms),
            beat: ms(m.beat_ms),
            silent_after: ms(m.silent_after_ms),
            unreachable_after: ms(m.unreachable_after_ms),
            launch_backoff: ms(m.launch_backoff_ms),
            launch_backoff_max: ms(m.launch_backoff_max_ms),
            request_memory: ms(m.request_memory_ms),
            request_skew: ms(m.request_skew_ms),
            keep_ended: ms(m.keep_ended_ms),
            keep_ended_max: m.keep_ended_max,
            live_jobs_max: m.live_jobs_max,
            keep_results: ms(m.keep_results_ms),
            keep_results_max: m.keep_results_max,
            specs_mib_max: m.specs_mib_max,
            requests_max: m.requests_max,
            decisions_max: m.decisions_max,
            bills_max: m.bills_max,
            curve_points_max: m.curve_points_max,
            dependencies_max: m.dependencies_max,
            array_tasks_max: m.array_tasks_max,
            allow_simulated: m.allow_simulated,
            rank_grace: ms(m.rank_grace_ms),
            margin_ppm: m.margin_ppm,
            restart_guess: ms(m.restart_guess_ms),
            free_backoff: ms(m.free_backoff_ms),
            free_backoff_max: ms(m.free_backoff_max_ms),
            barren_max: m.barren_max,
            recheck: ms(m.recheck_ms),
            debounce: ms(m.debounce_ms),
            dates: !m.no_dates,
            date_margin: ms(m.date_margin_ms),
            more_dates_ppm: m.more_dates_ppm,
            short_later: m.short_later,
            short_lane_ppm: m.short_lane_ppm,
            burst_limit_pct: m.burst_limit_pct,
        })
    }
}

impl Wire for Submit {
    type Message = log::Submit;

    fn to_wire(&self) -> log::Submit {
        log::Submit {
            request: Some(self.request.to_wire()),
            launch_hash: self.launch.hash.as_bytes().to_vec(),
            launch: self.launch.bytes.to_vec(),
        }
    }

    fn from_wire(m: log::Submit) -> Result<Self, Error> {
        Ok(Self {
            request: Request::from_wire(required("request", m.request)?)?,
            launch: Blob {
                hash: fixed("launch_hash", &m.launch_hash, SpecHash::from_slice)?,
                bytes: Arc::from(m.launch),
            },
        })
    }
}

impl Wire for Cancel {
    type Message = log::Cancel;

    fn to_wire(&self) -> log::Cancel {
        log::Cancel { job: self.job.get(), now: self.is_now, reason: self.reason.clone() }
    }

    fn from_wire(m: log::Cancel) -> Result<Self, Error> {
        Ok(Self { job: JobId::new(m.job), is_now: m.now, reason: m.reason })
    }
}

impl Wire for GrantShare {
    type Message = log::GrantShare;

    fn to_wire(&self) -> log::GrantShare {
        log::GrantShare {
            to: self.to.clone(),
            from: self.from.clone(),
            share_ppm: self.share.ppm(),
            begins_at_ms: self.begins_at.map(Timestamp::as_millis),
            until_ms: self.until.as_millis(),
            reason: self.reason.clone(),
        }
    }

    fn from_wire(m: log::GrantShare) -> Result<Self, Error> {
        Ok(Self {
            to: m.to,
            from: m.from,
            share: share("share", m.share_ppm)?,
            begins_at: m.begins_at_ms.map(moment),
            until: moment(m.until_ms),
            reason: m.reason,
        })
    }
}

impl Wire for ApplyBudgets {
    type Message = log::ApplyBudgets;

    fn to_wire(&self) -> log::ApplyBudgets {
        log::ApplyBudgets {
            root: Some(self.root.to_wire()),
            base: self.base.get(),
            reason: self.reason.clone(),
            at_ms: self.at.map(Timestamp::as_millis),
        }
    }

    fn from_wire(m: log::ApplyBudgets) -> Result<Self, Error> {
        Ok(Self {
            root: TreeNode::from_wire(required("root", m.root)?)?,
            base: Revision::new(m.base),
            reason: m.reason,
            at: m.at_ms.map(moment),
        })
    }
}

impl Wire for AddPrincipal {
    type Message = log::AddPrincipal;

    fn to_wire(&self) -> log::AddPrincipal {
        log::AddPrincipal {
            name: self.name.to_string(),
            token: self.token.as_bytes().to_vec(),
            account: self.account.as_str().to_owned(),
            operator: self.is_operator,
        }
    }

    fn from_wire(m: log::AddPrincipal) -> Result<Self, Error> {
        Ok(Self {
            name: name("name", &m.name)?,
            token: fixed("token", &m.token, TokenHash::from_slice)?,
            account: account("account", &m.account)?,
            is_operator: m.operator,
        })
    }
}

impl Wire for IssueJoinToken {
    type Message = log::IssueJoinToken;

    fn to_wire(&self) -> log::IssueJoinToken {
        log::IssueJoinToken {
            name: self.name.to_string(),
            pool: self.pool.to_string(),
            token: self.token.as_bytes().to_vec(),
            expires_at_ms: self.expires_at.as_millis(),
            topology: self.topology.iter().map(ToString::to_string).collect(),
        }
    }

    fn from_wire(m: log::IssueJoinToken) -> Result<Self, Error> {
        Ok(Self {
            name: name("name", &m.name)?,
            pool: name("pool", &m.pool)?,
            token: fixed("token", &m.token, TokenHash::from_slice)?,
            expires_at: moment(m.expires_at_ms),
            topology: names("topology", &m.topology)?,
        })
    }
}

impl Wire for Join {
    type Message = log::Join;

    fn to_wire(&self) -> log::Join {
        log::Join {
            token: self.token.as_bytes().to_vec(),
            name: self.name.to_string(),
            machine: self.machine.to_string(),
            credential: self.credential.as_bytes().to_vec(),
        }
    }

    fn from_wire(m: log::Join) -> Result<Self, Error> {
        Ok(Self {
            token: fixed("token", &m.token, TokenHash::from_slice)?,
            name: name("name", &m.name)?,
            machine: label("machine", &m.machine)?,
            credential: fixed("credential", &m.credential, TokenHash::from_slice)?,
        })
    }
}

pub(crate) fn answer_to_wire(answer: &Answer) -> log::Answer {
    use log::answer::Answer as Kind;
    let kind = match answer {
        Err(rejection) => Kind::Refusal(rejection.to_wire()),
        Ok(Outcome::Done) => Kind::Done(log::Done {}),
        Ok(Outcome::Submitted { job }) => Kind::Submitted(job.get()),
        Ok(Outcome::BudgetsApplied { revision }) => Kind::BudgetsApplied(revision.get()),
        Ok(Outcome::EditPlanned { edit }) => Kind::EditPlanned(edit.get()),
        Ok(Outcome::Granted { grant }) => Kind::Granted(grant.get()),
        Ok(Outcome::Joined { node }) => Kind::Joined(node.get()),
        Ok(Outcome::Adopted { adopted, dropped }) => Kind::Adopted(log::Adopted {
            adopted: *adopted,
            dropped: dropped
                .iter()
                .map(|(n, why)| log::Dropped { n: u32::from(*n), reason: why.to_wire().into() })
                .collect(),
        }),
        Ok(Outcome::Batch(answers)) => {
            Kind::Batch(log::Answers { answers: answers.iter().map(answer_to_wire).collect() })
        }
    };
    log::Answer { answer: Some(kind) }
}

pub(crate) fn answer_from_wire(m: log::Answer) -> Result<Answer, Error> {
    use log::answer::Answer as Kind;
    Ok(match required("answer", m.answer)? {
        Kind::Refusal(refusal) => Err(Rejection::from_wire(refusal)?),
        Kind::Done(_) => Ok(Outcome::Done),
        Kind::Submitted(job) => Ok(Outcome::Submitted { job: JobId::new(job) }),
        Kind::EditPlanned(edit) => Ok(Outcome::EditPlanned { edit: EditId::new(edit) }),
        Kind::Granted(grant) => Ok(Outcome::Granted { grant: GrantId::new(grant) }),
        Kind::BudgetsApplied(revision) => Ok(Outcome::BudgetsApplied { revision: Revision::new(revision) }),
        Kind::Joined(node) => Ok(Outcome::Joined { node: NodeId::new(node) }),
        Kind::Adopted(m) => {
            let mut dropped = Vec::with_capacity(m.dropped.len());
            for drop in m.dropped {
                dropped.push((narrow("n", drop.n)?, Dropped::from_wire(drop.reason())?));
            }
            Ok(Outcome::Adopted { adopted: m.adopted, dropped })
        }
        Kind::Batch(m) => {
            Ok(Outcome::Batch(m.answers.into_iter().map(answer_from_wire).collect::<Result<_, _>>()?))
        }
    })
}
