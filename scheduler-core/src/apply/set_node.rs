//! An operator says where a node is.

use alloc::format;

use super::context::Context;
use super::entry::DONE;
use super::node_word;
use crate::command::{Answer, Code, Rejection, SetNode};
use crate::id::Name;
use crate::node::LEVELS_MAX;
use crate::state::State;

/// Takes a node's place. What runs there stays; jobs that are placed from now on see it.
pub(super) fn set_node(state: &mut State, cx: &Context<'_>, set: &SetNode) -> Answer {
    node_word::check(state, cx, set.node)?;
    check_levels(&set.topology)?;
    if let Some(node) = state.nodes.get_mut(&set.node) {
        node.topology.clone_from(&set.topology);
    }
    DONE
}

/// Refuses a place with too many levels.
pub(super) fn check_levels(topology: &[Name]) -> Result<(), Rejection> {
    if topology.len() <= LEVELS_MAX {
        return Ok(());
    }
    Err(Rejection::new(
        Code::BadSpec,
        format!("a topology of {} levels", topology.len()),
        "",
        format!("at most {LEVELS_MAX}, from the outermost: block-1/rack-3"),
    ))
}
