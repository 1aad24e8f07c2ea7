//! An operator keeps new work from a node.

use super::context::Context;
use super::entry::DONE;
use super::node_word;
use crate::command::{Answer, NodeWord};
use crate::lifecycle::ending::told;
use crate::lifecycle::service;
use crate::node::Cordon;
use crate::state::State;

/// Closes a node to new work; what is on it stays. A newer word takes the place of an older one, and of the control
/// plane's own.
pub(super) fn cordon(state: &mut State, cx: &Context<'_>, word: &NodeWord) -> Answer {
    let (who, node) = node_word::check(state, cx, word.node)?;
    node_word::check_reason("cordon", node, &word.reason)?;
    let cordon = Cordon { who: Some(who.clone()), reason: told(&word.reason), since: cx.now };
    service::change(state, word.node, cx.now, |node| node.cordon = Some(cordon));
    DONE
}
