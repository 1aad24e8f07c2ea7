//! What would change a wait: the plan itself is asked, on a view with the change made.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::closed::Closed;
use super::right::Kept;
use super::{Eyes, Outlook, words};
use crate::id::{JobId, Term};
use crate::job::Job;
use crate::lifecycle::phase::place_of;
use crate::node::Contact;
use crate::plan::{Links, plan};
use crate::spec::{Tier, Turn};
use crate::state::{Kind, State};
use crate::unit::{GpuCount, Span, Timestamp};

/// Returns what would start the job now, and what would not, one line each.
pub(super) fn would_change(
    state: &State,
    links: &Links,
    id: JobId,
    outlook: &Outlook,
    now: Timestamp,
) -> Vec<String> {
    let Some(job) = state.jobs.get(&id) else { return Vec::new() };
    let mut lines = Vec::new();
    let mut say = |what: String, starts: bool| {
        lines.push(if starts { format!("{what}: starts now") } else { format!("{what}: no effect now") });
    };
    let asks = Asking { state, links, id, now };
    let shape = &job.terms.shape;
    let (wanted, nodes) = (shape.gpus_per_node.get(), shape.nodes);
    let fewer = if outlook.fits_now || nodes > 1 { 0 } else { most_on_one_node(state, links, id, job, now) };
    if (1..wanted).contains(&fewer) {
        let starts = asks.with(|job| job.terms.shape.gpus_per_node = GpuCount::new(fewer));
        say(format!("{fewer} GPUs instead of {wanted}"), starts);
    }
    if !outlook.fits_now && (1..nodes).contains(&outlook.nodes_now) {
        let fewer = outlook.nodes_now;
        let starts = asks.with(|job| job.terms.shape.nodes = fewer);
        let on = if fewer == 1 { "1 node".to_owned() } else { format!("{fewer} nodes") };
        say(format!("{wanted} GPUs on {on} instead of {nodes}"), starts);
    }
    if let Some(kind) = &shape.gpu_type {
        let any = |job: &mut Job| (job.terms.shape.gpu_type, job.terms.shape.or_types) = (None, Vec::new());
        say(format!("any GPU type instead of {kind}"), asks.with(any));
    }
    if let Some(level) = shape.within.filter(|_| nodes > 1) {
        let apart = asks.with(|job| job.terms.shape.within = None);
        say(format!("nodes anywhere instead of within one group of level {level}"), apart);
    }
    if !job.terms.exclude.is_empty() {
        say(String::from("the nodes that it excludes"), asks.with(|job| job.terms.exclude.clear()));
    }
    if let Some(pool) = &job.terms.cluster {
        say(format!("any cluster instead of {pool}"), asks.with(|job| job.terms.cluster = None));
    }
    if job.terms.tier == Tier::Free {
        let funded = |job: &mut Job| {
            job.terms.tier = Tier::Funded;
            job.terms.min_runtime = Span::from_mins(1);
        };
        say(String::from("a minimum runtime, which is charged"), asks.with(funded));
    }
    if let Some(shorter) = before_window(state, outlook, job, now) {
        let starts = asks.with(|job| job.terms.min_runtime = shorter);
        say(format!("a minimum runtime of {}, over before the drain", words::span(shorter)), starts);
    }
    if outlook.closed.iter().any(|(_, _, idle)| *idle >= wanted) {
        say(String::from("the return of nodes that take no work now"), asks.with_nodes_back());
    }
    let is_ordered = outlook.fits_now || outlook.kept.iter().any(|(_, _, kept)| *kept == Kept::SameBudget);
    match is_ordered {
        true if job.terms.turn == Turn::First => {}
        true => say(String::from("to be first in its budget"), asks.with(|job| job.terms.turn = Turn::First)),
        false if outlook.kept.is_empty() => lines
            .push(String::from("its budget or turn: no effect now, the GPUs are not contested but occupied")),
        false => {}
    }
    lines
}

/// Returns the most GPUs on one node that the job may use now, nodes too small for it among them.
fn most_on_one_node(state: &State, links: &Links, id: JobId, job: &Job, now: Timestamp) -> u32 {
    let mut narrow = job.clone();
    narrow.terms.shape.gpus_per_node = GpuCount::new(1);
    let pools = crate::plan::pools(state).into_iter();
    let stands = pools
        .filter(|pool| job.terms.cluster.as_ref().is_none_or(|named| crate::pool::has(state, pool, named)));
    let eyes = Eyes::of(state, id, &narrow);
    stands.map(|pool| Outlook::of(state, pool, links, id, &eyes, now).most_now).max().unwrap_or(0)
}

/// Returns the longest minimum runtime that would be over before a drain to come, where that keeps the job away.
fn before_window(state: &State, outlook: &Outlook, job: &Job, now: Timestamp) -> Option<Span> {
    let windows = outlook.closed.iter().filter_map(|(_, closed, _)| match closed {
        Closed::Window { begins, .. } => Some(*begins),
        Closed::Joined
        | Closed::Unreachable { .. }
        | Closed::Silent
        | Closed::Backoff { .. }
        | Closed::Cordoned { .. }
        | Closed::Draining { .. } => None,
    });
    let left = windows.max()?.since(now.plus(state.meta.settings.start_limit));
    let minutes = Span::from_mins(left.as_millis() / 60_000);
    (!minutes.is_zero() && minutes < job.terms.min_runtime).then_some(minutes)
}

struct Asking<'a> {
    state: &'a State,
    links: &'a Links,
    id: JobId,
    now: Timestamp,
}

impl Asking<'_> {
    /// Whether the job would start in a plan made now, if it were changed so.
    fn with(&self, change: impl FnOnce(&mut Job)) -> bool {
        let mut view = self.state.clone();
        let Some(job) = view.jobs.get_mut(&self.id) else { return false };
        let before = place_of(self.id, job);
        change(job);
        let (after, kind) = (place_of(self.id, job), Kind::of(job));
        view.line.remove(&before);
        view.line.insert(after, kind);
        self.starts(&view, self.links)
    }

    /// Whether it would start if every node took work.
    fn with_nodes_back(&self) -> bool {
        let mut view = self.state.clone();
        let mut links = self.links.clone();
        let known = self.state.nodes.iter().filter(|(_, node)| node.facts.is_some());
        for (id, _) in known {
            let Some(node) = view.nodes.get_mut(id) else { continue };
            node.contact = Contact::Ready;
            node.backoff_until = None;
            node.cordon = None;
            node.drain = None;
            links.add(*id);
        }
        self.starts(&view, &links)
    }

    fn starts(&self, view: &State, links: &Links) -> bool {
        let plan = plan(view, links, self.now, Term::new(0));
        plan.decisions.iter().any(|start| start.job == self.id)
    }
}
