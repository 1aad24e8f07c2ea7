//! Nodes: permissions to join, lists, one of them.

use proto::v1;
use scheduler_core::command::{Command, IssueJoinToken};
use scheduler_core::id::{Name, NodeId};
use scheduler_core::node::Node;
use scheduler_core::principal::Actor;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};
use tonic::{Request, Status};

use super::{lately, name, principals};
use crate::refusal;
use crate::shared::{self, Shared};
use crate::views::node::{self, Heard};
use crate::write::{mark, write};

/// How long a permission to join is good if nothing is said.
const VALID: Span = Span::from_hours(1);
/// And at most.
const VALID_MAX: Span = Span::from_hours(7 * 24);

/// Makes a permission to join.
pub async fn issue_token(
    shared: &Shared,
    asked: Request<v1::IssueNodeTokenRequest>,
) -> Result<v1::IssueNodeTokenReply, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::IssueNodeTokenRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "issue-node-token", &body)?;
    let valid = if message.valid_ms == 0 { VALID } else { Span::from_millis(message.valid_ms) };
    if valid > VALID_MAX {
        return Err(refusal::bad(&proto::Error::bad("valid_ms", "a week at most")));
    }
    // From the request's own time, so that a retry asks for the same.
    let expires_at: Timestamp = mark.made_at.plus(valid);
    let pool = if message.pool.is_empty() { "main" } else { &message.pool };
    let command = Command::IssueJoinToken(IssueJoinToken {
        name: name("name", &message.name)?,
        pool: name("pool", pool)?,
        topology: topology(&message.topology)?,
        token: principals::token("token_hash", &message.token_hash)?,
        expires_at,
    });
    write(shared, Actor::Principal(caller.name.clone()), Some(mark), command, deadline).await?;
    Ok(v1::IssueNodeTokenReply { expires_at: expires_at.as_millis() })
}

/// Reads where a node is: `block-1/rack-3`; nowhere if it is empty.
pub(super) fn topology(path: &str) -> Result<Vec<Name>, Status> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    path.split('/').map(|level| name("topology", level)).collect()
}

/// Lists nodes.
pub async fn list(shared: &Shared, asked: Request<v1::ListNodesRequest>) -> Result<v1::NodeList, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, asked.into_inner().read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let nodes = scene.state().nodes.iter();
    let nodes = nodes.map(|(id, record)| node::view(scene, *id, record, heard(shared, scene.state(), *id)));
    Ok(v1::NodeList { schema: "node-list/v1".to_owned(), as_of: scene.as_of(), nodes: nodes.collect() })
}

/// Shows a node.
pub async fn show(shared: &Shared, asked: Request<v1::ShowNodeRequest>) -> Result<v1::NodeView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let (id, record) = find(scene.state(), &message.name)?;
    Ok(node::view(scene, id, record, heard(shared, scene.state(), id)))
}

/// Returns the node of a name.
pub(super) fn find<'a>(state: &'a State, name: &str) -> Result<(NodeId, &'a Node), Status> {
    match state.nodes.iter().find(|(_, record)| record.name.as_str() == name) {
        Some((id, record)) => Ok((*id, record)),
        None => Err(refusal::not_found(format!("there is no node `{name}`"))),
    }
}

/// Returns what this replica knows of a node's link.
pub(super) fn heard(shared: &Shared, state: &State, node: NodeId) -> Heard {
    let Some(since) = shared.leading.borrow().as_ref().map(|leading| leading.since) else {
        return Heard::Unknown;
    };
    match shared.links.is_heard(node, lately(state)) {
        true => Heard::Lately,
        // A leader that is younger than that cannot know yet.
        false if since.elapsed() < lately(state) => Heard::Unknown,
        false => Heard::NotLately,
    }
}
