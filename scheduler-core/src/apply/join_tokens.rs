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
use crate::pool;
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
    if is_one_too_many(state, &new.pool) {
        let what = format!("there are nodes of {POOLS_MAX} clusters, or books of as many pools");
        let why = "each has books and a line of its own";
        return Err(Rejection::new(Code::Full, what, why, String::from("join one of those")));
    }
    if state.join_tokens.contains(&new.token) {
        let what = String::from("this token was issued before");
        return Err(Rejection::new(Code::Conflict, what, "", String::from("make a new one")));
    }
    let token = JoinToken {
        name: new.name.clone(),
        cluster: new.pool.clone(),
        topology: new.topology.clone(),
        expires_at: new.expires_at,
    };
    state.join_tokens.insert(new.token, token);
    state.timers.insert((new.expires_at, Timer::JoinToken(new.token)), ());
    DONE
}

/// Whether a node of a cluster might need books, or be of a cluster, beyond the most there may be.
fn is_one_too_many(state: &State, cluster: &Name) -> bool {
    let nodes = state.nodes.values().map(|node| &node.cluster);
    let clusters: BTreeSet<&Name> =
        nodes.chain(state.join_tokens.values().map(|token| &token.cluster)).collect();
    let pools = clusters.iter().map(|cluster| pool::of_cluster(&state.pools, cluster));
    let pools: BTreeSet<Name> = pools.chain(state.books.pools().keys().cloned()).collect();
    let is_full = |count: usize, is_known: bool| count >= POOLS_MAX && !is_known;
    is_full(clusters.len(), clusters.contains(cluster))
        || is_full(pools.len(), pools.contains(&pool::of_cluster(&state.pools, cluster)))
}
