//! Where pressure stops: calls in a replica, proposals on their way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scheduler_core::command::{Code, Rejection};
use scheduler_core::id::{Name, NodeId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::refusal;

/// Calls that a replica has under way at most.
pub const CALLS: usize = 1024;
/// Calls that one actor has under way at most.
pub const CALLS_OF_ONE: usize = 64;
/// Proposals under way at most; half are for submissions, half for all the rest.
pub const PROPOSALS: usize = 4096;
/// Their bytes in KiB, halved likewise.
const PROPOSALS_KIB: usize = 8 * 1024;
/// What a caller is told to wait.
const AGAIN: Duration = Duration::from_millis(200);

/// Who a call is counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Counted {
    /// A person or a program with a token.
    Principal(Name),
    /// A node's agent.
    Agent(NodeId),
    /// Another replica.
    Peer,
}

/// The calls under way.
#[derive(Debug, Default)]
pub struct Calls {
    under_way: Mutex<UnderWay>,
}

#[derive(Debug, Default)]
struct UnderWay {
    all: usize,
    by_actor: HashMap<Counted, usize>,
}

/// One call's place, given back when dropped.
#[derive(Debug)]
pub struct Place {
    calls: Arc<Calls>,
    actor: Option<Counted>,
}

impl Calls {
    /// Takes a place for a call whose actor is not known yet.
    ///
    /// # Errors
    /// When the replica is full.
    pub fn enter(self: &Arc<Self>) -> Result<Place, Status> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.all >= CALLS {
            return Err(full("this replica has 1,024 calls under way"));
        }
        under_way.all += 1;
        Ok(Place { calls: Arc::clone(self), actor: None })
    }
}

impl Place {
    /// Counts the call for its actor.
    ///
    /// # Errors
    /// When the actor has its share under way already.
    pub fn count_for(&mut self, actor: Counted) -> Result<(), Status> {
        let mut under_way = self.calls.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let count = under_way.by_actor.entry(actor.clone()).or_default();
        if *count >= CALLS_OF_ONE && actor != Counted::Peer {
            return Err(full("you have 64 calls under way at this replica"));
        }
        *count += 1;
        self.actor = Some(actor);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.calls.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.all -= 1;
        let Some(actor) = &self.actor else { return };
        if let Some(count) = under_way.by_actor.get_mut(actor) {
            *count -= 1;
            if *count == 0 {
                under_way.by_actor.remove(actor);
            }
        }
    }
}

/// Which half a proposal is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A new job: gives way first.
    Submission,
    /// Facts, plans, operators' words, ends of jobs.
    Other,
}

/// The proposals under way at the leader.
#[derive(Debug)]
pub struct Proposals {
    submissions: Half,
    others: Half,
}

#[derive(Debug)]
struct Half {
    count: Arc<Semaphore>,
    kib: Arc<Semaphore>,
}

/// A proposal's place, given back when dropped.
#[derive(Debug)]
pub struct Room {
    _count: OwnedSemaphorePermit,
    _kib: OwnedSemaphorePermit,
}

impl Half {
    fn new() -> Self {
        let kib = Arc::new(Semaphore::new(PROPOSALS_KIB / 2));
        Self { count: Arc::new(Semaphore::new(PROPOSALS / 2)), kib }
    }
}

impl Default for Proposals {
    fn default() -> Self {
        Self { submissions: Half::new(), others: Half::new() }
    }
}

impl Proposals {
    /// Takes room for a proposal of so many bytes.
    ///
    /// # Errors
    /// When its half is full: nothing was done.
    pub fn room(&self, kind: Kind, bytes: usize) -> Result<Room, Rejection> {
        let half = match kind {
            Kind::Submission => &self.submissions,
            Kind::Other => &self.others,
        };
        let kib = u32::try_from(bytes.div_ceil(1024).min(PROPOSALS_KIB / 2)).unwrap_or(u32::MAX);
        let count = Arc::clone(&half.count).try_acquire_owned();
        let size = Arc::clone(&half.kib).try_acquire_many_owned(kib);
        match (count, size) {
            (Ok(count), Ok(size)) => Ok(Room { _count: count, _kib: size }),
            (Err(_), _) | (_, Err(_)) => {
                Err(rejection("the leader has as many requests under way as it takes"))
            }
        }
    }
}

fn rejection(what: &str) -> Rejection {
    Rejection::new(Code::Full, what.to_owned(), "nothing was done", "try again in a moment".to_owned())
}

fn full(what: &str) -> Status {
    refusal::try_again(&rejection(what), AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ana() -> Counted {
        Counted::Principal(Name::new("ana").unwrap())
    }

    #[test]
    fn one_actor_never_fills_a_replica() {
        let calls = Arc::new(Calls::default());
        let enter = |actor: Counted| -> Result<Place, Status> {
            let mut place = calls.enter()?;
            place.count_for(actor)?;
            Ok(place)
        };
        let mut held: Vec<_> = (0..CALLS_OF_ONE).map(|_| enter(ana()).unwrap()).collect();
        let refused = enter(ana()).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refused.metadata().contains_key(refusal::RETRY_AFTER));
        assert!(enter(Counted::Agent(NodeId::new(1))).is_ok());
        held.pop();
        assert!(enter(ana()).is_ok());
        drop(held);
        let under_way = calls.under_way.lock().unwrap();
        assert_eq!((under_way.all, under_way.by_actor.len()), (0, 0));
    }

    #[test]
    fn submissions_give_way_before_anything_else_does() {
        let proposals = Proposals::default();
        let held: Vec<_> =
            (0..PROPOSALS / 2).map(|_| proposals.room(Kind::Submission, 100).unwrap()).collect();
        assert_eq!(proposals.room(Kind::Submission, 100).unwrap_err().code, Code::Full);
        assert!(proposals.room(Kind::Other, 100).is_ok());
        drop(held);
        assert!(proposals.room(Kind::Submission, 100).is_ok());
        let _large: Vec<_> = (0..64).map(|_| proposals.room(Kind::Submission, 64 * 1024).unwrap()).collect();
        assert!(proposals.room(Kind::Submission, 1).is_err());
    }
}
