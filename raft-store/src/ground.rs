//! What the same tests stand on: sled in a directory, and memory on a modelled disk.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use crate::disk::InPlace;
use crate::engine::disk_model::{Disk, Keep};
use crate::engine::memory::MemoryEngine;
use crate::engine::{Engine, SledEngine};
use crate::log::{LogStore, Mark, MarkFile, OpenError};
use crate::room::Gauge;
use crate::snapshot::SnapshotStore;
use crate::stores::Stores;

/// Small enough that eviction happens all the time.
pub(crate) const SMALL_TAIL: usize = 200;
const RATE: u64 = 1 << 30;

/// Where a replica's stores can be opened, crash, and be opened again.
pub(crate) trait Ground: Sized {
    /// Empty ground.
    fn new() -> Self;

    /// Opens what is there.
    fn open(&self) -> Result<Stores, OpenError>;

    /// Opens the log alone.
    fn open_log(&self) -> Result<LogStore, OpenError>;

    /// Opens the engine under the log.
    fn log_engine(&self) -> Arc<dyn Engine>;

    /// Removes the engine's files under the log.
    fn forget_log(&self);

    /// Returns what a crash leaves now; the seed decides where there is a choice.
    fn crashed(&self, seed: u64) -> Self;

    /// Returns what an opening that must find damage says.
    fn damage(&self) -> String {
        match self.open() {
            Err(OpenError::Damaged(what)) => what,
            Err(OpenError::Io { cause, .. }) => panic!("damage is not a fault of the file system: {cause}"),
            Ok(_) => panic!("the damage went unnoticed"),
        }
    }
}

/// Memory on a modelled disk: files `log`, `snap` and `mark`.
pub(crate) struct Modelled {
    pub(crate) disk: Disk,
}

impl Modelled {
    pub(crate) fn mark(&self) -> std::io::Result<(MarkFile, Mark)> {
        let file: Box<dyn InPlace> = Box::new(self.disk.file("mark"));
        if self.disk.length("mark") == 0 {
            return MarkFile::make(file).map(|fresh| (fresh, Mark::default()));
        }
        MarkFile::read(file)
    }
}

impl Ground for Modelled {
    fn new() -> Self {
        Self { disk: Disk::default() }
    }

    fn open_log(&self) -> Result<LogStore, OpenError> {
        let failed = |cause| OpenError::Io { doing: "open an engine", cause };
        let log = MemoryEngine::open(self.disk.file("log")).map_err(failed)?;
        LogStore::on(Arc::new(log), self.mark(), SMALL_TAIL, Arc::default())
    }

    fn log_engine(&self) -> Arc<dyn Engine> {
        Arc::new(MemoryEngine::open(self.disk.file("log")).expect("the modelled disk reads"))
    }

    fn forget_log(&self) {
        self.disk.file("log").shorten(0);
    }

    fn open(&self) -> Result<Stores, OpenError> {
        let failed = |cause| OpenError::Io { doing: "open an engine", cause };
        let gauge = Arc::<Gauge>::default();
        let log = MemoryEngine::open(self.disk.file("log")).map_err(failed)?;
        let log = LogStore::on(Arc::new(log), self.mark(), SMALL_TAIL, Arc::clone(&gauge))?;
        let snap = MemoryEngine::open(self.disk.file("snap")).map_err(failed)?;
        let snapshots = SnapshotStore::on(Arc::new(snap), RATE, Arc::clone(&gauge));
        Stores::together(log, snapshots, gauge)
    }

    fn crashed(&self, seed: u64) -> Self {
        let keep = match seed % 4 {
            0 => Keep::Nothing,
            1 => Keep::All,
            _ => Keep::Some(seed),
        };
        Self { disk: self.disk.cut(keep) }
    }
}

/// sled in a directory. A crash is what a killed process leaves: all that was written.
pub(crate) struct Real {
    pub(crate) dir: TempDir,
}

impl Ground for Real {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn open(&self) -> Result<Stores, OpenError> {
        Stores::open(self.dir.path(), RATE)
    }

    fn open_log(&self) -> Result<LogStore, OpenError> {
        let engine = SledEngine::open(&self.dir.path().join("log"), 1 << 20)?;
        LogStore::on(
            Arc::new(engine),
            MarkFile::open(&self.dir.path().join("mark")),
            SMALL_TAIL,
            Arc::default(),
        )
    }

    fn log_engine(&self) -> Arc<dyn Engine> {
        let engine = SledEngine::open(&self.dir.path().join("log"), 1 << 20);
        Arc::new(engine.unwrap_or_else(|error| panic!("{error:?}")))
    }

    fn forget_log(&self) {
        fs::remove_dir_all(self.dir.path().join("log")).expect("it was there");
    }

    fn crashed(&self, _: u64) -> Self {
        let after = Self::new();
        copy(self.dir.path(), after.dir.path());
        after
    }
}

/// Copies a directory with everything in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for file in fs::read_dir(from).expect("a directory") {
        let file = file.expect("an entry");
        let target = to.join(file.file_name());
        if file.file_type().expect("a type").is_dir() {
            copy(&file.path(), &target);
        } else if file.file_name() != "reserve" {
            fs::copy(file.path(), target).expect("a copy");
        }
    }
}

/// Says that this machine cannot run a test, past the harness, which swallows what a passing test prints.
pub(crate) fn not_available(what: &str) {
    use std::io::Write as _;
    // Nobody is left to tell when standard error itself is gone.
    let _ = writeln!(std::io::stderr(), "not available: {what}");
}
