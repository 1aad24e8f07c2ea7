//! What a drain does to a node's jobs.

use proto::v1;
use scheduler_core::node::{Node, Urgency};
use scheduler_core::report::{Emptying, Leaving};
use scheduler_core::unit::Timestamp;

use super::{Scene, words};

/// Returns how a node gets empty, by core's outlook.
#[must_use]
pub fn view(
    scene: Scene<'_>,
    node: &Node,
    begins_at: Timestamp,
    urgency: Urgency,
    emptying: &Emptying,
) -> v1::DrainView {
    v1::DrainView {
        schema: "drain/v1".to_owned(),
        as_of: scene.as_of(),
        node: node.name.to_string(),
        gpus: u32::try_from(node.gpus.len()).unwrap_or(u32::MAX),
        begins_at: Some(begins_at.as_millis()),
        empty_by_at: emptying.at.map(Timestamp::as_millis),
        jobs: emptying.jobs.iter().map(|job| leaving(scene, job)).collect(),
        sentence: sentence(node, urgency, emptying),
    }
}

fn leaving(scene: Scene<'_>, job: &Leaving) -> v1::LeavingJob {
    v1::LeavingJob {
        attempt: job.attempt.to_string(),
        name: job.name.to_string(),
        budget: words::budget_path(scene.state(), job.budget),
        gpus: job.gpus,
        protected_until_at: job.protected_until.map(Timestamp::as_millis),
        resumable: job.is_resumable,
        leaves_by_at: job.leaves_by.map(Timestamp::as_millis),
        cuts_ms: job.cuts.as_millis(),
    }
}

fn sentence(node: &Node, urgency: Urgency, emptying: &Emptying) -> String {
    let name = &node.name;
    let jobs = &emptying.jobs;
    if jobs.is_empty() {
        return match emptying.at {
            Some(_) => format!("nothing runs on {name}: it is empty from the beginning on"),
            None => format!("no job is known on {name}, but when it is empty cannot be told: {}", why(node)),
        };
    }
    let when = match urgency {
        Urgency::Normal => "as its protection ends",
        Urgency::Deadline(_) => "as its protection ends, at the latest for the deadline",
        Urgency::Now => "at once",
    };
    let mut parts = vec![match jobs.len() {
        1 => format!("1 job leaves {name}, {when}"),
        n => format!("{n} jobs leave {name}, each {when}"),
    }];
    let ending = jobs.iter().filter(|job| !job.is_resumable).count();
    if ending > 0 {
        parts.push(format!("{ending} of them cannot resume and so ends or starts from its beginning"));
    }
    let cut = jobs.iter().filter(|job| !job.cuts.is_zero()).count();
    if cut > 0 {
        parts.push(format!("this cuts the protection of {cut}"));
    }
    if emptying.at.is_none() {
        parts.push(format!("when it is empty cannot be told: {}", why(node)));
    }
    parts.join("; ")
}

/// Returns why nobody can tell when a node is empty.
fn why(node: &Node) -> &'static str {
    match node.contact {
        scheduler_core::node::Contact::Unreachable { .. } => "nobody hears of it",
        scheduler_core::node::Contact::Joined | scheduler_core::node::Contact::Ready => {
            "something on it is not proven gone"
        }
    }
}
