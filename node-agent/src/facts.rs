//! What an agent says of its node: from the probe's answers and the machine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use scheduler_core::agent::GpuUse;
use scheduler_core::id::{GpuUuid, Label};
use scheduler_core::node::{Facts, GpuFacts};
use scheduler_core::unit::Bytes;

use crate::journal::StoredGpu;
use crate::probe::{Answer, Gpu, Unknown, Xid};

/// How long a GPU may be silent before it counts as gone: a driver that takes its time is no lost GPU.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What is known of the node, look by look.
#[derive(Debug)]
pub struct Observed {
    boot: Label,
    containment: Label,
    address: Option<Label>,
    cpus: u32,
    memory: Bytes,
    gpus: BTreeMap<String, Known>,
    is_simulated: bool,
    node_trouble: Option<String>,
    strays: Vec<String>,
    xids: BTreeMap<String, u64>,
}

/// What an agent says of its node that no look changes.
#[derive(Debug)]
pub struct Place {
    /// How processes are ended and proven gone here.
    pub containment: &'static str,
    /// The host by which other nodes reach the ranks here.
    pub address: Option<String>,
}

#[derive(Debug)]
struct Known {
    stored: StoredGpu,
    silent_since: Option<Instant>,
    trouble: Option<String>,
}

impl Observed {
    /// Begins with the GPUs that the node had last: a silent probe is no reason to say that they are gone.
    pub fn new(boot: &str, place: Place, last: Vec<StoredGpu>) -> Self {
        let known = |stored: StoredGpu| {
            let trouble = Some("not seen since the agent started".to_owned());
            (stored.uuid.clone(), Known { stored, silent_since: Some(Instant::now()), trouble })
        };
        Self {
            boot: label(boot),
            containment: label(place.containment),
            address: place.address.and_then(|address| Label::new(&address).ok()),
            cpus: std::thread::available_parallelism()
                .map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
            memory: Bytes::new(memory()),
            gpus: last.into_iter().map(known).collect(),
            is_simulated: false,
            node_trouble: Some("the GPU probe has not answered yet".to_owned()),
            strays: Vec::new(),
            xids: BTreeMap::new(),
        }
    }

    /// Notes processes of this agent's that have no records.
    pub fn set_strays(&mut self, strays: Vec<String>) {
        self.strays = strays;
    }

    /// Notes an XID error. It stays until the machine restarts.
    pub fn note_xid(&mut self, xid: &Xid) {
        self.xids.insert(xid.uuid.clone(), xid.code);
    }

    /// Takes the result of a look. Returns what is on each GPU: what isn't known is unknown, never empty.
    pub fn take(&mut self, result: &Result<Answer, Unknown>) -> Vec<(GpuUuid, GpuUse)> {
        let now = Instant::now();
        let answer = match result {
            Ok(answer) => answer,
            Err(unknown) => {
                self.node_trouble = Some(without_figures(unknown));
                self.gpus.values_mut().for_each(|gpu| {
                    gpu.silent_since.get_or_insert(now);
                });
                return Vec::new();
            }
        };
        self.node_trouble.clone_from(&answer.trouble);
        self.is_simulated = answer.is_simulated;
        let mut uses = Vec::new();
        let mut seen = Vec::new();
        for gpu in &answer.gpus {
            let Some(uuid) = &gpu.uuid else { continue };
            self.take_gpu(uuid, gpu, now);
            seen.push(uuid.clone());
            if let Some(id) = GpuUuid::new(uuid) {
                uses.push((id, usage(gpu)));
            }
        }
        for (uuid, known) in &mut self.gpus {
            if !seen.contains(uuid) {
                known.silent_since.get_or_insert(now);
                known.trouble = Some("the driver does not list it".to_owned());
            }
        }
        uses
    }

    fn take_gpu(&mut self, uuid: &str, gpu: &Gpu, now: Instant) {
        let known = self.gpus.entry(uuid.to_owned()).or_insert_with(|| Known {
            stored: StoredGpu { uuid: uuid.to_owned(), model: "unknown".to_owned(), memory: 0 },
            silent_since: None,
            trouble: None,
        });
        if let Some(name) = &gpu.name {
            known.stored.model.clone_from(name);
        }
        if let Some(memory) = gpu.memory {
            known.stored.memory = memory;
        }
        known.trouble.clone_from(&gpu.trouble);
        match gpu.processes {
            Some(_) => known.silent_since = None,
            None => _ = known.silent_since.get_or_insert(now),
        }
    }

    /// The GPUs to remember.
    pub fn stored(&self) -> Vec<StoredGpu> {
        self.present().map(|known| known.stored.clone()).collect()
    }

    /// What the node says of itself now. Equal as long as nothing changed that anybody acts on.
    pub fn facts(&self) -> Facts {
        let gpu = |known: &Known| {
            Some(GpuFacts {
                uuid: GpuUuid::new(&known.stored.uuid)?,
                model: label(&known.stored.model),
                memory: Bytes::new(known.stored.memory),
            })
        };
        Facts {
            address: self.address.clone(),
            boot: self.boot.clone(),
            agent: label(env!("CARGO_PKG_VERSION")),
            cpus: self.cpus,
            memory: self.memory,
            gpus: self.present().filter_map(gpu).collect(),
            is_simulated: self.is_simulated,
            containment: self.containment.clone(),
            trouble: self.trouble(),
        }
    }

    fn present(&self) -> impl Iterator<Item = &Known> {
        self.gpus
            .values()
            .filter(|known| known.silent_since.is_none_or(|since| since.elapsed() < SILENCE_MAX))
    }

    fn trouble(&self) -> Vec<String> {
        let gpus = self
            .gpus
            .iter()
            .filter_map(|(uuid, known)| Some(format!("GPU {uuid}: {}", known.trouble.as_ref()?)));
        let xids = self.xids.iter().map(|(uuid, code)| format!("GPU {uuid}: XID {code}"));
        self.node_trouble
            .iter()
            .cloned()
            .chain(gpus)
            .chain(xids)
            .chain(self.strays.iter().cloned())
            .take(32)
            .collect()
    }
}

fn usage(gpu: &Gpu) -> GpuUse {
    match gpu.processes.as_deref() {
        Some([]) => GpuUse::Empty,
        Some([pid, ..]) => GpuUse::Busy { pid: *pid },
        None => GpuUse::Unknown,
    }
}

/// A text that stays the same while the same thing is wrong.
fn without_figures(unknown: &Unknown) -> String {
    match unknown {
        Unknown::Silent(_) => "the GPU probe does not answer".to_owned(),
        Unknown::NotRunning(_) => "the GPU probe does not run".to_owned(),
        Unknown::Broken(what) => what.clone(),
    }
}

/// A label of a text that came from outside: cut, and without control characters.
fn label(text: &str) -> Label {
    let plain: String = text.chars().filter(|letter| !letter.is_control()).take(32).collect();
    Label::new(&plain).or_else(|_| Label::new("unknown")).expect("a plain word is a label")
}

/// The machine's own name.
pub fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty() && name != "(none)")
}

fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib =
        total.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

#[cfg(test)]
mod tests {
    use super::{Observed, Place, Unknown};
    use crate::journal::StoredGpu;
    use crate::probe::{Answer, Gpu};
    use scheduler_core::agent::GpuUse;

    fn place() -> Place {
        Place { containment: "cgroup", address: None }
    }

    fn answer(processes: Option<Vec<u32>>) -> Answer {
        let gpu = Gpu {
            uuid: Some("GPU-1".to_owned()),
            name: Some("H100".to_owned()),
            memory: Some(7),
            processes,
            ..Gpu::default()
        };
        Answer { gpus: vec![gpu], is_simulated: true, ..Answer::default() }
    }

    #[test]
    fn a_silent_probe_is_neither_empty_nor_gone() {
        let mut observed = Observed::new("boot", place(), Vec::new());
        let uses = observed.take(&Ok(answer(Some(vec![]))));
        assert_eq!(uses.iter().map(|(_, usage)| *usage).collect::<Vec<_>>(), [GpuUse::Empty]);
        let healthy = observed.facts();
        assert!(healthy.trouble.is_empty() && healthy.is_simulated);
        assert_eq!(observed.take(&Err(Unknown::Silent(5))), []);
        let silent = observed.facts();
        assert_eq!(silent.gpus, healthy.gpus);
        assert_eq!(silent.trouble, ["the GPU probe does not answer"]);
        observed.take(&Err(Unknown::Silent(9)));
        assert_eq!(observed.facts(), silent, "the same trouble is no news");
        let uses = observed.take(&Ok(answer(None)));
        assert_eq!(uses.iter().map(|(_, usage)| *usage).collect::<Vec<_>>(), [GpuUse::Unknown]);
    }

    #[test]
    fn the_gpus_of_the_last_run_stand_until_the_probe_speaks() {
        let stored = StoredGpu { uuid: "GPU-9".to_owned(), model: "H100".to_owned(), memory: 7 };
        let observed = Observed::new("boot", place(), vec![stored.clone()]);
        assert_eq!(observed.facts().gpus.len(), 1);
        assert_eq!(observed.stored(), [stored]);
    }
}
