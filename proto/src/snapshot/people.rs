//! One-of-a-kind facts, budgets, principals, nodes, remembered requests.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::budget::{Budget, Was};
use scheduler_core::command::Remembered;
use scheduler_core::id::{
    AttemptId, BodyHash, BudgetId, ClusterId, EditId, Epoch, GrantId, JobId, LogIndex, Name, NodeId,
    RequestId, Revision, Term, TokenHash,
};
use scheduler_core::node::{Contact, Cordon, Drain, Facts, Gpu, JoinToken, Node, Urgency};
use scheduler_core::pool::Pool;
use scheduler_core::principal::Principal;
use scheduler_core::settings::Settings;
use scheduler_core::spec::ContractDefaults;
use scheduler_core::state::{Meta, SafeMode, State, TimeAlarm, TimeJump};
use scheduler_core::unit::{Bytes, Timestamp, Weight};

use crate::agent::uuid;
use crate::command::{answer_from_wire, answer_to_wire};
use crate::error::Error;
use crate::state::v1 as state;
use crate::wire::{
    Wire, account, fixed, label, moment, name, names, narrow, pool_shares, read_pool_shares, required, share,
};
use crate::word::{weight, weights, weights_to_wire};

pub(super) fn meta(from: &State) -> state::Meta {
    let meta = &from.meta;
    state::Meta {
        cluster: meta.cluster.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        epoch: meta.epoch.get(),
        level: meta.level,
        settings: Some(meta.settings.to_wire()),
        time_ms: meta.time.as_millis(),
        index: meta.index.get(),
        term: meta.term.get(),
        next_job: meta.next_job.get(),
        next_node: meta.next_node.get(),
        next_budget: meta.next_budget.get(),
        next_grant: meta.next_grant.get(),
        next_edit: meta.next_edit.get(),
        tree: meta.tree.get(),
        safe_mode: meta.safe_mode.as_ref().map(|mode| state::SafeMode {
            since_ms: mode.since.as_millis(),
            index: mode.index.get(),
            what: mode.what.clone(),
        }),
        live_jobs: meta.live_jobs,
        array_tasks: meta.array_tasks,
        alarms: meta
            .alarms
            .iter()
            .map(|(n, what)| state::Alarm { node: n.get(), what: what.clone() })
            .collect(),
        merged_until_ms: from.books.merged().until.as_millis(),
        merged_step_ms: from.books.merged().step.as_millis(),
        time_alarm: meta
            .time_alarm
            .as_ref()
            .map(|alarm| state::TimeAlarm { since_ms: alarm.since.as_millis(), what: alarm.what.clone() }),
        time_jump: meta
            .time_jump
            .map(|jump| state::TimeJump { from_ms: jump.from.as_millis(), to_ms: jump.to.as_millis() }),
        spec_bytes: meta.spec_bytes,
    }
}

pub(super) fn read_meta(m: state::Meta) -> Result<Meta, Error> {
    let is_founded = !m.cluster.is_empty();
    Ok(Meta {
        cluster: is_founded.then(|| fixed("cluster", &m.cluster, ClusterId::from_slice)).transpose()?,
        epoch: Epoch::new(m.epoch),
        level: m.level,
        settings: Settings::from_wire(required("settings", m.settings)?)?,
        time: moment(m.time_ms),
        index: LogIndex::new(m.index),
        term: Term::new(m.term),
        next_job: JobId::new(m.next_job),
        next_node: NodeId::new(m.next_node),
        next_budget: BudgetId::new(m.next_budget),
        next_grant: GrantId::new(m.next_grant),
        next_edit: EditId::new(m.next_edit),
        tree: Revision::new(m.tree),
        safe_mode: m.safe_mode.map(|mode| SafeMode {
            since: moment(mode.since_ms),
            index: LogIndex::new(mode.index),
            what: mode.what,
        }),
        live_jobs: m.live_jobs,
        array_tasks: m.array_tasks,
        spec_bytes: m.spec_bytes,
        alarms: m
            .alarms
            .into_iter()
            .map(|alarm| (NodeId::new(alarm.node), alarm.what))
            .collect::<BTreeMap<_, _>>(),
        time_alarm: m.time_alarm.map(|alarm| TimeAlarm { since: moment(alarm.since_ms), what: alarm.what }),
        time_jump: m.time_jump.map(|jump| TimeJump { from: moment(jump.from_ms), to: moment(jump.to_ms) }),
    })
}

pub(super) fn budget(id: BudgetId, budget: &Budget) -> state::Budget {
    state::Budget {
        id: id.get(),
        name: budget.name.to_string(),
        parent: budget.parent.map(BudgetId::get),
        children: budget.children.iter().map(|child| child.get()).collect(),
        share_ppm: budget.share.ppm(),
        owner: budget.owner.as_ref().map(ToString::to_string),
        members: budget.members.iter().map(ToString::to_string).collect(),
        defaults: Some(budget.defaults.to_wire()),
        closed: budget.is_closed,
        pools: pool_shares(&budget.pools),
        was: budget
            .was
            .iter()
            .map(|was| state::Was {
                until_ms: was.until.as_millis(),
                share_ppm: was.share.ppm(),
                pools: pool_shares(&was.pools),
            })
            .collect(),
    }
}

pub(super) fn read_budget(m: state::Budget) -> Result<(BudgetId, Budget), Error> {
    let members: Result<BTreeSet<_>, _> = m.members.iter().map(|text| name("members", text)).collect();
    let budget = Budget {
        name: name("name", &m.name)?,
        parent: m.parent.map(BudgetId::new),
        children: m.children.into_iter().map(BudgetId::new).collect(),
        share: share("share", m.share_ppm)?,
        owner: m.owner.map(|text| name("owner", &text)).transpose()?,
        members: members?,
        defaults: ContractDefaults::from_wire(m.defaults.unwrap_or_default())?,
        is_closed: m.closed,
        pools: read_pool_shares(&m.pools)?,
        slices: Vec::new(),
        was: m.was.iter().map(read_was).collect::<Result<_, _>>()?,
    };
    Ok((BudgetId::new(m.id), budget))
}

fn read_was(m: &state::Was) -> Result<Was, Error> {
    let pools = read_pool_shares(&m.pools)?;
    Ok(Was { until: moment(m.until_ms), share: share("was", m.share_ppm)?, pools })
}

pub(super) fn principal(name: &Name, principal: &Principal) -> state::Principal {
    state::Principal {
        name: name.to_string(),
        token: principal.token.as_bytes().to_vec(),
        account: principal.account.as_str().to_owned(),
        operator: principal.is_operator,
        revoked: principal.is_revoked,
    }
}

pub(super) fn read_principal(m: state::Principal) -> Result<(Name, Principal), Error> {
    let principal = Principal {
        token: fixed("token", &m.token, TokenHash::from_slice)?,
        account: account("account", &m.account)?,
        is_operator: m.operator,
        is_revoked: m.revoked,
    };
    Ok((name("name", &m.name)?, principal))
}

pub(super) fn join_token(token: &TokenHash, of: &JoinToken) -> state::JoinToken {
    state::JoinToken {
        token: token.as_bytes().to_vec(),
        name: of.name.to_string(),
        pool: of.cluster.to_string(),
        expires_at_ms: of.expires_at.as_millis(),
        topology: of.topology.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn read_join_token(m: state::JoinToken) -> Result<(TokenHash, JoinToken), Error> {
    let token = JoinToken {
        name: name("name", &m.name)?,
        cluster: name("pool", &m.pool)?,
        expires_at: moment(m.expires_at_ms),
        topology: names("topology", &m.topology)?,
    };
    Ok((fixed("token", &m.token, TokenHash::from_slice)?, token))
}

pub(super) fn made_pool(of: &Name, pool: &Pool) -> state::MadePool {
    state::MadePool {
        name: of.to_string(),
        clusters: pool.clusters.iter().map(ToString::to_string).collect(),
        weights: weights_to_wire(&pool.weights),
    }
}

pub(super) fn read_made_pool(m: state::MadePool) -> Result<(Name, Pool), Error> {
    let clusters = names("clusters", &m.clusters)?.into_iter().collect();
    Ok((name("name", &m.name)?, Pool { clusters, weights: weights(m.weights)? }))
}

pub(super) fn node(id: NodeId, node: &Node) -> state::Node {
    let (contact, since) = match node.contact {
        Contact::Joined => (state::Contact::Joined, 0),
        Contact::Ready => (state::Contact::Ready, 0),
        Contact::Unreachable { since } => (state::Contact::Unreachable, since.as_millis()),
    };
    state::Node {
        id: id.get(),
        name: node.name.to_string(),
        pool: node.pool.to_string(),
        credential: node.credential.as_bytes().to_vec(),
        machine: node.machine.to_string(),
        facts: node.facts.as_ref().map(Wire::to_wire),
        gpus: node.gpus.iter().map(gpu).collect(),
        contact: contact.into(),
        unreachable_since_ms: since,
        backoff_until_ms: node.backoff_until.map(Timestamp::as_millis),
        failed_launches: u32::from(node.failed_launches),
        cordon: node.cordon.as_ref().map(cordon),
        drain: node.drain.as_ref().map(drain),
        next_port: u32::from(node.next_port),
        topology: node.topology.iter().map(ToString::to_string).collect(),
        cluster: if node.cluster == node.pool { String::new() } else { node.cluster.to_string() },
    }
}

pub(super) fn read_node(m: state::Node) -> Result<(NodeId, Node), Error> {
    let contact = match m.contact() {
        state::Contact::Unspecified => return Err(Error::Missing("contact")),
        state::Contact::Joined => Contact::Joined,
        state::Contact::Ready => Contact::Ready,
        state::Contact::Unreachable => Contact::Unreachable { since: moment(m.unreachable_since_ms) },
    };
    let node = Node {
        name: name("name", &m.name)?,
        cluster: name("cluster", if m.cluster.is_empty() { &m.pool } else { &m.cluster })?,
        pool: name("pool", &m.pool)?,
        credential: fixed("credential", &m.credential, TokenHash::from_slice)?,
        machine: label("machine", &m.machine)?,
        facts: m.facts.map(Facts::from_wire).transpose()?,
        gpus: m.gpus.into_iter().map(read_gpu).collect::<Result<_, _>>()?,
        contact,
        backoff_until: m.backoff_until_ms.map(moment),
        failed_launches: narrow("failed_launches", m.failed_launches)?,
        cordon: m.cordon.map(read_cordon).transpose()?,
        drain: m.drain.map(read_drain).transpose()?,
        next_port: narrow("next_port", m.next_port)?,
        topology: names("topology", &m.topology)?,
    };
    Ok((NodeId::new(m.id), node))
}

fn cordon(cordon: &Cordon) -> state::Cordon {
    state::Cordon {
        who: cordon.who.as_ref().map(ToString::to_string),
        reason: cordon.reason.clone(),
        since_ms: cordon.since.as_millis(),
    }
}

fn read_cordon(m: state::Cordon) -> Result<Cordon, Error> {
    Ok(Cordon {
        who: m.who.map(|text| name("who", &text)).transpose()?,
        reason: m.reason,
        since: moment(m.since_ms),
    })
}

fn drain(drain: &Drain) -> state::Drain {
    state::Drain {
        who: drain.who.to_string(),
        reason: drain.reason.clone(),
        ordered_at_ms: drain.ordered_at.as_millis(),
        begins_at_ms: drain.begins_at.as_millis(),
        active: drain.is_active,
        urgency: Some(drain.urgency.to_wire()),
    }
}

fn read_drain(m: state::Drain) -> Result<Drain, Error> {
    Ok(Drain {
        who: name("who", &m.who)?,
        reason: m.reason,
        ordered_at: moment(m.ordered_at_ms),
        begins_at: moment(m.begins_at_ms),
        is_active: m.active,
        urgency: Urgency::from_wire(required("urgency", m.urgency)?)?,
    })
}

fn gpu(gpu: &Gpu) -> state::Gpu {
    state::Gpu {
        uuid: gpu.uuid.to_string(),
        model: gpu.model.to_string(),
        memory_bytes: gpu.memory.get(),
        present: gpu.is_present,
        holder: gpu.holder.map(|id| id.to_wire()),
        next: gpu.next.map(|id| id.to_wire()),
        weight_milli: if gpu.weight == Weight::ONE { 0 } else { gpu.weight.milli() },
    }
}

fn read_gpu(m: state::Gpu) -> Result<Gpu, Error> {
    Ok(Gpu {
        uuid: uuid(&m.uuid)?,
        model: label("model", &m.model)?,
        memory: Bytes::new(m.memory_bytes),
        is_present: m.present,
        holder: m.holder.map(AttemptId::from_wire).transpose()?,
        next: m.next.map(AttemptId::from_wire).transpose()?,
        weight: if m.weight_milli == 0 { Weight::ONE } else { weight(m.weight_milli)? },
    })
}

pub(super) fn request(id: &RequestId, of: &Remembered) -> state::Request {
    state::Request {
        id: id.as_bytes().to_vec(),
        body: of.body.as_bytes().to_vec(),
        at_ms: of.at.as_millis(),
        index: of.index.get(),
        answer: Some(answer_to_wire(&of.answer)),
    }
}

pub(super) fn read_request(m: state::Request) -> Result<(RequestId, Remembered), Error> {
    let remembered = Remembered {
        body: fixed("body", &m.body, BodyHash::from_slice)?,
        at: moment(m.at_ms),
        index: LogIndex::new(m.index),
        answer: answer_from_wire(required("answer", m.answer)?)?,
    };
    Ok((fixed("id", &m.id, RequestId::from_slice)?, remembered))
}
