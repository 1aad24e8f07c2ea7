//! What people say about jobs and nodes, and ranks of their progress.

use scheduler_core::command::{DrainNode, JobWord, NodeWord, Saved, SetNode, SetPool};
use scheduler_core::id::{AttemptId, AttemptNo, DecisionId, JobId, Label, LogIndex, NodeId};
use scheduler_core::node::Urgency;
use scheduler_core::unit::{Timestamp, Weight};

use crate::error::Error;
use crate::log::v1 as log;
use crate::wire::{Wire, label, moment, name, names, narrow, required};

impl Wire for JobWord {
    type Message = log::JobWord;

    fn to_wire(&self) -> log::JobWord {
        log::JobWord { job: self.job.get(), reason: self.reason.clone() }
    }

    fn from_wire(m: log::JobWord) -> Result<Self, Error> {
        Ok(Self { job: JobId::new(m.job), reason: m.reason })
    }
}

impl Wire for NodeWord {
    type Message = log::NodeWord;

    fn to_wire(&self) -> log::NodeWord {
        log::NodeWord { node: self.node.get(), reason: self.reason.clone() }
    }

    fn from_wire(m: log::NodeWord) -> Result<Self, Error> {
        Ok(Self { node: NodeId::new(m.node), reason: m.reason })
    }
}

impl Wire for SetNode {
    type Message = log::SetNode;

    fn to_wire(&self) -> log::SetNode {
        log::SetNode {
            node: self.node.get(),
            topology: self.topology.iter().map(ToString::to_string).collect(),
        }
    }

    fn from_wire(m: log::SetNode) -> Result<Self, Error> {
        Ok(Self { node: NodeId::new(m.node), topology: names("topology", &m.topology)? })
    }
}

impl Wire for SetPool {
    type Message = log::SetPool;

    fn to_wire(&self) -> log::SetPool {
        log::SetPool {
            pool: self.pool.to_string(),
            clusters: self.clusters.iter().map(ToString::to_string).collect(),
            weights: weights_to_wire(&self.weights),
        }
    }

    fn from_wire(m: log::SetPool) -> Result<Self, Error> {
        Ok(Self {
            pool: name("pool", &m.pool)?,
            clusters: names("clusters", &m.clusters)?.into_iter().collect(),
            weights: weights(m.weights)?,
        })
    }
}

/// Returns what types of GPU count as a message.
pub(crate) fn weights_to_wire(of: &[(Label, Weight)]) -> Vec<log::TypeWeight> {
    of.iter()
        .map(|(kind, weight)| log::TypeWeight { gpu_type: kind.to_string(), milli: weight.milli() })
        .collect()
}

/// Reads what types of GPU count.
pub(crate) fn weights(of: Vec<log::TypeWeight>) -> Result<Vec<(Label, Weight)>, Error> {
    let one = |m: log::TypeWeight| Ok((label("gpu_type", &m.gpu_type)?, weight(m.milli)?));
    of.into_iter().map(one).collect()
}

/// Reads a weight.
pub(crate) fn weight(milli: u32) -> Result<Weight, Error> {
    Weight::from_milli(milli).ok_or_else(|| Error::bad("weight", "0.001 to 1000"))
}

impl Wire for DrainNode {
    type Message = log::DrainNode;

    fn to_wire(&self) -> log::DrainNode {
        log::DrainNode {
            node: self.node.get(),
            urgency: Some(self.urgency.to_wire()),
            begins_at_ms: self.begins_at.map(Timestamp::as_millis),
            reason: self.reason.clone(),
        }
    }

    fn from_wire(m: log::DrainNode) -> Result<Self, Error> {
        Ok(Self {
            node: NodeId::new(m.node),
            urgency: Urgency::from_wire(required("urgency", m.urgency)?)?,
            begins_at: m.begins_at_ms.map(moment),
            reason: m.reason,
        })
    }
}

impl Wire for Urgency {
    type Message = log::Urgency;

    fn to_wire(&self) -> log::Urgency {
        use log::urgency::Urgency as Kind;
        let kind = match self {
            Self::Normal => Kind::Normal(log::Normal {}),
            Self::Deadline(at) => Kind::DeadlineMs(at.as_millis()),
            Self::Now => Kind::Now(log::Now {}),
        };
        log::Urgency { urgency: Some(kind) }
    }

    fn from_wire(m: log::Urgency) -> Result<Self, Error> {
        use log::urgency::Urgency as Kind;
        Ok(match required("urgency", m.urgency)? {
            Kind::Normal(_) => Self::Normal,
            Kind::DeadlineMs(at) => Self::Deadline(moment(at)),
            Kind::Now(_) => Self::Now,
        })
    }
}

impl Wire for Saved {
    type Message = log::Saved;

    fn to_wire(&self) -> log::Saved {
        log::Saved {
            attempt: Some(self.attempt.to_wire()),
            saved_at_ms: self.saved_at.map(Timestamp::as_millis),
            signed_at_ms: self.signed_at.map(Timestamp::as_millis),
        }
    }

    fn from_wire(m: log::Saved) -> Result<Self, Error> {
        Ok(Self {
            attempt: AttemptId::from_wire(required("attempt", m.attempt)?)?,
            saved_at: m.saved_at_ms.map(moment),
            signed_at: m.signed_at_ms.map(moment),
        })
    }
}

impl Wire for AttemptId {
    type Message = log::AttemptId;

    fn to_wire(&self) -> log::AttemptId {
        log::AttemptId { job: self.job.get(), no: u32::from(self.no.get()) }
    }

    fn from_wire(m: log::AttemptId) -> Result<Self, Error> {
        Ok(Self { job: JobId::new(m.job), no: AttemptNo::new(narrow("attempt", m.no)?) })
    }
}

impl Wire for DecisionId {
    type Message = log::DecisionId;

    fn to_wire(&self) -> log::DecisionId {
        log::DecisionId { index: self.index.get(), n: u32::from(self.n) }
    }

    fn from_wire(m: log::DecisionId) -> Result<Self, Error> {
        Ok(Self { index: LogIndex::new(m.index), n: narrow("decision", m.n)? })
    }
}
