//! The thread that the machine lives on.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use openraft::EntryPayload;
use openraft::alias::{EntryOf, LogIdOf, SnapshotMetaOf, StoredMembershipOf};
use openraft::storage::ApplyResponder;
use tokio::sync::{oneshot, watch};

use super::types::{self, Answer, C};
use crate::machine::{Committed, Frozen, Machine};
use crate::record::Position;
use crate::snapshot::Handle;

/// A committed entry, and who waits for its answer.
pub(crate) type Item = (EntryOf<C>, Option<ApplyResponder<C>>);

/// A state that no longer changes, and what it is at.
pub(crate) type FrozenAt = (At, Box<dyn Frozen>);

/// What the state is at.
#[derive(Debug, Clone, Default)]
pub(crate) struct At {
    pub(crate) last: Option<LogIdOf<C>>,
    pub(crate) membership: StoredMembershipOf<C>,
}

enum Job {
    Apply { items: Vec<Item>, done: oneshot::Sender<()> },
    Freeze { reply: oneshot::Sender<FrozenAt> },
    Install { snapshot: Box<(SnapshotMetaOf<C>, Handle)>, reply: oneshot::Sender<io::Result<()>> },
    At { reply: oneshot::Sender<At> },
}

/// The handle to the thread; it ends when the last handle is gone.
#[derive(Debug, Clone)]
pub(crate) struct MachineThread {
    jobs: Sender<Job>,
}

impl MachineThread {
    /// Starts the thread. `applied` is told each time the machine has advanced.
    pub(crate) fn start(
        machine: Box<dyn Machine>,
        applied: watch::Sender<Option<Position>>,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (jobs, queue) = channel();
        let worker = Worker { machine, at: At::default(), applied };
        let thread = thread::Builder::new().name("raft-machine".into()).spawn(move || {
            // The machine catches what may go wrong inside an entry; anything else leaves an unknown state.
            if panic::catch_unwind(AssertUnwindSafe(|| worker.run(&queue))).is_err() {
                crate::fatal::stop("apply a committed entry", &"the machine panicked");
            }
        })?;
        Ok((Self { jobs }, thread))
    }

    /// Applies entries in order; returns once all are.
    pub(crate) async fn apply(&self, items: Vec<Item>) -> io::Result<()> {
        self.ask(|done| Job::Apply { items, done }).await
    }

    /// Freezes the state.
    pub(crate) async fn freeze(&self) -> io::Result<FrozenAt> {
        self.ask(|reply| Job::Freeze { reply }).await
    }

    /// Replaces the state by a snapshot.
    pub(crate) async fn install(&self, meta: SnapshotMetaOf<C>, handle: Handle) -> io::Result<()> {
        let snapshot = Box::new((meta, handle));
        self.ask(|reply| Job::Install { snapshot, reply }).await?
    }

    /// Returns what the state is at.
    pub(crate) async fn at(&self) -> io::Result<At> {
        self.ask(|reply| Job::At { reply }).await
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> io::Result<T> {
        let gone = || io::Error::other("the machine's thread has ended");
        let (reply, answer) = oneshot::channel();
        self.jobs.send(job(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

struct Worker {
    machine: Box<dyn Machine>,
    at: At,
    applied: watch::Sender<Option<Position>>,
}

impl Worker {
    fn run(mut self, jobs: &Receiver<Job>) {
        // Who no longer waits for an answer need not get one.
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Apply { items, done } => {
                    self.apply(items);
                    let _ = done.send(());
                }
                Job::Freeze { reply } => {
                    let _ = reply.send((self.at.clone(), self.machine.freeze()));
                }
                Job::Install { snapshot, reply } => {
                    let (meta, handle) = *snapshot;
                    let _ = reply.send(self.install(meta, &handle));
                }
                Job::At { reply } => {
                    let _ = reply.send(self.at.clone());
                }
            }
        }
    }

    fn apply(&mut self, items: Vec<Item>) {
        let mut run = Vec::new();
        for (entry, responder) in items {
            match entry.payload {
                EntryPayload::Normal(command) => run.push((entry.log_id, command, responder)),
                EntryPayload::Blank => {
                    self.apply_run(mem::take(&mut run));
                    self.advance(entry.log_id, responder);
                }
                EntryPayload::Membership(membership) => {
                    self.apply_run(mem::take(&mut run));
                    self.at.membership = StoredMembershipOf::<C>::new(Some(entry.log_id), membership);
                    self.advance(entry.log_id, responder);
                }
            }
        }
        self.apply_run(run);
    }

    fn apply_run(&mut self, run: Vec<(LogIdOf<C>, types::Command, Option<ApplyResponder<C>>)>) {
        let Some((last, _, _)) = run.last() else { return };
        let last = *last;
        let entries: Vec<Committed<'_>> = run
            .iter()
            .map(|(id, command, _)| Committed {
                index: id.index,
                term: id.leader_id.term,
                payload: &command.0.0,
            })
            .collect();
        let answers = self.machine.apply(&entries);
        assert_eq!(answers.len(), entries.len(), "the machine owes one answer an entry");
        self.reached(last);
        for ((_, _, responder), answer) in run.into_iter().zip(answers) {
            if let Some(responder) = responder {
                responder.send(Answer(answer));
            }
        }
    }

    fn advance(&mut self, id: LogIdOf<C>, responder: Option<ApplyResponder<C>>) {
        self.machine.advanced(id.index, id.leader_id.term);
        self.reached(id);
        if let Some(responder) = responder {
            responder.send(Answer::default());
        }
    }

    fn reached(&mut self, id: LogIdOf<C>) {
        self.at.last = Some(id);
        self.applied.send_replace(Some(types::position(id)));
    }

    fn install(&mut self, meta: SnapshotMetaOf<C>, handle: &Handle) -> io::Result<()> {
        if let Some(last) = meta.last_log_id {
            self.machine
                .install(last.index, last.leader_id.term, &mut handle.read())
                .map_err(io::Error::other)?;
            self.reached(last);
        }
        self.at.membership = meta.last_membership;
        Ok(())
    }
}
