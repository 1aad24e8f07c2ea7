//! Pools: which clusters are accounted together, and what their types of GPU count.

use std::collections::BTreeSet;

use proto::v1;
use scheduler_core::command::{Command, SetPool};
use scheduler_core::id::{Label, Name};
use scheduler_core::principal::Actor;
use scheduler_core::unit::Weight;
use tonic::{Request, Status};

use super::name;
use crate::refusal;
use crate::shared::{self, Shared};
use crate::views::cluster_pool;
use crate::write::{mark, write};

/// Makes a pool, or changes it.
pub async fn set(shared: &Shared, asked: Request<v1::SetPoolRequest>) -> Result<v1::ClusterPoolList, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::SetPoolRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "set-pool", &body)?;
    let clusters = message.clusters.iter().map(|cluster| name("clusters", cluster));
    let command = Command::SetPool(SetPool {
        pool: name("name", &message.name)?,
        clusters: clusters.collect::<Result<BTreeSet<Name>, _>>()?,
        weights: message.weights.iter().map(weight).collect::<Result<_, _>>()?,
    });
    let written = write(shared, Actor::Principal(caller.name.clone()), Some(mark), command, deadline).await?;
    let read = shared.after(written.index).await?;
    Ok(cluster_pool::list(shared.scene(&read)))
}

/// Lists pools.
pub async fn list(
    shared: &Shared,
    asked: Request<v1::ListPoolsRequest>,
) -> Result<v1::ClusterPoolList, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, asked.into_inner().read.unwrap_or_default().stale).await?;
    Ok(cluster_pool::list(shared.scene(&read)))
}

fn weight(asked: &v1::TypeWeightView) -> Result<(Label, Weight), Status> {
    let kind = Label::new(&asked.gpu_type)
        .map_err(|cause| refusal::bad(&proto::Error::bad("gpu_type", cause.to_string())))?;
    let weight = Weight::from_milli(asked.weight_milli)
        .ok_or_else(|| refusal::bad(&proto::Error::bad("weight", "0.001 to 1000")))?;
    Ok((kind, weight))
}
