//! What a drain does to a node's jobs.

use std::collections::BTreeSet;

use proto::v1;
use scheduler_core::id::{AttemptId, NodeId};
use scheduler_core::node::Node;
use scheduler_core::unit::Timestamp;

use super::{Scene, words};

/// Returns how a node gets empty.
#[must_use]
pub fn view(scene: Scene<'_>, _id: NodeId, node: &Node) -> v1::DrainView {
    let attempts: BTreeSet<AttemptId> =
        node.gpus.iter().flat_map(|gpu| [gpu.holder, gpu.next]).flatten().collect();
    v1::DrainView {
        schema: "drain/v1".to_owned(),
        as_of: scene.as_of(),
        node: node.name.to_string(),
        gpus: u32::try_from(node.gpus.len()).unwrap_or(u32::MAX),
        begins_at: node.drain.as_ref().map(|drain| drain.begins_at.as_millis()),
        empty_by_at: None,
        jobs: attempts.into_iter().filter_map(|attempt| leaving(scene, attempt)).collect(),
        sentence: String::new(),
    }
}

fn leaving(scene: Scene<'_>, id: AttemptId) -> Option<v1::LeavingJob> {
    let state = scene.state();
    let (attempt, job) = (state.attempts.get(&id)?, state.jobs.get(&id.job)?);
    Some(v1::LeavingJob {
        attempt: id.to_string(),
        name: job.name.to_string(),
        budget: words::budget_path(state, attempt.budget),
        gpus: attempt.placements.iter().map(|p| u32::try_from(p.slots.len()).unwrap_or(u32::MAX)).sum(),
        protected_until_at: attempt.protected_until().map(Timestamp::as_millis),
        resumable: job.terms.resumable,
        leaves_by_at: None,
        cuts_ms: 0,
    })
}
