use std::collections::BTreeMap;
use std::time::Duration;

use bursar_fake_nvml::{EVENT_XID, Fault, State};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;

use crate::support::Fake;

fn fault(symbol: &str, fault: Fault) -> BTreeMap<String, Fault> {
    BTreeMap::from([(symbol.to_owned(), fault)])
}

#[test]
fn a_call_that_the_library_lacks_is_unsupported_and_not_a_failure() {
    let fake = Fake::new(&State::healthy(1, 1));
    let nvml = fake.open();
    let answer = nvml.device_by_index(0).unwrap().temperature(TemperatureSensor::Gpu);
    assert!(matches!(answer, Err(NvmlError::FailedToLoadSymbol(_))));
}

#[test]
fn a_fault_strikes_one_call_of_one_gpu_after_its_count() {
    let mut state = State::healthy(1, 2);
    state.gpus[0].faults =
        fault("nvmlDeviceGetMemoryInfo_v2", Fault { return_code: 15, hang_ms: 0, after_calls: 2 });
    let fake = Fake::new(&state);
    let nvml = fake.open();
    let (sick, well) = (nvml.device_by_index(0).unwrap(), nvml.device_by_index(1).unwrap());
    assert!(sick.memory_info().is_ok() && sick.memory_info().is_ok());
    assert!(matches!(sick.memory_info(), Err(NvmlError::GpuLost)));
    assert!(well.memory_info().is_ok());
    assert!(sick.uuid().is_ok());
}

#[test]
fn a_hanging_gpu_leaves_the_others_alone() {
    let mut state = State::healthy(1, 2);
    state.gpus[0].faults = fault("nvmlDeviceGetName", Fault { hang_ms: 3_000, ..Fault::default() });
    let fake = Fake::new(&state);
    let nvml = fake.open();
    let (answers, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for index in [0, 1] {
            let (nvml, answers) = (&nvml, answers.clone());
            scope.spawn(move || {
                nvml.device_by_index(index).unwrap().name().unwrap();
                answers.send(index).unwrap();
            });
        }
    });
    // The healthy GPU answers first, though it was asked last.
    assert_eq!((answered.recv().unwrap(), answered.recv().unwrap()), (1, 0));
}

#[test]
fn one_event_set_a_gpu_survives_a_gpu_that_has_no_events() {
    let mut state = State::healthy(1, 3);
    state.gpus[1].supported_events = 0;
    let fake = Fake::new(&state);
    let nvml = fake.open();
    let register = |index| {
        let gpu = nvml.device_by_index(index).unwrap();
        gpu.register_events(EventTypes::CRITICAL_XID_ERROR, nvml.create_event_set().unwrap())
    };
    let (first, middle, last) = (register(0).unwrap(), register(1), register(2).unwrap());
    assert!(middle.is_err());
    state.push_event(0, EVENT_XID, 48);
    state.push_event(2, EVENT_XID, 79);
    fake.set(&state);
    let xid = |set: &nvml_wrapper::EventSet<'_>| set.wait(60_000).unwrap().event_data;
    assert_eq!(xid(&first), Some(XidError::Value(48)));
    assert_eq!(xid(&last), Some(XidError::Value(79)));
    assert!(matches!(first.wait(20), Err(NvmlError::Timeout)));
}

#[test]
fn the_event_of_a_lost_gpu_arrives_and_its_uuid_does_not() {
    let mut state = State::healthy(1, 1);
    let fake = Fake::new(&state);
    let nvml = fake.open();
    let gpu = nvml.device_by_index(0).unwrap();
    let set = gpu.register_events(EventTypes::CRITICAL_XID_ERROR, nvml.create_event_set().unwrap()).unwrap();
    state.gpus[0].lost = true;
    state.push_event(0, EVENT_XID, 79);
    fake.set(&state);
    let event = set.wait(60_000).unwrap();
    assert_eq!(event.event_data, Some(XidError::Value(79)));
    assert!(matches!(event.device.uuid(), Err(NvmlError::GpuLost)));
    // The handle still says which GPU it was.
    // SAFETY: the handles are only compared.
    assert_eq!(unsafe { event.device.handle() }, unsafe { gpu.handle() });
}

#[test]
fn unknown_and_zero_xids_are_delivered() {
    let mut state = State::healthy(1, 1);
    let fake = Fake::new(&state);
    let nvml = fake.open();
    let gpu = nvml.device_by_index(0).unwrap();
    let set = gpu.register_events(EventTypes::CRITICAL_XID_ERROR, nvml.create_event_set().unwrap()).unwrap();
    for xid in [999, 0, 4_711] {
        state.push_event(0, EVENT_XID, xid);
    }
    fake.set(&state);
    let next = || set.wait(60_000).unwrap().event_data;
    assert_eq!(next(), Some(XidError::Unknown));
    assert_eq!(next(), Some(XidError::Value(0)));
    assert_eq!(next(), Some(XidError::Value(4_711)));
}

#[test]
fn a_wait_without_events_blocks_to_its_end() {
    let fake = Fake::new(&State::healthy(1, 1));
    let nvml = fake.open();
    let set = nvml.create_event_set().unwrap();
    let begun = std::time::Instant::now();
    assert!(matches!(set.wait(50), Err(NvmlError::Timeout)));
    assert!(begun.elapsed() >= Duration::from_millis(50));
}
