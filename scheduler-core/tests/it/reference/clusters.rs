//! Pools of several clusters: a job that names one stays in it, and a gang never leaves one.

use std::collections::BTreeSet;

use scheduler_core::id::{Name, NodeId};
use scheduler_core::job::Job;
use scheduler_core::node::Node;

use super::Naive;

impl Naive {
    /// The pool of the cluster that a job names.
    pub(super) fn named_pool(&self, job: &Job) -> Option<Name> {
        let cluster = job.terms.cluster.as_ref()?;
        let made = self.state.pools.iter().find(|(_, pool)| pool.clusters.contains(cluster));
        Some(made.map_or(cluster, |(pool, _)| pool).clone())
    }
}

/// Whether a node is in a cluster where a job may be.
pub(super) fn may_be_in(job: &Job, node: &Node) -> bool {
    job.terms.cluster.as_ref().is_none_or(|cluster| *cluster == node.cluster)
}

/// Whether these nodes are enough for a job: a gang is in one cluster.
pub(super) fn is_enough<'n>(job: &Job, nodes: impl Iterator<Item = &'n Node>) -> bool {
    let nodes: Vec<&Node> = nodes.collect();
    let wanted = usize::try_from(job.terms.shape.nodes).expect("few nodes");
    nodes.iter().any(|one| nodes.iter().filter(|other| other.cluster == one.cluster).count() >= wanted)
}

/// Nodes among which a job finds its own: those of each cluster for a gang, in order of their names.
pub(super) fn clusters(job: &Job, nodes: &[(NodeId, Node)]) -> Vec<Vec<(NodeId, Node)>> {
    if job.terms.shape.nodes == 1 {
        return vec![nodes.to_vec()];
    }
    let names: BTreeSet<&Name> = nodes.iter().map(|(_, node)| &node.cluster).collect();
    let here = |name: &Name| nodes.iter().filter(|(_, node)| node.cluster == *name).cloned().collect();
    names.into_iter().map(here).collect()
}
