//! An operator ends a drain, or takes one back that has not begun.

use super::context::Context;
use super::entry::DONE;
use super::node_word;
use crate::command::{Answer, NodeWord};
use crate::lifecycle::drain;
use crate::state::State;

/// Lets new work on a node again, as far as the drain had kept it away. What was told to leave leaves. Without a drain
/// that changes nothing.
pub(super) fn undrain(state: &mut State, cx: &Context<'_>, word: &NodeWord) -> Answer {
    node_word::check(state, cx, word.node)?;
    drain::end(state, word.node, cx.now);
    DONE
}
