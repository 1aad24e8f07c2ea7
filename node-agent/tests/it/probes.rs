use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bursar_fake_nvml::{EVENT_XID, Fault, STATE_VARIABLE, State};
use node_agent::probe::{Answer, Client, Command, Unknown, Xid};
use tempfile::TempDir;

struct Node {
    _directory: TempDir,
    state: PathBuf,
    client: Client,
    xids: Receiver<Xid>,
}

impl Node {
    fn new(state: &State, deadline: Duration) -> Self {
        Self::with_library(state, deadline, xtask::built::fake_nvml())
    }

    fn with_library(state: &State, deadline: Duration, library: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("state.json");
        bursar_fake_nvml::write(&path, state).expect("the state is written");
        let command = Command {
            program: crate::support::example("probe").into(),
            arguments: vec![library.into()],
            environment: vec![(STATE_VARIABLE.into(), path.clone().into())],
        };
        let (send, xids) = channel();
        Self { _directory: directory, state: path, client: Client::new(command, deadline, send), xids }
    }

    fn set(&self, state: &State) {
        bursar_fake_nvml::write(&self.state, state).expect("the state is written");
    }

    /// Asks until the answer is as wanted.
    fn until<T>(&mut self, mut wanted: impl FnMut(Result<Answer, Unknown>) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(found) = wanted(self.client.ask()) {
                return found;
            }
            assert!(Instant::now() < deadline, "the probe never answered as wanted");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

const LONG: Duration = Duration::from_secs(60);
/// So long a probe that answers may take at most to start and to answer, and one that hangs is waited for.
const SHORT: Duration = Duration::from_secs(3);

#[test]
fn the_probe_sees_gpus_and_who_is_on_them() {
    let mut state = State::healthy(31, 2);
    state.gpus[1].processes.push(bursar_fake_nvml::Process { pid: 4_000_001, memory: 0 });
    let mut node = Node::new(&state, LONG);
    let answer = node.client.ask().unwrap();
    assert!(answer.is_simulated, "a simulated node says so: {}", answer.driver);
    assert_eq!(answer.gpus.len(), 2);
    assert_eq!(answer.gpus[0].uuid.as_deref(), Some(state.gpus[0].uuid.as_str()));
    assert_eq!(answer.gpus[0].memory, Some(80 << 30));
    assert_eq!(answer.gpus[0].pci.as_deref(), Some("00000000:01:00.0"));
    assert_eq!(answer.gpus[0].processes, Some(vec![]));
    assert_eq!(answer.gpus[1].processes, Some(vec![4_000_001]));
    assert!(answer.gpus.iter().all(|gpu| gpu.trouble.is_none()));
}

#[test]
fn a_hanging_call_makes_one_gpu_unknown_and_the_others_stay_known() {
    let mut state = State::healthy(32, 2);
    let hang = Fault { hang_ms: 600_000, after_calls: 1, ..Fault::default() };
    state.gpus[0].faults = BTreeMap::from([("nvmlDeviceGetComputeRunningProcesses_v3".to_owned(), hang)]);
    let mut node = Node::new(&state, SHORT);
    let known = node.until(|answer| answer.ok().filter(|known| known.gpus[0].processes.is_some()));
    assert_eq!(known.gpus[0].processes, Some(vec![]));
    for _ in 0..2 {
        let answer = node.client.ask().unwrap();
        assert_eq!(answer.gpus[0].processes, None, "unknown is not empty");
        assert!(answer.gpus[0].trouble.as_deref().unwrap().contains("does not answer"));
        assert_eq!(answer.gpus[0].uuid, known.gpus[0].uuid, "its identity survives its silence");
        assert_eq!(answer.gpus[1].processes, Some(vec![]));
    }
}

#[test]
fn a_probe_that_is_silent_as_a_whole_is_unknown_and_started_again() {
    let mut state = State::healthy(33, 1);
    let hang = Fault { hang_ms: 600_000, ..Fault::default() };
    state.faults = BTreeMap::from([("nvmlDeviceGetCount_v2".to_owned(), hang)]);
    let mut node = Node::new(&state, SHORT);
    assert!(matches!(node.client.ask(), Err(Unknown::Silent(_))));
    state.faults.clear();
    node.set(&state);
    node.until(Result::ok);
}

#[test]
fn a_killed_probe_is_started_again() {
    let mut node = Node::new(&State::healthy(34, 1), LONG);
    node.client.ask().unwrap();
    let before = node.client.pid().unwrap();
    assert!(std::process::Command::new("kill").args(["-9", &before.to_string()]).status().unwrap().success());
    let answer = node.until(|answer| match answer {
        Ok(answer) => Some(answer),
        Err(Unknown::NotRunning(_)) => None,
        Err(unknown) => panic!("{unknown}"),
    });
    assert_eq!(answer.gpus.len(), 1);
    assert_ne!(node.client.pid(), Some(before));
}

#[test]
fn no_library_and_no_driver_are_said_and_not_taken_for_no_gpus() {
    let mut node = Node::with_library(&State::healthy(35, 1), LONG, Path::new("/no/such/library.so"));
    assert!(matches!(node.client.ask(), Err(Unknown::Broken(_))));
    let mut state = State::healthy(36, 1);
    let failing = Fault { return_code: 18, ..Fault::default() };
    state.faults = BTreeMap::from([("nvmlInit_v2".to_owned(), failing)]);
    let mut node = Node::new(&state, LONG);
    assert!(matches!(node.client.ask(), Err(Unknown::Broken(_))));
    state.faults.clear();
    node.set(&state);
    node.until(Result::ok);
}

#[test]
fn the_xid_of_a_lost_gpu_is_attributed_and_the_gpu_has_trouble() {
    let mut state = State::healthy(37, 2);
    let mut node = Node::new(&state, LONG);
    node.client.ask().unwrap();
    state.gpus[1].lost = true;
    // One event, right after the first answer: the GPU is watched from then on.
    state.push_event(1, EVENT_XID, 79);
    node.set(&state);
    let xid = node.next_xid();
    assert_eq!(xid, Xid { uuid: state.gpus[1].uuid.clone(), code: 79 });
    let answer = node.client.ask().unwrap();
    assert!(answer.gpus[1].trouble.is_some() && answer.gpus[1].processes.is_none());
    assert!(answer.gpus[0].trouble.is_none());
}

#[test]
fn a_registration_that_fails_is_tried_again() {
    let mut state = State::healthy(38, 1);
    let failing = Fault { return_code: 999, ..Fault::default() };
    state.gpus[0].faults = BTreeMap::from([("nvmlDeviceRegisterEvents".to_owned(), failing)]);
    let mut node = Node::new(&state, LONG);
    node.client.ask().unwrap();
    state.gpus[0].faults.clear();
    node.set(&state);
    node.client.ask().unwrap();
    state.push_event(0, EVENT_XID, 48);
    node.set(&state);
    assert_eq!(node.next_xid().code, 48);
}

impl Node {
    /// Asks until an XID error is passed on: the client hands them over when it is asked.
    fn next_xid(&mut self) -> Xid {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let _ = self.client.ask();
            if let Ok(xid) = self.xids.recv_timeout(Duration::from_millis(20)) {
                return xid;
            }
            assert!(Instant::now() < deadline, "the event never came");
        }
    }
}
