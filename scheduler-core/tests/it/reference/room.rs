//! Cores, memory, rates and types, told from a job's shape and a node's facts.

use std::collections::BTreeSet;

use scheduler_core::id::{AttemptId, NodeId, Slot};
use scheduler_core::job::Job;
use scheduler_core::node::Node;
use scheduler_core::unit::Bytes;

use super::Naive;
use super::clusters::may_be_in;

/// Cores and memory.
pub(super) type Size = [u64; 2];

pub(super) fn whole(node: &Node) -> Size {
    node.facts.as_ref().map_or([0; 2], |facts| [facts.cpus.into(), facts.memory.get()])
}

pub(super) fn sum(of: impl Iterator<Item = Size>) -> Size {
    of.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
}

pub(super) fn fit(all: impl Iterator<Item = Size>, whole: Size) -> bool {
    let all = sum(all);
    all[0] <= whole[0] && all[1] <= whole[1]
}

/// Cores and memory of a job on a node: what it names, else its GPUs' part.
pub(super) fn size(job: &Job, node: &Node) -> Size {
    let shape = &job.terms.shape;
    let part = |all: u64| all * u64::from(shape.gpus_per_node.get()) / node.gpus.len() as u64;
    let [cores, memory] = whole(node).map(part);
    [shape.cpus.map_or(cores, u64::from), shape.memory.map_or(memory, Bytes::get)]
}

impl Naive {
    /// Cores and memory of an attempt on a node.
    pub(super) fn size_of(&self, id: AttemptId, node: &Node) -> Size {
        self.state.jobs.get(&id.job).map_or([0; 2], |job| size(job, node))
    }

    /// Whether a job's part fits beside others.
    fn fits_beside(&self, job: &Job, node: &Node, others: impl Iterator<Item = AttemptId>) -> bool {
        let others: BTreeSet<AttemptId> = others.collect();
        let sizes = others.into_iter().map(|id| self.size_of(id, node));
        fit(sizes.chain([size(job, node)]), whole(node))
    }

    /// Whether there is room for a job now: those who wait here for others have nothing yet.
    pub(super) fn has_room_now(&self, job: &Job, node: &Node) -> bool {
        let waits = |id: &AttemptId| node.gpus.iter().any(|gpu| gpu.next == Some(*id));
        let there = node.gpus.iter().filter_map(|gpu| gpu.holder).filter(|id| !waits(id));
        self.fits_beside(job, node, there)
    }

    /// Whether there is room for a job once all who leave have left, `also` too.
    pub(super) fn has_room_later(&self, job: &Job, node: &Node, also: &[AttemptId]) -> bool {
        let leaves = |id: &AttemptId| also.contains(id) || self.comes_free(*id);
        let all = node.gpus.iter().flat_map(|gpu| gpu.holder.into_iter().chain(gpu.next));
        self.fits_beside(job, node, all.filter(|id| !leaves(id)))
    }

    pub(super) fn rate(&self, job: &Job, node: NodeId) -> u64 {
        let node = self.state.nodes.get(&node).expect("a known node");
        let shape = &job.terms.shape;
        let asked = [shape.cpus.map_or(0, u64::from), shape.memory.map_or(0, Bytes::get)];
        let weights = |counts: &dyn Fn(&scheduler_core::node::Gpu) -> bool| -> Vec<u128> {
            node.gpus.iter().filter(|gpu| counts(gpu)).map(|gpu| gpu.weight.milli().into()).collect()
        };
        let all: u128 = weights(&|_| true).into_iter().sum();
        let share = |(asked, whole): (u64, u64)| u128::from(asked) * all / u128::from(whole);
        let shares = asked.into_iter().zip(whole(node)).map(share);
        // Of several weights of its type it is the highest.
        let each = weights(&|gpu| is_of_type(job, gpu.model.as_str())).into_iter().max().unwrap_or(0);
        let most = shares.max().expect("there are two").max(u128::from(shape.gpus_per_node.get()) * each);
        u64::try_from(most).expect("few GPUs")
    }

    pub(super) fn could_hold(&self, job: &Job, node: &Node) -> bool {
        let matching = node.gpus.iter().filter(|gpu| is_of_type(job, gpu.model.as_str())).count();
        matching as u64 >= u64::from(job.terms.shape.gpus_per_node.get())
            && may_be_in(job, node)
            && fit([size(job, node)].into_iter(), whole(node))
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
