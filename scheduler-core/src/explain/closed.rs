//! Why a node takes no work of a job, in the words of whoever closed it.

use alloc::string::String;

use crate::id::NodeId;
use crate::node::Node;
use crate::plan::{Links, Shut, closes_at, shut};
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
    let said = |reason: Option<&String>| reason.cloned().unwrap_or_default();
    let drained = || said(node.drain.as_ref().map(|drain| &drain.reason));
    match shut(id, node, links, now) {
        Some(Shut::Joined) => return Some(Closed::Joined),
        Some(Shut::Unreachable { since }) => return Some(Closed::Unreachable { since }),
        Some(Shut::Silent) => return Some(Closed::Silent),
        Some(Shut::Backoff { until }) => return Some(Closed::Backoff { until }),
        Some(Shut::Cordoned { since }) => {
            let reason = said(node.cordon.as_ref().map(|cordon| &cordon.reason));
            return Some(Closed::Cordoned { reason, since });
        }
        Some(Shut::Draining { since }) => return Some(Closed::Draining { reason: drained(), since }),
        None => {}
    }
    // A drain to come lets in what is certain to be over by then.
    let begins = closes_at(node)?;
    certain
        .filter(|certain| begins < now.plus(*certain))
        .map(|_| Closed::Window { reason: drained(), begins })
}
