//! Who asked what.

use proto::v1;
use scheduler_core::id::JobId;
use tonic::{Request, Status};

use crate::past::{self, said};
use crate::refusal;
use crate::shared::Shared;

/// Words in one page at most.
const MOST: usize = 1_000;

/// Lists who asked what, newest first. Anyone with a token may read it.
pub async fn audit(shared: &Shared, asked: Request<v1::AuditRequest>) -> Result<v1::AuditList, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let from = message.from.as_deref().map(|text| {
        said::place(text).ok_or_else(|| refusal::bad(&proto::Error::bad("from", "no answer gave it")))
    });
    let from = from.transpose()?;
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    past::settle(shared, read.view.index).await?;
    let wanted = said::Wanted {
        actor: message.actor,
        since_at: message.since_at,
        until_at: message.until_at,
        action: message.action,
        job: message.job.map(JobId::new),
        node: message.node,
        budget: message.budget,
        is_refused: message.refused,
        most: usize::try_from(message.limit).ok().filter(|limit| *limit > 0).unwrap_or(MOST).min(MOST),
    };
    let list = said::list(shared, &read, &wanted, from).await?;
    Ok(v1::AuditList { as_of: shared.scene(&read).as_of(), ..list })
}
