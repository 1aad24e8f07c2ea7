//! When a waiting job is likely to start, beside the bound that it is promised.

use proto::v1;
use scheduler_core::future::Question;
use scheduler_core::id::{JobId, Name};
use scheduler_core::plan::Links;
use scheduler_core::state::State;

use crate::futures::{FUTURES, FUTURES_MOST, HORIZON, Said};
use crate::shared::Shared;
use crate::views::{Scene, likely};

/// Runs as many futures as somebody asks for; none if that is none. What is told of a job that is `real` is remembered, to
/// see whether it held.
pub async fn of(
    shared: &Shared,
    scene: Scene<'_>,
    who: &Name,
    (state, links, job): (State, Links, JobId),
    asked: Option<u32>,
    is_real: bool,
) -> Option<v1::LikelyView> {
    let futures = asked.unwrap_or(FUTURES).min(FUTURES_MOST);
    if futures == 0 {
        return None;
    }
    // The entry is the seed: who asks again in the same state gets the same answer.
    let question = Question { job, seed: scene.read.view.index.get(), futures, horizon: HORIZON };
    let said = shared.futures.ask(who, (state, links), question, scene.now).await;
    let view = likely::view(&said, shared.futures.record());
    if let Said::Likely(likely) = &said
        && is_real
    {
        shared.futures.shown(likely);
    }
    Some(view)
}
