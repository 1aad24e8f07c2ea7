//! Why a node takes no work of a job, in the words of whoever closed it.

use alloc::string::String;

use crate::id::NodeId;
use crate::node::Node;
use crate::plan::{Links, Shut, shut};
use crate::unit::{Span, Timestamp};

/// Why a node takes no work of one class of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Closed {
    Joined,
    Unreachable {
        since: Timestamp,
    },
    Silent,
    Backoff {
        until: Timestamp,
    },
    Cordoned {
        reason: String,
        since: Timestamp,
    },
    Draining {
        reason: String,
        since: Timestamp,
    },
    /// A drain to come would cut the protection that the job would have.
    Window {
        reason: String,
        begins: Timestamp,
    },
}

/// Returns why `node` takes no work of a job now; none if it does. `certain` is the time from now to the end of its
/// protection at the latest, were it placed at once; none in the free tier.
pub(super) fn closed(
    id: NodeId,
    node: &Node,
    links: &Links,
    certain: Option<Span>,
    now: Timestamp,
) -> Option<Closed> {
    match shut(id, node, links, now) {
        Some(Shut::Joined) => return Some(Closed::Joined),
        Some(Shut::Unreachable { since }) => return Some(Closed::Unreachable { since }),
        Some(Shut::Silent) => return Some(Closed::Silent),
        Some(Shut::Backoff { until }) => return Some(Closed::Backoff { until }),
        Some(Shut::Cordoned { .. } | Shut::Draining { .. }) | None => {}
    }
    if let Some(cordon) = &node.cordon {
        return Some(Closed::Cordoned { reason: cordon.reason.clone(), since: cordon.since });
    }
    let drain = node.drain.as_ref()?;
    let (reason, begins) = (drain.reason.clone(), drain.begins_at);
    if drain.is_active || begins <= now {
        return Some(Closed::Draining { reason, since: begins });
    }
    certain.filter(|certain| begins < now.plus(*certain)).map(|_| Closed::Window { reason, begins })
}
