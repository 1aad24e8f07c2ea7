//! The whole agent against a scripted control plane.

use std::path::PathBuf;

use bursar_fake_nvml::{STATE_VARIABLE, State};
use node_agent::probe::Command;
use node_agent::{Config, Error, Join};
use proto::v1::server_message::Message as ToAgent;
use proto::{Wire, canonical_launch, v1};
use scheduler_core::agent::{Assignment, EndedBy, Fault, Order, RankEvent};
use scheduler_core::id::{Generation, GpuUuid, SpecHash};
use scheduler_core::job::Exit;
use scheduler_core::spec::Launch;
use scheduler_core::unit::{Span, Timestamp};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::plane::{JOIN_TOKEN, Plane};
use crate::support::{self, Job, pause, until_async};

struct Machine {
    directory: TempDir,
    state: State,
    servers: Vec<String>,
    running: Option<Running>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Machine {
    fn new(number: u32, planes: &[&Plane]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let state = State::healthy(std::process::id() ^ (number << 24), 2);
        bursar_fake_nvml::write(&directory.path().join("nvml.json"), &state).expect("the state is written");
        let servers = planes.iter().map(|plane| plane.address.to_string()).collect();
        Self { directory, state, servers, running: None }
    }

    fn config(&self) -> Config {
        let probe = Command {
            program: support::example("probe").into(),
            arguments: vec![xtask::built::fake_nvml().into()],
            environment: vec![(STATE_VARIABLE.into(), self.directory.path().join("nvml.json").into())],
        };
        let data = self.directory.path().join("data");
        let mut config = Config::new(data, self.servers.clone(), probe, xtask::built::shim());
        config.join = Some(Join { name: "n1".to_owned(), token: JOIN_TOKEN.to_owned() });
        config.allow_root_jobs = true;
        config.unkillable_after = std::time::Duration::from_millis(300);
        config.address = Some("127.0.0.1".to_owned());
        config
    }

    fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let config = self.config();
        let agent = tokio::spawn(async move {
            loop {
                // The one before may still be letting go of the directory.
                match node_agent::run(config.clone(), std::future::pending()).await {
                    Err(Error::Executor(node_agent::executor::Error::InUse(_))) => {
                        pause().await;
                    }
                    ended => return ended,
                }
            }
        });
        let task = tokio::spawn(async move {
            let abort = agent.abort_handle();
            tokio::select! {
                ended = agent => ended.expect("the agent does not panic"),
                _ = stopped => { abort.abort(); Ok(()) }
            }
        });
        self.running = Some(Running { stop, task });
    }

    async fn stop(&mut self) {
        let Running { stop, task } = self.running.take().expect("it runs");
        drop(stop);
        task.await.expect("it ends").expect("without an error");
    }

    fn attempt(&self, job: &Job) -> PathBuf {
        let id = job.id();
        self.directory.path().join("data/attempts").join(format!("{}.{}", id.attempt, id.rank))
    }

    /// Makes a job of this machine's first GPU, its spec known to the planes.
    fn job(&self, script: &str, planes: &[&Plane]) -> Job {
        let mut job = Job::new(script);
        job.assignment.gpus = vec![GpuUuid::new(&self.state.gpus[0].uuid).expect("a UUID")];
        job.assignment.launch = keep(&job.launch, planes);
        job
    }
}

/// No job outlives its test.
impl Drop for Machine {
    fn drop(&mut self) {
        support::end_all(&self.directory.path().join("data/attempts"));
    }
}

fn encoded(launch: &Launch) -> Vec<u8> {
    canonical_launch(launch.to_wire()).expect("a valid launch")
}

pub(crate) fn keep(launch: &Launch, planes: &[&Plane]) -> SpecHash {
    let bytes = encoded(launch);
    let hash = SpecHash::new(*blake3::hash(&bytes).as_bytes());
    for plane in planes {
        plane.seen().launches.insert(hash, bytes.clone());
    }
    hash
}

pub(crate) async fn linked(plane: &Plane) {
    until_async("a link", || plane.is_linked().then_some(())).await;
}

pub(crate) async fn reported(plane: &Plane, job: &Job, event: RankEvent) {
    let number = job.id().attempt.job.get();
    let mut events = Vec::new();
    let waited = tokio::time::timeout(support::PATIENCE, async {
        while !events.contains(&event) {
            pause().await;
            events = plane.events(number);
        }
    });
    let in_time = waited.await.is_ok();
    assert!(in_time, "{event:?} of job {number} was not reported, but {events:?}");
}

const BY_ITSELF: EndedBy = EndedBy::Itself;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_joins_once_says_what_it_has_and_runs_a_job_to_its_freed_gpus() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(1, &[&plane]);
    machine.start();
    linked(&plane).await;
    let hello = plane.seen().hellos[0].clone();
    let facts = hello.facts.clone().expect("facts");
    assert!(facts.simulated && facts.trouble.is_empty(), "{facts:?}");
    assert_eq!(facts.gpus.len(), 2);
    assert_eq!(facts.address.as_deref(), Some("127.0.0.1"));
    assert_eq!((hello.node, hello.boot), (3, facts.boot));

    let job = machine.job("echo hello; sleep 0.2; exit 37", &[&plane]);
    plane.assign(5, vec![job.assignment.clone()]).await;
    reported(&plane, &job, RankEvent::Started).await;
    reported(&plane, &job, RankEvent::Freed).await;
    let exited = RankEvent::Exited { exit: Exit::Code(37), by: BY_ITSELF, saved_at: None };
    assert_eq!(plane.events(job.id().attempt.job.get()), [RankEvent::Started, exited, RankEvent::Freed]);
    let at = plane.seen().reports.iter().map(|report| report.at).min().expect("reports");
    assert!(at >= Timestamp::from_millis(3_999_999_000_000), "reports carry cluster time: {at:?}");
    plane.assign(6, Vec::new()).await;
    let ack = machine.attempt(&job).join("ack");
    until_async("the acknowledgement", || ack.exists().then_some(())).await;

    machine.stop().await;
    machine.start();
    until_async("a second hello", || (plane.seen().hellos.len() > 1).then_some(())).await;
    assert_eq!(plane.seen().joins, 1);
    assert_eq!(plane.seen().hellos[1].seen.expect("a token").index, 6, "the token outlives the agent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_control_plane_stops_nothing_and_the_next_one_hears_everything() {
    let first = Plane::start().await;
    let second = Plane::start().await;
    let mut machine = Machine::new(2, &[&first, &second]);
    second.seen().redirect = Some(first.address.to_string());
    machine.start();
    linked(&first).await;
    let mut job = machine.job("echo ready; while [ ! -e \"$GO\" ]; do sleep 0.02; done; exit 4", &[]);
    let go = machine.directory.path().join("go");
    job.launch.env.insert("GO".to_owned(), go.display().to_string());
    job.assignment.launch = keep(&job.launch, &[&first, &second]);
    first.assign(5, vec![job.assignment.clone()]).await;
    reported(&first, &job, RankEvent::Started).await;
    first.seen().acks = false;
    first.stop();
    second.seen().redirect = None;
    std::fs::write(go, "").unwrap();
    linked(&second).await;
    reported(&second, &job, RankEvent::Exited { exit: Exit::Code(4), by: BY_ITSELF, saved_at: None }).await;
    reported(&second, &job, RankEvent::Freed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_agent_adopts_and_an_older_set_is_refused() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(3, &[&plane]);
    machine.start();
    linked(&plane).await;
    let job = machine.job("trap 'exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done", &[&plane]);
    plane.assign(7, vec![job.assignment.clone()]).await;
    let out = machine.attempt(&job).join("job/stdout");
    until_async("the job", || std::fs::read(&out).is_ok_and(|text| text == b"ready\n").then_some(())).await;
    machine.stop().await;
    plane.seen().reports.clear();
    machine.start();
    reported(&plane, &job, RankEvent::Started).await;
    let mut stop = job.assignment.clone();
    stop.generation = Generation::new(2);
    stop.order = Order::Stop {
        reason: "cancelled by alice".to_owned(),
        grace: Span::from_secs(600),
        has_notice: false,
    };
    plane.assign(6, vec![stop.clone()]).await;
    plane.assign(8, Vec::new()).await;
    let unknown = RankEvent::Unknown { gpus: job.assignment.gpus.clone() };
    reported(&plane, &job, unknown.clone()).await;
    assert!(!machine.attempt(&job).join("stop").exists(), "neither an old order nor absence stops anything");
    plane.assign(9, vec![stop]).await;
    reported(&plane, &job, RankEvent::Exited { exit: Exit::Code(9), by: EndedBy::Stop, saved_at: None })
        .await;
    reported(&plane, &job, RankEvent::Freed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_read_over_the_link() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(4, &[&plane]);
    machine.start();
    linked(&plane).await;
    let job = machine.job("echo hello; echo oops >&2", &[&plane]);
    plane.assign(5, vec![job.assignment.clone()]).await;
    reported(&plane, &job, RankEvent::Freed).await;
    let ask = |id, stream: v1::LogStream, no: u32| v1::LogRequest {
        id,
        job: job.id().attempt.job.get(),
        attempt: no,
        rank: 0,
        stream: stream.into(),
        offset: 1,
        length: 100,
        launch: Vec::new(),
        account: String::new(),
    };
    plane.send(ToAgent::Log(ask(1, v1::LogStream::Stdout, 3))).await;
    plane.send(ToAgent::Log(ask(2, v1::LogStream::Stderr, 3))).await;
    plane.send(ToAgent::Log(ask(3, v1::LogStream::Stdout, 99))).await;
    let mut chunks = until_async("three answers", || {
        let logs = plane.seen().logs.clone();
        (logs.len() == 3).then_some(logs)
    })
    .await;
    chunks.sort_by_key(|chunk| chunk.id);
    assert_eq!((chunks[0].bytes.as_slice(), chunks[0].ended), (b"ello\n".as_slice(), true));
    assert_eq!(chunks[1].bytes, b"oops\n"[1..]);
    assert!(chunks[2].error.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_launches_and_foreign_specs_are_reported_with_whose_fault_it_is() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(5, &[&plane]);
    machine.start();
    linked(&plane).await;
    let mut missing = machine.job("", &[]);
    missing.launch.working_dir = "/no/such/directory".to_owned();
    missing.assignment.launch = keep(&missing.launch, &[&plane]);
    // Its spec is known under a hash that isn't its own.
    let mut foreign = machine.job("echo never", &[]);
    foreign.assignment.gpus = vec![GpuUuid::new(&machine.state.gpus[1].uuid).unwrap()];
    foreign.assignment.launch = SpecHash::new([9; 32]);
    foreign.assignment.start_by = Timestamp::from_millis(4_000_000_000_000);
    plane.seen().launches.insert(SpecHash::new([9; 32]), encoded(&foreign.launch));
    plane.assign(5, vec![missing.assignment.clone(), foreign.assignment.clone()]).await;
    let failed = |job: &Job| {
        plane.events(job.id().attempt.job.get()).into_iter().find_map(|event| match event {
            RankEvent::LaunchFailed { fault, what } => Some((fault, what)),
            _ => None,
        })
    };
    let (fault, what) = until_async("the failure", || failed(&missing)).await;
    assert_eq!(fault, Fault::Job { code: 127 });
    assert!(what.contains("/no/such/directory"), "{what}");
    let (fault, _) = until_async("the refusal", || failed(&foreign)).await;
    assert_eq!(fault, Fault::Node);
    assert!(!machine.attempt(&foreign).exists());
    reported(&plane, &missing, RankEvent::Freed).await;
    reported(&plane, &foreign, RankEvent::Freed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gpu_in_use_by_somebody_else_is_not_started_over() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(6, &[&plane]);
    let mut other = std::process::Command::new("sleep")
        .arg("1000")
        .env("CUDA_VISIBLE_DEVICES", &machine.state.gpus[0].uuid)
        .spawn()
        .unwrap();
    machine.start();
    linked(&plane).await;
    let job = machine.job("echo run", &[&plane]);
    plane.assign(5, vec![job.assignment.clone()]).await;
    let beats = plane.seen().beats;
    until_async("some time", || (plane.seen().beats > beats + 10).then_some(())).await;
    assert!(!machine.attempt(&job).exists(), "started over process {}", other.id());
    other.kill().unwrap();
    other.wait().unwrap();
    reported(&plane, &job, RankEvent::Freed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_token_and_a_second_agent_are_errors_that_say_so() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(7, &[&plane]);
    let mut config = machine.config();
    config.join = Some(Join { name: "n1".to_owned(), token: "wrong".to_owned() });
    let refused = node_agent::run(config.clone(), std::future::pending()).await;
    assert!(matches!(refused, Err(Error::Join(_))), "{refused:?}");
    config.join = None;
    let nobody = node_agent::run(config, std::future::pending()).await;
    assert!(matches!(nobody, Err(Error::Join(_))), "{nobody:?}");
    machine.start();
    linked(&plane).await;
    let second = node_agent::run(machine.config(), std::future::pending()).await;
    assert!(matches!(second, Err(Error::Executor(node_agent::executor::Error::InUse(_)))), "{second:?}");
}

/// The next order of a job, one generation up.
pub(crate) fn ordered(job: &Job, generation: u32, order: Order) -> Assignment {
    Assignment { generation: Generation::new(generation), order, ..job.assignment.clone() }
}

pub(crate) fn preempted(grace: Span) -> Order {
    Order::Stop { reason: "preempted for 9.1".to_owned(), grace, has_notice: true }
}

/// Waits for the end of a job; what it was, by what, and its newest checkpoint.
pub(crate) async fn exited(plane: &Plane, job: &Job) -> (Exit, EndedBy, Option<Timestamp>) {
    let number = job.id().attempt.job.get();
    until_async("the exit", || {
        plane.events(number).into_iter().find_map(|event| match event {
            RankEvent::Exited { exit, by, saved_at } => Some((exit, by, saved_at)),
            _ => None,
        })
    })
    .await
}

async fn said(machine: &Machine, job: &Job, line: &str) {
    let out = machine.attempt(job).join("job/stdout");
    let has_line = || std::fs::read_to_string(&out).unwrap_or_default().lines().any(|found| found == line);
    until_async(line, || has_line().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preempted_job_saves_leaves_early_and_the_one_prepared_after_it_gets_its_gpus() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(8, &[&plane]);
    machine.start();
    linked(&plane).await;
    let victim = machine.job(
        "save() { echo \"{\\\"step\\\":$1}\" > \"$BURSAR_CHECKPOINT_FILE.new\"; \
         mv \"$BURSAR_CHECKPOINT_FILE.new\" \"$BURSAR_CHECKPOINT_FILE\"; }; \
         trap 'save 2' USR1; trap 'exit 9' TERM; save 1; echo ready; while :; do sleep 1000 & wait; done",
        &[&plane],
    );
    plane.assign(5, vec![victim.assignment.clone()]).await;
    said(&machine, &victim, "ready").await;
    let first =
        until_async("the first checkpoint", || plane.seen().saves.iter().find_map(|saved| saved.saved_at))
            .await;
    let sign = plane.seen().saves.iter().find_map(|saved| saved.signed_at).expect("it is a sign too");
    assert!(sign <= first && first >= 3_999_999_000_000, "in cluster time: {first}");

    let next = machine.job("echo go; exit 4", &[&plane]);
    let stop = ordered(&victim, 2, preempted(Span::from_secs(600)));
    plane.assign(6, vec![stop.clone(), ordered(&next, 1, Order::Prepare)]).await;
    let (exit, by, saved_at) = exited(&plane, &victim).await;
    assert_eq!((exit, by), (Exit::Code(9), EndedBy::Notice));
    assert!(saved_at > Some(Timestamp::from_millis(first)), "{saved_at:?}");
    reported(&plane, &victim, RankEvent::Freed).await;
    reported(&plane, &next, RankEvent::Ready).await;
    assert!(!machine.attempt(&next).exists(), "nothing of it starts before its go");
    plane.assign(7, vec![ordered(&next, 1, Order::Run)]).await;
    assert_eq!(exited(&plane, &next).await, (Exit::Code(4), EndedBy::Itself, None));
    let number = next.id().attempt.job.get();
    assert_eq!(plane.events(number)[..2], [RankEvent::Ready, RankEvent::Started]);
    reported(&plane, &next, RankEvent::Freed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_are_told_again_on_a_new_link_and_by_the_next_agent() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(9, &[&plane]);
    machine.start();
    linked(&plane).await;
    let job = machine.job("echo '{}' > \"$BURSAR_CHECKPOINT_FILE\"; echo ready; exec sleep 1000", &[&plane]);
    plane.assign(5, vec![job.assignment.clone()]).await;
    let told = || plane.seen().saves.iter().rev().find_map(|saved| saved.saved_at);
    let first = until_async("the checkpoint", told).await;
    machine.stop().await;
    plane.seen().saves.clear();
    machine.start();
    let again = until_async("the checkpoint again", told).await;
    assert!(again.abs_diff(first) < 1_000, "{again} is the same moment as {first}");
    // Another machine has this node's link: the agent is refused, and its job runs on.
    plane.seen().refusal = Some("another machine has the link of this node".to_owned());
    machine.stop().await;
    machine.start();
    until_async("some refusals", || (plane.seen().refused > 1).then_some(())).await;
    let main = support::until("the record", || {
        let bytes = shim::files::read(&machine.attempt(&job), shim::format::RECORD).ok()??;
        shim::format::Record::decode(&bytes).ok()
    });
    assert!(shim::procs::is_alive(main.main));
    plane.seen().saves.clear();
    plane.seen().refusal = None;
    until_async("the checkpoint once more", told).await;
    assert!(shim::procs::is_alive(main.main));
    plane.assign(6, vec![ordered(&job, 2, preempted(Span::ZERO))]).await;
    let (exit, by, saved_at) = exited(&plane, &job).await;
    assert_eq!((exit, by), (Exit::Signal(9), EndedBy::Notice));
    assert!(saved_at.is_some());
    reported(&plane, &job, RankEvent::Freed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_ended_is_reported_and_its_gpus_are_nobodys_until_it_is_gone() {
    let plane = Plane::start().await;
    let mut machine = Machine::new(10, &[&plane]);
    machine.start();
    linked(&plane).await;
    let job = machine.job("echo ready; exec sleep 1000", &[&plane]);
    let number = job.id().attempt.job.get();
    let freezer =
        PathBuf::from(format!("/sys/fs/cgroup/freezer/bursar-test.{}.{number}", std::process::id()));
    if std::fs::create_dir(&freezer).is_err() {
        println!("not available: this machine has no freezer of cgroup version 1 to hang a process in");
        return;
    }
    plane.assign(5, vec![job.assignment.clone()]).await;
    said(&machine, &job, "ready").await;
    let record = shim::files::read(&machine.attempt(&job), shim::format::RECORD).unwrap().unwrap();
    let main = shim::format::Record::decode(&record).unwrap().main;
    std::fs::write(freezer.join("cgroup.procs"), main.pid.to_string()).unwrap();
    std::fs::write(freezer.join("freezer.state"), "FROZEN").unwrap();
    let next = machine.job("echo go", &[&plane]);
    let stop = ordered(&job, 2, preempted(Span::ZERO));
    plane.assign(6, vec![stop.clone(), ordered(&next, 1, Order::Prepare)]).await;
    let what = until_async("the words", || {
        plane.events(number).into_iter().find_map(|event| match event {
            RankEvent::Unkillable { what } => Some(what),
            _ => None,
        })
    })
    .await;
    assert!(what.contains(&format!("process {}", main.pid)), "{what}");
    plane.assign(7, vec![ordered(&job, 3, Order::Clear), ordered(&next, 1, Order::Prepare)]).await;
    let beats = plane.seen().beats;
    until_async("some time", || (plane.seen().beats > beats + 10).then_some(())).await;
    assert!(!plane.events(number).contains(&RankEvent::Freed));
    assert_eq!(plane.events(next.id().attempt.job.get()), []);
    std::fs::write(freezer.join("freezer.state"), "THAWED").unwrap();
    reported(&plane, &job, RankEvent::Freed).await;
    reported(&plane, &next, RankEvent::Ready).await;
    until_async("the freezer is empty", || std::fs::remove_dir(&freezer).ok()).await;
}
