//! Arrays, and what a job waits for.

use proto::v1::{ArrayView, JobView, NeedView, QueueView, Receipt, TaskCount};

use super::{NOW, as_of, check, job, look, receipt, row};
use crate::render;

#[test]
fn receipt_says_what_a_job_waits_for_and_which_tasks_an_array_has() {
    let need = |job, shown_as: &str, wants: &str, met: &str| NeedView {
        job,
        name: "prepare".into(),
        wants: wants.into(),
        met: met.into(),
        shown_as: shown_as.into(),
    };
    let held = Receipt {
        state: "held".into(),
        place: 0,
        warnings: vec![],
        begin_at: Some(NOW + 3_600_000),
        after: vec![need(4188, "", "end", "yes"), need(4181, "4180[0]", "success", "open")],
        tasks: Some(tasks()),
        ..receipt()
    };
    check(
        &render::receipt::receipt(&held, "min_runtime in train.yaml", "SIGTERM", &look()),
        "job 4190  sft-think-7b  accepted 14:02

  budget       language/posttrain      use 0.78 of its allocation (lower goes first)
  tier         funded                  from min_runtime in train.yaml
  charge       64 GPUs x 4 h = 256 GPU-h set aside at its start; then as it runs
               headroom 1,419 -> 1,163 GPU-h
  protection   4 h from its start, then interruptible; on preemption SIGTERM, 2 min grace, requeued
  time limit   3 d, counted from the start of each attempt
  array        0-9%4: 10 tasks, at most 4 at once; each as said here
  begin        not before Sun 29 Nov 15:02; `bursar job release 4190` starts it earlier
  after        4188 prepare must have ended: it has
               4180[0] prepare must complete
  order        held until then; in line at the place of its submission
  start        within 8 h 30 min of becoming first in order, unless a node of it fails; likely:
               bursar explain

next   bursar job show 4190     bursar job wait 4190
",
    );
}

fn tasks() -> ArrayView {
    let count = |state: &str, tasks| TaskCount { state: state.into(), tasks };
    ArrayView {
        indexes: "0-9%4".into(),
        count: 10,
        at_once: 4,
        states: vec![count("waiting", 5), count("running", 3), count("completed", 1), count("failed", 1)],
        not_completed: vec![2],
    }
}

#[test]
fn an_array_is_summed_up_and_a_task_says_which_it_is() {
    let whole = JobView {
        state: "running".into(),
        reason: "running.array".into(),
        shown_as: "4190".into(),
        tasks: Some(tasks()),
        attempts: vec![],
        launch: None,
        end: None,
        exit: None,
        ended_at: None,
        ..job()
    };
    check(
        &render::job::job(&whole, &look()),
        "4190 sft-think-7b is RUNNING (running.array) since 14:01

  budget       language/posttrain
  user         pia, runs as pia
  submitted    2026-11-29 13:52:01 +00:00
  tasks        0-9%4: 10 tasks, at most 4 at once
               5 waiting, 3 running, 1 completed, 1 failed
               not completed: 2
  needs        4 GPUs on one node
  terms        protected 5 min from its start, time limit 1 h, resumable, 1 of 1 retries used,
               turn first
  charged      2 GPU-h

next   bursar explain 4190     bursar job list --tasks
",
    );
    let mut row = row(1, 4190, "sweep", "robotics/sim-rl", 1, vec![], "running.array");
    row.tasks = Some(tasks());
    let view = QueueView { rows: vec![row], as_of: as_of(), ..QueueView::default() };
    let text = render::queue::queue(&view, &look());
    assert!(text.contains("4190[0-9%4]") && text.contains("3 run, 5 wait"), "{text}");
    let task = JobView { shown_as: "4190[2]".into(), job: 4193, array: Some(4190), task: Some(2), ..job() };
    let text = render::job::job(&task, &look());
    assert!(text.starts_with("4190[2] sft-think-7b is FAILED"), "{text}");
    assert!(text.contains("  task         2 of array 4190; its own number is 4193\n"), "{text}");
    assert!(text.contains("4190[2].1"), "{text}");
}
