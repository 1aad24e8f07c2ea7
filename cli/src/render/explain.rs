//! Why: the answer first, then the facts, then what would change it.

use proto::v1::{AheadView, Explanation, Fact, LevelView};

use super::words::{self, block};
use super::{cost, likely};
use crate::form::duration;
use crate::form::text::{count, ordinal, plain, wrap};
use crate::shell::Look;

/// Columns of text behind the headings.
const WIDTH: usize = 86;
const HEAD: usize = 13;
/// The facts that say what a cost says.
const WHAT_IT_COST: &str = "what that cost";
/// The facts that say how it gave way.
const HOW_IT_WENT: &str = "its preemption";

/// Renders an explanation.
pub fn explain(e: &Explanation, look: &Look) -> String {
    let now = words::now(e.as_of.as_ref());
    let mut out = head(e, look, now);
    out.push_str(&words::from_history(e.left_at, look, now));
    if !e.sentence.is_empty() {
        out.push('\n');
        out.push_str(&block("why", HEAD, &wrap(&plain(&e.sentence), WIDTH)));
    }
    out.push_str(&gave_way(e, look, now));
    for reason in e.reasons.iter().filter(|reason| reason.token != e.reason) {
        let until =
            reason.until_at.map_or(String::new(), |at| format!(", until {}", look.zone.short(at, now)));
        let text =
            format!("{} ({}{until}; {})", plain(&reason.sentence), reason.token, who(&reason.changeable_by));
        out.push_str(&block("also", HEAD, &wrap(&text, WIDTH)));
    }
    // The cost is told above, with its parts.
    for group in e.facts.iter().filter(|group| e.cost.is_none() || group.title != WHAT_IT_COST) {
        out.push_str(&group_block(&plain(&group.title), &facts(&group.facts, look, now)));
    }
    if !e.victims.is_empty() {
        out.push_str(&block("took", HEAD, &victims(e, look, now)));
    }
    out.push_str(&order(e));
    if let Some(likely) = &e.likely {
        let lines = likely::lines(likely, look, now);
        let lines: Vec<String> = lines.iter().flat_map(|line| wrap(line, WIDTH)).collect();
        out.push_str(&block("likely", HEAD, &lines));
    }
    if !e.levels.is_empty() {
        out.push_str(&group_block("levels", &e.levels.iter().map(level).collect::<Vec<_>>()));
    }
    if !e.would_change.is_empty() {
        let lines: Vec<String> = e.would_change.iter().flat_map(|line| wrap(&plain(line), WIDTH)).collect();
        out.push_str("\nwould change it\n");
        out.push_str(&lines.iter().map(|line| format!("  {line}\n")).collect::<String>());
    }
    if let Some(decision) = &e.decision {
        let at = e.decided_at.map_or(String::new(), |at| format!(", {}", look.zone.clock(at)));
        out.push_str(&format!("decision {decision}{at}\n"));
    }
    out
}

fn head(e: &Explanation, look: &Look, now: u64) -> String {
    let name = if e.name.is_empty() { String::new() } else { format!(" {}", plain(&e.name)) };
    // How it ended says more than that it did.
    let state = match e.reason.split_once('.') {
        Some(("ended", how)) => how,
        _ => e.state.as_str(),
    };
    if e.state == "budget" {
        return format!("{}\n", plain(&e.subject));
    }
    let mut line = match &e.cost {
        // Only an attempt is asked for by its dot; the job itself has gone on, or has ended for good.
        Some(paid) if e.subject.contains('.') => {
            let whom =
                paid.taken_for.as_deref().map_or(String::new(), |whom| format!(" for {}", plain(whom)));
            let at = look.zone.short(paid.ended_at, now);
            return format!(
                "{}{name} was PREEMPTED at {at}{whom} ({})\n",
                plain(&e.subject),
                cost::cause(&paid.cause)
            );
        }
        _ => format!("{}{name} is {} ({})", plain(&e.subject), plain(&state.to_uppercase()), e.reason),
    };
    if let Some(since) = e.since_at {
        line.push_str(&format!(" since {}", look.zone.short(since, now)));
    }
    if let Some(until) = e.protected_until_at.filter(|until| *until > now) {
        line.push_str(&format!(", protected until {}", look.zone.short(until, now)));
    }
    line.push('\n');
    if !e.changeable_by.is_empty() {
        line.push_str(&format!("who can change it: {}\n", e.changeable_by.join(", ")));
    }
    line
}

/// Returns whom it took: all of them where that was asked for, the first ones beside other facts.
fn victims(e: &Explanation, look: &Look, now: u64) -> Vec<String> {
    const SHOWN: usize = 2;
    let is_asked_for = look.is_wide || e.state == "decided";
    let shown = if is_asked_for { e.victims.len() } else { SHOWN };
    let mut lines: Vec<String> =
        e.victims.iter().take(shown).flat_map(|victim| cost::victim(victim, look, now)).collect();
    let left = e.victims.len().saturating_sub(shown);
    if left > 0 {
        let all =
            e.decision.as_deref().map_or("-o wide".into(), |decision| format!("bursar explain {decision}"));
        lines.push(format!("and {left} more: {all}"));
    }
    lines
}

/// Returns by which right it was taken, and what that cost.
fn gave_way(e: &Explanation, look: &Look, now: u64) -> String {
    let mut out = String::new();
    let is_told = e.facts.iter().any(|group| group.title == HOW_IT_WENT);
    if let Some(taken) = e.taken.as_ref().filter(|_| !is_told) {
        let facts = [cost::right(taken), cost::price(taken, look, now)];
        let lines: Vec<String> = facts.iter().flat_map(|fact| wrap(fact, WIDTH)).collect();
        out.push_str(&block("choice", HEAD, &lines));
    }
    if let Some(paid) = &e.cost {
        let (from, to) = (look.zone.clock(paid.noticed_at), look.zone.clock(paid.ended_at));
        let used = duration::long(paid.ended_at.saturating_sub(paid.noticed_at));
        if !is_told {
            out.push_str(&block("when", HEAD, &[format!("notice {from}, gone {to}: {used} of grace used")]));
        }
        out.push_str(&block("cost", HEAD, &cost::lines(paid, look, now)));
    }
    out
}

fn who(by: &str) -> String {
    match by {
        "" | "nobody" => "nobody can change it, it ends by itself".into(),
        by => format!("{by} can change it"),
    }
}

fn facts(facts: &[Fact], look: &Look, now: u64) -> Vec<String> {
    let longest = facts.iter().map(|fact| fact.what.chars().count()).max().unwrap_or(0);
    let column = longest.clamp(24, 40) + 1;
    let lines = |fact: &Fact| {
        let at = fact.at.map(|at| look.zone.short(at, now));
        let told = Some(plain(&fact.value)).filter(|value| !value.is_empty());
        let value = told.into_iter().chain(at).collect::<Vec<_>>().join(", ");
        block(&plain(&fact.what), column, &wrap(&value, WIDTH - column))
    };
    facts.iter().map(lines).flat_map(|text| text.lines().map(String::from).collect::<Vec<_>>()).collect()
}

fn group_block(title: &str, lines: &[String]) -> String {
    if title.chars().count() < HEAD {
        return block(title, HEAD, lines);
    }
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("{title}\n{lines}")
}

fn order(e: &Explanation) -> String {
    let Some(place) = e.place else { return String::new() };
    let mut lines = vec![match e.ahead.len() {
        0 => format!("{}; nobody waits ahead", ordinal(place)),
        _ => format!("{}; ahead of it (lower use goes first):", ordinal(place)),
    }];
    lines.extend(e.ahead.iter().map(|a| ahead(a, &e.reason)));
    let told = u32::try_from(e.ahead.len()).unwrap_or(u32::MAX);
    if place > told.saturating_add(1) && told > 0 {
        lines.push(format!("and {} more", place - 1 - told));
    }
    block("order", HEAD, &lines)
}

fn ahead(a: &AheadView, reason: &str) -> String {
    let numbers = match (&a.theirs, &a.mine) {
        (Some(theirs), Some(mine)) => format!("{} < {}", words::use_of(theirs), words::use_of(mine)),
        _ if reason == "waiting.idle" => "funded, or earlier in the same budget".into(),
        _ => "same budget: turn, then first submission".into(),
    };
    format!(
        "{} {} ({}, {}): {numbers}",
        a.job,
        plain(&a.name),
        plain(&a.budget),
        count(u64::from(a.gpus), "GPU")
    )
}

fn level(level: &LevelView) -> String {
    let chosen = level.chosen.as_ref().map_or(String::new(), words::use_of);
    match &level.next {
        Some(next) => format!("{chosen} before {}", words::use_of(next)),
        None => format!("{chosen}, the only one with work"),
    }
}
