//! A one-time permission for a node to join.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::{rights, set_node};
use crate::command::{Answer, Code, IssueJoinToken, Rejection};
use crate::id::Name;
use crate::node::{JoinToken, NODES_MAX, POOLS_MAX};
use crate::state::{State, Timer};
use crate::unit::Span;

/// The longest time that a permission is good for.
const GOOD_MAX: Span = Span::from_hours(30 * 24);

/// Issues a permission.
pub(super) fn issue(state: &mut State, cx: &Context<'_>, new: &IssueJoinToken) -> Answer {
    rights::operator(state, cx)?;
    set_node::check_levels(&new.topology)?;
    if new.expires_at <= cx.now || new.expires_at > cx.now.plus(GOOD_MAX) {
        let what = String::from("a join token is good for some time, at most 30 days");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("change how long it is good")));
    }
    if state.nodes.values().any(|node| node.name == new.name) {
        let what = format!("there is a node `{}`", new.name);
        return Err(Rejection::new(Code::NameTaken, what, "", String::from("take another name")));
    }
    if state.join_tokens.len() >= NODES_MAX {
        let what = format!("{NODES_MAX} join tokens are waiting to be used");
        return Err(Rejection::new(Code::Full, what, "", String::from("use them, or wait until they lapse")));
    }
    let nodes = state.nodes.values().map(|node| &node.pool);
    let pools: BTreeSet<&Name> = nodes.chain(state.join_tokens.values().map(|token| &token.pool)).collect();
    if pools.len() >= POOLS_MAX && !pools.contains(&new.pool) {
        let what = format!("there are nodes of {POOLS_MAX} clusters");
        let why = "each has books and a line of its own";
        return Err(Rejection::new(Code::Full, what, why, String::from("join one of those")));
    }
    if state.join_tokens.contains(&new.token) {
        let what = String::from("this token was issued before");
        return Err(Rejection::new(Code::Conflict, what, "", String::from("make a new one")));
    }
    let token = JoinToken {
        name: new.name.clone(),
        pool: new.pool.clone(),
        topology: new.topology.clone(),
        expires_at: new.expires_at,
    };
    state.join_tokens.insert(new.token, token);
    state.timers.insert((new.expires_at, Timer::JoinToken(new.token)), ());
    DONE
}
