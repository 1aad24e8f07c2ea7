//! What operators say about nodes: who may, and that they say why.

use alloc::format;
use alloc::string::String;

use super::contact;
use super::context::Context;
use super::rights;
use crate::command::{Code, Rejection};
use crate::id::{Name, NodeId};
use crate::node::Node;
use crate::state::State;

/// Returns who asks and the node, or refuses whoever is not an operator.
pub(super) fn check<'s, 'c>(
    state: &'s State,
    cx: &Context<'c>,
    node: NodeId,
) -> Result<(&'c Name, &'s Node), Rejection> {
    rights::operator(state, cx)?;
    let (who, _) = rights::person(state, cx)?;
    Ok((who, contact::known(state, node)?))
}

/// Refuses an order without a reason.
pub(super) fn check_reason(verb: &str, node: &Node, reason: &str) -> Result<(), Rejection> {
    if !reason.trim().is_empty() {
        return Ok(());
    }
    Err(Rejection::new(
        Code::BadSpec,
        format!("to {verb} node `{}` you must say why", node.name),
        "whoever has work there will read it",
        String::from("add --reason"),
    ))
}
