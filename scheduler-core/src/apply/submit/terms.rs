//! The contract of a job: what its submission says, and where it says nothing, what the budget's owner set.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::budget;
use crate::command::{Code, Rejection};
use crate::id::BudgetId;
use crate::job::Terms;
use crate::lifecycle::lane::is_short;
use crate::settings::Settings;
use crate::spec::{Request, TermSource, Tier, Turn};
use crate::state::State;
use crate::unit::Span;

/// The notice signal where the job names none: USR1.
const SIGNAL: u8 = 10;
/// Signals that a process can have: 1 to 64; KILL and STOP cannot be caught, so they announce nothing.
const SIGNAL_MAX: u8 = 64;
const UNCATCHABLE: [u8; 2] = [9, 19];
/// The most retries.
const RETRIES_MAX: u16 = 1_000;

/// Returns the complete contract.
pub(super) fn complete(state: &State, request: &Request, budget: BudgetId) -> Result<Terms, Rejection> {
    let defaults = budget::defaults(state, budget);
    let settings = &state.meta.settings;
    let (min_runtime, tier_source) =
        pick(request.min_runtime, defaults.min_runtime).ok_or_else(|| no_tier(settings))?;
    let tier = if min_runtime.is_zero() { Tier::Free } else { Tier::Funded };
    let time_limit = pick(request.time_limit, defaults.time_limit).map(|(limit, _)| limit);
    let (resumable, resumable_source) =
        pick(request.resumable, defaults.resumable).unwrap_or((false, TermSource::Unsaid));
    check_spans(request, min_runtime, time_limit)?;
    check_minimum(settings, min_runtime, time_limit)?;
    if tier == Tier::Funded && budget::is_worth_nothing(state, budget) {
        return Err(no_allocation(state, budget));
    }
    check_numbers(request)?;
    Ok(Terms {
        cluster: request.cluster.clone(),
        shape: request.shape.clone(),
        exclude: BTreeSet::new(),
        tier,
        tier_source,
        min_runtime,
        time_limit,
        resumable,
        resumable_source,
        grace: grace(settings, request, tier)?,
        signal: request.signal.unwrap_or(SIGNAL),
        checkpoint_every: request.checkpoint_every,
        requeue_code: request.requeue_code,
        retries: request.retries,
        turn: request.turn.unwrap_or_else(|| usual_turn(min_runtime, time_limit)),
    })
}

fn pick<T>(said: Option<T>, default: Option<T>) -> Option<(T, TermSource)> {
    match (said, default) {
        (Some(value), _) => Some((value, TermSource::Submission)),
        (None, Some(value)) => Some((value, TermSource::BudgetDefault)),
        (None, None) => None,
    }
}

/// Work that debugs something is over soon; it need not wait behind its own budget's long jobs.
fn usual_turn(min_runtime: Span, time_limit: Option<Span>) -> Turn {
    if is_short(min_runtime, time_limit) { Turn::First } else { Turn::Normal }
}

fn no_tier(settings: &Settings) -> Rejection {
    Rejection::new(
        Code::NoTier,
        String::from("the job says neither how long it must be protected nor that it is unallocated"),
        "protection is paid for, so nobody gets it, or goes without it, silently",
        format!("--min-runtime DURATION (at most {}), or --unallocated", settings.cap),
    )
}

fn no_allocation(state: &State, budget: BudgetId) -> Rejection {
    Rejection::new(
        Code::NoAllocation,
        format!("budget `{}` has no share, so it can pay for no protection", budget::label(state, budget)),
        "protected time is charged to the budget",
        String::from("--unallocated, another budget, or ask its owner for a share"),
    )
}

fn check_minimum(settings: &Settings, minimum: Span, limit: Option<Span>) -> Result<(), Rejection> {
    if minimum > settings.cap {
        return Err(Rejection::new(
            Code::AboveCap,
            format!("the minimum runtime of {minimum} is above the cap of {}", settings.cap),
            "protection is bounded, so that everyone's wait is",
            format!("--min-runtime {} and checkpoints: after it the job runs on while it may", settings.cap),
        ));
    }
    match limit {
        Some(limit) if limit < minimum => Err(Rejection::new(
            Code::AboveTimeLimit,
            format!("the minimum runtime of {minimum} is longer than the time limit of {limit}"),
            "protected time is hard to place: the longer it is, the longer the job waits",
            format!("--min-runtime {limit}, or raise the time limit"),
        )),
        Some(_) | None => Ok(()),
    }
}

fn check_spans(request: &Request, minimum: Span, limit: Option<Span>) -> Result<(), Rejection> {
    let spans = [
        ("minimum runtime", Some(minimum)),
        ("time limit", limit),
        ("grace", request.grace),
        ("checkpoint interval", request.checkpoint_every),
    ];
    for (name, span) in spans {
        if span.is_some_and(|span| span > Span::MAX) {
            return Err(bad(format!("the {name} is longer than ten years"), "say a shorter one"));
        }
    }
    let nothing = [("time limit", limit), ("checkpoint interval", request.checkpoint_every)];
    for (name, span) in nothing {
        if span.is_some_and(Span::is_zero) {
            return Err(bad(format!("the {name} is no time at all"), "say a longer one, or leave it out"));
        }
    }
    Ok(())
}

fn check_numbers(request: &Request) -> Result<(), Rejection> {
    if let Some(signal) = request.signal
        && (signal == 0 || signal > SIGNAL_MAX || UNCATCHABLE.contains(&signal))
    {
        return Err(bad(format!("signal {signal} announces nothing"), "name one that a process can catch"));
    }
    if request.requeue_code == Some(0) {
        return Err(bad(
            String::from("the requeue code is 0"),
            "take another exit code: 0 says that the job is complete",
        ));
    }
    if request.retries > RETRIES_MAX {
        let what = format!("{} retries; at most {RETRIES_MAX}", request.retries);
        return Err(bad(what, "a job that fails so often needs somebody to look at it"));
    }
    Ok(())
}

fn grace(settings: &Settings, request: &Request, tier: Tier) -> Result<Span, Rejection> {
    let usual = match tier {
        Tier::Funded => settings.grace,
        Tier::Free => settings.free_grace,
    };
    match request.grace {
        Some(grace) if grace > settings.grace_max => Err(bad(
            format!("the grace of {grace} is above the longest, {}", settings.grace_max),
            "save more often, so that a notice is enough",
        )),
        Some(grace) => Ok(grace),
        None => Ok(usual),
    }
}

fn bad(what: String, fix: &str) -> Rejection {
    Rejection::new(Code::BadSpec, what, "", String::from(fix))
}
