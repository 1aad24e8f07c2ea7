use shim::format::Status;
use shim::procs;

use crate::support::{Job, Node, kill};

/// A job that goes on until the file `go` is there.
fn patient(node: &Node) -> Job {
    let mut job = Job::new("echo ready; while [ ! -e \"$GO\" ]; do sleep 0.02; done; echo done; exit 37");
    job.launch.env.insert("GO".to_owned(), node.path().join("go").display().to_string());
    job
}

fn go(node: &Node) {
    std::fs::write(node.path().join("go"), "").expect("the file is made");
}

#[test]
fn a_restarted_agent_adopts_what_runs_and_starts_nothing_twice() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let record = node.record(&job);
    node.restart();
    let found = node.executor().ranks();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, &found[0].gpus), (job.id(), &job.assignment.gpus));
    node.started(&job);
    node.launch(&job).unwrap();
    assert_eq!(node.record(&job), record, "the same processes");
    assert!(procs::is_alive(record.main));
    go(&node);
    assert_eq!(node.exit(&job).status, Status::Code(37));
    node.gone(&job);
    assert_eq!(std::fs::read_to_string(node.attempt(&job).join("job/stdout")).unwrap(), "ready\ndone\n");
}

#[test]
fn an_exit_while_no_agent_ran_is_found() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    node.stop_agent();
    go(&node);
    node.until("the end", || node.attempt(&job).join("empty").exists().then_some(()));
    node.restart();
    assert_eq!(node.exit(&job).status, Status::Code(37));
    node.gone(&job);
    node.executor().forget(job.id()).unwrap();
    node.restart();
    assert!(node.executor().ranks().is_empty(), "what is acknowledged is not found again");
    node.launch(&job).unwrap();
    assert!(node.executor().ranks().is_empty(), "and not launched again");
}

#[test]
fn a_job_outlives_its_shim_and_its_exit_is_known() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let record = node.record(&job);
    node.executor().look();
    kill(record.shim.pid);
    node.until("the shim is gone", || (!procs::is_alive(record.shim)).then_some(()));
    assert!(procs::is_alive(record.main));
    node.executor().look();
    go(&node);
    let exit = node.exit(&job);
    node.gone(&job);
    // Our own process inherited the job, so its code is known on every kernel.
    assert_eq!(exit.status, Status::Code(37), "told by the {}", exit.writer);
}

#[test]
fn shim_and_job_dead_at_once_are_still_an_end() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let record = node.record(&job);
    node.executor().look();
    kill(record.shim.pid);
    kill(record.main.pid);
    let exit = node.exit(&job);
    assert!(
        matches!(exit.status, Status::Signal(libc::SIGKILL) | Status::Unknown(_)),
        "never a code that nobody saw: {:?}",
        exit.status
    );
    node.gone(&job);
}

#[test]
fn an_orphaned_jobs_stop_reaches_it_through_a_nurse() {
    let mut node = Node::new();
    let job = Job::new("trap 'exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done");
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    kill(node.record(&job).shim.pid);
    node.stop_agent();
    node.restart();
    let stop = node_agent::executor::StopOrder {
        generation: 2,
        reason: "cancelled".to_owned(),
        grace_ms: 600_000,
        has_notice: false,
    };
    node.executor().stop(job.id(), &stop).unwrap();
    let exit = node.exit(&job);
    assert_eq!((exit.status, exit.asked.as_deref()), (Status::Code(9), Some("stop")));
    node.gone(&job);
}

#[test]
fn a_directory_of_another_boot_is_an_end_by_restart() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let mut record = node.record(&job);
    node.stop_agent();
    // The machine can't be restarted here, so the record is dated back to another boot, and the processes ended.
    kill(record.shim.pid);
    kill(record.main.pid);
    node.until("the end", || node.living(&job).is_empty().then_some(()));
    record.boot = "another".to_owned();
    shim::files::replace(&node.attempt(&job), "record", &record.encode(), shim::files::Readers::Owner)
        .unwrap();
    node.restart();
    let exit = node.exit(&job);
    assert_eq!(exit.asked.as_deref(), Some("reboot"));
    assert!(matches!(exit.status, Status::Unknown(_)));
    node.gone(&job);
}

#[test]
fn a_restart_of_the_machine_after_the_notice_is_an_end_by_the_notice() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let stop = node_agent::executor::StopOrder {
        generation: 2,
        reason: "preempted for 9.1".to_owned(),
        grace_ms: 600_000,
        has_notice: true,
    };
    node.executor().stop(job.id(), &stop).unwrap();
    node.until("the notice", || node.attempt(&job).join("notice").exists().then_some(()));
    let mut record = node.record(&job);
    node.stop_agent();
    kill(record.shim.pid);
    kill(record.main.pid);
    node.until("the end", || node.living(&job).is_empty().then_some(()));
    record.boot = "another".to_owned();
    shim::files::replace(&node.attempt(&job), "record", &record.encode(), shim::files::Readers::Owner)
        .unwrap();
    node.restart();
    let exit = node.exit(&job);
    assert_eq!((exit.asked.as_deref(), exit.noticed, exit.saved_ms), (Some("reboot"), true, None));
    node.gone(&job);
}

#[test]
fn a_launch_that_never_happened_may_happen_again() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.exit_by_kill(&job);
    node.stop_agent();
    // What is left when the agent and its shim die between intent and record.
    for name in ["record", "phase", "exit", "empty"] {
        let _ = std::fs::remove_file(node.attempt(&job).join(name));
    }
    node.restart();
    assert!(node.executor().ranks().is_empty());
    assert!(!node.attempt(&job).join("spec").exists(), "a shim that comes late finds nothing to start");
    go(&node);
    node.launch(&job).unwrap();
    assert_eq!(node.exit(&job).status, Status::Code(37));
    node.gone(&job);
}

#[test]
fn a_shim_that_died_before_its_record_is_the_nodes_failure() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let record = node.record(&job);
    kill(record.shim.pid);
    kill(record.main.pid);
    node.until("the end", || node.living(&job).is_empty().then_some(()));
    std::fs::remove_file(node.attempt(&job).join("record")).unwrap();
    let exit = node.exit(&job);
    let told = exit.launch.map(|failure| node.executor().explain(job.id(), failure).fault);
    assert_eq!(told, Some(scheduler_core::agent::Fault::Node));
}

#[test]
fn processes_without_records_are_reported_and_left_alone() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let record = node.record(&job);
    node.stop_agent();
    let hidden = node.path().join("hidden");
    std::fs::rename(node.attempt(&job), &hidden).unwrap();
    node.restart();
    let strays = node.executor().strays().unwrap();
    assert!(strays.contains(&(job.id(), record.main.pid)), "{strays:?}");
    assert!(procs::is_alive(record.main));
    std::fs::rename(&hidden, node.attempt(&job)).unwrap();
    go(&node);
}

impl Node {
    fn exit_by_kill(&mut self, job: &Job) {
        self.said(job, "ready");
        kill(self.record(job).main.pid);
        self.exit(job);
        self.gone(job);
    }
}

#[test]
fn records_that_can_not_be_read_are_left_alone() {
    let mut node = Node::new();
    let job = patient(&node);
    node.launch(&job).unwrap();
    node.said(&job, "ready");
    let record = node.record(&job);
    node.stop_agent();
    let spec = std::fs::read(node.attempt(&job).join("spec")).unwrap();
    std::fs::write(node.attempt(&job).join("spec"), "format=99\0whatever").unwrap();
    node.restart();
    assert_eq!(node.executor().unreadable(), [job.id()]);
    node.started(&job);
    assert!(procs::is_alive(record.main));
    std::fs::write(node.attempt(&job).join("spec"), spec).unwrap();
    go(&node);
    assert_eq!(node.exit(&job).status, Status::Code(37));
}
