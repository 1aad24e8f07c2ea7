//! Waiting until cluster time does not hang on one replica.
//!
//! A leader without cluster time writes nothing until a witness answers, and where none is, until all had their time to.
//! A replica that was just founded, or whose machine restarted, hears of it from the leader a moment later. In that moment the
//! leader has to stay.

use std::time::Duration;

use super::keep::others;
use crate::clock::Deadline;
use crate::shared::Shared;

/// How long one replica may take to answer.
const ANSWER: Duration = Duration::from_millis(500);
/// How often to ask.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits, at most `patience`, until this replica and every other one that answers know cluster time: at least one other, where
/// there are others.
pub async fn by_all(shared: &Shared, patience: Duration) {
    let deadline = Deadline::after(patience);
    while !(shared.clock.now().is_some() && do_others_know(shared).await) {
        if deadline.is_over() {
            tracing::warn!(
                "not every replica knows cluster time: whoever leads next may have to ask for it first"
            );
            return;
        }
        tokio::time::sleep(PAUSE.min(deadline.left())).await;
    }
}

async fn do_others_know(shared: &Shared) -> bool {
    let others = others(shared);
    if others.is_empty() {
        return true;
    }
    let answers = shared.peers.clocks(others, false, ANSWER).await;
    !answers.is_empty() && answers.iter().all(|answer| answer.reply.cluster_time_at.is_some())
}
