//! What gives way, what that costs, and what could start.

use proto::v1::{
    AttemptView, BillLine, BillView, CapacityView, DrainView, Explanation, Fact, FactGroup, JobView,
    LeavingJob, NodeShape, PlacedOn, PlanJobReply, PoolCapacity, PreemptionCost, ProtectionEnd, ReasonView,
    VictimView,
};

use super::{NOW, as_of, attempt, check, hours, job, look, pool, receipt, usage, wide};
use crate::render;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn cost() -> PreemptionCost {
    PreemptionCost {
        attempt: "4101.2".into(),
        cause: "share".into(),
        gpus: 128,
        noticed_at: NOW - 10 * MINUTE,
        ended_at: NOW - 10 * MINUTE + 84_000,
        saved_at: Some(NOW - 20 * MINUTE),
        age_ms: 590_000,
        basis: "reported".into(),
        restart_ms: 360_000,
        restart_basis: "expected".into(),
        lost_gpu_ms: 128 * 950_000,
        taken_for: Some("4190.1".into()),
        decision: Some("d8851920.0".into()),
        wasted: Some(false),
    }
}

fn victim() -> VictimView {
    VictimView {
        attempt: "4101.2".into(),
        name: "7b-base".into(),
        budget: "language/pretrain".into(),
        user: "tom".into(),
        right: "share".into(),
        mine: Some(usage("language/posttrain", 770_000, 1)),
        theirs: Some(usage("language/pretrain", 1_060_000, 1)),
        gpus: 128,
        price_milli_gpu_ms: hours(34),
        lost_ms: 590_000,
        restart_ms: 360_000,
        preemptions: 1,
        saved_at: Some(NOW - 20 * MINUTE),
        basis: "reported".into(),
    }
}

#[test]
fn an_attempt_that_gave_way_is_explained_with_right_and_cost() {
    let e = Explanation {
        as_of: as_of(),
        subject: "4101.2".into(),
        job: Some(4101),
        name: "7b-base".into(),
        state: "ended".into(),
        reason: "preempted.share".into(),
        sentence: "language/posttrain was further below its share".into(),
        taken: Some(victim()),
        cost: Some(cost()),
        decision: Some("d8851920.0".into()),
        decided_at: Some(NOW - 10 * MINUTE),
        would_change: vec!["a checkpoint at the notice: 84 s of 120 s were used".into()],
        ..Explanation::default()
    };
    check(
        &render::explain::explain(&e, &look()),
        "4101.2 7b-base was PREEMPTED at 13:53 for 4190.1 (fair share)

why          language/posttrain was further below its share
choice       language/posttrain 0.77 < language/pretrain 1.06
             price 34 GPU-h: 9 min 50 s since its checkpoint at 13:42, 6 min to restart, dearer
             after 1 preemption
when         notice 13:52:11, gone 13:53:35: 84 s of grace used
cost         33.8 GPU-h: 9 min 50 s since its checkpoint at 13:42 x 128 GPUs = 21
             and about 6 min to restart x 128 GPUs = 12.8
             the checkpoint's time is the job's own report

would change it
  a checkpoint at the notice: 84 s of 120 s were used
decision d8851920.0, 13:52:11
",
    );
}

#[test]
fn what_facts_tell_is_not_told_twice() {
    let group = |title: &str, what: &str| FactGroup {
        title: title.into(),
        facts: vec![Fact { what: what.into(), value: "told".into(), at: None }],
    };
    let e = Explanation {
        as_of: as_of(),
        subject: "4101.2".into(),
        reason: "preempted.share".into(),
        facts: vec![group("its preemption", "grace"), group("what that cost", "lost")],
        taken: Some(victim()),
        cost: Some(cost()),
        ..Explanation::default()
    };
    check(
        &render::explain::explain(&e, &look()),
        "4101.2 was PREEMPTED at 13:53 for 4190.1 (fair share)
cost         33.8 GPU-h: 9 min 50 s since its checkpoint at 13:42 x 128 GPUs = 21
             and about 6 min to restart x 128 GPUs = 12.8
             the checkpoint's time is the job's own report
its preemption
  grace                    told
",
    );
}

#[test]
fn a_decision_names_whom_it_took_and_at_what_price() {
    let free = VictimView {
        attempt: "4085.1".into(),
        right: "free-tier".into(),
        mine: None,
        theirs: None,
        gpus: 8,
        saved_at: None,
        basis: "unknown".into(),
        lost_ms: 0,
        preemptions: 0,
        ..victim()
    };
    let e = Explanation {
        as_of: as_of(),
        subject: "d8851920.0".into(),
        name: "sft".into(),
        state: "decided".into(),
        reason: "decision.start".into(),
        sentence: "4190 was placed".into(),
        victims: vec![victim(), free],
        ..Explanation::default()
    };
    check(
        &render::explain::explain(&e, &look()),
        "d8851920.0 sft is DECIDED (decision.start)

why          4190 was placed
took         4101.2 7b-base (language/pretrain, 128 GPUs):
               language/posttrain 0.77 < language/pretrain 1.06
               price 34 GPU-h: 9 min 50 s since its checkpoint at 13:42, 6 min to restart, dearer
               after 1 preemption
             4085.1 7b-base (language/pretrain, 8 GPUs):
               free tier: gives way to funded work
               price 34 GPU-h: counted as saved just now: it reports nothing, 6 min to restart
",
    );
}

#[test]
fn a_job_names_the_first_of_many_whom_it_took() {
    let e = Explanation {
        as_of: as_of(),
        subject: "4190".into(),
        state: "starting".into(),
        reason: "placed.grace".into(),
        facts: vec![FactGroup {
            title: "its ranks".into(),
            facts: vec![
                Fact { what: "rank 0 on node-02".into(), value: "ready".into(), at: Some(NOW) },
                Fact { what: "told to leave".into(), value: String::new(), at: Some(NOW) },
            ],
        }],
        victims: vec![victim(), victim(), victim(), victim()],
        decision: Some("d12.0".into()),
        ..Explanation::default()
    };
    let text = render::explain::explain(&e, &look());
    assert!(text.contains("\n             and 2 more: bursar explain d12.0\n"), "{text}");
    let facts = "
its ranks    rank 0 on node-02        ready, 14:02
             told to leave            14:02
";
    assert!(text.contains(facts), "{text}");
    assert_eq!(render::explain::explain(&e, &wide()).matches("4101.2").count(), 4);
}

fn preempted() -> AttemptView {
    AttemptView {
        attempt: 2,
        node: "node-01".into(),
        nodes: vec!["node-01".into(), "node-02".into()],
        gpus: 16,
        end: Some("preempted".into()),
        taken_for: Some("4191.1".into()),
        cost: Some(PreemptionCost {
            attempt: "4190.2".into(),
            gpus: 16,
            basis: "unknown".into(),
            saved_at: None,
            age_ms: HOUR,
            restart_ms: 5 * MINUTE,
            restart_basis: "measured".into(),
            lost_gpu_ms: 16 * 65 * MINUTE,
            taken_for: Some("4191.1".into()),
            wasted: Some(true),
            ..cost()
        }),
        ..attempt()
    }
}

fn requeued() -> JobView {
    JobView {
        state: "waiting".into(),
        reason: "waiting.order".into(),
        end: None,
        exit: None,
        ended_at: None,
        attempts: vec![attempt(), preempted()],
        ..job()
    }
}

#[test]
fn attempts_show_who_gave_way_to_whom_and_what_was_lost() {
    check(
        &render::attempts::attempts(&requeued(), &look()),
        "4190 sft-think-7b, 2 attempts; gave way once, which took 17.3 GPU-h

ATTEMPT  NODES       GPUS  STARTED    RAN  HOW          GPU-H  LOST  TAKEN FOR
4190.1   node-02        4  13:52    8m59s  exit code 3      2     -
4190.2   node-01 +1    16  13:52    8m59s  preempted        2  17.3  4191.1

4190.2   17.3 GPU-h: 1 h since it ran x 16 GPUs = 16
         and 5 min to restart x 16 GPUs = 1.3
         an upper bound: the job neither reported nor declared how often it saves
         wasted: 4191.1 did not start
",
    );
    let text = render::job::job(&requeued(), &look());
    let says = "gave way for 4191.1: 17.3 GPU-h (1 h since it ran + 5 min to restart, x 16)";
    assert!(text.contains(says), "{text}");
    assert!(render::attempts::attempts(&requeued(), &wide()).contains("node-01,node-02"));
}

fn line(key: &str, preemptions: u32, lost: u64, delivered: Option<u64>) -> BillLine {
    let ppm = delivered.map(|delivered| u32::try_from(lost * 1_000_000 / delivered).expect("a part"));
    BillLine {
        key: key.into(),
        preemptions,
        lost_gpu_ms: lost * HOUR,
        delivered_gpu_ms: delivered.map(|delivered| delivered * HOUR),
        lost_ppm: ppm,
    }
}

fn bill() -> BillView {
    BillView {
        as_of: as_of(),
        since_at: NOW - 168 * HOUR,
        by: "cause".into(),
        rows: vec![
            line("share", 71, 338, None),
            line("free-tier", 118, 659, None),
            line("drain", 19, 36, None),
        ],
        total: Some(line("", 210, 1035, Some(42_148))),
        wasted: 0,
        resume_median_ms: Some(250_000),
        largest: Some(cost()),
        by_basis: vec![line("reported", 180, 735, None), line("unknown", 30, 124, None)],
        ..BillView::default()
    }
}

#[test]
fn the_bill_says_what_was_lost_to_whom_and_how_that_is_known() {
    check(
        &render::bill::bill(&bill(), None, &look()),
        "210 preemptions took 1,035 GPU-h, 2.4% of the 42,148 delivered
since Sun 22 Nov 14:02, 7 d
median time to resume: 4 min 10 s
wasted (the job they were for did not start): 0

CAUSE               PREEMPTIONS  LOST
fair share                   71   338
free tier made way          118   659
drain                        19    36

HOW WE KNOW           PREEMPTIONS  LOST
checkpoint reported           180   735
unknown, upper bound           30   124

biggest single loss: 4101.2
  33.8 GPU-h (9 min 50 s since its checkpoint + about 6 min to restart, x 128)
  why it was taken: bursar explain 4101.2
",
    );
    let tiers = BillView {
        by: "tier".into(),
        rows: vec![line("funded", 92, 376, Some(34_561)), line("free", 118, 659, Some(7_587))],
        by_basis: vec![],
        largest: None,
        ..bill()
    };
    let text = render::bill::bill(&tiers, None, &look());
    let table = "
TIER       DELIVERED  PREEMPTIONS  LOST  LOST%
funded        34,561           92   376   1.0%
free tier      7,587          118   659   8.6%
";
    assert!(text.ends_with(table), "{text}");
    let none = BillView { total: None, ..bill() };
    check(
        &render::bill::bill(&none, None, &look()),
        "since Sun 22 Nov 14:02: nobody was preempted, nothing was lost\n",
    );
}

#[test]
fn capacity_names_the_largest_job_and_what_becomes_free() {
    let end = |n: u64| ProtectionEnd {
        at: NOW + n * HOUR,
        attempt: format!("410{n}.1"),
        budget: "language/pretrain".into(),
        gpus: 128,
    };
    let view = CapacityView {
        as_of: as_of(),
        pools: vec![PoolCapacity {
            gpus: Some(pool()),
            largest_idle: 0,
            largest_now: 96,
            largest_in_1h: 96,
            largest_in_8h: 248,
            nodes: vec![NodeShape { idle: 8, gpus: 8, nodes: 2 }, NodeShape { idle: 1, gpus: 8, nodes: 1 }],
            next_ends: (1..=6).map(end).collect(),
        }],
        ..CapacityView::default()
    };
    check(
        &render::capacity::capacity(&view, &look()),
        "h100-a  256 GPUs: 152 protected, 56 interruptible, 40 free tier, 8 unavailable, 0 idle
as of 14:02:11

the largest job for which there is room, in GPUs:
POOL    ON IDLE GPUS  ON ALL UNPROTECTED  IN 1 H  IN 8 H
h100-a             0                  96      96     248

h100-a, idle
  2 nodes with 8 of 8 GPUs idle
  1 node with 1 of 8 GPUs idle
h100-a, next ends of protection
  15:02  4101.1, 128 GPUs, language/pretrain
  16:02  4102.1, 128 GPUs, language/pretrain
  17:02  4103.1, 128 GPUs, language/pretrain
  18:02  4104.1, 128 GPUs, language/pretrain
  19:02  4105.1, 128 GPUs, language/pretrain
  and 1 more: -o wide

Room is not a right: who goes for whom, the budgets decide. `bursar plan FILE` tries a job.
",
    );
}

fn leaving() -> LeavingJob {
    LeavingJob {
        attempt: "4166.1".into(),
        name: "vit-probe".into(),
        budget: "robotics/grasp".into(),
        gpus: 8,
        protected_until_at: Some(NOW + 3 * HOUR),
        resumable: true,
        leaves_by_at: Some(NOW + 3 * HOUR + 2 * MINUTE),
        cuts_ms: 0,
    }
}

#[test]
fn a_drain_shows_who_leaves_when_and_what_is_taken_from_them() {
    let view = DrainView {
        as_of: as_of(),
        node: "node-17".into(),
        gpus: 8,
        empty_by_at: Some(NOW + 3 * HOUR + 2 * MINUTE),
        jobs: vec![leaving()],
        ..DrainView::default()
    };
    check(
        &render::drain::drain(&view, true, &look()),
        "node-17, 8 GPUs, 1 job
  ATTEMPT  NAME       BUDGET          GPUS  PROTECTED  LEAVES BY  THEN
  4166.1   vit-probe  robotics/grasp     8  17:02      17:04      goes on elsewhere
new work stops now; empty by 17:04 at the latest
",
    );
    let cut = DrainView {
        begins_at: Some(NOW + HOUR),
        jobs: vec![LeavingJob { cuts_ms: 2 * HOUR, resumable: false, ..leaving() }],
        empty_by_at: None,
        ..view
    };
    check(
        &render::drain::drain(&cut, false, &look()),
        "node-17, 8 GPUs, 1 job
  ATTEMPT  NAME       BUDGET          GPUS  PROTECTED  LEAVES BY  THEN
  4166.1   vit-probe  robotics/grasp     8  17:02      17:04      ends: not resumable
begins 15:02; until then only work comes whose protection is over by then; when it is empty cannot
be told
this took 2 h of protection from 4166.1 (robotics/grasp); that is taken off its charge
draining     follow: bursar node show node-17
",
    );
}

#[test]
fn a_dry_run_says_where_it_would_start_and_whom_it_would_take() {
    let plan = PlanJobReply {
        as_of: as_of(),
        starts: true,
        sentence: "idle GPUs and one attempt that gives way".into(),
        receipt: Some(receipt()),
        on: vec![
            PlacedOn { node: "node-01".into(), slots: vec![0, 1, 2, 3] },
            PlacedOn { node: "node-02".into(), slots: vec![5] },
        ],
        victims: vec![victim()],
        ..PlanJobReply::default()
    };
    let text = render::plan::plan(&plan, "min_runtime in train.yaml", "SIGTERM", &look());
    check(
        &text,
        "sft-think-7b would start with the next plan
idle GPUs and one attempt that gives way

  budget       language/posttrain      use 0.78 of its allocation (lower goes first)
  tier         funded                  from min_runtime in train.yaml
  charge       64 GPUs x 4 h = 256 GPU-h set aside at its start; then as it runs
               headroom 1,419 -> 1,163 GPU-h
  protection   4 h from its start, then interruptible; on preemption SIGTERM, 2 min grace, requeued
  time limit   3 d, counted from the start of each attempt
  order        3rd; the 2 jobs ahead need 48 GPUs
  warning      the minimum runtime is shorter than restart and checkpoint interval
  on           node-01 GPUs 0-3
               node-02 GPU 5
  would take   4101.2 7b-base (language/pretrain, 128 GPUs):
                 language/posttrain 0.77 < language/pretrain 1.06
                 price 34 GPU-h: 9 min 50 s since its checkpoint at 13:42, 6 min to restart, dearer
                 after 1 preemption
  start        once those have saved and left

as of 14:02:11
nothing was submitted; this is no promise
",
    );
    let waits = PlanJobReply {
        starts: false,
        on: vec![],
        victims: vec![],
        reasons: vec![ReasonView {
            token: "waiting.protection".into(),
            sentence: "64 GPUs are protected".into(),
            changeable_by: "nobody".into(),
            until_at: Some(NOW + HOUR),
        }],
        earliest_at: Some(NOW + 2 * HOUR),
        ..plan
    };
    let text = render::plan::plan(&waits, "", "SIGTERM", &look());
    assert!(text.starts_with("sft-think-7b would wait\n"), "{text}");
    let waits = "  waits        64 GPUs are protected (waiting.protection, until 15:02)\n";
    assert!(text.contains(waits), "{text}");
    assert!(text.contains("not before 16:02, when enough GPUs are past their protection"), "{text}");
}
