//! What replicas and agents tell each other: assignments, reports, facts.

use scheduler_core::agent::{
    ArrayTask, Assignment, Assignments, EndedBy, Fault, Order, RankEvent, Report, Token,
};
use scheduler_core::command::Saved;
use scheduler_core::id::{
    AttemptId, AttemptNo, ClusterId, Epoch, Generation, GpuUuid, JobId, LogIndex, Rank, SpecHash, Term,
};
use scheduler_core::job::Exit;
use scheduler_core::node::{Facts, GpuFacts};
use scheduler_core::spec::Tier;
use scheduler_core::unit::{Bytes, Span, Timestamp};

use crate::error::Error;
use crate::v1;
use crate::wire::{Wire, account, fixed, label, moment, name, narrow, required};

/// The most bytes of one text that an agent sends (a launch's failure, a trouble).
const TEXT_MAX: usize = 1024;

impl Wire for Token {
    type Message = v1::Token;

    fn to_wire(&self) -> v1::Token {
        v1::Token { epoch: self.epoch.get(), term: self.term.get(), index: self.index.get() }
    }

    fn from_wire(m: v1::Token) -> Result<Self, Error> {
        Ok(Self { epoch: Epoch::new(m.epoch), term: Term::new(m.term), index: LogIndex::new(m.index) })
    }
}

impl Wire for Assignments {
    type Message = v1::Assignments;

    fn to_wire(&self) -> v1::Assignments {
        v1::Assignments {
            cluster: self.cluster.as_bytes().to_vec(),
            token: Some(self.token.to_wire()),
            cluster_time_at: self.time.as_millis(),
            items: self.items.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(m: v1::Assignments) -> Result<Self, Error> {
        Ok(Self {
            cluster: fixed("cluster", &m.cluster, ClusterId::from_slice)?,
            token: Token::from_wire(required("token", m.token)?)?,
            time: moment(m.cluster_time_at),
            items: m.items.into_iter().map(Assignment::from_wire).collect::<Result<_, _>>()?,
        })
    }
}

impl Wire for Assignment {
    type Message = v1::Assignment;

    fn to_wire(&self) -> v1::Assignment {
        v1::Assignment {
            job: self.attempt.job.get(),
            attempt: u32::from(self.attempt.no.get()),
            rank: u32::from(self.rank.get()),
            generation: self.generation.get(),
            order: Some(order_to_wire(&self.order)),
            launch: self.launch.as_bytes().to_vec(),
            account: self.account.as_str().to_owned(),
            gpus: self.gpus.iter().map(ToString::to_string).collect(),
            budget: self.budget.clone(),
            funded: self.tier == Tier::Funded,
            start_by_at: self.start_by.as_millis(),
            protection_ms: self.protection.as_millis(),
            time_limit_ms: self.time_limit.map(Span::as_millis),
            grace_ms: self.grace.as_millis(),
            signal: u32::from(self.signal),
            nodes: self.nodes.iter().map(ToString::to_string).collect(),
            addresses: self.addresses.clone(),
            port: self.port.map(u32::from),
            array: self.array.map(|task| v1::ArrayTask {
                of: task.of.get(),
                index: task.index,
                count: task.count,
                min: task.min,
                max: task.max,
            }),
        }
    }

    fn from_wire(m: v1::Assignment) -> Result<Self, Error> {
        Ok(Self {
            attempt: attempt_id(m.job, m.attempt)?,
            rank: Rank::new(narrow("rank", m.rank)?),
            generation: Generation::new(m.generation),
            order: order_from_wire(required("order", m.order)?),
            launch: fixed("launch", &m.launch, SpecHash::from_slice)?,
            account: account("account", &m.account)?,
            gpus: m.gpus.iter().map(|text| uuid(text)).collect::<Result<_, _>>()?,
            budget: m.budget,
            tier: if m.funded { Tier::Funded } else { Tier::Free },
            start_by: moment(m.start_by_at),
            protection: Span::from_millis(m.protection_ms),
            time_limit: m.time_limit_ms.map(Span::from_millis),
            grace: Span::from_millis(m.grace_ms),
            signal: narrow("signal", m.signal)?,
            nodes: m.nodes.iter().map(|text| name("nodes", text)).collect::<Result<_, _>>()?,
            addresses: m.addresses,
            port: m.port.map(|port| narrow("port", port)).transpose()?,
            array: m.array.map(|m| ArrayTask {
                of: JobId::new(m.of),
                index: m.index,
                count: m.count,
                min: m.min,
                max: m.max,
            }),
        })
    }
}

fn order_to_wire(order: &Order) -> v1::assignment::Order {
    match order {
        Order::Prepare => v1::assignment::Order::Prepare(v1::Prepare {}),
        Order::Run => v1::assignment::Order::Run(v1::Run {}),
        Order::Stop { reason, grace, has_notice } => v1::assignment::Order::Stop(v1::StopOrder {
            reason: reason.clone(),
            grace_ms: grace.as_millis(),
            notice: *has_notice,
        }),
        Order::Clear => v1::assignment::Order::Clear(v1::Clear {}),
    }
}

fn order_from_wire(order: v1::assignment::Order) -> Order {
    match order {
        v1::assignment::Order::Prepare(_) => Order::Prepare,
        v1::assignment::Order::Run(_) => Order::Run,
        v1::assignment::Order::Stop(stop) => Order::Stop {
            reason: stop.reason,
            grace: Span::from_millis(stop.grace_ms),
            has_notice: stop.notice,
        },
        v1::assignment::Order::Clear(_) => Order::Clear,
    }
}

pub(crate) fn attempt_id(job: u32, attempt: u32) -> Result<AttemptId, Error> {
    Ok(AttemptId { job: JobId::new(job), no: AttemptNo::new(narrow("attempt", attempt)?) })
}

pub(crate) fn uuid(text: &str) -> Result<GpuUuid, Error> {
    GpuUuid::new(text).ok_or_else(|| Error::bad("gpus", "not a GPU's UUID"))
}

fn text(field: &'static str, text: String) -> Result<String, Error> {
    if text.len() > TEXT_MAX {
        return Err(Error::bad(field, "longer than 1,024 bytes"));
    }
    Ok(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}

impl Wire for Report {
    type Message = v1::Report;

    fn to_wire(&self) -> v1::Report {
        v1::Report {
            job: self.attempt.job.get(),
            attempt: u32::from(self.attempt.no.get()),
            rank: u32::from(self.rank.get()),
            at: self.at.as_millis(),
            event: Some(event_to_wire(&self.event)),
        }
    }

    fn from_wire(m: v1::Report) -> Result<Self, Error> {
        Ok(Self {
            attempt: attempt_id(m.job, m.attempt)?,
            rank: Rank::new(narrow("rank", m.rank)?),
            at: moment(m.at),
            event: event_from_wire(required("event", m.event)?)?,
        })
    }
}

fn event_to_wire(event: &RankEvent) -> v1::report::Event {
    match event {
        RankEvent::Ready => v1::report::Event::Ready(v1::Ready {}),
        RankEvent::Unkillable { what } => {
            v1::report::Event::Unkillable(v1::Unkillable { what: what.clone() })
        }
        RankEvent::Started => v1::report::Event::Started(v1::Started {}),
        RankEvent::Exited { exit, by, saved_at } => v1::report::Event::Exited(v1::Exited {
            exit: Some(exit.to_wire()),
            by: match by {
                EndedBy::Itself => v1::EndedBy::Itself,
                EndedBy::TimeLimit => v1::EndedBy::TimeLimit,
                EndedBy::Stop => v1::EndedBy::Stop,
                EndedBy::Reboot => v1::EndedBy::Reboot,
                EndedBy::Notice => v1::EndedBy::Notice,
            }
            .into(),
            saved_at: saved_at.map(Timestamp::as_millis),
        }),
        RankEvent::LaunchFailed { fault, what } => v1::report::Event::LaunchFailed(v1::LaunchFailed {
            job_code: match fault {
                Fault::Node => None,
                Fault::Job { code } => Some(u32::from(*code)),
            },
            what: what.clone(),
        }),
        RankEvent::Freed => v1::report::Event::Freed(v1::Freed {}),
        RankEvent::Unknown { gpus } => v1::report::Event::Unknown(v1::UnknownWork {
            gpus: gpus.iter().map(ToString::to_string).collect(),
        }),
    }
}

fn event_from_wire(event: v1::report::Event) -> Result<RankEvent, Error> {
    Ok(match event {
        v1::report::Event::Ready(_) => RankEvent::Ready,
        v1::report::Event::Unkillable(m) => RankEvent::Unkillable { what: text("what", m.what)? },
        v1::report::Event::Started(_) => RankEvent::Started,
        v1::report::Event::Exited(exited) => RankEvent::Exited {
            by: match exited.by() {
                v1::EndedBy::Unspecified => return Err(Error::Missing("by")),
                v1::EndedBy::Itself => EndedBy::Itself,
                v1::EndedBy::TimeLimit => EndedBy::TimeLimit,
                v1::EndedBy::Stop => EndedBy::Stop,
                v1::EndedBy::Reboot => EndedBy::Reboot,
                v1::EndedBy::Notice => EndedBy::Notice,
            },
            saved_at: exited.saved_at.map(moment),
            exit: Exit::from_wire(required("exit", exited.exit)?)?,
        },
        v1::report::Event::LaunchFailed(failed) => RankEvent::LaunchFailed {
            fault: match failed.job_code {
                None => Fault::Node,
                Some(code) => Fault::Job { code: narrow("job_code", code)? },
            },
            what: text("what", failed.what)?,
        },
        v1::report::Event::Freed(_) => RankEvent::Freed,
        v1::report::Event::Unknown(work) => {
            RankEvent::Unknown { gpus: work.gpus.iter().map(|text| uuid(text)).collect::<Result<_, _>>()? }
        }
    })
}

impl Wire for Exit {
    type Message = v1::Exit;

    fn to_wire(&self) -> v1::Exit {
        let exit = match self {
            Self::Code(code) => v1::exit::Exit::Code(u32::from(*code)),
            Self::Signal(signal) => v1::exit::Exit::Signal(u32::from(*signal)),
            Self::Unknown => v1::exit::Exit::Unknown(true),
        };
        v1::Exit { exit: Some(exit) }
    }

    fn from_wire(m: v1::Exit) -> Result<Self, Error> {
        Ok(match required("exit", m.exit)? {
            v1::exit::Exit::Code(code) => Self::Code(narrow("code", code)?),
            v1::exit::Exit::Signal(signal) => Self::Signal(narrow("signal", signal)?),
            v1::exit::Exit::Unknown(_) => Self::Unknown,
        })
    }
}

impl Wire for Facts {
    type Message = v1::NodeFacts;

    fn to_wire(&self) -> v1::NodeFacts {
        v1::NodeFacts {
            boot: self.boot.to_string(),
            agent: self.agent.to_string(),
            cpus: self.cpus,
            memory_bytes: self.memory.get(),
            gpus: self.gpus.iter().map(Wire::to_wire).collect(),
            simulated: self.is_simulated,
            containment: self.containment.to_string(),
            trouble: self.trouble.clone(),
            address: self.address.as_ref().map(ToString::to_string),
        }
    }

    fn from_wire(m: v1::NodeFacts) -> Result<Self, Error> {
        Ok(Self {
            boot: label("boot", &m.boot)?,
            agent: label("agent", &m.agent)?,
            cpus: m.cpus,
            memory: Bytes::new(m.memory_bytes),
            gpus: m.gpus.into_iter().map(GpuFacts::from_wire).collect::<Result<_, _>>()?,
            is_simulated: m.simulated,
            containment: label("containment", &m.containment)?,
            trouble: m
                .trouble
                .into_iter()
                .take(32)
                .map(|line| text("trouble", line))
                .collect::<Result<_, _>>()?,
            address: m.address.map(|text| label("address", &text)).transpose()?,
        })
    }
}

impl Wire for GpuFacts {
    type Message = v1::GpuFacts;

    fn to_wire(&self) -> v1::GpuFacts {
        v1::GpuFacts {
            uuid: self.uuid.to_string(),
            model: self.model.to_string(),
            memory_bytes: self.memory.get(),
        }
    }

    fn from_wire(m: v1::GpuFacts) -> Result<Self, Error> {
        Ok(Self {
            uuid: uuid(&m.uuid)?,
            model: label("model", &m.model)?,
            memory: Bytes::new(m.memory_bytes),
        })
    }
}

/// What an agent tells of checkpoints. An attempt has one rank on a node, so that its rank needs no field of its own here.
impl Wire for Vec<Saved> {
    type Message = v1::Saves;

    fn to_wire(&self) -> v1::Saves {
        let item = |saved: &Saved| v1::Saved {
            job: saved.attempt.job.get(),
            attempt: u32::from(saved.attempt.no.get()),
            rank: 0,
            saved_at: saved.saved_at.map(Timestamp::as_millis),
            signed_at: saved.signed_at.map(Timestamp::as_millis),
        };
        v1::Saves { items: self.iter().map(item).collect() }
    }

    fn from_wire(m: v1::Saves) -> Result<Self, Error> {
        let item = |m: v1::Saved| {
            Ok(Saved {
                attempt: attempt_id(m.job, m.attempt)?,
                saved_at: m.saved_at.map(moment),
                signed_at: m.signed_at.map(moment),
            })
        };
        m.items.into_iter().map(item).collect()
    }
}
