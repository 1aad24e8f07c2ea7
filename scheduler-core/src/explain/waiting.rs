//! Why a job waits: all reasons, the one that binds first.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Outlook, Reason, Token, Who};
use crate::id::Name;
use crate::job::Job;
use crate::plan::Shut;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// A waiting job's place, as far as its reasons need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queued<'a> {
    pub job: &'a Job,
    /// The pool it stands in; none if nothing known could hold it.
    pub pool: Option<&'a Name>,
    /// How many go before it there.
    pub ahead: u32,
    /// A plan made now starts it.
    pub is_planned: bool,
}

/// Returns why a job waits, the reason that binds first; never empty.
pub(crate) fn reasons(state: &State, queued: &Queued<'_>, outlook: &Outlook) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if let Some(safe) = &state.meta.safe_mode {
        let text = format!("the control plane is in safe mode and starts nothing: {}", safe.what);
        reasons.push(Reason::new(Token::WaitingSafeMode, Who::Operator, text));
    }
    let order = order(queued);
    if queued.is_planned {
        let text = "it fits on idle GPUs and starts with the next plan".to_owned();
        reasons.push(Reason::new(Token::WaitingEvaluation, Who::Nobody, text));
        return reasons;
    }
    if outlook.fits_now {
        reasons.extend(order);
        if reasons.is_empty() {
            let text = "it fits on idle GPUs and is looked at next".to_owned();
            reasons.push(Reason::new(Token::WaitingEvaluation, Who::Nobody, text));
        }
        return reasons;
    }
    reasons.extend(shape(queued.job, outlook));
    reasons.extend(supply(queued.job, outlook));
    reasons.extend(capacity(state, queued, outlook));
    reasons.extend(order);
    if reasons.is_empty() {
        // The first in line, whose GPUs are all with others on nodes that nobody hears of.
        let text = "the GPUs that could hold it are occupied, on nodes that take no work now".to_owned();
        reasons.push(Reason::new(Token::WaitingCapacity, Who::Operator, text));
    }
    reasons
}

fn order(queued: &Queued<'_>) -> Option<Reason> {
    let text = match queued.ahead {
        0 => return None,
        1 => "1 job goes first".to_owned(),
        more => format!("{more} jobs go first"),
    };
    Some(Reason::new(Token::WaitingOrder, Who::BudgetOwner, text))
}

fn shape(job: &Job, outlook: &Outlook) -> Option<Reason> {
    let wanted = job.terms.shape.gpus_per_node.get();
    if outlook.idle < wanted {
        return None;
    }
    let text = match outlook.most_idle < wanted {
        true => format!("{} GPUs are idle, but no node has {wanted} of them", outlook.idle),
        false => "nodes with enough idle GPUs lack the cores or the memory".to_owned(),
    };
    Some(Reason::new(Token::WaitingShape, Who::You, text))
}

fn supply(job: &Job, outlook: &Outlook) -> Option<Reason> {
    let is_held_up = outlook.is_occupied || outlook.unprotected_at.is_some();
    match job.terms.tier {
        Tier::Free if is_held_up => {
            let text = "the free tier has what funded jobs leave, and nothing is left".to_owned();
            Some(Reason::new(Token::WaitingIdle, Who::You, text))
        }
        Tier::Funded if outlook.is_occupied => {
            let text =
                "its GPUs are with jobs past their protection, in the free tier, or being cleared; none are \
                        taken back yet, so it waits until they end"
                    .to_owned();
            Some(Reason::new(Token::WaitingOccupied, Who::Nobody, text))
        }
        Tier::Free | Tier::Funded => outlook.unprotected_at.map(|until| {
            let text = "its GPUs are with protected jobs".to_owned();
            Reason::new(Token::WaitingProtection, Who::Nobody, text).until(Some(until))
        }),
    }
}

fn capacity(state: &State, queued: &Queued<'_>, outlook: &Outlook) -> Option<Reason> {
    let wanted = queued.job.terms.shape.gpus_per_node.get();
    let Some(pool) = queued.pool else {
        let text = "no node is known that could hold it".to_owned();
        return Some(Reason::new(Token::WaitingCapacity, Who::Operator, text));
    };
    let back = outlook.shut.iter().filter(|(_, _, idle)| *idle >= wanted);
    let names: Vec<(String, Option<Timestamp>)> = back
        .filter_map(|(id, why, _)| {
            let name = &state.nodes.get(id)?.name;
            Some(match why {
                Shut::Joined => (format!("{name} has not said what it is yet"), None),
                Shut::Unreachable { .. } => (format!("{name} is unreachable"), None),
                Shut::Silent => (format!("{name} has no link to the leader"), None),
                Shut::Backoff { until } => (format!("{name} waits after a failed launch"), Some(*until)),
            })
        })
        .collect();
    let until = names.iter().filter_map(|(_, until)| *until).min();
    let text = match names.as_slice() {
        [] if outlook.is_empty() => format!("no node of {pool} could hold it"),
        [] => return None,
        [(one, _)] => format!("it would fit, but {one}"),
        [(one, _), rest @ ..] => {
            format!("it would fit, but {one}, and {} more nodes take no work", rest.len())
        }
    };
    Some(Reason::new(Token::WaitingCapacity, Who::Operator, text).until(until))
}
