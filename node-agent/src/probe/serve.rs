//! The probe process.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;

use super::gpu::Worker;
use super::line::{Answer, Line, Question};

/// What the driver version of the simulated library ends with.
const SIMULATED: &str = "-simulated";

/// The most GPUs of a node.
const GPUS_MAX: u32 = 64;

/// Answers questions on standard input until it ends. Never returns: threads may hang in the driver, so the process is left
/// without waiting for them. NVML that can't be opened is an answer, not an end.
pub fn main(library: &Path) -> ! {
    let (lines, written) = channel::<Line>();
    std::thread::spawn(move || write(&written));
    let mut node = Node { library, lines: lines.clone(), nvml: None, workers: Vec::new() };
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(question) = serde_json::from_str::<Question>(&line) else { continue };
        if lines.send(Line::Answer(node.answer(question))).is_err() {
            break;
        }
    }
    std::process::exit(0)
}

fn write(lines: &Receiver<Line>) {
    while let Ok(line) = lines.recv() {
        let Ok(mut text) = serde_json::to_vec(&line) else { continue };
        text.push(b'\n');
        let mut out = std::io::stdout().lock();
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            // The agent is gone.
            std::process::exit(0);
        }
    }
}

struct Node<'a> {
    library: &'a Path,
    lines: Sender<Line>,
    /// Leaked: threads that hang in it hold it for as long as the process lives, and dropping it may panic.
    nvml: Option<&'static Nvml>,
    workers: Vec<Worker>,
}

impl Node<'_> {
    fn answer(&mut self, question: Question) -> Answer {
        let n = question.n;
        let until = Instant::now() + Duration::from_millis(question.deadline_ms);
        let nvml = match self.open() {
            Ok(nvml) => nvml,
            Err(trouble) => return Answer { n, trouble: Some(trouble), ..Answer::default() },
        };
        // These two concern no GPU. If they hang, the whole probe is silent, and the agent draws its conclusion.
        let driver = nvml.sys_driver_version().unwrap_or_default();
        let (count, trouble) = match nvml.device_count() {
            Ok(count) => (count.min(GPUS_MAX), None),
            Err(error) => (0, Some(format!("NVML can't count GPUs: {error}"))),
        };
        while self.workers.len() < usize::try_from(count).unwrap_or(0) {
            let index = u32::try_from(self.workers.len()).unwrap_or(GPUS_MAX);
            self.workers.push(Worker::start(nvml, index, self.lines.clone()));
        }
        self.workers.iter_mut().for_each(|worker| worker.ask(n));
        let gpus = self.workers.iter_mut().map(|worker| worker.answer(n, until)).collect();
        Answer { n, is_simulated: driver.ends_with(SIMULATED), driver, gpus, trouble }
    }

    fn open(&mut self) -> Result<&'static Nvml, String> {
        if let Some(nvml) = self.nvml {
            return Ok(nvml);
        }
        let nvml = Nvml::builder().lib_path(self.library.as_os_str()).init();
        let nvml = nvml.map_err(|error| format!("NVML does not start: {error}"))?;
        Ok(*self.nvml.insert(Box::leak(Box::new(nvml))))
    }
}
