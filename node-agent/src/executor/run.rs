//! The executor: all ranks of this node.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use scheduler_core::agent::RankId;
use scheduler_core::id::GpuUuid;
use shim::files::{self, Readers};
use shim::format::{self, Exit};
use shim::{procs, sys};

use super::adopt;
use super::attempt::Attempt;
use super::config::{Config, Error, failed};
use super::groups;
use super::launch::{self, LaunchError, Order, make_directory};
use super::logs::{self, LogError, LogPart, Stream};
use super::shims;

/// How long an inherited child may be a zombie before it is reaped here: its own waiter goes first.
const ZOMBIE_PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks for inherited zombies.
const REAP_PAUSE: Duration = Duration::from_millis(500);
/// Pause between two looks for ended attempts that are kept no longer: each looks at all that are kept.
const COLLECT_PAUSE: Duration = Duration::from_secs(10);

/// What happened to a rank. Times are ms of the boot clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// Its program runs.
    Started {
        /// Since when.
        boot_ms: u64,
    },
    /// It said something of its progress.
    Saved {
        /// When its newest checkpoint was heard of.
        saved_ms: Option<u64>,
        /// When its first sign of progress was.
        signed_ms: Option<u64>,
    },
    /// Its main process ended, or its launch failed.
    Exited(Box<Exit>),
    /// It can't be ended.
    Unkillable {
        /// Which processes of it, and what they hang in.
        what: String,
    },
    /// No process of it is left.
    Gone,
}

/// A committed stop of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopOrder {
    /// Generation of the order.
    pub generation: u32,
    /// Why, for the job.
    pub reason: String,
    /// From the notice, or else from TERM, to KILL, in ms; 0 ends at once.
    pub grace_ms: u64,
    /// Whether the job is told first and asked to save.
    pub has_notice: bool,
}

impl StopOrder {
    /// The kind of a stop with notice in the attempt's files.
    pub const NOTICE: &str = "notice";
    /// The kind of any other stop.
    pub const STOP: &str = "stop";
    /// The longest time from TERM to KILL after a notice, in ms.
    const LEAD_MAX_MS: u64 = 10_000;

    /// As the shim reads it.
    pub(super) fn encoded(&self, signal: i32) -> format::Stop {
        let lead_ms =
            if self.has_notice { (self.grace_ms / 3).min(Self::LEAD_MAX_MS) } else { self.grace_ms };
        format::Stop {
            generation: u64::from(self.generation),
            kind: if self.has_notice { Self::NOTICE } else { Self::STOP }.to_owned(),
            reason: self.reason.clone(),
            notice: self.has_notice,
            signal,
            term_after_ms: self.grace_ms - lead_ms,
            kill_after_ms: self.grace_ms,
        }
    }
}

/// A rank found at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub id: RankId,
    /// Its GPUs, from its spec.
    pub gpus: Vec<GpuUuid>,
}

/// All ranks of this node, and the directories they live in. One at a time works in a data directory.
pub struct Executor {
    config: Config,
    copy: PathBuf,
    /// Where attempts get their cgroups; none on a machine that has none to give.
    groups: Option<PathBuf>,
    instance: String,
    boot: String,
    attempts: BTreeMap<RankId, Attempt>,
    zombies: BTreeMap<i32, Instant>,
    next_reap: Instant,
    next_collect: Instant,
    _lock: File,
}

impl Executor {
    /// Opens the data directory and adopts what is there. Everything found is then told by [`Executor::look`] like news.
    ///
    /// # Errors
    ///
    /// Another agent has the directory, or something in it can't be made, read or written.
    pub fn open(config: Config) -> Result<Self, Error> {
        make_directory(&config.data, 0o711).map_err(failed("make the data directory", &config.data))?;
        let lock = take_lock(&config)?;
        let attempts = config.attempts();
        make_directory(&attempts, 0o711).map_err(failed("make", &attempts))?;
        let secrets = config.secrets();
        make_directory(&secrets, 0o700).map_err(failed("make", &secrets))?;
        let copy = shims::keep(&config)?;
        let instance = instance(&config)?;
        let boot = procs::boot_id().map_err(Error::Proc)?;
        // What a dying shim leaves behind comes to the agent, which can then tell how it ended.
        let _ = sys::become_subreaper();
        let (attempts, zombies) = (BTreeMap::new(), BTreeMap::new());
        let groups = config.uses_cgroups.then(groups::find).flatten();
        let now = Instant::now();
        let mut executor = Self {
            config,
            copy,
            groups,
            instance,
            boot,
            attempts,
            zombies,
            next_reap: now,
            next_collect: now,
            _lock: lock,
        };
        for id in adopt::list(&executor.config)? {
            let directory = executor.config.attempt(id);
            adopt::settle_reboot(&directory, &executor.boot);
            if adopt::settle_unlaunched(&directory) {
                continue;
            }
            executor.attempts.insert(id, Attempt::open(directory, &executor.boot));
        }
        Ok(executor)
    }

    /// Boot id of this machine.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// Whether attempts that are launched from now on have cgroups of their own, and not only their process tree.
    pub fn has_cgroups(&self) -> bool {
        self.groups.is_some()
    }

    /// All ranks that are not acknowledged.
    pub fn ranks(&self) -> Vec<Found> {
        let gpus = |attempt: &Attempt| {
            attempt.spec.iter().flat_map(|spec| &spec.gpus).filter_map(|gpu| GpuUuid::new(gpu)).collect()
        };
        self.attempts.iter().map(|(id, attempt)| Found { id: *id, gpus: gpus(attempt) }).collect()
    }

    /// Processes of this agent's that no directory accounts for. They are reported, never touched.
    ///
    /// # Errors
    ///
    /// `/proc` can't be read.
    pub fn strays(&self) -> Result<Vec<(RankId, i32)>, Error> {
        let mut known: Vec<RankId> = self.attempts.keys().copied().collect();
        let names = std::fs::read_dir(self.config.attempts()).map(Iterator::flatten).into_iter().flatten();
        known.extend(names.filter_map(|entry| adopt::parse(entry.file_name().to_str()?)));
        adopt::strays(&self.instance, &known)
    }

    /// Ranks whose spec this agent can't read: of a newer version, or damaged. What can't be understood is left alone, and its
    /// GPUs are never said to be free.
    pub fn unreadable(&self) -> Vec<RankId> {
        self.attempts.iter().filter(|(_, attempt)| attempt.spec.is_none()).map(|(id, _)| *id).collect()
    }

    /// Launches a rank. A rank that is already known is not launched again.
    ///
    /// # Errors
    ///
    /// It was not launched, and will not be; whose fault that is. What is found out later (no such program) comes as an exit.
    pub fn launch(&mut self, order: &Order<'_>) -> Result<(), LaunchError> {
        let id = order.id();
        let directory = self.config.attempt(id);
        if self.attempts.contains_key(&id) || directory.join(format::EXIT).exists() {
            return Ok(());
        }
        let group = groups::make(self.groups.as_deref(), &self.instance, id);
        let launcher = launch::Launcher { config: &self.config, copy: &self.copy, instance: &self.instance };
        if let Err(error) = launcher.launch(order, group.as_deref()) {
            group.iter().for_each(|group| shim::cgroup::remove(group));
            return Err(error);
        }
        self.attempts.insert(id, Attempt::open(directory, &self.boot));
        Ok(())
    }

    /// Hands on a committed stop. Doing it twice is doing it once.
    ///
    /// # Errors
    ///
    /// It can't be written; to be tried again.
    pub fn stop(&self, id: RankId, stop: &StopOrder) -> Result<(), Error> {
        let Some(attempt) = self.attempts.get(&id) else { return Ok(()) };
        attempt.stop(stop).map_err(failed("write the stop in", &attempt.directory))
    }

    /// Looks for what happened since the last look. Cheap: a few small files a rank.
    pub fn look(&mut self) -> Vec<(RankId, Happening)> {
        self.reap();
        let copy = &self.copy;
        let attempts = self.attempts.iter_mut();
        attempts.flat_map(|(id, attempt)| attempt.look(copy).into_iter().map(|what| (*id, what))).collect()
    }

    /// Forgets a rank whose end and emptiness are committed. Its logs stay for a while.
    ///
    /// # Errors
    ///
    /// It can't be marked; to be tried again.
    pub fn forget(&mut self, id: RankId) -> Result<(), Error> {
        let directory = self.config.attempt(id);
        if directory.exists() {
            let content = format::Writer::new().finish();
            // A loss of power may take it: then the end is told once more, which changes nothing.
            files::replace_unsynced(&directory, format::ACK, &content, Readers::Owner)
                .map_err(failed("mark as acknowledged", &directory))?;
        }
        self.attempts.remove(&id);
        if self.next_collect <= Instant::now() {
            self.collect();
            self.next_collect = Instant::now() + COLLECT_PAUSE;
        }
        Ok(())
    }

    /// Reads a part of a rank's log, as the job's account.
    ///
    /// # Errors
    ///
    /// There is nothing to read, or it can't be read as that account.
    pub fn log(&self, id: RankId, stream: Stream, offset: u64, length: u64) -> Result<LogPart, LogError> {
        logs::read(&self.copy, &self.config.attempt(id), stream, offset, length)
    }

    /// Makes what reads logs without the executor, so that a slow file system holds nothing up.
    pub fn log_reader(
        &self,
    ) -> impl Fn(RankId, Stream, u64, u64) -> Result<LogPart, LogError> + Send + Sync + use<> {
        let (copy, config) = (self.copy.clone(), self.config.clone());
        move |id, stream, offset, length| logs::read(&copy, &config.attempt(id), stream, offset, length)
    }

    /// Whose fault a failed launch is, in words.
    pub fn explain(&self, id: RankId, failure: format::LaunchFailure) -> LaunchError {
        launch::explain(failure, self.attempts.get(&id).and_then(|attempt| attempt.spec.as_ref()))
    }

    /// Removes acknowledged directories that are old or too many.
    fn collect(&self) {
        let Ok(entries) = std::fs::read_dir(self.config.attempts()) else { return };
        let now = crate::clock::wall();
        let mut acknowledged: Vec<(Duration, PathBuf)> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_str().and_then(adopt::parse).is_some())
            .filter_map(|entry| {
                let since = std::fs::metadata(entry.path().join(format::ACK)).ok()?.modified().ok()?;
                Some((now.duration_since(since).unwrap_or(Duration::ZERO), entry.path()))
            })
            .collect();
        acknowledged.sort_unstable();
        for (place, (age, directory)) in acknowledged.iter().enumerate() {
            if *age > self.config.keep_ended || place >= self.config.keep_ended_max {
                let _ = std::fs::remove_dir_all(directory);
            }
        }
    }

    /// Reaps what was left to this process by dead shims.
    fn reap(&mut self) {
        let Ok(me) = i32::try_from(std::process::id()) else { return };
        if !sys::has_ended_child() {
            self.zombies.clear();
            return;
        }
        let now = Instant::now();
        // Finding them takes a look at every process of the machine, and none of them is in a hurry.
        if now < self.next_reap {
            return;
        }
        self.next_reap = now + REAP_PAUSE;
        let Ok(all) = procs::all() else { return };
        let zombies: Vec<i32> =
            all.iter().filter(|child| child.parent == me && child.ended).map(|child| child.id.pid).collect();
        self.zombies.retain(|pid, _| zombies.contains(pid));
        for pid in zombies {
            let since = *self.zombies.entry(pid).or_insert(now);
            if now.duration_since(since) > ZOMBIE_PATIENCE {
                sys::reap_pid(pid);
            }
        }
    }
}

/// Makes 16 random hexadecimal digits.
pub(super) fn random_hex() -> Result<String, getrandom::Error> {
    Ok(format!("{:016x}", getrandom::u64()?))
}

/// How long a starting agent waits for its predecessor to be really gone: a child that one forked as it died holds the
/// lock too, until it has become the other program.
const PATIENCE: Duration = Duration::from_secs(2);

fn take_lock(config: &Config) -> Result<File, Error> {
    let path = config.data.join("agent.lock");
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(&path).map_err(failed("open", &path))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match sys::lock(file.as_raw_fd()) {
            Ok(()) => return Ok(file),
            Err(cause) if cause.kind() != std::io::ErrorKind::WouldBlock => {
                return Err(failed("lock", &path)(cause));
            }
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return Err(Error::InUse(config.data.clone())),
        }
    }
}

/// Reads this data directory's own random name, made at its first use.
fn instance(config: &Config) -> Result<String, Error> {
    const NAME: &str = "instance";
    let path = config.data.join(NAME);
    if let Some(bytes) = files::read(&config.data, NAME).map_err(failed("read", &path))?
        && let Ok(text) = String::from_utf8(bytes)
        && !text.trim().is_empty()
    {
        return Ok(text.trim().to_owned());
    }
    let name = random_hex().map_err(|error| failed("name", &path)(std::io::Error::other(error)))?;
    files::replace(&config.data, NAME, name.as_bytes(), Readers::Owner).map_err(failed("write", &path))?;
    Ok(name)
}
