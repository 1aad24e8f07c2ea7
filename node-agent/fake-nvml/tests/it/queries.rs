use std::process::{Command, Stdio};

use bursar_fake_nvml::{Process, State};
use nvml_wrapper::error::NvmlError;

use crate::support::Fake;

#[test]
fn gpus_answer_what_the_state_says() {
    let mut state = State::healthy(7, 2);
    state.gpus[1].memory_used = 5 << 30;
    let fake = Fake::new(&state);
    let nvml = fake.open();
    assert_eq!(nvml.device_count().unwrap(), 2);
    let gpu = nvml.device_by_index(1).unwrap();
    assert_eq!(gpu.uuid().unwrap(), state.gpus[1].uuid);
    assert_eq!(gpu.name().unwrap(), "NVIDIA H100 80GB HBM3");
    assert_eq!(gpu.minor_number().unwrap(), 1);
    assert_eq!(gpu.serial().unwrap(), "0000070001");
    assert_eq!(gpu.memory_info().unwrap().used, 5 << 30);
    assert_eq!(gpu.memory_info().unwrap().total, 80 << 30);
    let pci = gpu.pci_info().unwrap();
    assert_eq!((pci.bus_id.as_str(), pci.bus), ("00000000:02:00.0", 2));
    let same = nvml.device_by_uuid(state.gpus[1].uuid.as_str()).unwrap();
    assert_eq!(same.minor_number().unwrap(), 1);
    assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
    assert!(matches!(nvml.device_by_index(2), Err(NvmlError::InvalidArg)));
}

#[test]
fn a_simulated_driver_says_so() {
    let mut state = State::healthy(1, 0);
    state.driver_version = "580.82.07".to_owned();
    let fake = Fake::new(&state);
    let nvml = fake.open();
    assert_eq!(nvml.sys_driver_version().unwrap(), "580.82.07-simulated");
    assert!(nvml.sys_nvml_version().unwrap().ends_with("-simulated"));
}

#[test]
fn a_replaced_state_is_seen_by_an_open_library() {
    let mut state = State::healthy(1, 1);
    let fake = Fake::new(&state);
    let nvml = fake.open();
    assert_eq!(nvml.device_count().unwrap(), 1);
    state = State::healthy(1, 3);
    fake.set(&state);
    assert_eq!(nvml.device_count().unwrap(), 3);
}

#[test]
fn two_copies_of_the_library_are_two_nodes() {
    let (one, two) = (Fake::new(&State::healthy(1, 1)), Fake::new(&State::healthy(2, 4)));
    let (one, two) = (one.open(), two.open());
    assert_eq!((one.device_count().unwrap(), two.device_count().unwrap()), (1, 4));
}

#[test]
fn no_state_is_no_driver() {
    let fake = Fake::new(&State::healthy(1, 1));
    std::fs::remove_file(fake.state_file()).unwrap();
    let refused = nvml_wrapper::Nvml::builder().lib_path(fake.library().as_os_str()).init();
    assert!(matches!(refused, Err(NvmlError::DriverNotLoaded)));
}

#[test]
fn a_process_started_with_a_gpu_is_on_it_until_it_is_gone() {
    let mut state = State::healthy(std::process::id(), 2);
    state.gpus[0].processes.push(Process { pid: 4_000_000, memory: 1 });
    let fake = Fake::new(&state);
    let nvml = fake.open();
    let gpu = |index| nvml.device_by_index(index).unwrap();
    let pids = |index| -> Vec<u32> {
        gpu(index).running_compute_processes().unwrap().iter().map(|process| process.pid).collect()
    };
    assert_eq!((pids(0), pids(1)), (vec![4_000_000], vec![]));
    let mut job = Command::new("sleep")
        .arg("1000")
        .env("CUDA_VISIBLE_DEVICES", format!("{},{}", state.gpus[0].uuid, state.gpus[1].uuid))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!((pids(0), pids(1)), (vec![4_000_000, job.id()], vec![job.id()]));
    job.kill().unwrap();
    job.wait().unwrap();
    assert_eq!((pids(0), pids(1)), (vec![4_000_000], vec![]));
    assert!(gpu(0).running_graphics_processes().unwrap().is_empty());
    assert!(gpu(0).mps_running_compute_processes().unwrap().is_empty());
}
