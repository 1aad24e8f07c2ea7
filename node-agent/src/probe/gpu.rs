//! One GPU: a thread that asks NVML about it, and one that waits for its XID errors.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};

use super::line::{Gpu, Line, Xid};

/// How long one wait for events takes before the next.
const EVENT_WAIT_MS: u32 = 10_000;

/// The agent's questions to one GPU's thread.
pub(super) struct Worker {
    questions: SyncSender<u64>,
    answers: Receiver<(u64, Gpu)>,
    /// What was last known of it: its identity survives its silence.
    last: Gpu,
}

impl Worker {
    /// Starts the GPU's threads.
    pub(super) fn start(nvml: &'static Nvml, index: u32, lines: Sender<Line>) -> Self {
        let (questions, asked) = sync_channel::<u64>(1);
        let (answer, answers) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut known = Gpu { index, ..Gpu::default() };
            let mut lines = Some(lines);
            while let Ok(n) = asked.recv() {
                look(nvml, &mut known);
                watch_once(nvml, &known, &mut lines);
                if answer.send((n, known.clone())).is_err() {
                    return;
                }
            }
        });
        let last = Gpu { index, ..Gpu::default() };
        Self { questions, answers, last }
    }

    /// Asks, without waiting. A thread that is still in an older call isn't asked again.
    pub(super) fn ask(&mut self, n: u64) {
        match self.questions.try_send(n) {
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => self.last.trouble = Some("its thread is gone".to_owned()),
        }
    }

    /// Waits for the answer to question `n`. When it doesn't come, what is on the GPU is unknown.
    pub(super) fn answer(&mut self, n: u64, until: Instant) -> Gpu {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok((answered, gpu)) => {
                    self.last = gpu;
                    if answered >= n {
                        return self.last.clone();
                    }
                    // An older answer: the thread was stuck and is back; ask again, there is room now.
                    self.ask(n);
                }
                Err(_) => {
                    // No figure in it: a text that changes each time would be news each time.
                    let trouble = "NVML does not answer".to_owned();
                    return Gpu { processes: None, trouble: Some(trouble), ..self.last.clone() };
                }
            }
        }
    }
}

/// Asks NVML about a GPU. What can't change is asked until it is known.
fn look(nvml: &Nvml, known: &mut Gpu) {
    known.processes = None;
    known.trouble = None;
    match try_look(nvml, known) {
        Ok(()) => {}
        Err(error) => known.trouble = Some(error.to_string()),
    }
}

fn try_look(nvml: &Nvml, known: &mut Gpu) -> Result<(), NvmlError> {
    let device = nvml.device_by_index(known.index)?;
    // Asked each time: the call fails for a GPU that fell off the bus, and an index may come to mean another GPU.
    known.uuid = Some(device.uuid()?);
    if known.name.is_none() {
        known.name = Some(device.name()?);
    }
    if known.pci.is_none() {
        known.pci = supported(device.pci_info())?.map(|pci| pci.bus_id);
    }
    if known.memory.is_none() {
        known.memory = supported(device.memory_info())?.map(|memory| memory.total);
    }
    known.processes = Some(processes(&device)?);
    Ok(())
}

fn processes(device: &Device<'_>) -> Result<Vec<u32>, NvmlError> {
    let mut pids = Vec::new();
    // Without the compute list nothing is known; the other two don't exist everywhere.
    let lists = [
        Some(device.running_compute_processes()?),
        supported(device.running_graphics_processes())?,
        supported(device.mps_running_compute_processes())?,
    ];
    for process in lists.into_iter().flatten().flatten() {
        if !pids.contains(&process.pid) {
            pids.push(process.pid);
        }
    }
    Ok(pids)
}

/// Takes what this driver, library or GPU doesn't have for `None`: it is no fault.
fn supported<T>(result: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::NotSupported | NvmlError::FunctionNotFound) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Begins to watch a GPU for XID errors, before the answer that first names the GPU, so that no error after it is missed.
/// A registration that fails is tried again at the next look, unless the GPU has no such events.
fn watch_once(nvml: &'static Nvml, known: &Gpu, lines: &mut Option<Sender<Line>>) {
    let Some(uuid) = known.uuid.clone() else { return };
    let Some(sender) = lines.take() else { return };
    match register(nvml, known.index) {
        Ok(set) => drop(std::thread::spawn(move || watch(&set, &uuid, &sender))),
        Err(NvmlError::NotSupported) => {}
        Err(_) => *lines = Some(sender),
    }
}

/// Opens a set of the GPU's own: a registration that fails takes its whole set with it.
fn register(nvml: &'static Nvml, index: u32) -> Result<EventSet<'static>, NvmlError> {
    let device = nvml.device_by_index(index)?;
    device
        .register_events(EventTypes::CRITICAL_XID_ERROR, nvml.create_event_set()?)
        .map_err(|error| error.error)
}

/// Passes on a GPU's XID errors.
fn watch(set: &EventSet<'static>, uuid: &str, lines: &Sender<Line>) {
    loop {
        match set.wait(EVENT_WAIT_MS) {
            Ok(event) => {
                let code = match event.event_data {
                    Some(XidError::Value(code)) => code,
                    Some(XidError::Unknown) => 999,
                    None => continue,
                };
                // The UUID from before: asking a lost GPU for it fails.
                if lines.send(Line::Xid(Xid { uuid: uuid.to_owned(), code })).is_err() {
                    return;
                }
            }
            Err(NvmlError::Timeout) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(u64::from(EVENT_WAIT_MS))),
        }
    }
}
