//! One development cluster at a time writes the context `dev`: a lock file beside the contexts says which.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::place::Place;
use crate::codes;
use crate::config;
use crate::failure::Failure;

/// How often, and after which pauses, a lock that is held is tried.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// The lock; given back when it is dropped, or its process ends in any way.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// When another development cluster has it; the failure names its folder.
    pub fn take() -> Result<Self, Failure> {
        let mut file = open()?;
        // Whoever only asks whether one runs holds the lock for a moment.
        for _ in 0..TRIES {
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(Self(file));
            }
            std::thread::sleep(PAUSE);
        }
        let folder = read(&mut file);
        Err(Failure::new(codes::DEV_RUNS, "a development cluster runs already")
            .why(format!("its folder is {}", folder.display()))
            .fix("use it (context dev), or end it: Ctrl-C where it runs, or `bursar dev stop`"))
    }

    /// Returns the folder of the one that had it last, which may have ended without a word.
    pub fn last(&mut self) -> PathBuf {
        read(&mut self.0)
    }

    /// Says whose it is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn name(&mut self, place: &Place) -> Result<(), Failure> {
        let text = place.folder().display().to_string();
        let written =
            self.0.set_len(0).and_then(|()| self.0.rewind()).and_then(|()| self.0.write_all(text.as_bytes()));
        written.map_err(|error| fault(&error))
    }
}

/// Returns the folder of the development cluster that runs.
///
/// # Errors
/// When none runs.
pub fn running() -> Result<Place, Failure> {
    let mut file = open()?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Err(Failure::new(codes::DEV_NOT, "no development cluster runs").fix("bursar dev"));
    }
    Ok(Place::at(read(&mut file)))
}

fn open() -> Result<File, Failure> {
    let folder = config::folder();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| fault(&error))?;
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(folder.join("dev.lock")).map_err(|error| fault(&error))
}

fn read(file: &mut File) -> PathBuf {
    let mut text = String::new();
    // An unreadable name is an empty one: the lock itself is what counts.
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text).map(|_| ()));
    PathBuf::from(text.trim())
}

fn fault(error: &std::io::Error) -> Failure {
    let file = config::folder().join("dev.lock");
    Failure::new(codes::FILE, format!("cannot use {}", file.display())).why(error.to_string())
}
