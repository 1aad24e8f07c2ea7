//! The thread that writes: takes what was handed over into memory, and from there to the disk.
//!
//! A disk that takes nothing stops only the second half: the first goes on up to a bound, then gives entries up, and
//! what was given up is a hole that is fetched from a peer once the disk is well again.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use scheduler_core::id::ClusterId;

use super::catalogue::{self, Claim};
use super::error::Error;
use super::files::{self, Role};
use super::handle::{End, Inner, Item, Queue};
use super::record::Encoded;
use super::segment;
use super::shape::{Damage, Range, Shape};
use super::tail::Tail;

/// What is handed over is written after so long, if nobody waits for it.
const LINGER: Duration = Duration::from_millis(50);
/// Bytes written at once.
const BATCH: usize = 1 << 20;

/// So many entries are not let wait.
const MANY: usize = 4096;

/// What was taken out of the queue.
struct Todo {
    items: VecDeque<Item>,
    wants_durable: bool,
    end: Option<End>,
}

/// What is to be done, in order.
#[derive(Debug)]
enum Ready {
    Entry(Encoded),
    Quiet(Range),
    /// Go on at this index; what is before it came as a snapshot.
    Jump(u64),
    /// The same; what is before it was given up for want of room.
    GiveUp(Range),
    /// This is whose history it is.
    Cluster(ClusterId),
}

struct Writer<'a> {
    inner: &'a Arc<Inner>,
    ready: VecDeque<Ready>,
    bytes: usize,
    /// The first index that was not taken yet.
    next: u64,
    /// The first index that came.
    begun_at: Option<u64>,
    /// Entries that were given up since the disk failed.
    given_up: Option<Range>,
    file: Option<File>,
    /// A sync of the tail's file failed. Nobody knows what of it is on the disk, and the next sync of the same file would
    /// succeed without writing that: it is written anew.
    is_doubted: bool,
    cluster: Option<ClusterId>,
    /// The last try failed.
    is_stuck: bool,
}

/// Runs until history is closed.
pub(super) fn run(inner: &Arc<Inner>) {
    let (next, cluster) = {
        let shape = inner.shape();
        (shape.next(), shape.cluster)
    };
    let mut writer = Writer {
        inner,
        ready: VecDeque::new(),
        bytes: 0,
        next,
        begun_at: None,
        given_up: None,
        file: None,
        is_doubted: false,
        cluster,
        is_stuck: false,
    };
    loop {
        let todo = writer.wait();
        if todo.end == Some(End::Abandoned) {
            break;
        }
        writer.take(todo.items);
        let done = writer.work(todo.wants_durable || todo.end.is_some());
        writer.is_stuck = done.is_err();
        if let Err(cause) = &done {
            writer.note_stuck(cause);
        }
        if todo.end.is_some() {
            break;
        }
        if done.is_err() {
            writer.pause();
        }
    }
    let mut queue = inner.queue();
    queue.is_over = true;
    drop(queue);
    inner.room.notify_all();
    inner.changed.notify_all();
}

impl Writer<'_> {
    /// Waits for something to do, and takes it out of the queue.
    fn wait(&self) -> Todo {
        let is_idle = self.ready.is_empty() && !self.is_stuck;
        let mut queue = self.inner.queue();
        while is_idle && queue.items.is_empty() && !queue.is_urgent && queue.end.is_none() {
            queue = self.inner.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let is_early =
            |queue: &mut Queue| !queue.is_urgent && queue.end.is_none() && queue.items.len() < MANY;
        if is_idle {
            let waited = self.inner.wake.wait_timeout_while(queue, LINGER, is_early);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.is_urgent = false;
        let todo = Todo {
            items: mem::take(&mut queue.items),
            wants_durable: mem::take(&mut queue.wants_durable),
            end: queue.end,
        };
        drop(queue);
        self.inner.room.notify_all();
        todo
    }

    /// After a failure: a while until the next try, in which what is handed over is still taken.
    fn pause(&mut self) {
        let queue = self.inner.queue();
        let is_quiet = |queue: &mut Queue| queue.end.is_none() && queue.items.len() < MANY;
        let waited = self.inner.wake.wait_timeout_while(queue, self.inner.bounds.again, is_quiet);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes what was handed over into memory; what is known already is passed over.
    fn take(&mut self, items: VecDeque<Item>) {
        for item in items {
            match item {
                Item::Installed(index, cluster) => {
                    self.belongs(cluster, index);
                    self.begin(index.saturating_add(1));
                    if index >= self.next {
                        self.push(Ready::Jump(index + 1), 0);
                        self.next = index + 1;
                    }
                }
                Item::Quiet(range) => {
                    self.begin(range.from);
                    self.reach(range.from);
                    if range.through >= self.next {
                        let range = Range::new(self.next, range.through);
                        self.next = range.through + 1;
                        self.push_or_give_up(Ready::Quiet(range), range, 0);
                    }
                }
                Item::Told(told) => {
                    let index = told.index.get();
                    self.belongs(Some(told.cluster), index);
                    self.begin(index);
                    self.reach(index);
                    if index >= self.next {
                        self.next = index + 1;
                        let encoded = told.encode();
                        let bytes = encoded.frames.len();
                        self.push_or_give_up(Ready::Entry(encoded), Range::new(index, index), bytes);
                    }
                }
            }
        }
    }

    /// The first index that comes is where the log writes again from: what is missing from there on was never durable,
    /// or was damaged, and is written again with all that follows it.
    fn begin(&mut self, index: u64) {
        if self.begun_at.is_some() {
            return;
        }
        self.begun_at = Some(index);
        let hole = self.inner.shape().hole_from(index);
        if let Some(hole) = hole {
            let from = hole.from.max(index);
            self.cut_back(from);
            self.next = from;
        }
    }

    /// Forgets everything from an index on.
    fn cut_back(&mut self, from: u64) {
        let _surgery = self.inner.surgery();
        let mut shape = self.inner.shape();
        tracing::warn!(from, "history is written again from the log");
        let mut doomed: Vec<_> =
            shape.segments.range(from..).map(|(from, _)| (*from, Role::Sealed)).collect();
        if shape.tail.next > from || shape.tail.from >= from {
            doomed.push((shape.tail.from, Role::Open));
            shape.tail = Tail::at(from);
            (self.file, self.is_doubted) = (None, false);
        }
        shape.segments.retain(|at, _| *at < from);
        shape.unwritten.retain(|range| range.through < from);
        shape.damage.retain(|damage| damage.range.through < from);
        shape.touch();
        drop(shape);
        for (at, role) in doomed {
            // One that stays is found at the next opening, by its place.
            if let Err(cause) = files::remove(&files::path(&self.inner.dir, at, role)) {
                tracing::warn!(cause = cause.report(), "a part of history that is written again stays");
            }
        }
    }

    /// Notes a gap before an index that should have followed.
    fn reach(&mut self, index: u64) {
        if index > self.next {
            self.push(Ready::Jump(index), 0);
            self.next = index;
        }
    }

    /// Takes note of whose history it is, with an entry that says so.
    fn belongs(&mut self, cluster: Option<ClusterId>, index: u64) {
        let Some(cluster) = cluster.filter(|cluster| self.cluster != Some(*cluster)) else { return };
        let is_other = self.cluster.replace(cluster).is_some();
        if is_other {
            // Another control plane's history: nothing of it is ours.
            self.ready.clear();
            (self.bytes, self.next, self.given_up) = (0, 0, None);
        }
        self.push(Ready::Cluster(cluster), 0);
        if let Some(begun_at) = self.begun_at.filter(|begun_at| is_other && *begun_at < index) {
            // What came before had nothing to tell, not even whose it is.
            self.push(Ready::Jump(begun_at), 0);
            self.push(Ready::Quiet(Range::new(begun_at, index - 1)), 0);
            self.next = index;
        }
    }

    fn push(&mut self, ready: Ready, bytes: usize) {
        if let Some(range) = self.given_up.take() {
            self.ready.push_back(Ready::GiveUp(range));
        }
        self.bytes += bytes;
        self.ready.push_back(ready);
    }

    /// Takes an entry into memory if there is room, or gives it up. Once one is given up all are that follow, until
    /// everything before it is written.
    fn push_or_give_up(&mut self, ready: Ready, range: Range, bytes: usize) {
        let is_over =
            self.bytes + bytes > self.inner.bounds.waiting_bytes && self.inner.shape().stuck.is_some();
        if let Some(given_up) = &mut self.given_up
            && !self.ready.is_empty()
        {
            given_up.through = range.through;
            return;
        }
        if is_over {
            tracing::error!(
                from = range.from,
                "history gives entries up: the disk takes none, and memory is full"
            );
            self.given_up = Some(range);
            return;
        }
        self.push(ready, bytes);
    }

    /// Writes what is ready, and what else is to be done with files.
    fn work(&mut self, wants_durable: bool) -> Result<(), Error> {
        while !self.ready.is_empty() {
            let end = self.window_end();
            let next = self.inner.shape().next();
            if next > end {
                self.seal()?;
            }
            let Some(front) = self.ready.front() else { break };
            match front {
                Ready::Cluster(cluster) => self.take_cluster(*cluster)?,
                Ready::Jump(next) => self.jump(*next)?,
                Ready::GiveUp(range) => self.give_up(*range)?,
                Ready::Quiet(range) => {
                    let range = *range;
                    let end = self.window_end();
                    self.inner.shape().tail.next = range.through.min(end) + 1;
                    if range.through >= end {
                        self.seal()?;
                    }
                    if range.through > end {
                        self.ready[0] = Ready::Quiet(Range::new(end + 1, range.through));
                        continue;
                    }
                }
                Ready::Entry(_) => {
                    self.write_entries()?;
                    continue;
                }
            }
            self.ready.pop_front();
        }
        if let Some(range) = self.given_up.take() {
            self.ready.push_back(Ready::GiveUp(range));
            return self.work(wants_durable);
        }
        let is_dirty = self.inner.shape().is_dirty();
        if wants_durable || is_dirty {
            self.sync()?;
        }
        self.thin()?;
        self.inner.shape().stuck = None;
        self.tell();
        Ok(())
    }

    fn tell(&self) {
        let next = self.inner.shape().next();
        self.inner.readable.send_if_modified(|old| {
            let is_new = *old != next;
            *old = next;
            is_new
        });
        self.inner.changed.notify_all();
    }

    /// Returns the last index of the window that the tail is in.
    fn window_end(&self) -> u64 {
        // Before the founding there is nobody in whose name a segment could be sealed.
        if self.cluster.is_none() {
            return u64::MAX - 1;
        }
        let window = self.inner.bounds.window.max(1);
        let from = self.inner.shape().tail.from;
        (from / window).saturating_mul(window).saturating_add(window - 1)
    }

    /// Writes as many of the ready entries as belong to the tail, at once.
    fn write_entries(&mut self) -> Result<(), Error> {
        let end = self.window_end();
        let start = self.inner.shape().tail.bytes.max(segment::HEADER);
        let (mut buffer, mut count) = (Vec::new(), 0);
        for ready in &self.ready {
            let Ready::Entry(encoded) = ready else { break };
            if encoded.index > end || buffer.len() >= BATCH {
                break;
            }
            buffer.extend_from_slice(&encoded.frames);
            count += 1;
        }
        self.write_at(start, &buffer)?;
        let mut shape = self.inner.shape();
        for ready in self.ready.drain(..count) {
            if let Ready::Entry(encoded) = ready {
                self.bytes -= encoded.frames.len();
                shape.tail.push(&encoded);
            }
        }
        let is_over = shape.tail.next > end;
        drop(shape);
        self.tell();
        if is_over { self.seal() } else { Ok(()) }
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (from, is_new) = {
            let shape = self.inner.shape();
            (shape.tail.from, shape.tail.bytes == 0)
        };
        let path = files::path(&self.inner.dir, from, Role::Open);
        let cluster = self.cluster.unwrap_or(ClusterId::new([0; 16]));
        let file = self.file(&path)?;
        if is_new {
            file.write_all_at(&segment::header(cluster, from), 0).map_err(Error::io("write", &path))?;
        }
        file.write_all_at(bytes, offset).map_err(Error::io("write", &path))
    }

    /// Returns the tail's file, made if it is not there.
    fn file(&mut self, path: &Path) -> Result<&File, Error> {
        if self.is_doubted {
            self.write_anew(path)?;
            self.is_doubted = false;
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => files::open_or_make(path)?,
        };
        Ok(self.file.insert(file))
    }

    fn sync_file(&mut self, path: &Path) -> Result<(), Error> {
        let done = files::sync(self.file(path)?, path);
        if done.is_err() {
            (self.file, self.is_doubted) = (None, true);
        }
        done
    }

    /// Writes the tail to another file, which takes the place of the one that is in doubt. What of that cannot be read as
    /// it was written is in the log until a snapshot counts, and none does: a restart writes it again.
    fn write_anew(&self, path: &Path) -> Result<(), Error> {
        let (bytes, digest) = {
            let shape = self.inner.shape();
            (shape.tail.bytes, shape.tail.hasher.finalize())
        };
        if bytes == 0 {
            return Ok(());
        }
        let mut content = fs::read(path).map_err(Error::io("read", path))?;
        content.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        let begins = usize::try_from(segment::HEADER).unwrap_or(usize::MAX);
        if content.get(begins..).map(blake3::hash) != Some(digest) {
            return Err(Error::damaged(path, "the disk lost what was written: a restart writes it again"));
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        files::replace(&self.inner.dir, name, &content)
    }

    /// Ends the tail and begins the next one behind it.
    fn seal(&mut self) -> Result<(), Error> {
        let (tail, closed) = {
            let shape = self.inner.shape();
            (shape.tail.clone(), segment::close(&shape.tail))
        };
        let Some((end, sealed)) = closed.filter(|_| self.cluster.is_some()) else { return Ok(()) };
        self.write_at(tail.bytes.max(segment::HEADER), &end)?;
        let (open, path) = (
            files::path(&self.inner.dir, tail.from, Role::Open),
            files::path(&self.inner.dir, tail.from, Role::Sealed),
        );
        self.file(&open)?.set_len(sealed.bytes).map_err(Error::io("cut", &open))?;
        self.sync_file(&open)?;
        fs::rename(&open, &path).map_err(Error::io("rename", &open))?;
        self.file = None;
        let mut shape = self.inner.shape();
        shape.tail = Tail::at(tail.next);
        shape.segments.insert(tail.from, sealed);
        shape.touch();
        drop(shape);
        files::sync_dir(&self.inner.dir)
    }

    /// Goes on at an index behind a hole.
    fn jump(&mut self, next: u64) -> Result<(), Error> {
        self.seal()?;
        let mut shape = self.inner.shape();
        if next > shape.tail.next {
            shape.tail = Tail::at(next);
            // What came as a snapshot is in the log no more: there is nothing left to write again.
            shape.unwritten.retain(|range| range.through >= next);
            shape.touch();
        }
        drop(shape);
        self.inner.look.notify_one();
        Ok(())
    }

    fn give_up(&mut self, range: Range) -> Result<(), Error> {
        self.seal()?;
        let mut shape = self.inner.shape();
        if range.through >= shape.tail.next {
            shape.tail = Tail::at(range.through + 1);
            shape.unwritten.push(range);
            shape.touch();
        }
        drop(shape);
        self.inner.look.notify_one();
        Ok(())
    }

    /// Makes everything that was written durable, then the catalogue.
    fn sync(&mut self) -> Result<(), Error> {
        let tail = {
            let shape = self.inner.shape();
            (shape.tail.from, shape.tail.next, shape.tail.bytes)
        };
        let (from, next, bytes) = tail;
        if bytes > 0 {
            self.sync_file(&files::path(&self.inner.dir, from, Role::Open))?;
            files::sync_dir(&self.inner.dir)?;
        }
        let _surgery = self.inner.surgery();
        let shape = self.inner.shape();
        let (copy, version) = (shape_for_catalogue(&shape), shape.version);
        drop(shape);
        catalogue::write(&self.inner.dir, &copy, Claim { from, next, bytes })?;
        let mut shape = self.inner.shape();
        shape.saved = version;
        shape.tail.durable_next = next;
        Ok(())
    }

    /// Lets whole oldest segments go that are too old, or too many.
    fn thin(&mut self) -> Result<(), Error> {
        let bounds = self.inner.bounds;
        let mut doomed = Vec::new();
        {
            let mut shape = self.inner.shape();
            let newest = shape.segments.values().next_back().map_or(0, |segment| segment.last_ms);
            let newest = shape.tail.last_ms.max(newest);
            while let Some(oldest) = shape.segments.values().next() {
                let is_old = oldest.last_ms.saturating_add(bounds.keep.as_millis()) < newest;
                if !is_old && shape.bytes() <= bounds.keep_bytes {
                    break;
                }
                let range = oldest.range;
                shape.floor = range.through + 1;
                shape.segments.remove(&range.from);
                shape.touch();
                doomed.push(range.from);
            }
        }
        if doomed.is_empty() {
            return Ok(());
        }
        self.inner.shape().forget_healed();
        self.sync()?;
        doomed.iter().try_for_each(|from| files::remove(&files::path(&self.inner.dir, *from, Role::Sealed)))
    }

    /// Takes note of whose history this is. What is here of another control plane is moved out of the way whole.
    fn take_cluster(&mut self, cluster: ClusterId) -> Result<(), Error> {
        let found = self.inner.shape().cluster;
        if let Some(other) = found.filter(|found| *found != cluster) {
            let _surgery = self.inner.surgery();
            (self.file, self.is_doubted) = (None, false);
            let dir = &self.inner.dir;
            let what = format!("all that was here was of another control plane ({other})");
            tracing::error!(%other, "history of another control plane is set aside");
            let aside = dir.join(format!("of-{other}"));
            files::make_dir(&aside)?;
            let entries = fs::read_dir(dir).map_err(Error::io("list", dir))?;
            for entry in entries.filter_map(Result::ok).filter(|entry| entry.path().is_file()) {
                fs::rename(entry.path(), aside.join(entry.file_name()))
                    .map_err(Error::io("set aside", entry.path()))?;
            }
            files::sync_dir(dir)?;
            let mut shape = self.inner.shape();
            let version = shape.version + 1;
            *shape = Shape { cluster: Some(cluster), version, ..Shape::default() };
            shape.damage.push(Damage { range: Range::new(0, u64::MAX), what });
            return Ok(());
        }
        let mut shape = self.inner.shape();
        if shape.cluster.replace(cluster).is_none() {
            shape.touch();
        }
        Ok(())
    }

    fn note_stuck(&self, cause: &Error) {
        let mut shape = self.inner.shape();
        if shape.stuck.is_none() {
            tracing::error!(cause = cause.report(), "history cannot be written; it is tried again");
        }
        shape.stuck = Some(cause.report());
        drop(shape);
        self.inner.changed.notify_all();
    }
}

/// Copies what the catalogue says of a shape.
fn shape_for_catalogue(shape: &Shape) -> Shape {
    Shape {
        cluster: shape.cluster,
        floor: shape.floor,
        segments: shape.segments.clone(),
        unwritten: shape.unwritten.clone(),
        damage: shape.damage.clone(),
        ..Shape::default()
    }
}
