//! What operators say about nodes: cordon, uncordon, drain, undrain.

use proto::v1;
use scheduler_core::command::{Command, DrainNode, NodeWord, SetNode};
use scheduler_core::id::NodeId;
use scheduler_core::node::Urgency;
use scheduler_core::principal::Actor;
use scheduler_core::report::{self, Order};
use scheduler_core::unit::Timestamp;
use tonic::{Request, Status};

use super::nodes::{find, heard, topology};
use crate::refusal;
use crate::shared::{self, Admitted, Shared};
use crate::views::{self, Scene, node};
use crate::write::{mark, write};

/// Keeps new work from a node.
pub async fn cordon(shared: &Shared, asked: Request<v1::NodeWordRequest>) -> Result<v1::NodeView, Status> {
    say(shared, asked, "cordon-node", Command::Cordon).await
}

/// Lets new work on a node again.
pub async fn uncordon(shared: &Shared, asked: Request<v1::NodeWordRequest>) -> Result<v1::NodeView, Status> {
    say(shared, asked, "uncordon-node", Command::Uncordon).await
}

/// Ends a drain, or takes one back that has not begun.
pub async fn undrain(shared: &Shared, asked: Request<v1::NodeWordRequest>) -> Result<v1::NodeView, Status> {
    say(shared, asked, "undrain-node", Command::Undrain).await
}

/// Says where a node is.
pub async fn set(shared: &Shared, asked: Request<v1::SetNodeRequest>) -> Result<v1::NodeView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::SetNodeRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "set-node", &body)?;
    let node = named(shared, &caller, &message.name).await?;
    let command = Command::SetNode(SetNode { node, topology: topology(&message.topology)? });
    let written = write(shared, Actor::Principal(caller.name.clone()), Some(mark), command, deadline).await?;
    let read = shared.after(written.index).await?;
    let scene = shared.scene(&read);
    let (id, record) = find(scene.state(), &message.name)?;
    Ok(node::view(scene, id, record, heard(shared, scene.state(), id)))
}

async fn say(
    shared: &Shared,
    asked: Request<v1::NodeWordRequest>,
    call: &'static str,
    command: impl FnOnce(NodeWord) -> Command,
) -> Result<v1::NodeView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::NodeWordRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), call, &body)?;
    let node = named(shared, &caller, &message.name).await?;
    let word = command(NodeWord { node, reason: message.reason });
    let written = write(shared, Actor::Principal(caller.name.clone()), Some(mark), word, deadline).await?;
    let read = shared.after(written.index).await?;
    let scene = shared.scene(&read);
    let (id, record) = find(scene.state(), &message.name)?;
    Ok(node::view(scene, id, record, heard(shared, scene.state(), id)))
}

/// Has a node get empty, or only says what that would do.
pub async fn drain(shared: &Shared, asked: Request<v1::DrainNodeRequest>) -> Result<v1::DrainView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let urgency = match (message.now, message.deadline_at) {
        (true, Some(_)) => {
            let what = "either at once or by a deadline, not both";
            return Err(refusal::bad(&proto::Error::bad("deadline_at", what)));
        }
        (true, None) => Urgency::Now,
        (false, Some(at)) => Urgency::Deadline(Timestamp::from_millis(at)),
        (false, None) => Urgency::Normal,
    };
    let begins_at = message.begins_at.map(Timestamp::from_millis);
    if message.preview {
        let read = shared.read(&caller, false).await?;
        let scene = shared.scene(&read);
        let order = Order { begins_at: begins_at.unwrap_or(scene.now).max(scene.now), urgency };
        return outlook(scene, &message.name, order);
    }
    let body = v1::DrainNodeRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "drain-node", &body)?;
    let node = named(shared, &caller, &message.name).await?;
    let command = Command::Drain(DrainNode { node, urgency, begins_at, reason: message.reason });
    let written = write(shared, Actor::Principal(caller.name.clone()), Some(mark), command, deadline).await?;
    let read = shared.after(written.index).await?;
    let scene = shared.scene(&read);
    let (_, record) = find(scene.state(), &message.name)?;
    let ordered =
        record.drain.as_ref().map(|drain| Order { begins_at: drain.begins_at, urgency: drain.urgency });
    outlook(scene, &message.name, ordered.unwrap_or(Order { begins_at: scene.now, urgency }))
}

/// Returns how a node gets empty under an order.
fn outlook(scene: Scene<'_>, name: &str, order: Order) -> Result<v1::DrainView, Status> {
    let (id, record) = find(scene.state(), name)?;
    match report::empty_by_order(scene.state(), id, order, scene.now) {
        Some(emptying) => Ok(views::drain::view(scene, record, order.begins_at, order.urgency, &emptying)),
        None => Err(refusal::not_found(format!("there is no node `{name}`"))),
    }
}

/// Returns the node of a name; one that this replica does not know yet is looked for in the newest state.
async fn named(shared: &Shared, caller: &Admitted, name: &str) -> Result<NodeId, Status> {
    if let Ok((id, _)) = find(&shared.views.now().state, name) {
        return Ok(id);
    }
    let read = shared.read(caller, false).await?;
    find(&read.view.state, name).map(|(id, _)| id)
}
