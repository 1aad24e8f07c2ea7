//! Events, from an index or a moment on, followed if asked: from the history as far as the ring has forgotten them, then
//! from the ring, each once and in order.

use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use scheduler_core::id::{JobId, LogIndex};
use scheduler_core::unit::Timestamp;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status};

use super::Replies;
use crate::events::Since;
use crate::history::{Query, Wants};
use crate::past::{self, Walk};
use crate::shared::{Admitted, Shared};

/// Events taken out of the ring at once.
const PART: usize = 512;
/// Events on their way to a slow client.
const BUFFER: usize = 64;
/// A client that takes nothing for so long loses its stream.
const SLOW: Duration = Duration::from_secs(30);
/// How long to wait for what is about to be there.
const SOON: Duration = Duration::from_millis(20);
/// The history is read for as long as its reader takes it; a walk that is cut goes on with the next one.
const LONG: Duration = Duration::from_secs(3600);

/// Streams events.
pub async fn events(
    shared: &Arc<Shared>,
    asked: Request<v1::EventsRequest>,
) -> Result<Replies<v1::EventView>, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, false).await?;
    let from = match (message.after, message.since_at) {
        (None, None) => read.view.index,
        (after, _) => LogIndex::new(after.unwrap_or(0)),
    };
    let (out, events) = mpsc::channel(BUFFER);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut stream = Stream { shared: &shared, asked: message, from, out: &out, caller };
        if let Err(Some(status)) = stream.run().await {
            let _ = tokio::time::timeout(SLOW, out.send(Err(status))).await;
        }
    });
    Ok(Box::pin(ReceiverStream::new(events)))
}

struct Stream<'a> {
    shared: &'a Shared,
    asked: v1::EventsRequest,
    /// Everything up to this index was sent.
    from: LogIndex,
    out: &'a mpsc::Sender<Result<v1::EventView, Status>>,
    caller: Admitted,
}

/// Why a stream is over: with a status that the client gets, or without a word.
type Over = Option<Status>;

impl Stream<'_> {
    async fn run(&mut self) -> Result<(), Over> {
        let shared = self.shared;
        let mut newest = shared.events.newest();
        let mut stopping = shared.stopping.subscribe();
        loop {
            let upto = *newest.borrow_and_update();
            let principal = shared.views.now().state.principals.get(&self.caller.name).map(|p| p.is_revoked);
            if principal != Some(false) {
                return Ok(());
            }
            match shared.events.after(self.from, PART) {
                Since::Resync(_) => {
                    self.past().await?;
                    continue;
                }
                Since::Events(events) if !events.is_empty() => {
                    let last = events.last().map_or(self.from, |event| LogIndex::new(event.index));
                    for event in events {
                        self.tell(event).await?;
                    }
                    self.from = last;
                    continue;
                }
                Since::Events(_) => self.from = self.from.max(upto),
            }
            if !self.asked.follow {
                return Ok(());
            }
            tokio::select! {
                changed = newest.changed() => if changed.is_err() { return Ok(()) },
                _ = stopping.wait_for(|stopping| *stopping) => return Ok(()),
                () = self.out.closed() => return Ok(()),
            }
        }
    }

    /// Sends what the ring has forgotten: whole entries, up to what is applied now.
    async fn past(&mut self) -> Result<(), Over> {
        let upto = self.shared.views.now().index;
        if upto <= self.from {
            // What the ring forgot is not published yet, which is a matter of moments.
            tokio::time::sleep(SOON).await;
            return Ok(());
        }
        past::settle(self.shared, upto).await?;
        self.not_kept().await?;
        let query = Query {
            from: LogIndex::new(self.from.get().saturating_add(1)),
            through: upto,
            from_time: Timestamp::from_millis(self.asked.since_at.unwrap_or(0)),
            through_time: Timestamp::from_millis(self.asked.until_at.unwrap_or(u64::MAX)),
            job: self.asked.job.map(JobId::new),
            ..Query::all(Wants { events: true, ..Wants::default() })
        };
        let mut walk = Walk::new(self.shared, upto, query).within(usize::MAX, LONG);
        let mut told = 0;
        while let Some(records) = walk.page().await? {
            // Before what follows it; the last hole may grow over several pages.
            if !walk.is_in_hole() {
                told = self.missing(&walk, told).await?;
            }
            for event in records.into_iter().flat_map(|record| record.events) {
                self.tell(event).await?;
            }
        }
        self.missing(&walk, told).await?;
        self.from = match walk.rest() {
            Some(rest) => LogIndex::new(rest.get().saturating_sub(1)),
            None => upto,
        };
        Ok(())
    }

    /// Says what is missing behind the first `told` holes of a walk, and returns how many were told.
    async fn missing(&self, walk: &Walk<'_>, told: usize) -> Result<usize, Over> {
        for hole in walk.holes().iter().skip(told) {
            let what = format!("what happened in the entries {} to {}", hole.from, hole.through);
            let what = format!("{what} is missing: neither this replica nor one that answers has it");
            self.resync(hole.through, &what).await?;
        }
        Ok(walk.holes().len())
    }

    /// Says so if the beginning of what is asked for is not kept any more.
    async fn not_kept(&self) -> Result<(), Over> {
        let coverage = self.shared.history.coverage();
        let first = coverage.first_ms.unwrap_or(0);
        let is_asked = self.asked.since_at.is_none_or(|since| since < first);
        if self.from.get().saturating_add(1) < coverage.floor && is_asked {
            let last = coverage.floor.saturating_sub(1);
            let what = format!("what happened before {} is not kept any more", proto::json::rfc3339(first));
            self.resync(last, &what).await?;
        }
        Ok(())
    }

    async fn resync(&self, last: u64, what: &str) -> Result<(), Over> {
        let resync = v1::EventView {
            schema: "event/v1".to_owned(),
            index: last,
            kind: "resync".to_owned(),
            sentence: format!("{what}: from entry {} on events are complete again", last.saturating_add(1)),
            ..v1::EventView::default()
        };
        if send(self.out, resync).await { Ok(()) } else { Err(None) }
    }

    /// Sends an event if it is wanted.
    async fn tell(&self, event: v1::EventView) -> Result<(), Over> {
        if self.asked.until_at.is_some_and(|until| event.at >= until) {
            return Err(None);
        }
        let is_sent = !is_wanted(&self.asked, &event) || send(self.out, event).await;
        if is_sent { Ok(()) } else { Err(None) }
    }
}

fn is_wanted(asked: &v1::EventsRequest, event: &v1::EventView) -> bool {
    asked.since_at.is_none_or(|since| event.at >= since)
        && asked.job.is_none_or(|job| event.job == Some(job))
        && asked.node.as_ref().is_none_or(|node| event.node.as_ref() == Some(node))
        && asked.budget.as_deref().is_none_or(|budget| past::is_below(event.budget.as_deref(), budget))
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
            is_wanted(&v1::EventsRequest { job, node, budget, ..v1::EventsRequest::default() }, &event)
        };
        assert!(check(None, None, None));
        assert!(check(Some(7), Some("n1"), Some("a")));
        assert!(check(None, None, Some("a/b")));
        assert!(!check(Some(8), None, None));
        assert!(!check(None, Some("n2"), None));
        assert!(!check(None, None, Some("a/")) && !check(None, None, Some("a/bb")));
        let since = |at| v1::EventsRequest { since_at: Some(at), ..v1::EventsRequest::default() };
        let event = v1::EventView { at: 9, ..v1::EventView::default() };
        assert!(is_wanted(&since(9), &event) && !is_wanted(&since(10), &event));
    }
}
