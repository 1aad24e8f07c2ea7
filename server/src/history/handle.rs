//! The handle that everybody has: the machine records, readers read, the snapshot waits.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use scheduler_core::id::{ClusterId, JobId, LogIndex};
use tokio::sync::{Notify, watch};

use super::bounds::Bounds;
use super::error::Error;
use super::query::{Direction, Page, Query, Wants};
use super::record::{Gone, Told};
use super::shape::{Coverage, Range, Shape};
use super::{directory, pages, scrub, writer};

/// Entries that wait for the writer's thread; then whoever applies waits, which ends as soon as the thread has taken
/// them into memory: it never waits for the disk with them in the queue.
const QUEUE_MAX: usize = 16_384;
/// A snapshot looks so often whether everything is closing.
const LOOK: Duration = Duration::from_millis(200);

/// One replica's history. Clones are the same.
#[derive(Debug, Clone)]
pub struct History {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) dir: PathBuf,
    pub(super) bounds: Bounds,
    pub(super) shape: Mutex<Shape>,
    /// Told when `shape` has changed.
    pub(super) changed: Condvar,
    /// Held by whoever changes files that are sealed.
    pub(super) surgery: Mutex<()>,
    pub(super) queue: Mutex<Queue>,
    /// Told when the queue has something for the writer.
    pub(super) wake: Condvar,
    /// Told when the queue has room again.
    pub(super) room: Condvar,
    /// Everything before this index can be read.
    pub(super) readable: watch::Sender<u64>,
    /// Told when something may be missing.
    pub(super) look: Notify,
}

/// What the machine hands over.
#[derive(Debug)]
pub(super) enum Item {
    /// An entry with something to tell.
    Told(Box<Told>),
    /// Entries with nothing to tell.
    Quiet(Range),
    /// Everything up to here came as a snapshot of this control plane.
    Installed(u64, Option<ClusterId>),
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// What was handed over is written first.
    Closed,
    /// At once, as when the process is killed.
    Abandoned,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) items: VecDeque<Item>,
    /// Somebody waits for what is in the queue.
    pub(super) is_urgent: bool,
    /// Somebody waits until it is durable.
    pub(super) wants_durable: bool,
    pub(super) end: Option<End>,
    /// The writer's thread has ended.
    pub(super) is_over: bool,
}

impl History {
    /// Opens the history in `dir`, made if it is not there, and starts its threads. Damage is set aside, not refused.
    ///
    /// # Errors
    /// When the directory cannot be read or made.
    pub fn open(dir: &Path, bounds: Bounds) -> Result<Self, Error> {
        let shape = directory::open(dir)?;
        let readable = watch::Sender::new(shape.next());
        let inner = Arc::new(Inner {
            dir: dir.to_owned(),
            bounds,
            shape: Mutex::new(shape),
            changed: Condvar::new(),
            surgery: Mutex::default(),
            queue: Mutex::default(),
            wake: Condvar::new(),
            room: Condvar::new(),
            readable,
            look: Notify::new(),
        });
        let writer = Arc::clone(&inner);
        let start = thread::Builder::new().name("history".into()).spawn(move || writer::run(&writer));
        start.map_err(Error::io("start the thread for", dir))?;
        if bounds.scrub_rate > 0 {
            let weak = Arc::downgrade(&inner);
            let start = thread::Builder::new().name("history-scrub".into()).spawn(move || scrub::run(&weak));
            start.map_err(Error::io("start the thread for", dir))?;
        }
        Ok(Self { inner })
    }

    /// Takes an entry that was applied, with what it has to tell. Indexes rise by one from call to call; what is known
    /// already is passed over. Waits only while the writer's thread is so far behind that its queue is full.
    pub fn record(&self, index: LogIndex, told: Option<Told>) {
        let index = index.get();
        self.put(match told {
            Some(told) => Item::Told(Box::new(told)),
            None => Item::Quiet(Range::new(index, index)),
        });
    }

    /// Notes that everything up to `index` came as a snapshot: what of it is not here is missing.
    pub fn installed(&self, index: LogIndex, cluster: Option<ClusterId>) {
        self.put(Item::Installed(index.get(), cluster));
    }

    fn put(&self, item: Item) {
        let mut queue = self.inner.queue();
        while queue.items.len() >= QUEUE_MAX && queue.end.is_none() {
            self.inner.wake.notify_one();
            queue = self.inner.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.end.is_some() {
            return;
        }
        match (&item, queue.items.back_mut()) {
            (Item::Quiet(new), Some(Item::Quiet(last))) if last.through + 1 == new.from => {
                last.through = new.through;
            }
            _ => queue.items.push_back(item),
        }
        // The writer looks by itself soon after the first; a long queue is worth waking it.
        if queue.items.len() == 1 || queue.items.len() >= QUEUE_MAX / 4 {
            self.inner.wake.notify_one();
        }
    }

    /// Waits until history is durable up to `index`: until then a snapshot at `index` must not count, since the log
    /// that could write it again would go. A full disk makes it wait for as long as it is full. Not for async code.
    ///
    /// # Errors
    /// When history is closed.
    pub fn flush_to(&self, index: LogIndex) -> Result<(), Error> {
        let mut shape = self.inner.shape();
        while !shape.is_durable_through(index.get()) {
            drop(shape);
            {
                let mut queue = self.inner.queue();
                if queue.is_over {
                    return Err(Error::Closed);
                }
                (queue.is_urgent, queue.wants_durable) = (true, true);
                self.inner.wake.notify_one();
            }
            shape = self.inner.shape();
            if !shape.is_durable_through(index.get()) {
                let waited = self.inner.changed.wait_timeout(shape, LOOK);
                shape = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        Ok(())
    }

    /// Waits until everything up to `index` can be read, at most for `patience`.
    pub async fn settle(&self, index: LogIndex, patience: Duration) -> bool {
        let mut readable = self.inner.readable.subscribe();
        if *readable.borrow_and_update() > index.get() {
            return true;
        }
        {
            let mut queue = self.inner.queue();
            queue.is_urgent = true;
            self.inner.wake.notify_one();
        }
        let wait = readable.wait_for(|next| *next > index.get());
        matches!(tokio::time::timeout(patience, wait).await, Ok(Ok(_)))
    }

    /// Returns one page of what was asked for. Reads files: not for async code (use [`super::read`]).
    ///
    /// # Errors
    /// When the disk fails. Damage is no error: it is set aside, and the page has a hole.
    pub fn read(&self, query: &Query) -> Result<Page, Error> {
        pages::read(&self.inner, query)
    }

    /// Returns a job that left state, as far as that is here. Reads files: not for async code (use [`super::job`]).
    ///
    /// # Errors
    /// When the disk fails, or a record cannot be.
    pub fn job(&self, id: JobId) -> Result<Option<Gone>, Error> {
        let wants = Wants { jobs: true, bills: true, ..Wants::default() };
        let mut query = Query { job: Some(id), direction: Direction::Backward, ..Query::all(wants) };
        let mut records = Vec::new();
        loop {
            let page = self.read(&query)?;
            records.extend(page.records);
            match page.next {
                Some(next) => query = query.on_from(next),
                None => break,
            }
        }
        Gone::of(id, records).map_err(|cause| Error::damaged(&self.inner.dir, cause.to_string()))
    }

    /// Returns what is here.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.inner.shape().coverage()
    }

    /// Returns the digest of all records in a range; none if some of it is not here. Equal on all replicas.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn digest(&self, from: LogIndex, through: LogIndex) -> Result<Option<blake3::Hash>, Error> {
        pages::digest(&self.inner, Range::new(from.get(), through.get()))
    }

    /// Makes what was handed over durable if the disk lets it, and ends. Nothing is taken afterwards: the log has it.
    pub fn close(&self) {
        self.end(End::Closed);
    }

    /// Ends at once, as when the process is killed.
    pub fn abandon(&self) {
        self.end(End::Abandoned);
    }

    fn end(&self, end: End) {
        let mut queue = self.inner.queue();
        queue.end.get_or_insert(end);
        self.inner.wake.notify_one();
        self.inner.room.notify_all();
        self.inner.look.notify_waiters();
        while !queue.is_over {
            queue = self.inner.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Inner {
    pub(super) fn shape(&self) -> MutexGuard<'_, Shape> {
        self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn surgery(&self) -> MutexGuard<'_, ()> {
        self.surgery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue().end.is_some()
    }

    /// Lets the writer see to the catalogue, and the fetcher look for what is missing.
    pub(super) fn shape_changed(&self) {
        let mut queue = self.queue();
        queue.is_urgent = true;
        drop(queue);
        self.wake.notify_one();
        self.look.notify_one();
        self.changed.notify_all();
    }
}
