//! Grants: share that a budget has for a time, from a sibling or from what nobody has.
//!
//! A grant is worth its own time: it counts in the window as far as it lies there, and leaves it as the time does, so
//! whoever used it while it ran goes neither before nor after the others for it later.

use alloc::format;
use alloc::string::String;

use super::edit::check_may_edit;
use super::lookup::{label, named};
use super::{ROOT, Slice, fit};
use crate::command::{Code, GrantShare, Rejection};
use crate::id::{BudgetId, GrantId, Name};
use crate::principal::Actor;
use crate::state::{State, Timer};
use crate::unit::{Share, Span, Timestamp};

/// The most grants in state: those that run or will, and past ones that still count in the window.
pub const GRANTS_MAX: usize = 10_000;
/// The most of them that concern one budget: what its share is worth is computed piece by piece.
const ONE_BUDGET_MAX: usize = 64;
/// The longest grant, and the latest beginning from now.
pub const LENGTH_MAX: Span = Span::from_hours(366 * 24);
/// The longest reason that is kept, in bytes; the audit has it whole.
pub const REASON_MAX: usize = 500;
/// Grants are kept this much longer than the window, as the curves of the books are.
const SLACK: Span = Span::from_hours(1);

/// Share that a budget has for a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Who gets it.
    pub to: BudgetId,
    /// The sibling that gives it; what nobody has of their parent if none.
    pub from: Option<BudgetId>,
    /// How much of the parent.
    pub share: Share,
    /// When it begins.
    pub begins_at: Timestamp,
    /// When it ends, or ended.
    pub until: Timestamp,
    /// Why.
    pub reason: String,
    /// Who made it.
    pub by: Name,
    /// When it was made.
    pub made_at: Timestamp,
    /// How it came to end early.
    pub ended: Option<Ended>,
}

/// The early end of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ended {
    /// Who ended it; none if one of its budgets was closed.
    pub by: Option<Name>,
    /// Why.
    pub reason: String,
}

/// Where a grant stands at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It has not begun.
    ToCome,
    /// It runs.
    On,
    /// It is over, and counts while its time is in the window.
    Over,
}

impl Standing {
    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ToCome => "to-come",
            Self::On => "on",
            Self::Over => "over",
        }
    }
}

impl Grant {
    /// Returns where it stands.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        if now < self.begins_at {
            Standing::ToCome
        } else if now < self.until {
            Standing::On
        } else {
            Standing::Over
        }
    }

    /// Returns what it does to the shares: each budget it concerns, and how.
    pub fn slices(&self, grant: GrantId) -> impl Iterator<Item = (BudgetId, Slice)> {
        let Self { share, begins_at, until, .. } = *self;
        let slice = move |is_gain| Slice { grant, is_gain, share, begins_at, until };
        let gains = core::iter::once((self.to, slice(true)));
        gains.chain(self.from.map(|from| (from, slice(false))))
    }
}

/// Makes a grant, and returns its number.
///
/// # Errors
/// When a budget is unknown or closed, `actor` may not edit it, the time cannot be, or somebody would give more than
/// there is at some moment of it. Then nothing has changed.
pub fn grant(
    state: &mut State,
    asked: &GrantShare,
    actor: (&Actor, &Name),
    now: Timestamp,
) -> Result<GrantId, Rejection> {
    let made = judge(state, asked, actor, now)?;
    let mut next = state.clone();
    let id = next.meta.next_grant;
    next.meta.next_grant = GrantId::new(id.get().checked_add(1).expect("fewer than 2^32 grants in a life"));
    for (budget, slice) in made.slices(id) {
        let budget = next.budgets.get_mut(&budget).expect("both were just found");
        budget.slices.push(slice);
        if budget.slices.len() > ONE_BUDGET_MAX {
            let what = format!("{} grants of one budget count in the window already", ONE_BUDGET_MAX);
            let fix = String::from("edit its share instead, or wait until older grants have left the window");
            return Err(Rejection::new(Code::Full, what, "", fix));
        }
    }
    let parent = next.budgets.get(&made.to).and_then(|to| to.parent).unwrap_or(ROOT);
    set_timer(&mut next, id, &made, now);
    next.grants.insert(id, made);
    fit::check(&next, parent, now)?;
    *state = next;
    Ok(id)
}

fn judge(
    state: &State,
    asked: &GrantShare,
    (actor, who): (&Actor, &Name),
    now: Timestamp,
) -> Result<Grant, Rejection> {
    check_reason(&asked.reason)?;
    let to = open(state, &asked.to)?;
    let Some(parent) = state.budgets.get(&to).and_then(|record| record.parent) else {
        let what = format!("`{}` is the root and has everything", asked.to);
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("name a budget below it")));
    };
    let from = asked.from.as_ref().map(|path| open(state, path)).transpose()?;
    if let Some(from) = from {
        let is_sibling =
            from != to && state.budgets.get(&from).and_then(|record| record.parent) == Some(parent);
        if !is_sibling {
            let what = format!("`{}` and `{}` are not below the same budget", label(state, from), asked.to);
            let fix = format!("name one beside it below `{}`, or leave it out", label(state, parent));
            return Err(Rejection::new(Code::BadSpec, what, "a sibling gives, or what nobody has", fix));
        }
    }
    check_may_edit(state, actor, to, &format!("grant it {}", asked.share))?;
    if asked.share.ppm() == 0 {
        let what = String::from("a grant of 0% is none");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("say how much, as `--share 10`")));
    }
    let begins_at = asked.begins_at.unwrap_or(now).max(now);
    check_time(begins_at, asked.until, now)?;
    if state.grants.len() >= GRANTS_MAX {
        let what = format!("there are {GRANTS_MAX} grants that count in the window");
        let fix = String::from("edit shares instead, or wait until older grants have left the window");
        return Err(Rejection::new(Code::Full, what, "", fix));
    }
    Ok(Grant {
        to,
        from,
        share: asked.share,
        begins_at,
        until: asked.until,
        reason: cut(&asked.reason),
        by: who.clone(),
        made_at: now,
        ended: None,
    })
}

fn check_time(begins_at: Timestamp, until: Timestamp, now: Timestamp) -> Result<(), Rejection> {
    if until <= begins_at {
        let what = String::from("the grant would end before it begins");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("give a later --until")));
    }
    if until.since(begins_at) > LENGTH_MAX || begins_at.since(now) > LENGTH_MAX {
        let what = String::from("a grant runs for 366 days at most, and begins by then");
        let fix = String::from("edit the share in the tree's file instead");
        return Err(Rejection::new(Code::BadSpec, what, "what is meant to stay is a share", fix));
    }
    Ok(())
}

/// Refuses a change of share without a reason.
fn check_reason(reason: &str) -> Result<(), Rejection> {
    if !reason.trim().is_empty() {
        return Ok(());
    }
    let what = String::from("a grant needs a reason");
    let why = "everybody below will read it";
    Err(Rejection::new(Code::BadSpec, what, why, String::from("add --reason")))
}

/// Returns as much of a reason as is kept.
pub(super) fn cut(reason: &str) -> String {
    let mut end = reason.len().min(REASON_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    String::from(reason[..end].trim())
}

fn open(state: &State, path: &str) -> Result<BudgetId, Rejection> {
    let id = named(state, path)?;
    if state.budgets.get(&id).is_some_and(|budget| budget.is_closed) {
        let what = format!("budget `{}` is closed", label(state, id));
        let fix = String::from("reopen it with `bursar budget apply` first");
        return Err(Rejection::new(Code::ClosedBudget, what, "", fix));
    }
    Ok(id)
}

/// Ends a grant now; one that has not begun is taken back.
///
/// # Errors
/// When there is no such grant, it is over, or `actor` may not edit its budget.
pub fn end_grant(
    state: &mut State,
    id: GrantId,
    (actor, who): (&Actor, &Name),
    reason: &str,
    now: Timestamp,
) -> Result<(), Rejection> {
    check_reason(reason)?;
    let Some(grant) = state.grants.get(&id) else {
        let what = format!("there is no grant {id}");
        return Err(Rejection::new(Code::NotFound, what, "", String::from("bursar budget grant list")));
    };
    check_may_edit(state, actor, grant.to, &format!("end its grant {id}"))?;
    if grant.standing(now) == Standing::Over {
        let what = format!("grant {id} is over");
        return Err(Rejection::new(Code::Stale, what, "it ended by itself, or was ended", String::new()));
    }
    let ended = Ended { by: Some(who.clone()), reason: cut(reason) };
    stop(state, id, ended, now);
    Ok(())
}

/// Ends the grants that a closed budget has or gives: its share went back.
pub(super) fn end_of_closed(state: &mut State, now: Timestamp) {
    let is_closed = |id: BudgetId| state.budgets.get(&id).is_none_or(|budget| budget.is_closed);
    let concerns = |grant: &Grant| is_closed(grant.to) || grant.from.is_some_and(is_closed);
    let due = state.grants.iter().filter(|(_, grant)| grant.until > now && concerns(grant));
    let due: alloc::vec::Vec<GrantId> = due.map(|(id, _)| *id).collect();
    for id in due {
        let ended =
            Ended { by: None, reason: String::from("its budget, or the one that gave it, was closed") };
        stop(state, id, ended, now);
    }
}

/// Ends a grant that is not over.
fn stop(state: &mut State, id: GrantId, ended: Ended, now: Timestamp) {
    let Some(mut grant) = state.grants.get(&id).cloned() else { return };
    if let Some(at) = next_moment(state, &grant, now) {
        state.timers.remove(&(at, Timer::Grant(id)));
    }
    if grant.begins_at >= now {
        drop_grant(state, id);
        return;
    }
    (grant.until, grant.ended) = (now, Some(ended));
    for (budget, slice) in grant.slices(id) {
        let Some(record) = state.budgets.get_mut(&budget) else { continue };
        for kept in record.slices.iter_mut().filter(|kept| kept.grant == id) {
            *kept = slice;
        }
    }
    set_timer(state, id, &grant, now);
    state.grants.insert(id, grant);
}

/// A moment of a grant has come: it begins, ends, or has left the window.
pub fn pass(state: &mut State, id: GrantId, at: Timestamp) {
    let Some(grant) = state.grants.get(&id).cloned() else { return };
    match next_moment(state, &grant, at) {
        Some(next) => {
            state.timers.insert((next, Timer::Grant(id)), ());
        }
        None => drop_grant(state, id),
    }
}

/// Returns the first moment after `now` at which a grant changes something; none when it can leave.
#[must_use]
pub fn next_moment(state: &State, grant: &Grant, now: Timestamp) -> Option<Timestamp> {
    let leaves = grant.until.plus(state.meta.settings.window).plus(SLACK);
    [grant.begins_at, grant.until, leaves].into_iter().find(|at| *at > now)
}

fn set_timer(state: &mut State, id: GrantId, grant: &Grant, now: Timestamp) {
    if let Some(at) = next_moment(state, grant, now) {
        state.timers.insert((at, Timer::Grant(id)), ());
    }
}

fn drop_grant(state: &mut State, id: GrantId) {
    let Some(grant) = state.grants.remove(&id) else { return };
    for (budget, _) in grant.slices(id) {
        if let Some(record) = state.budgets.get_mut(&budget) {
            record.slices.retain(|slice| slice.grant != id);
        }
    }
}
