//! Cores, rates and types, told from a job's shape and a node's facts.

use std::collections::BTreeSet;

use scheduler_core::id::{AttemptId, NodeId, Slot};
use scheduler_core::job::Job;
use scheduler_core::node::Node;

use super::Naive;

impl Naive {
    pub(super) fn all_cores(&self, node: &Node) -> u64 {
        node.facts.as_ref().map_or(0, |facts| facts.cpus.into())
    }

    pub(super) fn cores(&self, job: &Job, node: &Node) -> u64 {
        let gpus = u64::from(job.terms.shape.gpus_per_node.get());
        let part = self.all_cores(node) * gpus / node.gpus.len() as u64;
        job.terms.shape.cpus.map_or(part, u64::from)
    }

    pub(super) fn sum(&self, node: &Node, of: impl Iterator<Item = AttemptId>) -> u64 {
        let jobs = of.collect::<BTreeSet<_>>().into_iter().filter_map(|id| self.state.jobs.get(&id.job));
        jobs.map(|job| self.cores(job, node)).sum()
    }

    /// Cores that nobody has now: those who wait here for others have none yet.
    pub(super) fn now_free(&self, node: &Node) -> u64 {
        let waits = |id: &AttemptId| node.gpus.iter().any(|gpu| gpu.next == Some(*id));
        let there = node.gpus.iter().filter_map(|gpu| gpu.holder).filter(|id| !waits(id));
        self.all_cores(node).saturating_sub(self.sum(node, there))
    }

    /// Cores that nobody has once all who leave have left, `also` too.
    pub(super) fn later_free(&self, node: &Node, also: &[AttemptId]) -> u64 {
        let leaves = |id: &AttemptId| also.contains(id) || self.comes_free(*id);
        let all = node.gpus.iter().flat_map(|gpu| gpu.holder.into_iter().chain(gpu.next));
        self.all_cores(node).saturating_sub(self.sum(node, all.filter(|id| !leaves(id))))
    }

    pub(super) fn rate(&self, job: &Job, node: NodeId) -> u64 {
        let node = self.state.nodes.get(&node).expect("a known node");
        let gpus = u64::from(job.terms.shape.gpus_per_node.get()) * 1000;
        let cores = job.terms.shape.cpus.map_or(0, u64::from);
        gpus.max(cores * node.gpus.len() as u64 * 1000 / self.all_cores(node))
    }

    pub(super) fn could_hold(&self, job: &Job, node: &Node) -> bool {
        let matching = node.gpus.iter().filter(|gpu| is_of_type(job, gpu.model.as_str())).count();
        matching as u64 >= u64::from(job.terms.shape.gpus_per_node.get())
            && self.cores(job, node) <= self.all_cores(node)
    }
}

pub fn slots(node: &Node, wanted: impl Fn(&scheduler_core::node::Gpu) -> bool) -> Vec<Slot> {
    let gpus = (0..).zip(&node.gpus).filter(|(_, gpu)| gpu.is_present && wanted(gpu));
    gpus.map(|(slot, _)| Slot::new(slot)).collect()
}

/// The GPUs of an attempt that help a job.
pub(super) fn held(job: &Job, node: &Node, of: AttemptId) -> Vec<Slot> {
    of_type(job, node, &slots(node, |gpu| gpu.holder == Some(of) && gpu.next.is_none()))
}

pub(super) fn of_type(job: &Job, node: &Node, slots: &[Slot]) -> Vec<Slot> {
    let model = |slot: &Slot| node.gpus[usize::from(slot.get())].model.as_str().to_owned();
    slots.iter().copied().filter(|slot| is_of_type(job, &model(slot))).collect()
}

fn is_of_type(job: &Job, model: &str) -> bool {
    let wanted = job.terms.shape.gpu_type.as_ref().map(|kind| kind.as_str().to_lowercase());
    wanted.is_none_or(|wanted| model.to_lowercase().contains(&wanted))
}
