//! What is idle, and where a job fits: what all of these policies share.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::decision::{Plan, Start, Take, Why};
use scheduler_core::id::{JobId, Name, NodeId, Slot};
use scheduler_core::job::{Job, Phase};
use scheduler_core::lifecycle::need;
use scheduler_core::node::{Gpu, Node};
use scheduler_core::plan::shut;
use scheduler_core::spec::Shape;
use scheduler_core::state::State;

use crate::policy::Round;

/// GPUs that nobody has, of one pool.
#[derive(Debug, Clone)]
pub(super) struct Free<'a> {
    pub nodes: BTreeMap<NodeId, (&'a Node, Vec<Slot>)>,
    total: usize,
}

/// Where a job starts.
pub(super) type On = Vec<(NodeId, Vec<Slot>)>;

/// Returns whether nobody has a GPU, and nobody is promised it.
fn is_idle(gpu: &Gpu) -> bool {
    gpu.is_present && gpu.holder.is_none() && gpu.next.is_none()
}

impl<'a> Free<'a> {
    /// Looks at the nodes of a pool that take work.
    pub(super) fn of(round: &Round<'a>, pool: &Name) -> Self {
        let open = round.state.nodes.iter().filter(|(id, node)| {
            node.pool == *pool && node.takes_work() && shut(**id, node, round.links, round.now).is_none()
        });
        let nodes = open.map(|(id, node)| {
            let numbered = node.gpus.iter().zip(0_u16..);
            let slots = numbered.filter(|(gpu, _)| is_idle(gpu)).map(|(_, slot)| Slot::new(slot)).collect();
            (*id, (node, slots))
        });
        let nodes: BTreeMap<_, (_, Vec<Slot>)> = nodes.collect();
        Self { total: nodes.values().map(|(_, slots)| slots.len()).sum(), nodes }
    }

    /// Returns how many GPUs are idle.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Adds a GPU that comes free.
    pub(super) fn give(&mut self, id: NodeId, slot: Slot) {
        if let Some((_, idle)) = self.nodes.get_mut(&id) {
            idle.push(slot);
            self.total += 1;
        }
    }

    /// Returns where a job fits: on the nodes with the fewest idle GPUs that hold it.
    pub(super) fn fit(&self, state: &State, job: &Job) -> Option<On> {
        let wanted = u64::from(job.terms.shape.nodes) * u64::from(job.terms.shape.gpus_per_node.get());
        if u64::try_from(self.total()).is_ok_and(|total| total < wanted) {
            return None;
        }
        let shapes = job.terms.shape.of_each_type();
        shapes.iter().find_map(|shape| self.fit_shape(state, job, shape))
    }

    fn fit_shape(&self, state: &State, job: &Job, shape: &Shape) -> Option<On> {
        let wanted = usize::try_from(shape.gpus_per_node.get()).ok()?;
        let nodes = usize::try_from(shape.nodes).ok()?;
        let names_more = shape.cpus.is_some() || shape.memory.is_some();
        let mut able: Vec<(usize, NodeId, &Node, Vec<Slot>)> = Vec::new();
        for (id, (node, slots)) in &self.nodes {
            if slots.len() < wanted || job.terms.exclude.contains(id) || job.failed_on.contains(id) {
                continue;
            }
            let is_of_type = |slot: &&Slot| {
                node.gpus.get(usize::from(slot.get())).is_some_and(|gpu| need::is_of_type(shape, gpu))
            };
            let fitting: Vec<Slot> = slots.iter().filter(is_of_type).take(wanted).copied().collect();
            let has_room = || !names_more || need::has_room(state, *id, shape, &BTreeSet::new());
            if fitting.len() == wanted && has_room() {
                able.push((slots.len(), *id, node, fitting));
            }
        }
        able.sort_by_key(|(idle, id, _, _)| (*idle, *id));
        let Some(level) = shape.within.filter(|_| nodes > 1) else {
            let on: On = able.into_iter().take(nodes).map(|(_, id, _, slots)| (id, slots)).collect();
            return (on.len() == nodes).then_some(on);
        };
        let mut groups: BTreeMap<Vec<Name>, On> = BTreeMap::new();
        for (_, id, node, slots) in able {
            if let Some(group) = node.group(level) {
                groups.entry(group.to_vec()).or_default().push((id, slots));
            }
        }
        let mut on = groups.into_values().find(|on| on.len() >= nodes)?;
        on.truncate(nodes);
        Some(on)
    }

    /// Whether a job may start on exactly these idle GPUs.
    pub(super) fn allows(&self, job: &Job, on: &On) -> bool {
        let shape = &job.terms.shape;
        let is_allowed = |(id, slots): &(NodeId, Vec<Slot>)| {
            let Some((node, idle)) = self.nodes.get(id) else { return false };
            let is_good = |slot: &Slot| {
                let gpu = node.gpus.get(usize::from(slot.get()));
                idle.contains(slot) && gpu.is_some_and(|gpu| need::is_of_type(shape, gpu))
            };
            !job.terms.exclude.contains(id) && !job.failed_on.contains(id) && slots.iter().all(is_good)
        };
        (shape.nodes <= 1 || shape.within.is_none()) && on.iter().all(is_allowed)
    }

    /// Takes what a job starts on.
    pub(super) fn take(&mut self, on: &On) {
        for (id, slots) in on {
            if let Some((_, idle)) = self.nodes.get_mut(id) {
                let before = idle.len();
                idle.retain(|slot| !slots.contains(slot));
                self.total = self.total.saturating_sub(before - idle.len());
            }
        }
    }
}

/// The jobs that wait and may run in a pool, in line within each budget.
pub(super) fn waiting<'a>(round: &Round<'a>, pool: &Name) -> Vec<(JobId, &'a Job)> {
    let jobs = round.state.line.keys().filter_map(|line| {
        let job = round.state.jobs.get(&line.job)?;
        let is_here = job.terms.cluster.as_ref().is_none_or(|cluster| cluster == pool);
        (is_here && matches!(job.phase, Phase::Waiting { .. })).then_some((line.job, job))
    });
    jobs.collect()
}

/// The pools of the nodes, in order.
pub(super) fn pools(state: &State) -> Vec<Name> {
    let mut pools: Vec<Name> = state.nodes.values().map(|node| node.pool.clone()).collect();
    pools.sort();
    pools.dedup();
    pools
}

/// A plan in the making.
pub(super) struct Decisions {
    plan: Plan,
    taking: usize,
}

impl Decisions {
    pub(super) fn new(round: &Round<'_>) -> Self {
        let index = round.state.meta.index;
        Self { plan: Plan { term: round.term, index, decisions: Vec::new(), dates: Vec::new() }, taking: 0 }
    }

    /// Whether one more decision has a place.
    pub(super) fn has_place(&self) -> bool {
        self.plan.decisions.len() < Plan::DECISIONS_MAX && self.taking < Plan::TAKING_MAX
    }

    /// Whether a job is started by this plan already.
    pub(super) fn starts(&self, job: JobId) -> bool {
        self.plan.decisions.iter().any(|start| start.job == job)
    }

    /// Decides that a job starts.
    pub(super) fn start(&mut self, (id, job): (JobId, &Job), on: On, takes: Vec<Take>) {
        self.taking += usize::from(!takes.is_empty());
        let place = u32::try_from(self.plan.decisions.len()).unwrap_or(u32::MAX).saturating_add(1);
        let why = Why { place, levels: Vec::new(), choice: None, date: None };
        self.plan.decisions.push(Start { job: id, attempt: job.next_attempt, on, takes, why });
    }

    pub(super) fn end(self) -> Plan {
        self.plan
    }
}
