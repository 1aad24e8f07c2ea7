use proto::v1::{
    AheadView, AsOf, AttemptView, BudgetChange, BudgetPlanReply, BudgetPoolEffect, BudgetPoolView, BudgetRow,
    BudgetRowEffect, BudgetShift, BudgetSide, BudgetTreeView, DateView, ExitView, Explanation, Fact,
    FactGroup, GrantView, JobList, JobView, LaunchView, LevelView, PoolView, QueueRow, QueueView, ReasonView,
    Receipt, Shape, UseView,
};

use crate::form::moment::Zone;
use crate::shell::Look;

mod arrays;
mod burst;
mod estimates;
mod history;
mod machines;
mod pools;
mod preemption;
mod time;

const GPU_HOUR: i128 = 3_600_000_000;
/// 14:02:11 on the 29th of November 2026, UTC.
const NOW: u64 = 1_795_960_931_000;

fn look() -> Look {
    Look { zone: Zone::utc(), is_wide: false }
}

fn wide() -> Look {
    Look { is_wide: true, ..look() }
}

fn as_of() -> Option<AsOf> {
    Some(AsOf { index: 8_841_195, time_at: NOW, replica: 1, stale: false })
}

fn hours(gpu_hours: i128) -> String {
    (gpu_hours * GPU_HOUR).to_string()
}

fn usage(budget: &str, ppm: u64, headroom: i128) -> UseView {
    UseView {
        budget: budget.into(),
        charged_milli_gpu_ms: hours(100),
        set_aside_milli_gpu_ms: "0".into(),
        allocation_milli_gpu_ms: hours(headroom + 100),
        use_ppm: Some(ppm),
        headroom_milli_gpu_ms: hours(headroom),
    }
}

fn check(text: &str, expected: &str) {
    assert_eq!(text, expected);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end());
    }
}

fn receipt() -> Receipt {
    Receipt {
        schema: "receipt/v1".into(),
        job: 4190,
        name: "sft-think-7b".into(),
        submitted_at: NOW,
        budget: "language/posttrain".into(),
        tier: "funded".into(),
        tier_source: "submission".into(),
        r#use: Some(usage("language/posttrain", 780_000, 1419)),
        min_runtime_ms: 14_400_000,
        gpus: 64,
        set_aside_milli_gpu_ms: hours(256),
        resumable: true,
        resumable_source: "submission".into(),
        grace_ms: 120_000,
        place: 3,
        gpus_ahead: 48,
        warnings: vec!["the minimum runtime is shorter than restart and checkpoint interval".into()],
        turn: "normal".into(),
        time_limit_ms: Some(259_200_000),
        state: "waiting".into(),
        first_to_start_ms: Some(30_600_000),
        ..Receipt::default()
    }
}

#[test]
fn receipt_states_the_terms_in_force() {
    let text = super::receipt::receipt(&receipt(), "min_runtime in train.yaml", "SIGTERM", &look());
    check(
        &text,
        "job 4190  sft-think-7b  accepted 14:02

  budget       language/posttrain      use 0.78 of its allocation (lower goes first)
  tier         funded                  from min_runtime in train.yaml
  charge       64 GPUs x 4 h = 256 GPU-h set aside at its start; then as it runs
               headroom 1,419 -> 1,163 GPU-h
  protection   4 h from its start, then interruptible; on preemption SIGTERM, 2 min grace, requeued
  time limit   3 d, counted from the start of each attempt
  order        3rd; the 2 jobs ahead need 48 GPUs
  warning      the minimum runtime is shorter than restart and checkpoint interval
  start        within 8 h 30 min of becoming first in order, unless a node of it fails; likely:
               bursar explain

next   bursar explain 4190     bursar logs -f 4190
",
    );
    let first = Receipt { place: 1, ..receipt() };
    let text = super::receipt::receipt(&first, "", "SIGTERM", &look());
    let start =
        "  start        within 8 h 30 min, unless another job sorts ahead of it or a node of it fails\n";
    assert!(text.contains(start), "{text}");
    let date =
        DateView { go_by_at: NOW + 9_720_000, unless: vec!["a node fails".into()], ..DateView::default() };
    let dated = Receipt { date: Some(date), ..receipt() };
    let text = super::receipt::receipt(&dated, "", "SIGTERM", &look());
    assert!(text.contains("  start        by 16:44 at the latest, unless a node fails\n"), "{text}");
}

#[test]
fn receipt_of_the_free_tier_names_no_charge() {
    let free = Receipt {
        tier: "free".into(),
        min_runtime_ms: 0,
        set_aside_milli_gpu_ms: "0".into(),
        grace_ms: 15_000,
        place: 1,
        resumable: false,
        warnings: vec![],
        time_limit_ms: None,
        // Nobody promises the free tier anything.
        first_to_start_ms: None,
        ..receipt()
    };
    check(
        &super::receipt::receipt(&free, "--unallocated", "SIGUSR1", &look()),
        "job 4190  sft-think-7b  accepted 14:02

  budget       language/posttrain      use 0.78 of its allocation (lower goes first)
  tier         free tier               from --unallocated
  charge       none: the free tier is not charged
  protection   none; on preemption SIGUSR1, 15 s grace, ended: not resumable
  order        1st

next   bursar explain 4190     bursar logs -f 4190
",
    );
}

fn pool() -> PoolView {
    PoolView {
        name: "h100-a".into(),
        gpus: 256,
        protected: 152,
        interruptible: 56,
        free_tier: 40,
        idle: 0,
        unavailable: 8,
        changing: 0,
    }
}

fn row(
    place: u32,
    job: u32,
    name: &str,
    budget: &str,
    gpus: u32,
    levels: Vec<UseView>,
    reason: &str,
) -> QueueRow {
    QueueRow {
        place,
        job,
        name: name.into(),
        user: "pia".into(),
        budget: budget.into(),
        gpus,
        tier: if levels.is_empty() { "free".into() } else { "funded".into() },
        min_runtime_ms: 7_200_000,
        use_by_level: levels,
        submitted_at: NOW - 240_000,
        waiting_since_at: NOW - 240_000,
        reason: reason.into(),
        sentence: "a sentence".into(),
        ..QueueRow::default()
    }
}

#[test]
fn queue_shows_the_numbers_it_is_sorted_by() {
    let robotics = |leaf, ppm, headroom| vec![usage("robotics", 680_000, 4180), usage(leaf, ppm, headroom)];
    let language = vec![usage("language", 970_000, 667), usage("language/posttrain", 780_000, 1419)];
    let view = QueueView {
        schema: "queue/v1".into(),
        as_of: as_of(),
        pools: vec![pool()],
        rows: vec![
            row(
                1,
                4189,
                "ppo-sweep-3",
                "robotics/sim-rl",
                16,
                robotics("robotics/sim-rl", 540_000, 3561),
                "waiting.capacity",
            ),
            row(
                2,
                4191,
                "grasp-it",
                "robotics/grasp",
                8,
                robotics("robotics/grasp", 880_000, 619),
                "waiting.order",
            ),
            row(
                3,
                4190,
                "sft-think-7b-with-a-long-name",
                "language/posttrain",
                64,
                language,
                "waiting.order",
            ),
            row(4, 4181, "grasp-ablate", "robotics/grasp", 8, vec![], "waiting.idle"),
        ],
        left_out: 2,
        last_round_at: None,
        safe_mode: None,
    };
    check(
        &super::queue::queue(&view, &look()),
        "h100-a  256 GPUs: 152 protected, 56 interruptible, 40 free tier, 8 unavailable, 0 idle
as of 14:02:11
order = use of allocation, compared level by level; lower goes first

#   JOB  NAME          BUDGET              GPUS  MIN  USE BY LEVEL  HEADROOM  WAIT  NOW
1  4189  ppo-sweep-3   robotics/sim-rl       16   2h  0.68 > 0.54      3,561  0:04  nodes are away
2  4191  grasp-it      robotics/grasp         8   2h  0.68 > 0.88        619  0:04  others go first
3  4190  sft-think-7…  language/posttrain    64   2h  0.97 > 0.78      1,419  0:04  others go first
4  4181  grasp-ablate  robotics/grasp         8    -  free tier            -  0:04  none idle
and 2 more: --top N shows more of them

note: grasp (0.88) goes before posttrain (0.78): they part higher up, robotics 0.68, language 0.97
",
    );
    assert!(super::queue::queue(&view, &wide()).contains("a sentence"));
    let nobody = QueueView { rows: vec![], left_out: 0, ..view };
    assert!(super::queue::queue(&nobody, &look()).ends_with("nobody waits\n"));
}

fn attempt() -> AttemptView {
    AttemptView {
        attempt: 1,
        node: "node-02".into(),
        gpus: 4,
        slots: vec![0, 1, 2, 3],
        state: "past".into(),
        placed_at: NOW - 600_000,
        go_at: Some(NOW - 600_000),
        started_at: Some(NOW - 599_000),
        protected_until_at: Some(NOW - 300_000),
        ended_at: Some(NOW - 60_000),
        end: Some("exited".into()),
        exit: Some(ExitView { kind: "code".into(), value: 3 }),
        charged_milli_gpu_ms: hours(2),
        decision: "d12.0".into(),
        nodes: vec!["node-02".into()],
        ..AttemptView::default()
    }
}

fn job() -> JobView {
    JobView {
        schema: "job/v1".into(),
        as_of: as_of(),
        job: 4190,
        name: "sft-think-7b".into(),
        user: "pia".into(),
        account: "pia".into(),
        budget: "language/posttrain".into(),
        tier: "funded".into(),
        state: "ended".into(),
        reason: "ended.failed".into(),
        since_at: Some(NOW - 60_000),
        submitted_at: NOW - 610_000,
        shape: Some(Shape { nodes: 1, gpus_per_node: 4, ..Shape::default() }),
        gpus: 4,
        min_runtime_ms: 300_000,
        time_limit_ms: Some(3_600_000),
        resumable: true,
        turn: "first".into(),
        grace_ms: 30_000,
        retries: 1,
        retries_used: 1,
        charged_milli_gpu_ms: hours(2),
        attempts: vec![attempt()],
        end: Some("failed".into()),
        exit: Some(ExitView { kind: "code".into(), value: 3 }),
        ended_at: Some(NOW - 60_000),
        launch: Some(LaunchView {
            command: vec!["python3".into(), "train.py".into(), "a b".into()],
            script: None,
            working_dir: "/home/pia".into(),
            output: None,
            env_names: vec!["A".into()],
        }),
        ..JobView::default()
    }
}

#[test]
fn job_shows_terms_attempts_and_end() {
    check(
        &super::job::job(&job(), &look()),
        "4190 sft-think-7b is FAILED (ended.failed) since 14:01

  budget       language/posttrain
  user         pia, runs as pia
  submitted    2026-11-29 13:52:01 +00:00
  needs        4 GPUs on one node
  terms        protected 5 min from its start, time limit 1 h, resumable, 1 of 1 retries used,
               turn first
  charged      2 GPU-h
  ended        failed at 14:01, exit code 3
  runs         python3 train.py 'a b'
  in           /home/pia
  with         A

ATTEMPT  NODE     GPUS     STATE  STARTED  PROTECTED  ENDED  HOW          GPU-H
4190.1   node-02  4 (0-3)  past   13:52    13:57      14:01  exit code 3      2

next   bursar explain 4190     bursar logs 4190
",
    );
}

#[test]
fn jobs_are_listed_one_a_line() {
    let running = JobView {
        state: "running".into(),
        reason: "running.protected".into(),
        name: "a name \u{1b}[31m that is hostile and long".into(),
        end: None,
        ..job()
    };
    let list =
        JobList { schema: String::new(), as_of: as_of(), jobs: vec![running, job()], ..JobList::default() };
    check(
        &super::jobs::jobs(&list, None, &look()),
        " JOB  NAME                   USER  BUDGET              GPUS  TIER    STATE      SINCE  WHERE
4190  a name \\u{1b}[31m th…  pia   language/posttrain     4  funded  protected  14:01  node-02
4190  sft-think-7b           pia   language/posttrain     4  funded  failed     14:01
",
    );
}

#[test]
fn explanation_answers_first() {
    let explanation = Explanation {
        schema: String::new(),
        as_of: as_of(),
        subject: "4190".into(),
        job: Some(4190),
        name: "sft-think-7b".into(),
        state: "waiting".into(),
        reason: "waiting.order".into(),
        sentence: "others go first".into(),
        since_at: Some(NOW),
        changeable_by: vec!["budget owner".into()],
        reasons: vec![
            ReasonView {
                token: "waiting.order".into(),
                sentence: "others go first".into(),
                changeable_by: "budget owner".into(),
                until_at: None,
            },
            ReasonView {
                token: "waiting.protection".into(),
                sentence: "64 GPUs are protected".into(),
                changeable_by: "nobody".into(),
                until_at: Some(NOW + 60_000),
            },
        ],
        facts: vec![FactGroup {
            title: "what it needs".into(),
            facts: vec![Fact { what: "GPUs".into(), value: "64 on one node".into(), at: None }],
        }],
        ahead: vec![
            AheadView {
                job: 4188,
                name: "rollout".into(),
                budget: "science/agents".into(),
                gpus: 32,
                theirs: Some(usage("science", 580_000, 1)),
                mine: Some(usage("language", 970_000, 1)),
            },
            AheadView {
                job: 4170,
                name: "own".into(),
                budget: "language/posttrain".into(),
                gpus: 1,
                theirs: None,
                mine: None,
            },
        ],
        levels: vec![LevelView {
            chosen: Some(usage("science", 580_000, 1)),
            next: Some(usage("language", 970_000, 1)),
        }],
        decision: Some("d12.0".into()),
        decided_at: Some(NOW),
        would_change: vec!["16 GPUs instead of 64: starts now".into()],
        protected_until_at: None,
        place: Some(3),
        ..Explanation::default()
    };
    check(
        &super::explain::explain(&explanation, &look()),
        "4190 sft-think-7b is WAITING (waiting.order) since 14:02
who can change it: budget owner

why          others go first
also         64 GPUs are protected (waiting.protection, until 14:03; nobody can change it, it ends
             by itself)
what it needs
  GPUs                     64 on one node
order        3rd; ahead of it (lower use goes first):
             4188 rollout (science/agents, 32 GPUs): science 0.58 < language 0.97
             4170 own (language/posttrain, 1 GPU): same budget: turn, then first submission
levels       science 0.58 before language 0.97

would change it
  16 GPUs instead of 64: starts now
decision d12.0, 14:02:11
",
    );
}

#[test]
fn budgets_are_a_tree_with_its_direction_named() {
    let row = |name: &str, depth, share_ppm, ppm, goes| BudgetRow {
        budget: 1,
        path: name.into(),
        name: name.into(),
        depth,
        owner: Some("pi-s".into()),
        members: vec!["ana".into()],
        share_ppm,
        r#use: Some(usage(name, ppm, 8447)),
        free_tier_milli_gpu_ms: "0".into(),
        goes,
        closed: name == "grasp",
        waiting_jobs: 2,
        running_gpus: 4,
        own_ppm: 300_000,
        with_grants_ppm: if name == "robotics" { 350_000 } else { 300_000 },
    };
    let grant = |state: &str, from: Option<&str>| GrantView {
        schema: String::new(),
        grant: 7,
        budget: "robotics".into(),
        from_budget: from.map(str::to_owned),
        share_ppm: 50_000,
        begins_at: NOW - 3_600_000,
        until_at: NOW + 3_600_000,
        state: state.into(),
        reason: "demo".into(),
        by: "ceo".into(),
        made_at: NOW - 3_600_000,
        ended_by: None,
        end_reason: None,
    };
    let view = BudgetTreeView {
        schema: String::new(),
        as_of: as_of(),
        revision: 3,
        window_ms: 604_800_000,
        pools: vec![BudgetPoolView {
            pool: "h100-a".into(),
            gpus: 256,
            rows: vec![
                row("lab", 0, 1_000_000, 800_000, 0),
                row("robotics", 1, 300_000, 680_000, 1),
                row("sim-rl", 2, 180_000, 540_000, 1),
                row("grasp", 2, 120_000, 880_000, 2),
                row("language", 1, 500_000, 970_000, 2),
                row("pretrain", 2, 125_000, 1_050_000, 1),
            ],
        }],
        tree: None,
        grants: vec![grant("on", None), grant("to-come", Some("language")), grant("over", None)],
        edits: vec![],
    };
    check(
        &super::budget::tree(&view, &look()),
        "7 d to Sun 29 Nov 14:02, h100-a, 256 GPUs installed = 43,008 GPU-h

BUDGET              OWNER  SHARE  ALLOCATED  CHARGED   USE  HEADROOM  FREE TIER  GOES
lab                 pi-s    100%      8,547      100  0.80     8,447          0
├ robotics          pi-s    *30%      8,547      100  0.68     8,447          0  1st
│ ├ sim-rl          pi-s     18%      8,547      100  0.54     8,447          0    1st
│ └ grasp (closed)  pi-s     12%      8,547      100  0.88     8,447          0    2nd
└ language          pi-s     50%      8,547      100  0.97     8,447          0  2nd
  └ pretrain        pi-s   12.5%      8,547      100  1.05     8,447          0    1st

USE = charged / allocated in the window. Lower goes first. Free-tier time is not charged.
* grant 7: +5% to robotics from what nobody has, until 15:02 (ceo: demo)
  grant 7: +5% to robotics from language, 13:02 to 15:02 (ceo: demo)
Headroom is not saved up: hours leave the window after 7 d, used or not.
",
    );
}

#[test]
fn a_plan_shows_before_and_after() {
    let change = |kind: &str, before: &str, after: &str| BudgetChange {
        path: "robotics/grasp".into(),
        kind: kind.into(),
        before: before.into(),
        after: after.into(),
    };
    let side =
        |ppm, goes| Some(BudgetSide { share_ppm: ppm, r#use: Some(usage("grasp", 880_000, 8447)), goes });
    let row = |before, after| BudgetRowEffect { path: "robotics/grasp".into(), before, after };
    let effect = BudgetPoolEffect {
        pool: "h100-a".into(),
        rows: vec![row(side(120_000, 1), side(90_000, 2)), row(None, side(90_000, 2))],
        shifts: vec![BudgetShift {
            from: "robotics/grasp".into(),
            to: "science".into(),
            may: true,
            attempts: 2,
            gpus: 16,
            waiting_jobs: 1,
        }],
        protected_gpus: 64,
    };
    let plan = BudgetPlanReply {
        schema: String::new(),
        revision: 3,
        changes: vec![change("share", "40 %", "30 %"), change("owner", "", "ldg")],
        effects: vec![effect],
    };
    check(
        &super::budget::plan(&plan, &look()),
        "CHANGE  BUDGET          BEFORE  AFTER
share   robotics/grasp  40 %    30 %
owner   robotics/grasp          ldg

what that does in h100-a:
BUDGET              SHARE        USE  HEADROOM (GPU-h)  GOES
robotics/grasp  12% -> 9%       0.88             8,447  1st -> 2nd
robotics/grasp    - -> 9%  - -> 0.88        - -> 8,447  - -> 2nd
  2 attempts of robotics/grasp past protection (16 GPUs) may be taken by 1 waiting job of science
  64 GPUs with protected work: nothing of that changes

2 changes to revision 3. Takes effect on the order at once; takes no protection back.
",
    );
    let none = BudgetPlanReply { changes: vec![], ..plan };
    check(&super::budget::plan(&none, &look()), "no difference: the tree is as the file says\n");
}
