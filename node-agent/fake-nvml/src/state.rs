//! The state file: what the fake answers. Writers replace it by rename, so a reader never sees half of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Names the environment variable with the path of the state file.
pub const STATE_VARIABLE: &str = "BURSAR_FAKE_NVML_STATE";

/// Everything the fake answers from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The driver version; `-simulated` is added to it in the answer.
    #[serde(default = "default_driver")]
    pub driver_version: String,
    /// The GPUs, in index order.
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    /// Events in order of their sequence numbers. Each event set delivers those that are newer than itself.
    #[serde(default)]
    pub events: Vec<Event>,
    /// Faults of calls that name no GPU (`nvmlInit_v2`, `nvmlDeviceGetCount_v2`), by symbol.
    #[serde(default)]
    pub faults: BTreeMap<String, Fault>,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// The UUID, `GPU-...`.
    pub uuid: String,
    /// The product name.
    #[serde(default = "default_name")]
    pub name: String,
    /// The board's serial number.
    #[serde(default)]
    pub serial: String,
    /// The PCI bus id, `00000000:01:00.0`.
    #[serde(default)]
    pub pci_bus_id: String,
    /// The minor number of the device node.
    #[serde(default)]
    pub minor: u32,
    /// Memory in bytes.
    #[serde(default = "default_memory")]
    pub memory_total: u64,
    /// Memory in use, in bytes.
    #[serde(default)]
    pub memory_used: u64,
    /// Processes on the GPU besides the ones found by their environment.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// Mask of the event types that can be registered; 0 makes registering fail as not supported.
    #[serde(default = "default_events")]
    pub supported_events: u64,
    /// True for a GPU that has fallen off the bus: every call on it answers so, events still arrive.
    #[serde(default)]
    pub lost: bool,
    /// Faults of calls on this GPU, by symbol.
    #[serde(default)]
    pub faults: BTreeMap<String, Fault>,
}

/// A process on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// GPU memory in bytes.
    #[serde(default)]
    pub memory: u64,
}

/// An event that waiters get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Sequence number, growing through the file and from one version of it to the next.
    pub sequence: u64,
    /// Index of the GPU.
    pub gpu: usize,
    /// Type bit, [`EVENT_XID`](crate::EVENT_XID) for an XID.
    pub event_type: u64,
    /// The XID.
    pub data: u64,
    /// MIG instance on the GPU.
    #[serde(default = "no_instance")]
    pub gpu_instance: u32,
    /// Compute instance in the MIG instance.
    #[serde(default = "no_instance")]
    pub compute_instance: u32,
}

/// A fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The NVML return code; 0 lets the call go on.
    #[serde(default)]
    pub return_code: u32,
    /// Time that the call blocks first, in milliseconds.
    #[serde(default)]
    pub hang_ms: u64,
    /// Calls that still go well, counted per process since it loaded the library.
    #[serde(default)]
    pub after_calls: u64,
}

/// Why a state file couldn't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed.
    #[error("failed to read the state file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Writing failed.
    #[error("failed to write the state file {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file isn't a state.
    #[error("the state file {path} is not valid")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl State {
    /// Makes a healthy node of `count` GPUs whose UUIDs are made from `node`, so that no two nodes share one.
    pub fn healthy(node: u32, count: u32) -> Self {
        Self {
            driver_version: default_driver(),
            gpus: (0..count).map(|index| Gpu::healthy(node, index)).collect(),
            events: Vec::new(),
            faults: BTreeMap::new(),
        }
    }

    /// Adds an event with the next sequence number.
    pub fn push_event(&mut self, gpu: usize, event_type: u64, data: u64) {
        let sequence = self.events.iter().map(|event| event.sequence).max().unwrap_or(0) + 1;
        let (gpu_instance, compute_instance) = (no_instance(), no_instance());
        self.events.push(Event { sequence, gpu, event_type, data, gpu_instance, compute_instance });
    }
}

impl Gpu {
    /// Makes a healthy GPU.
    pub fn healthy(node: u32, index: u32) -> Self {
        Self {
            uuid: format!("GPU-{node:08x}-0000-4000-8000-{index:012x}"),
            name: default_name(),
            serial: format!("{node:06}{index:04}"),
            pci_bus_id: format!("00000000:{:02X}:00.0", index + 1),
            minor: index,
            memory_total: default_memory(),
            memory_used: 0,
            processes: Vec::new(),
            supported_events: default_events(),
            lost: false,
            faults: BTreeMap::new(),
        }
    }
}

/// Reads a state file.
///
/// # Errors
///
/// The file can't be read or isn't a state.
pub fn read(path: &Path) -> Result<State, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    serde_json::from_str(&text).map_err(|source| Error::Parse { path: path.to_owned(), source })
}

/// Replaces a state file. A reader sees the old state or the new one, whole.
///
/// # Errors
///
/// The file can't be written.
pub fn write(path: &Path, state: &State) -> Result<(), Error> {
    let text =
        serde_json::to_vec_pretty(state).map_err(|source| Error::Parse { path: path.to_owned(), source })?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let put = || {
        File::create(&temporary)?.write_all(&text)?;
        std::fs::rename(&temporary, path)
    };
    put().map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn default_driver() -> String {
    "580.95.05".to_owned()
}

fn default_name() -> String {
    "NVIDIA H100 80GB HBM3".to_owned()
}

fn default_memory() -> u64 {
    80 << 30
}

fn default_events() -> u64 {
    crate::EVENT_XID | 1 | 2
}

fn no_instance() -> u32 {
    u32::MAX
}
