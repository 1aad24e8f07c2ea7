//! An operator lets new work on a node again.

use super::context::Context;
use super::entry::DONE;
use super::node_word;
use crate::command::{Answer, NodeWord};
use crate::lifecycle::service;
use crate::state::{State, Timer};

/// Opens a node, whatever had closed it: somebody's word, something that could not be ended, or failed launches. A drain
/// is ended by its own word. Opening an open node changes nothing.
pub(super) fn uncordon(state: &mut State, cx: &Context<'_>, word: &NodeWord) -> Answer {
    let (_, node) = node_word::check(state, cx, word.node)?;
    if let Some(until) = node.backoff_until {
        state.timers.remove(&(until, Timer::BackoffOver(word.node)));
    }
    service::change(state, word.node, cx.now, |node| {
        (node.cordon, node.backoff_until, node.failed_launches) = (None, None, 0);
    });
    DONE
}
