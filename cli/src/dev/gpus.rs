//! The GPUs that a node's simulated driver shows.

use serde_json::{Value, json};

/// The variable that names the file.
pub const VARIABLE: &str = "BURSAR_FAKE_NVML_STATE";

/// Returns the file for a node: GPUs that no other node has. `cluster` is random, so that a process that another
/// cluster of this machine left behind is on none of these GPUs.
pub fn file(cluster: u32, node: u32, gpus: u32) -> Value {
    let gpu = |n: u32| {
        json!({
            "uuid": format!("GPU-{cluster:08x}-{node:04x}-4000-8000-{n:012x}"),
            "name": "NVIDIA H100 80GB HBM3",
            "serial": format!("{:010}", node * 100 + n),
            "pci_bus_id": format!("00000000:{:02X}:00.0", n + 1),
            "minor": n,
        })
    };
    json!({ "gpus": (0..gpus).map(gpu).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::file;

    #[test]
    fn clusters_of_one_machine_share_no_gpu() {
        let uuids = |cluster, node| {
            let file = file(cluster, node, 8);
            file["gpus"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|gpu| gpu["uuid"].to_string())
                .collect::<Vec<_>>()
        };
        let mut all = [uuids(1, 1), uuids(1, 2), uuids(2, 1), uuids(2, 2)].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 32);
    }
}
