//! A node joins.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::command::{Answer, Code, Join, Outcome, Rejection};
use crate::id::NodeId;
use crate::node::{Contact, JoinToken, NODES_MAX, Node, PORT_FIRST};
use crate::pool;
use crate::state::{State, Timer};

/// Takes a node in. A retry with the same credential is answered as the first time; the one-time token is used up.
pub(super) fn join(state: &mut State, join: &Join) -> Answer {
    if let Some((id, known)) = state.nodes.iter().find(|(_, node)| node.name == join.name) {
        if known.machine == join.machine && known.credential == join.credential {
            return Ok(Outcome::Joined { node: *id });
        }
        return Err(taken(known, join));
    }
    let token = permission(state, join)?;
    if state.nodes.values().any(|node| node.credential == join.credential) {
        let what = String::from("another node has this credential");
        let why = "a copied data directory would make two machines one node";
        return Err(Rejection::new(Code::Conflict, what, why, String::from("start with an empty one")));
    }
    if state.nodes.len() >= NODES_MAX {
        let what = format!("there are {NODES_MAX} nodes");
        let why = "that is the most one control plane looks after";
        return Err(Rejection::new(Code::Full, what, why, String::from("found another for more")));
    }
    state.join_tokens.remove(&join.token);
    state.timers.remove(&(token.expires_at, Timer::JoinToken(join.token)));
    let id = state.meta.next_node;
    state.meta.next_node = NodeId::new(id.get().saturating_add(1));
    let node = Node {
        name: token.name,
        pool: pool::of_cluster(&state.pools, &token.cluster),
        cluster: token.cluster,
        credential: join.credential,
        machine: join.machine.clone(),
        facts: None,
        gpus: Vec::new(),
        contact: Contact::Joined,
        backoff_until: None,
        failed_launches: 0,
        cordon: None,
        drain: None,
        next_port: PORT_FIRST,
        topology: token.topology,
    };
    state.nodes.insert(id, node);
    Ok(Outcome::Joined { node: id })
}

fn permission(state: &State, join: &Join) -> Result<JoinToken, Rejection> {
    let Some(token) = state.join_tokens.get(&join.token) else {
        return Err(Rejection::new(
            Code::BadJoinToken,
            String::from("the join token is unknown, used, or too old"),
            "each is good for one node and for a limited time",
            format!("`bursar node token {}` makes another", join.name),
        ));
    };
    if token.name != join.name {
        let what = format!("the join token is for node `{}`, not `{}`", token.name, join.name);
        return Err(Rejection::new(Code::BadJoinToken, what, "", format!("join as `{}`", token.name)));
    }
    Ok(token.clone())
}

fn taken(known: &Node, join: &Join) -> Rejection {
    let why = if known.machine == join.machine {
        "it is this machine, but not with the credential that it joined with: its data directory is new"
    } else {
        "it is another machine"
    };
    let what = format!("there is a node `{}` already", join.name);
    Rejection::new(Code::NameTaken, what, why, String::from("join with another name"))
}
