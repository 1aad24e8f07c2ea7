//! The agent's parts with the real shim and the simulated NVML.

mod probes;

use std::path::PathBuf;

/// The probe, which cargo builds as an example with these tests.
fn probe_program() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let deps = test.parent().expect("it lies in a directory");
    deps.with_file_name("examples").join("probe")
}
