//! What would change a wait: the plan itself is asked, on a view with the change made.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Outlook;
use crate::id::{JobId, Term};
use crate::job::Job;
use crate::node::Contact;
use crate::plan::{Links, plan};
use crate::spec::{Tier, Turn};
use crate::state::{InLine, State};
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
    let wanted = job.terms.shape.gpus_per_node.get();
    if !outlook.fits_now && (1..wanted).contains(&outlook.most_idle) {
        let fewer = outlook.most_idle;
        let starts = asks.with(|job| job.terms.shape.gpus_per_node = GpuCount::new(fewer));
        say(format!("{fewer} GPUs instead of {wanted}"), starts);
    }
    if let Some(kind) = &job.terms.shape.gpu_type {
        say(format!("any GPU type instead of {kind}"), asks.with(|job| job.terms.shape.gpu_type = None));
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
    if outlook.shut.iter().any(|(_, _, idle)| *idle >= wanted) {
        say(String::from("the return of nodes that take no work now"), asks.with_nodes_back());
    }
    match outlook.fits_now {
        true => say(String::from("to be first in its budget"), asks.with(|job| job.terms.turn = Turn::First)),
        false => lines
            .push(String::from("its budget or turn: no effect now, the GPUs are not contested but occupied")),
    }
    lines
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
        let before = in_line(self.id, job);
        change(job);
        let after = in_line(self.id, job);
        view.line.remove(&before);
        view.line.insert(after, ());
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
            links.add(*id);
        }
        self.starts(&view, &links)
    }

    fn starts(&self, view: &State, links: &Links) -> bool {
        let plan = plan(view, links, self.now, Term::new(0));
        plan.decisions.iter().any(|start| start.job == self.id)
    }
}

fn in_line(id: JobId, job: &Job) -> InLine {
    InLine {
        budget: job.budget,
        tier: job.terms.tier,
        turn: job.terms.turn,
        submitted_at: job.submitted_at,
        job: id,
    }
}
