//! Who may ask for what (DESIGN 8.7). The actor comes from the replica that authenticated the connection; what it may
//! do is judged here, from state.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use crate::budget;
use crate::command::{Code, Command, Rejection};
use crate::id::{Name, NodeId};
use crate::principal::{Actor, Principal};
use crate::state::State;

/// Refuses what this kind of actor never does; what depends on the object is checked by the command. An agent that
/// claims what isn't its own raises an alarm.
pub(super) fn check(state: &mut State, cx: &Context<'_>, command: &Command) -> Result<(), Rejection> {
    if state.meta.cluster.is_none() && !matches!(command, Command::Found(_)) {
        let what = String::from("this control plane was not founded yet");
        return Err(Rejection::new(Code::Founding, what, "", String::from("run `bursar cluster init`")));
    }
    match (cx.actor, asker(command)) {
        (Actor::Principal(_), Asker::Person | Asker::Joining) => person(state, cx).map(drop),
        (Actor::Replica(_), Asker::ControlPlane | Asker::Joining) => Ok(()),
        (Actor::Agent(agent), Asker::Agent(node)) if *agent == node && state.nodes.contains(&node) => Ok(()),
        (Actor::Agent(agent), Asker::Agent(node)) => {
            Err(alarm(state, *agent, format!("the agent of node {agent} spoke for node {node}")))
        }
        (Actor::Agent(agent), _) => {
            let what = format!("the agent of node {agent} asked for what agents never ask for");
            Err(alarm(state, *agent, what))
        }
        (Actor::Principal(_), _) => Err(not_allowed("only the control plane and its agents do that")),
        (Actor::Replica(_), _) => {
            Err(not_allowed("a replica asks for nothing in a person's or an agent's name"))
        }
    }
}

/// Returns the principal who asks.
pub(super) fn person<'s, 'c>(
    state: &'s State,
    cx: &Context<'c>,
) -> Result<(&'c Name, &'s Principal), Rejection> {
    let Actor::Principal(name) = cx.actor else {
        return Err(not_allowed("only a person does that"));
    };
    match state.principals.get(name) {
        Some(principal) if !principal.is_revoked => Ok((name, principal)),
        Some(_) => Err(not_allowed(&format!("the token of `{name}` was revoked"))),
        None => Err(not_allowed(&format!("there is no principal `{name}`"))),
    }
}

/// Refuses whoever is not an operator.
pub(super) fn operator(state: &State, cx: &Context<'_>) -> Result<(), Rejection> {
    match person(state, cx)? {
        (_, principal) if principal.is_operator => Ok(()),
        (name, _) => Err(not_allowed(&format!("`{name}` is not an operator"))),
    }
}

/// Refuses whoever neither is an operator nor owns the root budget.
pub(super) fn operator_or_root_owner(state: &State, cx: &Context<'_>) -> Result<(), Rejection> {
    match person(state, cx)? {
        (_, principal) if principal.is_operator => Ok(()),
        (name, _) if budget::owns(state, name, budget::ROOT) => Ok(()),
        (name, _) => Err(not_allowed(&format!("`{name}` is no operator and does not own the root budget"))),
    }
}

/// Makes the refusal of an actor.
pub(super) fn not_allowed(what: &str) -> Rejection {
    Rejection::new(Code::NotAllowed, String::from(what), "", String::from("ask an operator"))
}

/// Raises an alarm about a node. Only nodes that exist can, so alarms are bounded.
pub(super) fn raise(state: &mut State, node: NodeId, what: String) {
    if state.nodes.contains(&node) {
        state.meta.alarms.insert(node, what);
    }
}

fn alarm(state: &mut State, agent: NodeId, what: String) -> Rejection {
    raise(state, agent, what.clone());
    Rejection::new(Code::NotAllowed, what, "an agent speaks for its own node alone", String::new())
}

/// Who asks for a command.
enum Asker {
    Person,
    Agent(NodeId),
    ControlPlane,
    /// A machine that is nobody yet: its one-time token is its right.
    Joining,
}

fn asker(command: &Command) -> Asker {
    match command {
        Command::Submit(_)
        | Command::Cancel(_)
        | Command::Hold(_)
        | Command::Release(_)
        | Command::Requeue(_)
        | Command::Cordon(_)
        | Command::Uncordon(_)
        | Command::Drain(_)
        | Command::Undrain(_)
        | Command::SetNode(_)
        | Command::SetPool(_)
        | Command::ApplyBudgets(_)
        | Command::CancelEdit(_)
        | Command::Grant(_)
        | Command::EndGrant(_)
        | Command::AddPrincipal(_)
        | Command::RevokePrincipal { .. }
        | Command::IssueJoinToken(_)
        | Command::EndSafeMode { .. }
        | Command::SetTime(_) => Asker::Person,
        Command::NodeFacts { node, .. } | Command::Reports { node, .. } | Command::Saves { node, .. } => {
            Asker::Agent(*node)
        }
        Command::Found(_)
        | Command::NodeUnreachable { .. }
        | Command::NodeBack { .. }
        | Command::ResumeTime(_)
        | Command::Adopt(_)
        | Command::Batch(_) => Asker::ControlPlane,
        Command::Join(_) => Asker::Joining,
    }
}
