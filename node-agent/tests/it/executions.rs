use node_agent::executor::{Error, Executor, LogError, StopOrder, Stream};
use scheduler_core::agent::Fault;
use scheduler_core::id::{GpuUuid, Name, Rank};
use scheduler_core::principal::AccountName;
use scheduler_core::spec::Program;
use scheduler_core::unit::Span;
use shim::format::{Status, Step};

use crate::support::{Job, Node};

#[test]
fn a_job_is_started_watched_and_proven_gone() {
    let (mut node, job) = (Node::new(), Job::new("echo hello; exit 37"));
    node.launch(&job).unwrap();
    let started = node.started(&job);
    let exit = node.exit(&job);
    assert_eq!((exit.status, exit.asked), (Status::Code(37), None));
    assert!(started <= exit.ended_ms);
    node.gone(&job);
    let log = node.executor().log(job.id(), Stream::Stdout, 0, 100).unwrap();
    assert_eq!((log.bytes.as_slice(), log.is_end), (b"hello\n".as_slice(), true));
    let part = node.executor().log(job.id(), Stream::Stdout, 2, 3).unwrap();
    assert_eq!((part.bytes.as_slice(), part.is_end), (b"llo".as_slice(), false));
}

#[test]
fn the_environment_has_what_the_page_says_and_nothing_of_the_agents() {
    let (mut node, mut job) = (Node::new(), Job::new("env"));
    job.launch.env.insert("PATH".to_owned(), "/bin:/usr/bin".to_owned());
    job.launch.env.insert("MINE".to_owned(), "x y".to_owned());
    node.launch(&job).unwrap();
    node.gone(&job);
    let log = node.executor().log(job.id(), Stream::Stdout, 0, 10_000).unwrap().bytes;
    let log = String::from_utf8(log).unwrap();
    let value = |name: &str| {
        let found = log.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("{name} is not set in:\n{log}")).to_owned()
    };
    assert_eq!(value("PATH"), "/bin:/usr/bin");
    assert_eq!(value("MINE"), "x y");
    assert_eq!(value("BURSAR_JOB_ID"), job.id().attempt.job.to_string());
    assert_eq!((value("BURSAR_ATTEMPT"), value("BURSAR_RANK")), ("3".to_owned(), "0".to_owned()));
    assert_eq!((value("BURSAR_BUDGET"), value("BURSAR_NODELIST")), ("lab/nlp".to_owned(), "n1".to_owned()));
    assert_eq!(value("BURSAR_PROTECTED_UNTIL"), "5");
    assert_eq!(
        (value("NNODES"), value("NODE_RANK"), value("NPROC_PER_NODE")),
        ("1".into(), "0".into(), "1".into())
    );
    assert!(!log.contains("MASTER_"), "one node has nobody to meet");
    assert!(value("BURSAR_CHECKPOINT_SOCKET").ends_with("/checkpoint.sock"));
    assert_eq!(value("CUDA_VISIBLE_DEVICES"), job.assignment.gpus[0].to_string());
    assert_eq!(value("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
    assert_eq!(value("USER"), job.assignment.account.as_str());
    assert!(!log.contains("CARGO"), "the agent's own environment leaks: {log}");
}

#[test]
fn a_rank_of_a_gang_is_told_where_the_others_are() {
    let (mut node, mut job) = (Node::new(), Job::new("env; cat \"$BURSAR_HOSTFILE\""));
    job.launch.env.insert("NPROC_PER_NODE".to_owned(), "1".to_owned());
    let gpu = |n: u32| GpuUuid::new(&format!("GPU-{n}")).unwrap();
    job.assignment.rank = Rank::new(1);
    job.assignment.gpus = vec![gpu(1), gpu(2)];
    job.assignment.nodes = ["n1", "n2"].map(|name| Name::new(name).unwrap()).to_vec();
    job.assignment.addresses = vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
    job.assignment.port = Some(29_511);
    node.launch(&job).unwrap();
    node.gone(&job);
    let log = node.executor().log(job.id(), Stream::Stdout, 0, 10_000).unwrap().bytes;
    let log = String::from_utf8(log).unwrap();
    for line in [
        "MASTER_ADDR=10.0.0.1",
        "MASTER_PORT=29511",
        "NNODES=2",
        "NODE_RANK=1",
        "WORLD_SIZE=4",
        "BURSAR_NODES=n1,n2",
        "BURSAR_NODE_ADDRESSES=10.0.0.1,10.0.0.2",
        &format!("BURSAR_RENDEZVOUS_ID={}", job.id().attempt),
        // What the job says itself of a name that isn't ours stands.
        "NPROC_PER_NODE=1",
        "10.0.0.2 slots=2",
    ] {
        assert!(log.lines().any(|found| found == line), "{line} is not in:\n{log}");
    }
}

#[test]
fn a_job_can_not_pose_as_us() {
    for name in ["BURSAR_MARK", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "A=B"] {
        let (mut node, mut job) = (Node::new(), Job::new("true"));
        job.launch.env.insert(name.to_owned(), "x".to_owned());
        assert_eq!(node.launch(&job).unwrap_err().fault, Fault::Job { code: 126 });
    }
}

#[test]
fn whose_fault_a_failed_launch_is_stays_apart() {
    let (mut node, mut job) = (Node::new(), Job::new(""));
    job.launch.program = Program::Command(vec!["no-such-program".to_owned()]);
    node.launch(&job).unwrap();
    let failure = node.exit(&job).launch.unwrap();
    assert_eq!(failure.step, Step::Program);
    let told = node.executor().explain(job.id(), failure);
    assert_eq!(told.fault, Fault::Job { code: 127 });
    assert!(told.what.contains("no-such-program"), "{}", told.what);
    node.gone(&job);

    let mut job = Job::new("");
    job.assignment.account = AccountName::new("no-such-account").unwrap();
    assert_eq!(node.launch(&job).unwrap_err().fault, Fault::Node);

    let mut job = Job::new("");
    job.launch.working_dir = "/no/such/directory".to_owned();
    node.launch(&job).unwrap();
    let failure = node.exit(&job).launch.unwrap();
    assert_eq!(node.executor().explain(job.id(), failure).fault, Fault::Job { code: 127 });
}

#[test]
fn uid_0_is_refused_unless_allowed() {
    if !nix::unistd::geteuid().is_root() {
        println!("not available: only root's agent could run a job as root");
        return;
    }
    let mut node = Node::new();
    node.stop_agent();
    let mut config = node.config();
    config.allow_root_jobs = false;
    let mut executor = Executor::open(config).unwrap();
    let job = Job::new("true");
    let order = node_agent::executor::Order {
        assignment: &job.assignment,
        launch: &job.launch,
        protected_until: None,
    };
    let refused = executor.launch(&order).unwrap_err();
    assert_eq!(refused.fault, Fault::Node);
    assert!(refused.what.contains("allow_root_jobs"));
}

#[test]
fn another_account_runs_its_job_and_only_it_reads_the_output() {
    if !nix::unistd::geteuid().is_root() {
        println!("not available: dropping to an account needs root");
        return;
    }
    let (mut node, mut job) = (Node::new(), Job::new("id -un; echo secret is $TOKEN"));
    job.assignment.account = AccountName::new("nobody").unwrap();
    job.launch.secrets = vec!["TOKEN".to_owned()];
    let secret = node.path().join("data/secrets/TOKEN");
    std::fs::write(&secret, "s3cret\n").unwrap();
    assert_eq!(node.launch(&job).unwrap_err().fault, Fault::Job { code: 127 }, "a secret of another account");
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    std::os::unix::fs::chown(&secret, Some(nobody.uid.as_raw()), None).unwrap();
    node.launch(&job).unwrap();
    node.gone(&job);
    let log = node.executor().log(job.id(), Stream::Stdout, 0, 100).unwrap();
    assert_eq!(log.bytes, b"nobody\nsecret is s3cret\n");
}

#[test]
fn a_log_that_the_job_replaced_by_a_link_is_not_followed() {
    let (mut node, mut job) = (Node::new(), Job::new("rm \"$OUT\"; ln -s /etc/hostname \"$OUT\""));
    let out = node.attempt(&job).join("job/stdout").display().to_string();
    job.launch.env.insert("OUT".to_owned(), out);
    node.launch(&job).unwrap();
    node.gone(&job);
    assert_eq!(node.executor().log(job.id(), Stream::Stdout, 0, 100), Err(LogError::NotReadable));
}

#[test]
fn an_output_path_is_filled_in_and_read() {
    let (mut node, mut job) = (Node::new(), Job::new("echo out; echo err >&2"));
    job.launch.working_dir = node.path().display().to_string();
    job.launch.output = Some("log-%j.%a.%r".to_owned());
    node.launch(&job).unwrap();
    node.gone(&job);
    assert!(node.path().join(format!("log-{}.3.0", job.id().attempt.job)).exists());
    assert_eq!(node.executor().log(job.id(), Stream::Stdout, 0, 100).unwrap().bytes, b"out\nerr\n");
    assert_eq!(node.executor().log(job.id(), Stream::Stderr, 0, 100).unwrap().bytes, b"");
}

#[test]
fn a_stop_is_handed_on_and_recorded() {
    let (mut node, job) =
        (Node::new(), Job::new("trap 'exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done"));
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let stop = StopOrder {
        generation: 2,
        reason: "cancelled by alice".to_owned(),
        grace_ms: 600_000,
        has_notice: false,
    };
    node.executor().stop(job.id(), &stop).unwrap();
    node.executor().stop(job.id(), &stop).unwrap();
    let exit = node.exit(&job);
    assert_eq!((exit.status, exit.asked.as_deref()), (Status::Code(9), Some("stop")));
    node.gone(&job);
}

#[test]
fn the_time_limit_needs_no_agent() {
    let (mut node, mut job) = (Node::new(), Job::new("echo ready; exec sleep 1000"));
    job.assignment.time_limit = Some(Span::from_millis(300));
    node.launch(&job).unwrap();
    node.stop_agent();
    node.until("the exit", || node.attempt(&job).join("exit").exists().then_some(()));
    node.restart();
    let exit = node.exit(&job);
    assert_eq!((exit.status, exit.asked.as_deref()), (Status::Signal(libc::SIGTERM), Some("limit")));
}

#[test]
fn one_agent_works_in_a_data_directory() {
    let node = Node::new();
    let second = Executor::open(node.config());
    assert!(matches!(second.err(), Some(Error::InUse(_))));
}

#[test]
fn an_agent_waits_for_the_last_traces_of_its_predecessor() {
    let mut node = Node::new();
    node.stop_agent();
    // What a child that was forked as its agent died still holds, until it has become the other program.
    let held = std::fs::File::open(node.config().data.join("agent.lock")).expect("the lock's file");
    held.lock().expect("it is free");
    let (trying, tries) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let config = node.config();
        let restarted = scope.spawn(move || {
            trying.send(()).expect("somebody listens");
            Executor::open(config)
        });
        tries.recv().expect("it is about to try");
        drop(held);
        restarted.join().expect("no panic").expect("the directory opens");
    });
}
