//! Which live processes were started for a GPU.

use crate::state::Process;

/// The variable that names the GPUs of a process.
const VISIBLE: &[u8] = b"CUDA_VISIBLE_DEVICES=";

/// Memory that a process found by its environment is said to use.
const ASSUMED_MEMORY: u64 = 1 << 30;

/// Finds the live processes whose start environment names `uuid`. Zombies have no environment and don't count.
pub(crate) fn started_for(uuid: &str) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| names(&environment, uuid))
        })
        .map(|pid| Process { pid, memory: ASSUMED_MEMORY })
        .collect()
}

fn names(environment: &[u8], uuid: &str) -> bool {
    environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(VISIBLE))
        .any(|list| list.split(|byte| *byte == b',').any(|item| item.trim_ascii() == uuid.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_process_belongs_to_the_gpus_it_was_started_with() {
        let environment = b"HOME=/\0CUDA_VISIBLE_DEVICES=GPU-a,GPU-b\0X=GPU-c\0";
        assert!(names(environment, "GPU-a"));
        assert!(names(environment, "GPU-b"));
        assert!(!names(environment, "GPU-c"));
        assert!(!names(environment, "GPU-"));
        assert!(!names(b"", "GPU-a"));
    }
}
