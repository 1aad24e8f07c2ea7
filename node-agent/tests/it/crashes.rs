//! The agent as a process, ended by KILL at moments spread over a launch and a stop.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bursar_fake_nvml::{STATE_VARIABLE, State};
use scheduler_core::agent::{EndedBy, Order, RankEvent};
use scheduler_core::id::{Generation, GpuUuid};
use scheduler_core::job::Exit;
use scheduler_core::unit::Span;
use tempfile::TempDir;

use crate::agents::{exited, keep, linked, ordered, preempted, reported};
use crate::plane::{JOIN_TOKEN, Plane};
use crate::support::{self, Job, pause, until_async};

/// Moments after an order at which the agent is ended, in ms: from before it heard of it to after all was done.
const MOMENTS_MS: [u64; 10] = [0, 3, 6, 9, 12, 16, 20, 30, 60, 120];

struct Node {
    directory: TempDir,
    state: State,
    agent: Option<Child>,
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let state = State::healthy(std::process::id() ^ 0x7000_0000, 1);
        bursar_fake_nvml::write(&directory.path().join("nvml.json"), &state).expect("the state is written");
        Self { directory, state, agent: None }
    }

    fn start(&mut self, plane: &Plane) {
        let log = std::fs::File::options().create(true).append(true).open(self.directory.path().join("log"));
        let mut command = Command::new(support::example("agent"));
        command
            .arg(self.directory.path().join("data"))
            .args([plane.address.to_string(), "n1".to_owned(), JOIN_TOKEN.to_owned()])
            .arg(xtask::built::shim())
            .arg(support::example("probe"))
            .arg(xtask::built::fake_nvml())
            .env(STATE_VARIABLE, self.directory.path().join("nvml.json"))
            .stdin(Stdio::null())
            .stderr(log.expect("the log opens"));
        self.agent = Some(command.spawn().expect("the agent starts"));
    }

    fn end(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }

    /// Makes a job that notes each of its starts.
    fn job(&self, script: &str, plane: &Plane) -> Job {
        let mut job = Job::new(&format!("echo run >> \"$STARTS\"; {script}"));
        let starts = self.starts(&job);
        job.launch.env.insert("STARTS".to_owned(), starts.display().to_string());
        job.assignment.gpus = vec![GpuUuid::new(&self.state.gpus[0].uuid).expect("a UUID")];
        job.assignment.launch = keep(&job.launch, &[plane]);
        job
    }

    fn starts(&self, job: &Job) -> std::path::PathBuf {
        self.directory.path().join(format!("starts-{}", job.id().attempt.job))
    }

    fn started(&self, job: &Job) -> usize {
        std::fs::read_to_string(self.starts(job)).unwrap_or_default().lines().count()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.directory.path().join("log"));
            eprintln!("the agent's log:\n{}", log.unwrap_or_default());
        }
        support::end_all(&self.directory.path().join("data/attempts"));
    }
}

/// Ends the agent `after_ms` and starts the next one.
async fn crash(node: &mut Node, plane: &Plane, after_ms: u64) {
    let moment = tokio::time::timeout(Duration::from_millis(after_ms), std::future::pending::<()>());
    moment.await.expect_err("nothing else ends it");
    node.end();
    until_async("the link is gone", || (!plane.is_linked()).then_some(())).await;
    node.start(plane);
    linked(plane).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_killed_at_any_moment_starts_a_job_once_and_loses_no_end() {
    let plane = Plane::start().await;
    let mut node = Node::new();
    node.start(&plane);
    linked(&plane).await;
    let mut index = 10;
    for moment_ms in MOMENTS_MS {
        // Through the launch.
        let job = node.job("sleep 0.1; exit 5", &plane);
        index += 1;
        plane.assign(index, vec![job.assignment.clone()]).await;
        crash(&mut node, &plane, moment_ms).await;
        reported(
            &plane,
            &job,
            RankEvent::Exited { exit: Exit::Code(5), by: EndedBy::Itself, saved_at: None },
        )
        .await;
        reported(&plane, &job, RankEvent::Freed).await;
        assert_eq!(node.started(&job), 1, "the agent was ended {moment_ms} ms into the launch");
        // Through a stop.
        let job = node
            .job("trap 'exit 9' TERM; echo > \"$STARTS.ready\"; while :; do sleep 1000 & wait; done", &plane);
        index += 1;
        plane.assign(index, vec![job.assignment.clone()]).await;
        let ready = node.starts(&job).with_extension("ready");
        until_async("the job", || ready.exists().then_some(())).await;
        let mut stop = job.assignment.clone();
        stop.generation = Generation::new(2);
        stop.order =
            Order::Stop { reason: "cancelled".to_owned(), grace: Span::from_secs(600), has_notice: false };
        index += 1;
        plane.assign(index, vec![stop]).await;
        crash(&mut node, &plane, moment_ms).await;
        reported(&plane, &job, RankEvent::Exited { exit: Exit::Code(9), by: EndedBy::Stop, saved_at: None })
            .await;
        reported(&plane, &job, RankEvent::Freed).await;
        assert_eq!(node.started(&job), 1, "the agent was ended {moment_ms} ms into the stop");
        pause().await;
    }
}

/// Ways to take a notice, each with what it leaves: one saves and leaves, one ignores everything, one has a child that outlives
/// it, one floods and fakes its reports.
const TAKES: [(&str, u64); 4] = [
    (
        "trap 'echo {} > \"$BURSAR_CHECKPOINT_FILE\"' USR1; trap 'exit 9' TERM; echo > \"$STARTS.ready\"; \
      while :; do sleep 1000 & wait; done",
        600_000,
    ),
    ("trap '' USR1 TERM; echo > \"$STARTS.ready\"; while :; do sleep 1000; done", 400),
    (
        "(trap '' USR1 TERM; while :; do sleep 1000; done) & trap 'exit 0' USR1; echo > \"$STARTS.ready\"; wait",
        400,
    ),
    (
        "cd \"${BURSAR_CHECKPOINT_FILE%/*}\"; mkfifo checkpoint; trap 'rm checkpoint; ln -s /dev/zero checkpoint' USR1; \
      trap 'exit 9' TERM; echo > \"$STARTS.ready\"; while :; do sleep 1000 & wait; done",
        400,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_killed_at_any_moment_of_a_notice_loses_neither_the_notice_nor_the_end() {
    let plane = Plane::start().await;
    let mut node = Node::new();
    node.start(&plane);
    linked(&plane).await;
    let mut index = 10;
    for (moment_ms, (script, grace_ms)) in MOMENTS_MS.into_iter().zip(TAKES.into_iter().cycle()) {
        let job = node.job(script, &plane);
        index += 1;
        plane.assign(index, vec![job.assignment.clone()]).await;
        let ready = node.starts(&job).with_extension("ready");
        until_async("the job", || ready.exists().then_some(())).await;
        index += 1;
        plane.assign(index, vec![ordered(&job, 2, preempted(Span::from_millis(grace_ms)))]).await;
        crash(&mut node, &plane, moment_ms).await;
        let (exit, by, saved_at) = exited(&plane, &job).await;
        assert_eq!(
            by,
            EndedBy::Notice,
            "{exit:?}: the agent was ended {moment_ms} ms into the notice of {script}"
        );
        assert_eq!(saved_at.is_some(), grace_ms > 400, "only the first one saves: {script}");
        reported(&plane, &job, RankEvent::Freed).await;
        assert_eq!(node.started(&job), 1, "the agent was ended {moment_ms} ms into the notice");
    }
}
