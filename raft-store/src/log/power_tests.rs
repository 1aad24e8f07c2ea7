//! Real power cuts under a log: ext4 on a loop file, taken down without its journal being written, right after
//! acknowledgements. Needs root; says so where it cannot run.
//!
//! `RAFT_STORE_CUTS=50 cargo test -p raft-store --lib -- power_tests --nocapture` cuts more often.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::ioctl::{Setter, ioctl, opcode};

use super::tests::{all, entries, wait};
use super::*;
use crate::engine::Change;
use crate::ground::{SMALL_TAIL, not_available};

pub(crate) const DIR: &str = "RAFT_STORE_POWER_DIR";
/// Makes the child acknowledge without a barrier.
const BARE: &str = "RAFT_STORE_POWER_BARE";
pub(crate) const CUTS: &str = "RAFT_STORE_CUTS";

/// A file system of our own, in a file; unmounted with the value.
pub(crate) struct Image {
    pub(crate) at: PathBuf,
}

impl Image {
    pub(crate) fn make(file: &Path, size: &str) -> Result<(), String> {
        run(Command::new("truncate").args(["-s", size]).arg(file))?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(file))
    }

    pub(crate) fn mount(file: &Path, at: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(at).map_err(|cause| cause.to_string())?;
        run(Command::new("mount").args(["-o", "loop"]).arg(file).arg(at))?;
        Ok(Self { at: at.to_owned() })
    }

    /// Takes the file system down as a power cut does: nothing more reaches the file.
    pub(crate) fn cut_power(&self) -> Result<(), String> {
        /// Do not write the journal out.
        const NO_LOG_FLUSH: u32 = 2;
        let dir = File::open(&self.at).map_err(|cause| cause.to_string())?;
        // SAFETY: EXT4_IOC_SHUTDOWN (and XFS's GOINGDOWN) reads one u32, which the setter passes by pointer.
        let down = unsafe {
            ioctl(dir.as_fd(), Setter::<{ opcode::read::<u32>(b'X', 125) }, u32>::new(NO_LOG_FLUSH))
        };
        down.map_err(|cause| format!("the shutdown call of ext4: {cause}"))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // A process that another test starts holds everything that is open here for the moment until it is another
        // program.
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(why) = run(Command::new("umount").arg(&self.at)) {
            if Instant::now() > deadline {
                return eprintln!("failed to unmount {}: {why}", self.at.display());
            }
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let Output { status, stderr, .. } = command.output().map_err(|cause| cause.to_string())?;
    if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&stderr).trim().to_owned()) }
}

/// sled as it comes: `flush` and no barrier.
struct Bare(SledEngine);

impl Engine for Bare {
    fn write(&self, changes: Vec<Change>) -> io::Result<()> {
        self.0.write(changes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.flush_alone()
    }

    fn room(&self) -> io::Result<u64> {
        self.0.room()
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.0.get(key)
    }

    fn floor(&self, key: &[u8]) -> io::Result<Option<crate::engine::Pair>> {
        self.0.floor(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> io::Result<Vec<crate::engine::Pair>> {
        self.0.scan(from, to, limit)
    }
}

fn open(dir: &Path, is_bare: bool) -> Result<LogStore, OpenError> {
    // Only ever set in a child, which is a process of its own.
    crate::engine::LETS_PASS.store(is_bare, std::sync::atomic::Ordering::Relaxed);
    let sled = SledEngine::open(&dir.join("log"), 1 << 20)?;
    let engine: Arc<dyn Engine> = if is_bare { Arc::new(Bare(sled)) } else { Arc::new(sled) };
    LogStore::on(engine, MarkFile::open(&dir.join("mark")), SMALL_TAIL, Arc::default())
}

/// Not a test of its own: the child of the tests below, which appends until it is ended.
#[test]
fn child_appends() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let log = open(Path::new(&dir), std::env::var_os(BARE).is_some());
    let log = log.unwrap_or_else(|error| panic!("it opens: {error:?}"));
    let from = log.state().last.map_or(0, |last| last.index + 1);
    for index in from.. {
        let (told, durable) = channel();
        let length = usize::try_from(index % 11 * 700).expect("small");
        log.append(entries(1, index..index + 1, length), Box::new(move || told.send(()).expect("it waits")))
            .expect("it follows");
        durable.recv().expect("the writer answers");
        println!("acknowledged {index}");
        if index % 5 == 4 {
            let vote = Vote { term: index, voted_for: 1, committed: false };
            log.save_vote(vote).expect("the writer runs").blocking_recv().expect("the writer answers");
            println!("voted {index}");
        }
    }
}

fn child(dir: &Path, is_bare: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["log::power_tests::child_appends", "--exact", "--nocapture"]).env(DIR, dir);
    if is_bare {
        command.env(BARE, "1");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the child starts")
}

/// What a child had acknowledged: the last index and the last term that it voted in.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Told {
    index: Option<u64>,
    voted: Option<u64>,
}

impl Told {
    fn read(&mut self, line: &str) {
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        self.index = number(line.strip_prefix("acknowledged ")).or(self.index);
        self.voted = number(line.strip_prefix("voted ")).or(self.voted);
    }
}

/// Lets a child acknowledge `more`, cuts the power, and returns what it had acknowledged.
fn cut_after(image: &Image, is_bare: bool, more: u64) -> Result<Told, String> {
    let mut child = child(&image.at.join("data"), is_bare);
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let mut told = Told::default();
    let mut seen = 0;
    while seen < more {
        let Some(line) = lines.next() else { break };
        told.read(&line);
        seen += u64::from(line.starts_with("acknowledged"));
    }
    let cut = image.cut_power();
    // What it said before its disk was gone counts; its own end may come first.
    let _ = child.kill();
    child.wait().map_err(|cause| cause.to_string())?;
    // It cannot have been acknowledged by a disk that was there, unless before the cut.
    if seen < more {
        return Err("the child ended by itself".into());
    }
    cut.map(|()| told)
}

/// Cuts the power `cuts` times; returns how often something acknowledged was gone, or why this cannot run here.
fn lost_after(cuts: u64, is_bare: bool) -> Result<u64, String> {
    let dir = tempfile::tempdir().map_err(|cause| cause.to_string())?;
    let (file, at) = (dir.path().join("disk"), dir.path().join("at"));
    Image::make(&file, "96M")?;
    let (mut lost, mut told) = (0, Told::default());
    for cut in 0..cuts {
        if is_bare {
            Image::make(&file, "96M")?;
        }
        let image = Image::mount(&file, &at)?;
        told = cut_after(&image, is_bare, 10 + cut * 37 % 50)?;
        drop(image);
        let image = Image::mount(&file, &at)?;
        let intact = open(&image.at.join("data"), false).is_ok_and(|log| {
            let last = log.state().last.map(|last| last.index);
            let is_whole = all(&log).iter().zip(0..).all(|(entry, index)| entry.at.index == index);
            is_whole && last >= told.index && log.vote().map(|vote| vote.term) >= told.voted
        });
        if !intact {
            lost += 1;
        }
        drop(image);
    }
    assert!(told.index.is_some(), "a child that acknowledges nothing shows nothing");
    Ok(lost)
}

#[test]
fn no_power_cut_takes_what_was_acknowledged() {
    let cuts = std::env::var(CUTS).ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    match lost_after(cuts, false) {
        Ok(lost) => assert_eq!(lost, 0, "of {cuts} power cuts"),
        Err(why) => not_available(&format!("power cuts: {why}")),
    }
}

#[test]
fn without_the_barrier_a_power_cut_takes_what_was_acknowledged() {
    match lost_after(3, true) {
        Ok(lost) => assert!(lost > 0, "power cuts that lose nothing without a barrier prove nothing with it"),
        Err(why) => not_available(&format!("power cuts: {why}")),
    }
}

/// A disk that promised more than it has: an image in a smaller file system. Its first failed sync ends the child.
#[test]
fn a_disk_that_cannot_write_back_stops_the_replica_once_and_for_all() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let small = dir.path().join("small");
    std::fs::create_dir(&small).expect("a directory");
    let mounted = run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=8M", "tmpfs"]).arg(&small))
        .map(|()| Image { at: small.clone() });
    let image = mounted.and_then(|below| {
        Image::make(&small.join("disk"), "64M")?;
        Ok((Image::mount(&small.join("disk"), &dir.path().join("at"))?, below))
    });
    let (image, below) = match image {
        Ok(both) => both,
        Err(why) => return not_available(&format!("a disk that cannot write back: {why}")),
    };
    let child = child(&image.at.join("data"), false);
    let output = child.wait_with_output().expect("it has ended by itself");
    assert!(!output.status.success());
    let mut told = Told::default();
    String::from_utf8_lossy(&output.stdout).lines().for_each(|line| told.read(line));
    assert!(told.index.is_some_and(|index| index > 20), "{told:?}");
    drop(image);
    drop(below);
}

/// A disk whose end is gone: reads fail, and that is not called damage, nor is anything made up.
#[test]
fn a_disk_that_cannot_be_read_opens_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, at) = (dir.path().join("disk"), dir.path().join("at"));
    let image = Image::make(&file, "32M").and_then(|()| Image::mount(&file, &at));
    let image = match image {
        Ok(image) => image,
        Err(why) => return not_available(&format!("a disk that cannot be read: {why}")),
    };
    let data = image.at.join("data");
    let log = open(&data, false).unwrap_or_else(|error| panic!("{error:?}"));
    for index in 0..200 {
        log.append(entries(1, index..index + 1, 20_000), Box::new(|| ())).expect("it follows");
    }
    wait(&log);
    drop(log);
    drop(image);
    let image = Image::mount(&file, &at).expect("it was mounted before");
    // Half of the device goes while it is mounted.
    let shrunk = File::options().write(true).open(&file).and_then(|file| file.set_len(1 << 20));
    shrunk.expect("the file is ours");
    match open(&data, false) {
        Err(OpenError::Io { .. } | OpenError::Damaged(_)) => {}
        Ok(log) => assert_eq!(all(&log).len(), 200, "nothing is made up"),
    }
    drop(image);
}
