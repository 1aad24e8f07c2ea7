//! What-if: what would become of a waiting job if one thing were another. Answered on a copy of the state by the same
//! planner that decides; no promise.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::budget;
use crate::command::{Code, Rejection};
use crate::decision::Start;
use crate::explain::{self, Explanation, Victim, victims};
use crate::id::{JobId, Label, Name, NodeId};
use crate::job::{Job, Phase};
use crate::lifecycle::need::{could_hold, is_of_type};
use crate::lifecycle::phase::place_of;
use crate::node::Contact;
use crate::plan::{Links, plan};
use crate::spec::{Shape, Tier, Turn};
use crate::state::{Kind, State};
use crate::unit::{GpuCount, Share, Span, Timestamp};

/// One thing that is another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// So many GPUs in all: on one node, or on whole nodes.
    Gpus(u32),
    /// GPUs of another type; any if none.
    GpuType(Option<Label>),
    /// Another cluster; any if none.
    Cluster(Option<Name>),
    /// Another minimum runtime; zero is the free tier.
    MinRuntime(Span),
    /// Another place among the jobs of its budget.
    Turn(Turn),
    /// A node is back and takes work.
    NodeBack(Name),
    /// A budget has another share of its parent.
    Share(String, Share),
    /// Another cap on minimum runtimes.
    Cap(Span),
}

/// What would become of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// It would start with the next plan.
    Starts {
        /// The decision: where, whom it takes, and why.
        start: Box<Start>,
        /// Whom it takes.
        victims: Vec<Victim>,
    },
    /// It would wait, or be held.
    Waits(Box<Explanation>),
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatIf {
    /// Which job.
    pub job: JobId,
    /// What becomes of it as things are.
    pub now: Then,
    /// What would become of it.
    pub then: Then,
    /// Its shape then.
    pub shape: Shape,
    /// The moment for which it is.
    pub at: Timestamp,
}

impl WhatIf {
    /// Whether it makes a difference to the job: it starts, or is nearer to its start.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        match (&self.now, &self.then) {
            (Then::Starts { .. }, Then::Starts { .. }) => false,
            (Then::Waits(now), Then::Waits(then)) => {
                let place = |of: &Explanation| of.place.as_ref().map(|place| place.place);
                now.earliest != then.earliest || place(now) != place(then)
            }
            (Then::Starts { .. }, Then::Waits(_)) | (Then::Waits(_), Then::Starts { .. }) => true,
        }
    }
}

/// Answers what would become of a job that waits or is held, if all of `changes` were so.
///
/// # Errors
/// When there is no such job, it does not wait, or a change cannot be.
pub fn what_if(
    state: &State,
    links: &Links,
    id: JobId,
    changes: &[Change],
    now: Timestamp,
) -> Result<WhatIf, Rejection> {
    let Some(job) = state.jobs.get(&id) else {
        let what = format!("there is no job {id}");
        return Err(Rejection::new(Code::NotFound, what, "", String::from("bursar queue")));
    };
    match job.phase {
        Phase::Waiting { .. } | Phase::Held { .. } => {}
        Phase::Live(_) | Phase::Ended { .. } => {
            let what = format!("job {id} does not wait");
            let fix =
                format!("`bursar explain {id}` says how it stands; `bursar plan FILE` asks about a new job");
            return Err(Rejection::new(Code::Stale, what, "what-if is about when a job starts", fix));
        }
    }
    let (mut view, mut with) = (state.clone(), links.clone());
    for change in changes {
        make(&mut view, &mut with, id, change, now)?;
    }
    let shape = view.jobs.get(&id).map_or_else(|| job.terms.shape.clone(), |job| job.terms.shape.clone());
    let then = become_of(&view, &with, id, now);
    Ok(WhatIf { job: id, now: become_of(state, links, id, now), then, shape, at: now })
}

fn become_of(state: &State, links: &Links, id: JobId, now: Timestamp) -> Then {
    let plan = plan(state, links, now, state.meta.term);
    match plan.decisions.into_iter().find(|start| start.job == id) {
        Some(start) => Then::Starts { victims: victims(state, &start), start: Box::new(start) },
        None => Then::Waits(Box::new(
            explain::job(state, links, id, now).expect("a job that was just looked at is in state"),
        )),
    }
}

fn make(
    view: &mut State,
    links: &mut Links,
    id: JobId,
    change: &Change,
    now: Timestamp,
) -> Result<(), Rejection> {
    match change {
        Change::Gpus(gpus) => {
            let shape = shape_of(view, id, *gpus)?;
            edit(view, id, |job| job.terms.shape = shape);
        }
        Change::GpuType(wanted) => edit(view, id, |job| job.terms.shape.gpu_type.clone_from(wanted)),
        Change::Cluster(cluster) => edit(view, id, |job| job.terms.cluster.clone_from(cluster)),
        Change::MinRuntime(span) => {
            let cap = view.meta.settings.cap;
            if *span > cap {
                let what = format!("a minimum runtime of {span} is above the cap of {cap}");
                return Err(Rejection::new(Code::AboveCap, what, "", format!("at most {cap}")));
            }
            edit(view, id, |job| {
                job.terms.min_runtime = *span;
                job.terms.tier = if span.is_zero() { Tier::Free } else { Tier::Funded };
            });
        }
        Change::Turn(turn) => edit(view, id, |job| job.terms.turn = *turn),
        Change::NodeBack(name) => back(view, links, name)?,
        Change::Share(path, share) => {
            let budget = budget::named(view, path)?;
            *view = with_share(view, budget, *share, now)?;
        }
        Change::Cap(cap) => view.meta.settings.cap = *cap,
    }
    Ok(())
}

/// Changes a job and its place in line.
fn edit(view: &mut State, id: JobId, change: impl FnOnce(&mut Job)) {
    let Some(job) = view.jobs.get_mut(&id) else { return };
    let before = place_of(id, job);
    change(job);
    let (after, kind) = (place_of(id, job), Kind::of(job));
    if view.line.remove(&before).is_some() {
        view.line.insert(after, kind);
    }
}

/// Returns a job's shape with so many GPUs: on one node if one could hold them, else on whole nodes.
fn shape_of(view: &State, id: JobId, gpus: u32) -> Result<Shape, Rejection> {
    let terms = view.jobs.get(&id).map(|job| &job.terms).expect("the caller found it");
    let asked = Shape { nodes: 1, gpus_per_node: GpuCount::new(gpus), ..terms.shape.clone() };
    let nodes = || {
        let is_in = |name: &Name| terms.cluster.as_ref().is_none_or(|cluster| cluster == name);
        view.nodes.values().filter(move |node| is_in(&node.cluster))
    };
    if gpus > 0 && nodes().any(|node| could_hold(&asked, node)) {
        return Ok(asked);
    }
    let size = |node: &crate::node::Node| {
        let count = node.gpus.iter().filter(|gpu| is_of_type(&asked, gpu)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    let largest = nodes().map(size).max().unwrap_or(0);
    if gpus > 0 && largest > 0 && gpus.is_multiple_of(largest) {
        let nodes = gpus / largest;
        return Ok(Shape { nodes, gpus_per_node: GpuCount::new(largest), ..asked });
    }
    let what = format!("no set of nodes holds {gpus} GPUs for this job");
    let fix = format!("at most {largest} on one node, or a multiple of that on whole nodes");
    Err(Rejection::new(Code::ImpossibleShape, what, "", fix))
}

/// Lets a node take work again, whatever closed it.
fn back(view: &mut State, links: &mut Links, name: &Name) -> Result<(), Rejection> {
    let found: Option<NodeId> = view.nodes.iter().find(|(_, node)| node.name == *name).map(|(id, _)| *id);
    let Some(node) = found else {
        let what = format!("there is no node `{name}`");
        return Err(Rejection::new(Code::NotFound, what, "", String::from("bursar node list")));
    };
    if let Some(record) = view.nodes.get_mut(&node) {
        record.contact = Contact::Ready;
        (record.backoff_until, record.cordon, record.drain) = (None, None, None);
    }
    links.add(node);
    Ok(())
}

/// Returns the state with another share of one budget, judged as an edit of the tree is.
fn with_share(
    view: &State,
    budget: crate::id::BudgetId,
    share: Share,
    now: Timestamp,
) -> Result<State, Rejection> {
    let Some(mut file) = budget::tree(view) else { return Ok(view.clone()) };
    let path = budget::path_of(view, budget);
    let mut at = Some(&mut file);
    for level in path.levels() {
        at = at.and_then(|node| node.children.iter_mut().find(|child| child.name == *level));
    }
    match at {
        Some(node) if !path.levels().is_empty() => node.share = share,
        Some(_) | None => {
            let what = String::from("the root has everything, and a closed budget nothing");
            return Err(Rejection::new(
                Code::BadTree,
                what,
                "",
                String::from("name an open budget below it"),
            ));
        }
    }
    budget::edited(view, &file, now)
}
