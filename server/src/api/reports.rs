//! Questions that change nothing: a dry run, the bill of preemptions, capacity.

use proto::v1;
use tonic::{Request, Status};

use crate::shared::Shared;

/// Judges a submission and plans it, without submitting it.
pub async fn plan_job(
    shared: &Shared,
    asked: Request<v1::PlanJobRequest>,
) -> Result<v1::PlanJobReply, Status> {
    shared.admit(asked.metadata()).await?;
    Err(Status::unimplemented("this version plans no job without submitting it"))
}

/// Says what preemptions cost.
pub async fn bill(shared: &Shared, asked: Request<v1::BillRequest>) -> Result<v1::BillView, Status> {
    shared.admit(asked.metadata()).await?;
    Err(Status::unimplemented("this version makes no bill"))
}

/// Says what is idle, and what becomes free when.
pub async fn capacity(
    shared: &Shared,
    asked: Request<v1::CapacityRequest>,
) -> Result<v1::CapacityView, Status> {
    shared.admit(asked.metadata()).await?;
    Err(Status::unimplemented("this version counts no capacity"))
}
