//! A process of such a job, and the handle that a test has on it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use proto::v1::Launch;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::journal::{self, ENDING, Line};
use crate::client::launch;

/// Between two lines that say "still here".
const BEAT: Duration = Duration::from_millis(25);
/// How long ranks look for each other.
const MEETING: Duration = Duration::from_secs(20);
/// What rank 0 says once all came.
const ALL_HERE: &[u8] = b"all are here\n";

/// Returns the boot clock, which all processes of this machine share, in ms.
#[must_use]
pub fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000)
}

/// A job of this kind: its journal, its checkpoint, and a way to end it.
#[derive(Debug)]
pub struct Work {
    stem: PathBuf,
}

impl Work {
    /// Makes one in `folder`; `name` is this one's alone.
    ///
    /// # Errors
    /// When its journal cannot be made.
    pub fn new(folder: &Path, name: &str) -> Result<Self> {
        let work = Self { stem: folder.join(name) };
        fs::write(work.file(ENDING), "").context("failed to make a journal")?;
        Ok(work)
    }

    /// Returns what it is started with. `words` say what it does:
    /// - `save=MS`: saves so often;
    /// - `notice=save` (saves and goes on), `leave` (saves and ends with 0), `end` (ends with 0), `ignore` (only writes
    ///   it down), `deaf` (does not catch the signal); `save` if not said;
    /// - `term=ignore`: writes an end signal down and goes on;
    /// - `ends=A,B,...`: its first attempt ends with code A, the second one with B;
    /// - `meet`: its ranks meet at the address that they are given;
    /// - `child`: leaves a process behind that ignores every signal.
    ///
    /// # Panics
    /// When a path is no text.
    #[must_use]
    pub fn launch(&self, words: &[&str]) -> Launch {
        let us = std::env::current_exe().expect("this program has a path");
        let us = us.to_str().expect("its path is text");
        let stem = self.stem.to_str().expect("a lab's path is text");
        let argv: Vec<&str> = [us, "worker", stem].into_iter().chain(words.iter().copied()).collect();
        launch(&argv)
    }

    /// Returns all that its processes wrote.
    ///
    /// # Panics
    /// When the journal is not as they write it.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        journal::read(&self.file(ENDING)).expect("the journal is ours and stays")
    }

    /// Returns the lines of one kind.
    #[must_use]
    pub fn said(&self, what: &str) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.what == what).collect()
    }

    /// Returns the lines of one kind of an attempt.
    #[must_use]
    pub fn said_by(&self, attempt: u32, what: &str) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.what == what && line.attempt == attempt).collect()
    }

    /// Lets every process of it end with this code, this attempt's and later ones.
    ///
    /// # Panics
    /// When that cannot be written.
    pub fn end(&self, code: u8) {
        self.tell("end", code);
    }

    /// Lets one rank end with this code.
    ///
    /// # Panics
    /// When that cannot be written.
    pub fn end_rank(&self, rank: u32, code: u8) {
        self.tell(&format!("end-{rank}"), code);
    }

    fn tell(&self, word: &str, code: u8) {
        let fresh = self.file(&format!("{word}.new"));
        fs::write(&fresh, code.to_string()).expect("the lab's folder takes files");
        fs::rename(&fresh, self.file(word)).expect("the lab's folder takes files");
    }

    fn file(&self, ending: &str) -> PathBuf {
        let mut name = self.stem.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

/// Is the process of a job: `worker STEM WORDS...`.
///
/// # Errors
/// When it is no job's process, or a file of its own cannot be written.
pub fn run(words: &[String]) -> Result<ExitCode> {
    let (stem, words) = words.split_first().context("worker STEM WORDS...")?;
    let work = Work { stem: stem.into() };
    let me = Me::read(words)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(me.live(&work))?;
    me.write(&work, "end", &code.to_string())?;
    Ok(ExitCode::from(code))
}

struct Me {
    job: u32,
    attempt: u32,
    rank: u32,
    words: Vec<String>,
    is_child: bool,
}

impl Me {
    fn read(words: &[String]) -> Result<Self> {
        let number = |name: &str| -> Result<u32> { variable(name)?.parse().context(name.to_owned()) };
        Ok(Self {
            job: number("BURSAR_JOB_ID")?,
            attempt: number("BURSAR_ATTEMPT")?,
            rank: number("BURSAR_RANK")?,
            words: words.to_vec(),
            is_child: words.iter().any(|word| word == "as-child"),
        })
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn write(&self, work: &Work, what: &str, rest: &str) -> Result<()> {
        let (job, attempt, rank, pid) = (self.job, self.attempt, self.rank, std::process::id());
        let line = format!("{} {job} {attempt} {rank} {pid} {what} {rest}", boot_ms());
        let file = OpenOptions::new().append(true).open(work.file(ENDING));
        let mut file = file.context("failed to open the journal")?;
        file.write_all(format!("{}\n", line.trim_end()).as_bytes()).context("failed to write the journal")
    }

    async fn live(&self, work: &Work) -> Result<u8> {
        let listens = self.is_child || self.value("notice") != Some("deaf");
        let mut notice = listens.then(|| signal(SignalKind::user_defined1())).transpose()?;
        let ignores = self.is_child || self.value("term") == Some("ignore");
        let mut term = ignores.then(|| signal(SignalKind::terminate())).transpose()?;
        let mut step = self.resume(work);
        let gpus = variable("CUDA_VISIBLE_DEVICES")?;
        self.write(work, "start", &format!("gpus={gpus} step={step}"))?;
        if !self.is_child {
            self.begin(work).await?;
        }
        let (every, mut saved) = (self.value("save").and_then(|ms| ms.parse().ok()), Instant::now());
        loop {
            tokio::select! {
                () = heard(&mut notice) => {
                    self.write(work, "notice", "")?;
                    if let Some(code) = self.take_notice(work, &mut step)? {
                        return Ok(code);
                    }
                }
                () = heard(&mut term) => self.write(work, "term", "")?,
                () = tokio::time::sleep(BEAT) => self.write(work, "beat", "")?,
            }
            if self.is_child {
                continue;
            }
            if every.is_some_and(|ms| saved.elapsed() >= Duration::from_millis(ms)) {
                saved = Instant::now();
                self.save(work, &mut step)?;
            }
            if let Some(code) = self.told(work) {
                return Ok(code);
            }
        }
    }

    /// Does what comes before the work.
    async fn begin(&self, work: &Work) -> Result<()> {
        if self.has("meet") {
            self.meet(work).await?;
        }
        if self.has("child") {
            let mut child = Command::new(std::env::current_exe().context("this program has no path")?);
            child.arg("worker").arg(&work.stem).arg("as-child");
            child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = child.spawn().context("failed to start a child")?;
            self.write(work, "child", &child.id().to_string())?;
        }
        Ok(())
    }

    fn take_notice(&self, work: &Work, step: &mut u64) -> Result<Option<u8>> {
        if self.is_child {
            return Ok(None);
        }
        match self.value("notice").unwrap_or("save") {
            "save" => self.save(work, step).map(|()| None),
            "leave" => self.save(work, step).map(|()| Some(0)),
            "end" => Ok(Some(0)),
            "ignore" => Ok(None),
            other => bail!("notice={other}?"),
        }
    }

    /// Returns the code to end with now, if there is one.
    fn told(&self, work: &Work) -> Option<u8> {
        let place = usize::try_from(self.attempt).ok()?.checked_sub(1)?;
        let planned = self.value("ends").and_then(|codes| codes.split(',').nth(place)?.parse().ok());
        let files = ["end".to_owned(), format!("end-{}", self.rank)];
        let said = || files.iter().find_map(|file| fs::read_to_string(work.file(file)).ok()?.parse().ok());
        planned.or_else(said)
    }

    fn resume(&self, work: &Work) -> u64 {
        let text = fs::read_to_string(work.file(&format!("saved-{}", self.rank))).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    /// Saves: first the checkpoint, where every node sees it, then the word that there is one.
    fn save(&self, work: &Work, step: &mut u64) -> Result<()> {
        *step += 1;
        replace(&work.file(&format!("saved-{}", self.rank)), &step.to_string())?;
        replace(Path::new(&variable("BURSAR_CHECKPOINT_FILE")?), &format!("{{\"step\": {step}}}\n"))?;
        self.write(work, "saved", &format!("step={step}"))
    }

    /// Ranks find each other as `torchrun` has them: all come to rank 0, and each hears of all.
    async fn meet(&self, work: &Work) -> Result<()> {
        let host = variable("MASTER_ADDR")?;
        let port: u16 = variable("MASTER_PORT")?.parse().context("MASTER_PORT")?;
        let world: usize = variable("NNODES")?.parse().context("NNODES")?;
        ensure!(variable("NODE_RANK")?.parse() == Ok(self.rank), "NODE_RANK is not ours");
        let others = world.checked_sub(1).context("a world of nobody")?;
        let at = format!("{host}:{port}");
        if self.rank == 0 {
            let door = TcpListener::bind(&at).await.with_context(|| format!("failed to listen at {at}"))?;
            let mut came = Vec::new();
            for _ in 0..others {
                came.push(door.accept().await.context("failed to wait for the others")?.0);
            }
            for mut stream in came {
                stream.write_all(ALL_HERE).await.context("failed to tell a rank")?;
            }
        } else {
            let begun = Instant::now();
            let mut stream = loop {
                match TcpStream::connect(&at).await {
                    Ok(stream) => break stream,
                    Err(error) if begun.elapsed() > MEETING => bail!("rank 0 is not there: {error}"),
                    Err(_) => tokio::time::sleep(BEAT).await,
                }
            };
            let mut told = Vec::new();
            stream.read_to_end(&mut told).await.context("failed to listen to rank 0")?;
            ensure!(told == ALL_HERE, "rank 0 said {told:?}");
        }
        self.write(work, "met", &format!("at={at} world={world}"))
    }
}

async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set"))
}

/// Writes a file whole: readers see the old one or the new one.
fn replace(file: &Path, text: &str) -> Result<()> {
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    fs::write(&fresh, text).with_context(|| format!("failed to write {}", fresh.display()))?;
    fs::rename(&fresh, file).with_context(|| format!("failed to write {}", file.display()))
}
