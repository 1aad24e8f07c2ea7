//! What agent and probe say to each other, one JSON object a line.

use serde::{Deserialize, Serialize};

/// The agent asks for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Number that the answer repeats.
    pub n: u64,
    /// How long the probe waits for a GPU, in ms.
    pub deadline_ms: u64,
}

/// What the probe says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The answer to a question.
    Answer(Answer),
    /// A GPU reported an XID error.
    Xid(Xid),
}

/// All GPUs at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The question's number.
    pub n: u64,
    /// The driver's version.
    pub driver: String,
    /// True if the library is the simulated one.
    pub is_simulated: bool,
    /// GPUs by index.
    pub gpus: Vec<Gpu>,
    /// What is wrong with the node as a whole; then `gpus` may be short.
    pub trouble: Option<String>,
}

/// One GPU. What is not known is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gpu {
    /// NVML's index, of this boot only.
    pub index: u32,
    /// Its identity.
    pub uuid: Option<String>,
    /// Its model.
    pub name: Option<String>,
    /// Its memory in bytes.
    pub memory: Option<u64>,
    /// Its PCI bus id.
    pub pci: Option<String>,
    /// The processes on it. `None` is unknown, which is not "none".
    pub processes: Option<Vec<u32>>,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// An XID error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xid {
    /// The GPU.
    pub uuid: String,
    /// The code; 999 is one that NVML has no number for. None is dropped.
    pub code: u64,
}
