//! Events, from an index on, followed if asked.

use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use scheduler_core::id::LogIndex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status};

use super::Replies;
use crate::events::Since;
use crate::shared::{Admitted, Shared};

/// Events taken out of the ring at once.
const PART: usize = 512;
/// Events on their way to a slow client.
const BUFFER: usize = 64;
/// A client that takes nothing for so long loses its stream.
const SLOW: Duration = Duration::from_secs(30);

/// Streams events.
pub async fn events(
    shared: &Arc<Shared>,
    asked: Request<v1::EventsRequest>,
) -> Result<Replies<v1::EventView>, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, false).await?;
    let from = message.after.map_or(read.view.index, LogIndex::new);
    let (out, events) = mpsc::channel(BUFFER);
    let shared = Arc::clone(shared);
    tokio::spawn(async move { stream(&shared, message, from, &out, caller).await });
    Ok(Box::pin(ReceiverStream::new(events)))
}

async fn stream(
    shared: &Shared,
    asked: v1::EventsRequest,
    mut from: LogIndex,
    out: &mpsc::Sender<Result<v1::EventView, Status>>,
    caller: Admitted,
) {
    let mut newest = shared.events.newest();
    let mut stopping = shared.stopping.subscribe();
    loop {
        let upto = *newest.borrow_and_update();
        let principal = shared.views.now().state.principals.get(&caller.name).map(|p| p.is_revoked);
        if principal != Some(false) {
            return;
        }
        match shared.events.after(from, PART) {
            Since::Resync(index) => {
                from = index;
                let resync = v1::EventView {
                    schema: "event/v1".to_owned(),
                    index: index.get(),
                    kind: "resync".to_owned(),
                    sentence: "events before this index are gone: read again, then follow".to_owned(),
                    ..v1::EventView::default()
                };
                if !send(out, resync).await {
                    return;
                }
                continue;
            }
            Since::Events(events) if !events.is_empty() => {
                from = events.last().map_or(from, |event| LogIndex::new(event.index));
                for event in events.into_iter().filter(|event| is_wanted(&asked, event)) {
                    if !send(out, event).await {
                        return;
                    }
                }
                continue;
            }
            Since::Events(_) => from = from.max(upto),
        }
        if !asked.follow {
            return;
        }
        tokio::select! {
            changed = newest.changed() => if changed.is_err() { return },
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = out.closed() => return,
        }
    }
}

fn is_wanted(asked: &v1::EventsRequest, event: &v1::EventView) -> bool {
    let is_below = |budget: &str| {
        let of = event.budget.as_deref().unwrap_or("");
        of == budget || of.strip_prefix(budget).is_some_and(|rest| rest.starts_with('/'))
    };
    asked.job.is_none_or(|job| event.job == Some(job))
        && asked.node.as_ref().is_none_or(|node| event.node.as_ref() == Some(node))
        && asked.budget.as_deref().is_none_or(is_below)
}

async fn send(out: &mpsc::Sender<Result<v1::EventView, Status>>, event: v1::EventView) -> bool {
    matches!(tokio::time::timeout(SLOW, out.send(Ok(event))).await, Ok(Ok(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_picked_by_job_node_and_budget() {
        let event = v1::EventView {
            job: Some(7),
            node: Some("n1".into()),
            budget: Some("a/b".into()),
            ..v1::EventView::default()
        };
        let check = |job: Option<u32>, node: Option<&str>, budget: Option<&str>| {
            let (node, budget) = (node.map(str::to_owned), budget.map(str::to_owned));
            is_wanted(&v1::EventsRequest { after: None, job, node, budget, follow: false }, &event)
        };
        assert!(check(None, None, None));
        assert!(check(Some(7), Some("n1"), Some("a")));
        assert!(check(None, None, Some("a/b")));
        assert!(!check(Some(8), None, None));
        assert!(!check(None, Some("n2"), None));
        assert!(!check(None, None, Some("a/")) && !check(None, None, Some("a/bb")));
    }
}
