//! Why a job waits: all reasons, the one that binds first.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::closed::Closed;
use super::facts::{kept_words, whose};
use super::right::Kept;
use super::{Outlook, Reason, Token, Who, words};
use crate::decision::Start;
use crate::id::{AttemptId, Name, NodeId};
use crate::job::Job;
use crate::spec::Tier;
use crate::state::State;

/// A waiting job's place, as far as its reasons need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queued<'a> {
    pub job: &'a Job,
    /// The pool it stands in; none if nothing known could hold it.
    pub pool: Option<&'a Name>,
    /// How many go before it there.
    pub ahead: u32,
    /// The decision to start it, if a plan made now does.
    pub planned: Option<&'a Start>,
}

/// Returns why a job waits, the reason that binds first; never empty.
pub(crate) fn reasons(state: &State, queued: &Queued<'_>, outlook: &Outlook) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if let Some(safe) = &state.meta.safe_mode {
        let text = format!("the control plane is in safe mode and starts nothing: {}", safe.what);
        reasons.push(Reason::new(Token::WaitingSafeMode, Who::Operator, text));
    }
    if let Some(start) = queued.planned {
        let text = match start.takes.as_slice() {
            [] => "there are GPUs for it, and it starts with the next plan".to_owned(),
            _ => {
                let takes: Vec<AttemptId> = super::victims::names(start);
                format!("it starts with the next plan, which takes GPUs from {}", words::attempts(&takes))
            }
        };
        reasons.push(Reason::new(Token::WaitingEvaluation, Who::Nobody, text));
        return reasons;
    }
    let line = burst(state, queued, outlook).or_else(|| line(queued));
    if outlook.fits_now {
        reasons.extend(line);
        if reasons.is_empty() {
            let text = "there are GPUs for it, and it is looked at next".to_owned();
            reasons.push(Reason::new(Token::WaitingEvaluation, Who::Nobody, text));
        }
        return reasons;
    }
    reasons.extend(lane(state, outlook));
    reasons.extend(shape(queued.job, outlook));
    reasons.extend(reserved(state, outlook));
    reasons.extend(supply(state, queued.job, outlook));
    reasons.extend(capacity(state, queued, outlook));
    reasons.extend(line);
    if reasons.is_empty() {
        // The first in line, whose GPUs are all with others that will not give them up for it.
        let text = "the GPUs that could hold it are occupied".to_owned();
        reasons.push(Reason::new(Token::WaitingOccupied, Who::Nobody, text));
    }
    reasons
}

/// Returns which budget of a job's has so much that others go first, if any do.
fn burst(state: &State, queued: &Queued<'_>, outlook: &Outlook) -> Option<Reason> {
    let over = outlook.burst.filter(|_| queued.ahead > 0)?;
    let text = format!("{}: everybody else that waits goes first", words::over(state, &over));
    Some(Reason::new(Token::WaitingBurst, Who::BudgetOwner, text))
}

fn line(queued: &Queued<'_>) -> Option<Reason> {
    let text = match queued.ahead {
        0 => return None,
        1 => "1 job goes first".to_owned(),
        more => format!("{more} jobs go first"),
    };
    Some(Reason::new(Token::WaitingOrder, Who::BudgetOwner, text))
}

fn shape(job: &Job, outlook: &Outlook) -> Option<Reason> {
    let shape = &job.terms.shape;
    let (wanted, nodes) = (shape.gpus_per_node.get(), shape.nodes);
    if outlook.idle < wanted.saturating_mul(nodes) {
        return None;
    }
    let idle = words::gpus(outlook.idle);
    let are = if outlook.idle == 1 { "is" } else { "are" };
    let text = match (outlook.nodes_idle, nodes) {
        (enough, nodes) if enough >= nodes && outlook.together_idle < nodes => format!(
            "{enough} nodes have {wanted} idle GPUs each, but at most {} of {nodes} within one group of level {}",
            outlook.together_idle,
            shape.within.unwrap_or_default()
        ),
        (enough, nodes) if enough >= nodes => {
            "nodes with enough idle GPUs lack the cores or the memory".to_owned()
        }
        (_, 1) => format!("{idle} {are} idle, but no node has {wanted} of them"),
        (some, nodes) => format!("{idle} {are} idle, but {some} of {nodes} nodes have {wanted} of them"),
    };
    Some(Reason::new(Token::WaitingShape, Who::You, text))
}

/// Returns why the short lane keeps it from starting.
fn lane(state: &State, outlook: &Outlook) -> Option<Reason> {
    let lane = outlook.lane?;
    let percent = words::percent(state.meta.settings.short_lane_ppm);
    let text = format!(
        "longer jobs leave {percent} of the GPUs unprotected for short ones: {} of {} that may be are protected, and it \
         would be too many",
        lane.protected, lane.rest
    );
    Some(Reason::new(Token::WaitingLane, Who::Nobody, text))
}

/// Returns for whose date what it could have is reserved.
fn reserved(state: &State, outlook: &Outlook) -> Option<Reason> {
    let gpus: u32 = outlook.reserved.values().sum();
    let (id, _) = outlook.reserved.iter().max_by_key(|(id, gpus)| (**gpus, core::cmp::Reverse(**id)))?;
    let whose = state.jobs.get(id).map(|job| crate::budget::label(state, job.budget)).unwrap_or_default();
    let are = if gpus == 1 { "is" } else { "are" };
    let text = format!(
        "{} that it could have {are} reserved for the date of {id} ({whose}), and it would be protected beyond that",
        words::gpus(gpus)
    );
    let until = state.dates.iter().filter(|((job, _), _)| job == id).map(|(_, date)| date.promise.at).min();
    Some(Reason::new(Token::WaitingReserved, Who::BudgetOwner, text).until(until))
}

/// Returns why the GPUs that others have are not its own.
fn supply(state: &State, job: &Job, outlook: &Outlook) -> Vec<Reason> {
    let Some(until) = outlook.unprotected_at else { return Vec::new() };
    if job.terms.tier == Tier::Free {
        let text = "the free tier has what funded jobs leave, and nothing is left".to_owned();
        return Vec::from([Reason::new(Token::WaitingIdle, Who::You, text)]);
    }
    let mut reasons = kept(state, outlook);
    if !outlook.is_contested {
        let text = "its GPUs are with protected jobs".to_owned();
        reasons.insert(0, Reason::new(Token::WaitingProtection, Who::Nobody, text).until(Some(until)));
    } else if reasons.is_empty() && outlook.nodes_idle < job.terms.shape.nodes {
        let text = "its GPUs are with attempts that leave, or being cleared".to_owned();
        reasons.push(Reason::new(Token::WaitingOccupied, Who::Nobody, text));
    }
    reasons
}

/// Of the attempts of one kind that with the most GPUs, and how many they have together.
#[derive(Clone, Copy)]
struct Most<'a> {
    all: u32,
    gpus: u32,
    id: AttemptId,
    kept: &'a Kept,
}

/// Returns why attempts past their protection keep their GPUs: one reason of each kind, that with the most GPUs first.
fn kept(state: &State, outlook: &Outlook) -> Vec<Reason> {
    let mut kinds: [Option<Most<'_>>; 5] = [None; 5];
    for (id, gpus, kept) in &outlook.kept {
        let kind = &mut kinds[match kept {
            Kept::AboveLimit(_) => 0,
            Kept::GoesFirst(..) => 1,
            Kept::InMargin(..) => 2,
            Kept::SameBudget => 3,
            Kept::Unheard => 4,
        }];
        let all = kind.map_or(0, |most| most.all) + gpus;
        // Of equal ones the first.
        let most = kind.filter(|most| most.gpus >= *gpus);
        *kind = Some(Most { all, ..most.unwrap_or(Most { all, gpus: *gpus, id: *id, kept }) });
    }
    let mut found: Vec<(u32, Reason)> = Vec::new();
    for Most { all: gpus, id, kept, .. } in kinds.into_iter().flatten() {
        let are =
            if gpus == 1 { "is past its protection and stays" } else { "are past their protection and stay" };
        let whose = whose(state, id);
        let text = format!("{} {are} with {whose}: {}", words::gpus(gpus), kept_words(state, kept));
        let (token, who, sides) = match kept {
            Kept::GoesFirst(mine, theirs) | Kept::InMargin(mine, theirs) => {
                (Token::WaitingOrder, Who::BudgetOwner, Some((*mine, *theirs)))
            }
            Kept::AboveLimit(_) => (Token::WaitingBurst, Who::BudgetOwner, None),
            Kept::SameBudget => (Token::WaitingOrder, Who::You, None),
            Kept::Unheard => (Token::WaitingCapacity, Who::Operator, None),
        };
        found.push((gpus, Reason { sides, ..Reason::new(token, who, text) }));
    }
    found.sort_by_key(|(gpus, _)| core::cmp::Reverse(*gpus));
    found.into_iter().map(|(_, reason)| reason).collect()
}

fn capacity(state: &State, queued: &Queued<'_>, outlook: &Outlook) -> Option<Reason> {
    let shape = &queued.job.terms.shape;
    let Some(pool) = queued.pool else {
        let text = "no node is known that could hold it".to_owned();
        return Some(Reason::new(Token::WaitingCapacity, Who::Operator, text));
    };
    let spare = outlook.closed.iter().filter(|(_, _, idle)| *idle >= shape.gpus_per_node.get());
    let back: Vec<&(NodeId, Closed, u32)> = spare.collect();
    let would = outlook.nodes_now.saturating_add(u32::try_from(back.len()).unwrap_or(u32::MAX));
    let until = back.iter().filter_map(|(_, closed, _)| match closed {
        Closed::Backoff { until } => Some(*until),
        Closed::Joined
        | Closed::Unreachable { .. }
        | Closed::Silent
        | Closed::Cordoned { .. }
        | Closed::Draining { .. }
        | Closed::Window { .. } => None,
    });
    let until = until.min();
    let text = match back.as_slice() {
        [] if outlook.is_empty() => format!("no node of {pool} could hold it"),
        [] => return None,
        _ if would < shape.nodes => return None,
        [(one, closed, _)] => format!("it would fit, but {}", closed_words(state, *one, closed)),
        [(one, closed, _), rest @ ..] => format!(
            "it would fit, but {}, and {} more nodes take no work",
            closed_words(state, *one, closed),
            rest.len()
        ),
    };
    Some(Reason::new(Token::WaitingCapacity, Who::Operator, text).until(until))
}

fn closed_words(state: &State, id: NodeId, closed: &Closed) -> String {
    let name = state.nodes.get(&id).map_or_else(|| id.to_string(), |node| node.name.to_string());
    let said = |reason: &str| if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    match closed {
        Closed::Joined => format!("{name} has not said what it is yet"),
        Closed::Unreachable { .. } => format!("{name} is unreachable"),
        Closed::Silent => format!("{name} has no link to the leader"),
        Closed::Backoff { .. } => format!("{name} waits after a failed launch"),
        Closed::Cordoned { reason, .. } => format!("{name} is cordoned{}", said(reason)),
        Closed::Draining { reason, .. } => format!("{name} is draining{}", said(reason)),
        Closed::Window { reason, .. } => {
            format!("{name} is to be drained before its protection would be over{}", said(reason))
        }
    }
}
