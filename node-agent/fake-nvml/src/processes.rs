//! Which live processes were started for a GPU.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::live::lock;
use crate::state::Process;

/// The variable that names the GPUs of a process.
const VISIBLE: &[u8] = b"CUDA_VISIBLE_DEVICES=";

/// Memory that a process found by its environment is said to use.
const ASSUMED_MEMORY: u64 = 1 << 30;

/// What one scan of all processes found: for each process that names GPUs, which.
type Found = Arc<Vec<(u32, Vec<Vec<u8>>)>>;

/// What the last scan found. Locked during a scan: who comes meanwhile waits.
static LAST: LazyLock<Mutex<Found>> = LazyLock::new(Mutex::default);
/// How many scans have begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Finds the live processes whose start environment names `uuid`. Zombies have no environment and don't count.
///
/// A node's GPUs are asked about at the same time, each by a thread of its own: those that ask together share one scan,
/// which begins after all of them asked.
pub(crate) fn started_for(uuid: &str) -> Vec<Process> {
    let asked = BEGUN.load(Ordering::SeqCst);
    let mut last = lock(&LAST);
    // A scan that began before this question does not answer it.
    if BEGUN.load(Ordering::SeqCst) == asked {
        BEGUN.store(asked + 1, Ordering::SeqCst);
        *last = Arc::new(scan());
    }
    let found = Arc::clone(&last);
    drop(last);
    let names = |(_, gpus): &&(u32, Vec<Vec<u8>>)| gpus.iter().any(|gpu| gpu == uuid.as_bytes());
    found.iter().filter(names).map(|(pid, _)| Process { pid: *pid, memory: ASSUMED_MEMORY }).collect()
}

fn scan() -> Vec<(u32, Vec<Vec<u8>>)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // One buffer for all: growing a new one for each costs more calls than most environments have lines.
    let mut environment = Vec::with_capacity(64 << 10);
    let mut gpus = |pid: u32| {
        environment.clear();
        let file = File::open(format!("/proc/{pid}/environ"));
        file.and_then(|mut file| file.read_to_end(&mut environment))
            .map_or_else(|_| Vec::new(), |_| named(&environment))
    };
    pids.map(|pid| (pid, gpus(pid))).filter(|(_, gpus)| !gpus.is_empty()).collect()
}

/// Returns the GPUs that an environment names.
fn named(environment: &[u8]) -> Vec<Vec<u8>> {
    let lists = environment.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(VISIBLE));
    let items = lists.flat_map(|list| list.split(|byte| *byte == b','));
    items.map(|item| item.trim_ascii().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_process_belongs_to_the_gpus_it_was_started_with() {
        let environment = b"HOME=/\0CUDA_VISIBLE_DEVICES=GPU-a,GPU-b\0X=GPU-c\0";
        assert_eq!(named(environment), [b"GPU-a", b"GPU-b"]);
        assert_eq!(named(b"CUDA_VISIBLE_DEVICES= GPU-c ,\0"), [&b"GPU-c"[..], b""]);
        assert!(named(b"HOME=/\0").is_empty() && named(b"").is_empty());
    }
}
