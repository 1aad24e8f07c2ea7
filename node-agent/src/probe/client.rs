//! The agent's side: starts the probe, asks it, and starts it again when it is silent or gone.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::line::{Answer, Line, Question, Xid};

/// The longest pause between two starts of the probe.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The shortest.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Probes that can't be ended (stuck in the driver) before no further one is started.
const STUCK_MAX: usize = 2;
/// How long an ended probe may take to be gone.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// How much longer than a GPU's deadline the agent waits for the probe as a whole.
const SLACK: Duration = Duration::from_millis(500);

/// How the probe is started: a program, its arguments, and variables to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Added to the agent's own environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// Why nothing is known of the GPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The probe can't be started now.
    #[error("the GPU probe does not run: {0}")]
    NotRunning(String),
    /// The probe gave no answer in time.
    #[error("the GPU probe has not answered for {0} ms")]
    Silent(u128),
    /// NVML doesn't work on this node.
    #[error("{0}")]
    Broken(String),
}

struct Running {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Line>,
}

/// The agent's end of the probe. Asking blocks up to the deadline, so it is done on a thread of its own.
pub struct Client {
    command: Command,
    deadline: Duration,
    running: Option<Running>,
    next_start: Instant,
    pause: Duration,
    stuck: Vec<Child>,
    next_n: u64,
    xids: Sender<Xid>,
}

impl Client {
    /// Makes a client; the probe starts with the first question. `deadline` is what one GPU gets for an answer. XID errors
    /// go to `xids` whenever questions are asked.
    pub fn new(command: Command, deadline: Duration, xids: Sender<Xid>) -> Self {
        let (next_start, stuck) = (Instant::now(), Vec::new());
        Self { command, deadline, running: None, next_start, pause: PAUSE_MIN, stuck, next_n: 0, xids }
    }

    /// Process id of the running probe.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Asks for all GPUs.
    ///
    /// # Errors
    ///
    /// Nothing is known. That is neither "no GPUs" nor "nothing on them".
    pub fn ask(&mut self) -> Result<Answer, Unknown> {
        self.next_n += 1;
        let n = self.next_n;
        let begun = Instant::now();
        let result = self.start().and_then(|()| self.exchange(n));
        match result {
            Ok(answer) => {
                self.pause = PAUSE_MIN;
                match answer.trouble {
                    // NVML that didn't start is tried again with a new process: an upgraded driver needs one.
                    Some(trouble) if answer.gpus.is_empty() => {
                        self.end();
                        Err(Unknown::Broken(trouble))
                    }
                    _ => Ok(answer),
                }
            }
            Err(Unknown::Silent(_)) => {
                self.end();
                Err(Unknown::Silent(begun.elapsed().as_millis()))
            }
            Err(unknown) => {
                self.end();
                Err(unknown)
            }
        }
    }

    fn exchange(&mut self, n: u64) -> Result<Answer, Unknown> {
        let Some(running) = &mut self.running else {
            return Err(Unknown::NotRunning("it is being started".to_owned()));
        };
        let deadline_ms = u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX);
        let gone = |what: &str| Unknown::NotRunning(what.to_owned());
        let mut text = serde_json::to_vec(&Question { n, deadline_ms }).map_err(|_| gone("no question"))?;
        text.push(b'\n');
        running.stdin.write_all(&text).map_err(|_| gone("it has ended"))?;
        let until = Instant::now() + self.deadline + SLACK;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match running.lines.recv_timeout(left) {
                Ok(Line::Answer(answer)) if answer.n == n => return Ok(answer),
                Ok(Line::Answer(_)) => {}
                Ok(Line::Xid(xid)) => drop(self.xids.send(xid)),
                Err(RecvTimeoutError::Timeout) => return Err(Unknown::Silent(0)),
                Err(RecvTimeoutError::Disconnected) => return Err(gone("it has ended")),
            }
        }
    }

    /// Starts the probe if it isn't running and it is time to.
    fn start(&mut self) -> Result<(), Unknown> {
        if self.running.is_some() {
            return Ok(());
        }
        self.stuck.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        if self.stuck.len() >= STUCK_MAX {
            return Err(Unknown::NotRunning(format!("{STUCK_MAX} probes are stuck in the driver")));
        }
        if Instant::now() < self.next_start {
            return Err(Unknown::NotRunning("it waits to be started again".to_owned()));
        }
        self.next_start = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        let mut command = std::process::Command::new(&self.command.program);
        command.args(&self.command.arguments).envs(self.command.environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Unknown::NotRunning(error.to_string()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Unknown::NotRunning("it has no pipes".to_owned()));
        };
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                // What isn't a line of ours (a library that prints) is passed over.
                if let Ok(line) = serde_json::from_str(&line)
                    && send.send(line).is_err()
                {
                    return;
                }
            }
        });
        self.running = Some(Running { child, stdin, lines });
        Ok(())
    }

    /// Ends the probe. One that is stuck in the driver can't be ended: it is left and counted.
    fn end(&mut self) {
        let Some(Running { mut child, stdin, lines }) = self.running.take() else { return };
        drop((stdin, lines));
        let _ = child.kill();
        let until = Instant::now() + END_PATIENCE;
        while Instant::now() < until {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.stuck.push(child);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}
