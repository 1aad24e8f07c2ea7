//! A gang's nodes, as DESIGN 6 has them: one after the other the cheapest besides what leaves already, then whoever can be
//! left out stays.

use std::collections::BTreeSet;

use scheduler_core::id::{AttemptId, JobId, Name, NodeId};
use scheduler_core::job::Job;
use scheduler_core::node::Node;

use super::clusters::clusters;
use super::room::{of_type, slots};
use super::{Found, Naive, On, add};

impl Naive {
    /// Where a gang starts, and who gives way: in the cluster in which it costs least.
    pub(super) fn gang(&self, id: JobId, job: &Job, pool: &Name) -> Option<(On, Vec<AttemptId>)> {
        let nodes = self.open(id, job, pool, self.state.meta.settings.grace_max);
        let found = clusters(job, &nodes);
        let found = found.iter().filter_map(|here| self.gang_in(id, job, pool, here));
        found.min_by_key(|(_, takes)| takes.iter().fold([0; 4], |sum, victim| add(sum, self.cost(*victim))))
    }

    fn gang_in(
        &self,
        id: JobId,
        job: &Job,
        pool: &Name,
        nodes: &[(NodeId, Node)],
    ) -> Option<(On, Vec<AttemptId>)> {
        let wanted = usize::try_from(job.terms.shape.nodes).expect("few nodes");
        let mut gone: BTreeSet<AttemptId> = BTreeSet::new();
        let mut chosen: BTreeSet<NodeId> = BTreeSet::new();
        while chosen.len() < wanted {
            let mut best: Option<Found> = None;
            for (node_id, node) in nodes.iter().filter(|(node, _)| !chosen.contains(node)) {
                for found in self.enough(id, job, pool, (*node_id, node), &gone) {
                    let is_better = |best: &Found| {
                        let by_set = || self.cmp_sets(&found.set, &best.set, pool);
                        let order = found.cost.cmp(&best.cost).then_with(by_set);
                        order.then(found.open.cmp(&best.open)).then(found.node.cmp(&best.node)).is_lt()
                    };
                    if best.as_ref().is_none_or(is_better) {
                        best = Some(found);
                    }
                }
            }
            let best = best?;
            chosen.insert(best.node);
            gone.extend(best.set);
        }
        self.leave_out((id, job), pool, nodes, wanted, &mut gone);
        let mut able: Vec<(usize, NodeId)> = Vec::new();
        for (node_id, node) in nodes {
            if self.holds((id, job), (*node_id, node), &gone) {
                able.push((self.there((id, job), (*node_id, node), &gone).len(), *node_id));
            }
        }
        able.sort_unstable();
        let on =
            able.into_iter().take(wanted).map(|(_, node)| (node, self.first_slots((id, job), node, &gone)));
        let on: On = on.collect();
        let gives = |victim: &AttemptId| {
            on.iter().any(|(node, _)| {
                let node = self.state.nodes.get(node).expect("a known node");
                node.gpus.iter().any(|gpu| gpu.holder == Some(*victim))
            })
        };
        let takes = gone.into_iter().filter(gives).collect();
        (on.len() == wanted).then_some((on, takes))
    }

    /// Whoever is not needed stays, the dearest first.
    fn leave_out(
        &self,
        job: (JobId, &Job),
        pool: &Name,
        nodes: &[(NodeId, Node)],
        wanted: usize,
        gone: &mut BTreeSet<AttemptId>,
    ) {
        let mut dearest: Vec<AttemptId> = gone.iter().copied().collect();
        dearest.sort_by(|a, b| {
            let costs = self.cost(*b).cmp(&self.cost(*a));
            costs.then_with(|| self.cmp_victims(*b, *a, pool))
        });
        for victim in dearest {
            let mut without = gone.clone();
            without.remove(&victim);
            let able = nodes.iter().filter(|(id, node)| self.holds(job, (*id, node), &without)).count();
            if able >= wanted {
                *gone = without;
            }
        }
    }

    /// Whether a node holds a part of the gang once `gone` have left.
    fn holds(&self, of: (JobId, &Job), at: (NodeId, &Node), gone: &BTreeSet<AttemptId>) -> bool {
        let (job, node) = (of.1, at.1);
        let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
        let left: Vec<AttemptId> = gone.iter().copied().collect();
        self.there(of, at, gone).len() >= wanted && self.has_room_later(job, node, &left)
    }

    /// The GPUs of a node that are there for the job once `gone` have left.
    pub(super) fn there(
        &self,
        (id, job): (JobId, &Job),
        (node_id, node): (NodeId, &Node),
        gone: &BTreeSet<AttemptId>,
    ) -> Vec<scheduler_core::id::Slot> {
        let wait = self.state.meta.settings.grace_max;
        let gives = |holder: AttemptId| gone.contains(&holder) || self.comes_free(holder);
        let mut there =
            of_type(job, node, &slots(node, |gpu| gpu.next.is_none() && gpu.holder.is_none_or(gives)));
        there.retain(|slot| !self.is_reserved(id, job, (node_id, *slot), wait));
        there
    }

    fn first_slots(
        &self,
        of: (JobId, &Job),
        node: NodeId,
        gone: &BTreeSet<AttemptId>,
    ) -> Vec<scheduler_core::id::Slot> {
        let record = self.state.nodes.get(&node).expect("a known node");
        let wanted = usize::try_from(of.1.terms.shape.gpus_per_node.get()).expect("few GPUs");
        self.there(of, (node, record), gone).into_iter().take(wanted).collect()
    }
}
