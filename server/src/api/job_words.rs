//! What people say about jobs: hold, release, requeue.

use proto::v1;
use scheduler_core::command::{Command, JobWord};
use scheduler_core::explain;
use scheduler_core::id::JobId;
use scheduler_core::principal::Actor;
use tonic::{Request, Status};

use super::job;
use crate::shared::{self, Shared};
use crate::write::{mark, write};

/// Keeps a waiting job out of line.
pub async fn hold(shared: &Shared, asked: Request<v1::JobWordRequest>) -> Result<v1::JobWordReply, Status> {
    say(shared, asked, "hold-job", Command::Hold).await
}

/// Puts a held job in line again.
pub async fn release(
    shared: &Shared,
    asked: Request<v1::JobWordRequest>,
) -> Result<v1::JobWordReply, Status> {
    say(shared, asked, "release-job", Command::Release).await
}

/// Has a running job save, stop, and start again.
pub async fn requeue(
    shared: &Shared,
    asked: Request<v1::JobWordRequest>,
) -> Result<v1::JobWordReply, Status> {
    say(shared, asked, "requeue-job", Command::Requeue).await
}

async fn say(
    shared: &Shared,
    asked: Request<v1::JobWordRequest>,
    call: &'static str,
    command: impl FnOnce(JobWord) -> Command,
) -> Result<v1::JobWordReply, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::JobWordRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), call, &body)?;
    let word = JobWord { job: JobId::new(message.job), reason: message.reason };
    let actor = Actor::Principal(caller.name.clone());
    let written = write(shared, actor, Some(mark), command(word), deadline).await?;
    let read = shared.after(written.index).await?;
    let scene = shared.scene(&read);
    let (id, state) = (JobId::new(message.job), scene.state());
    let standing = match state.arrays.get(&id) {
        Some(array) => explain::array_standing(state, id, array, scene.now),
        None => {
            let (id, record) = job(state, message.job)?;
            explain::standing(state, id, record, scene.now)
        }
    };
    // Why a job waits takes the whole line to say, and `explain` says it.
    Ok(match standing {
        Some(standing) => {
            v1::JobWordReply { state: standing.stage.as_str().to_owned(), sentence: standing.reason.sentence }
        }
        None => v1::JobWordReply {
            state: explain::Stage::Waiting.as_str().to_owned(),
            sentence: "it is in line".to_owned(),
        },
    })
}
