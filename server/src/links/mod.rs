//! The agents connected to this replica.
//!
//! ```text
//!   agent ──Link──> session (one task) ──events──> leader's loop
//!                     ^  newest set only, acks, log requests
//!                     └── Link (its mailbox), found here by node
//! ```
//!
//! A slow agent hurts itself: its mailbox holds one mark that its set changed, and what it does not take ends its link.
//! No call to an agent is awaited by the leader's loop.

mod logs;
mod saves;
mod session;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proto::v1;
use scheduler_core::id::{Label, NodeId};
use scheduler_core::leader::Session;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Moment;

pub use logs::{LOG_PATIENCE, local, read_log};
pub use session::serve;

/// Acks that wait for a slow agent; with more its link ends, and it sends again.
const ACKS: usize = 1024;
/// Log requests that wait for one agent.
const ASKS: usize = 64;

/// A log request on its way to an agent, and where the answer goes.
type Ask = (v1::LogRequest, oneshot::Sender<v1::LogChunk>);

/// One agent's link, as the rest of the replica sees it.
#[derive(Debug)]
pub struct Link {
    /// Its number, never used twice in a process.
    pub session: Session,
    /// The boot of the machine it came from.
    boot: Label,
    /// Marked when its set changed.
    set: watch::Sender<u64>,
    acks: mpsc::Sender<u64>,
    asks: mpsc::Sender<Ask>,
    close: watch::Sender<bool>,
    /// When it said something last.
    heard: Mutex<Moment>,
}

/// The link's own ends.
struct Mailbox {
    set: watch::Receiver<u64>,
    acks: mpsc::Receiver<u64>,
    asks: mpsc::Receiver<Ask>,
    close: watch::Receiver<bool>,
}

/// Another machine has the node's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Occupied;

/// All of them.
#[derive(Debug, Default)]
pub struct Links {
    by_node: Mutex<BTreeMap<NodeId, Arc<Link>>>,
    sessions: AtomicU64,
}

impl Links {
    /// Takes a node's link in. An older one of the same boot gives way. One of another boot stays while it is heard of:
    /// two machines that think they are one node must not take turns.
    fn enter(
        &self,
        node: NodeId,
        boot: Label,
        quiet_after: Duration,
    ) -> Result<(Arc<Link>, Mailbox), Occupied> {
        let mut by_node = self.by_node.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = by_node.get(&node) {
            if old.boot != boot && old.silence() < quiet_after {
                return Err(Occupied);
            }
            old.close();
        }
        let session = Session::new(self.sessions.fetch_add(1, Ordering::Relaxed) + 1);
        let (set, set_rx) = watch::channel(0);
        let (acks, acks_rx) = mpsc::channel(ACKS);
        let (asks, asks_rx) = mpsc::channel(ASKS);
        let (close, close_rx) = watch::channel(false);
        let heard = Mutex::new(Moment::now());
        let link = Arc::new(Link { session, boot, set, acks, asks, close, heard });
        by_node.insert(node, Arc::clone(&link));
        Ok((link, Mailbox { set: set_rx, acks: acks_rx, asks: asks_rx, close: close_rx }))
    }

    /// Takes a link out, unless a newer one took its place.
    fn leave(&self, node: NodeId, session: Session) {
        let mut by_node = self.by_node.lock().unwrap_or_else(PoisonError::into_inner);
        if by_node.get(&node).is_some_and(|link| link.session == session) {
            by_node.remove(&node);
        }
    }

    /// Returns a node's link.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<Arc<Link>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }

    /// Returns how many nodes are linked here.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether a node is linked here and was heard of within `lately`.
    #[must_use]
    pub fn is_heard(&self, node: NodeId, lately: Duration) -> bool {
        self.get(node).is_some_and(|link| link.silence() < lately)
    }
}

impl Link {
    /// Notes that the node's set changed; the link sends the newest when the agent can take it.
    pub fn set_changed(&self) {
        self.set.send_modify(|count| *count += 1);
    }

    /// Tells the agent that a batch of its reports is committed. With too many waiting the link ends.
    pub fn ack(&self, seq: u64) {
        if self.acks.try_send(seq).is_err() {
            self.close();
        }
    }

    /// Ends the link; the agent comes back.
    pub fn close(&self) {
        self.close.send_replace(true);
    }

    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Moment::now();
    }

    fn silence(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn boot(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    #[test]
    fn newest_session_of_a_machine_wins_and_another_machine_is_refused() {
        let links = Links::default();
        let node = NodeId::new(3);
        let (old, _old_box) = links.enter(node, boot("a"), LONG).unwrap();
        let (new, new_box) = links.enter(node, boot("a"), LONG).unwrap();
        assert!(*old.close.borrow() && !*new_box.close.borrow());
        assert!(links.enter(node, boot("b"), LONG).is_err());
        links.leave(node, old.session);
        assert_eq!(links.get(node).unwrap().session, new.session, "the old one's end is not the new one's");
    }

    #[test]
    fn machine_that_restarted_takes_over_once_its_old_link_is_quiet() {
        let links = Links::default();
        let node = NodeId::new(3);
        let _old = links.enter(node, boot("a"), LONG).unwrap();
        assert!(links.enter(node, boot("b"), Duration::ZERO).is_ok());
    }

    #[test]
    fn agent_that_takes_no_acks_loses_its_link() {
        let links = Links::default();
        let (link, mailbox) = links.enter(NodeId::new(1), boot("a"), LONG).unwrap();
        (0..=u64::try_from(ACKS).unwrap()).for_each(|seq| link.ack(seq));
        assert!(*mailbox.close.borrow());
    }
}
