//! The GPUs that a node's simulated driver shows.

use serde_json::{Value, json};

/// The variable that names the file.
pub const VARIABLE: &str = "BURSAR_FAKE_NVML_STATE";

/// Returns the file for a node: GPUs that no other node of this cluster has.
pub fn file(node: u32, gpus: u32) -> Value {
    let gpu = |n: u32| {
        json!({
            "uuid": format!("GPU-{node:08x}-0000-4000-8000-{n:012x}"),
            "name": "NVIDIA H100 80GB HBM3",
            "serial": format!("{:010}", node * 100 + n),
            "pci_bus_id": format!("00000000:{:02X}:00.0", n + 1),
            "minor": n,
        })
    };
    json!({ "gpus": (0..gpus).map(gpu).collect::<Vec<_>>() })
}
