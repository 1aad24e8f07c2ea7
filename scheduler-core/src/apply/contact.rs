//! Whether the control plane can reach a node's agent.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use crate::command::{Answer, Code, Rejection};
use crate::id::NodeId;
use crate::lifecycle::{ending, service};
use crate::node::{Contact, Node};
use crate::state::State;

/// A node was not heard of for long: it gets no work, its idle GPUs are out of service, its work stays its own. What
/// only waits to begin there is tried elsewhere.
pub(super) fn unreachable(state: &mut State, cx: &Context<'_>, id: NodeId) -> Answer {
    match known(state, id)?.contact {
        Contact::Unreachable { .. } => {}
        Contact::Joined | Contact::Ready => {
            service::change(state, id, cx.now, |node| node.contact = Contact::Unreachable { since: cx.now });
            ending::unreachable_before_go(state, id, cx.now);
        }
    }
    DONE
}

/// An unreachable node reports again.
pub(super) fn back(state: &mut State, cx: &Context<'_>, id: NodeId) -> Answer {
    let node = known(state, id)?;
    let contact = if node.facts.is_some() { Contact::Ready } else { Contact::Joined };
    match node.contact {
        Contact::Joined | Contact::Ready => {}
        Contact::Unreachable { .. } => service::change(state, id, cx.now, |node| node.contact = contact),
    }
    DONE
}

/// Returns a node, or refuses its number.
pub(super) fn known(state: &State, id: NodeId) -> Result<&Node, Rejection> {
    let unknown = || Rejection::new(Code::NotFound, format!("there is no node {id}"), "", String::new());
    state.nodes.get(&id).ok_or_else(unknown)
}
