//! Screens of what is past: from the history, and who asked what.

use proto::v1::{
    AuditList, AuditView, BillLine, BillView, Explanation, JobList, JobView, Missing, Reach, Refusal,
};

use super::{NOW, as_of, check, job, look, wide};
use crate::render;

const DAY: u64 = 24 * 3_600_000;

fn asked(index: u64, actor: &str, action: &str, subject: &str, reason: &str) -> AuditView {
    AuditView {
        schema: "audit/v1".into(),
        index,
        at: NOW - (100 - index) * 3_600_000,
        actor: actor.into(),
        action: action.into(),
        subject: subject.into(),
        reason: reason.into(),
        sentence: format!("what {actor} wanted"),
        actor_kind: "user".into(),
        via: Some(2),
        ..AuditView::default()
    }
}

fn audit() -> AuditList {
    let refused = Refusal { code: 1401, what: "job 4190 is pia's".into(), ..Refusal::default() };
    AuditList {
        schema: "audit-list/v1".into(),
        as_of: as_of(),
        rows: vec![
            AuditView { refused: Some(refused), ..asked(99, "ben", "job.cancel", "4190", "I need the GPUs") },
            AuditView {
                actor_kind: "operator".into(),
                ..asked(
                    98,
                    "root-admin",
                    "node.drain",
                    "node-17",
                    "retired ECC page, RMA 3381, in the rack by the door",
                )
            },
            asked(40, "pia", "job.submit", "4190", ""),
        ],
        next: None,
        reach: None,
    }
}

fn reach(complete: u64, kept: Option<u64>) -> Reach {
    Reach { complete_from_at: complete, kept_from_at: kept, missing: Vec::new() }
}

#[test]
fn audit_names_who_asked_what_why_and_what_became_of_it() {
    check(
        &render::audit::audit(&audit(), None, &look()),
        "WHEN          WHO         WHAT        ON       OUTCOME  SAID
13:02         ben         job.cancel  4190     refused  job 4190 is pia's
12:02         root-admin  node.drain  node-17  done     retired ECC page, RMA 3381, in the rack by…
27 Nov 02:02  pia         job.submit  4190     done     what pia wanted
",
    );
    let text = render::audit::audit(&audit(), None, &wide());
    assert!(
        text.contains("in the rack by the door") && text.contains("operator  replica 2   98.0"),
        "{text}"
    );
    assert!(text.contains("B1401") && text.contains("what ben wanted"), "{text}");
    check(
        &render::audit::audit(&AuditList::default(), None, &look()),
        "nobody asked for anything like that\n",
    );
}

#[test]
fn what_an_answer_leaves_out_is_said() {
    let with = |reach: Reach, next: Option<&str>| {
        let list = AuditList { reach: Some(reach), next: next.map(str::to_owned), ..audit() };
        let text = render::audit::audit(&list, Some(NOW - 9 * DAY), &look());
        text.lines().skip(4).map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(with(reach(NOW - 9 * DAY, None), None), "");
    check(
        &with(reach(NOW - 7 * DAY, Some(NOW - 7 * DAY)), None),
        "complete from Sun 22 Nov 14:02 on: what is older is not kept any more\n",
    );
    check(
        &with(reach(NOW - 7 * DAY, None), None),
        "complete from Sun 22 Nov 14:02 on; what is older was not looked through\n",
    );
    let hole = Missing {
        first_index: 120,
        last_index: 180,
        from_at: Some(NOW - 2 * DAY),
        to_at: Some(NOW - DAY),
        why: "no replica that answers has it".into(),
    };
    let holed = Reach { missing: vec![hole], ..reach(NOW - 9 * DAY, None) };
    let said =
        "missing: what happened from Fri 27 Nov 14:02 to Sat 28 Nov 14:02 (entries 120 to 180): no replica
that answers has it
";
    check(&with(holed.clone(), None), said);
    let more = "there may be more that are older: --limit N shows more of them\n";
    check(&with(holed, Some("97")), &format!("{more}{said}"));
}

fn old() -> JobView {
    JobView { left_at: Some(NOW - DAY), launch: None, ..job() }
}

#[test]
fn a_job_from_the_history_says_so() {
    let marked = "from the history: it left the present state at 28 Nov 14:02\n";
    let text = render::job::job(&old(), &look());
    let head = format!("4190 sft-think-7b is FAILED (ended.failed) since 14:01\n{marked}\n  budget ");
    assert!(text.starts_with(&head), "{text}");
    let text = render::attempts::attempts(&old(), &look());
    assert!(text.starts_with(&format!("4190 sft-think-7b, 1 attempt\n{marked}\nATTEMPT")), "{text}");
    let explanation = Explanation {
        as_of: as_of(),
        subject: "4190".into(),
        name: "sft".into(),
        state: "ended".into(),
        reason: "ended.failed".into(),
        sentence: "it failed with exit code 3".into(),
        left_at: Some(NOW - DAY),
        ..Explanation::default()
    };
    check(
        &render::explain::explain(&explanation, &look()),
        &format!("4190 sft is FAILED (ended.failed)\n{marked}\nwhy          it failed with exit code 3\n"),
    );
}

#[test]
fn a_list_of_what_ended_says_how_far_back_it_goes() {
    let list = JobList {
        as_of: as_of(),
        jobs: vec![old()],
        reach: Some(reach(NOW - 7 * DAY, Some(NOW - 7 * DAY))),
        ..JobList::default()
    };
    let table = " JOB  NAME          USER  BUDGET              GPUS  TIER    STATE   SINCE  WHERE
4190  sft-think-7b  pia   language/posttrain     4  funded  failed  14:01
";
    let kept = "complete from Sun 22 Nov 14:02 on: what is older is not kept any more\n";
    check(&render::jobs::jobs(&list, Some(NOW - 30 * DAY), &look()), &format!("{table}{kept}"));
    check(&render::jobs::jobs(&list, Some(NOW - 2 * DAY), &look()), table);
    let more = JobList { next: Some("8.0".into()), ..list.clone() };
    let said = "there may be more that ended earlier: --limit N shows more of them\n";
    check(&render::jobs::jobs(&more, Some(NOW - 30 * DAY), &look()), &format!("{table}{said}"));
    let text = render::jobs::jobs(&list, None, &wide());
    assert!(text.contains("FROM") && text.contains("history"), "{text}");
    let none = JobList { jobs: Vec::new(), ..list };
    let text = render::jobs::jobs(&none, Some(NOW - 30 * DAY), &look());
    assert!(text.ends_with(&format!("no jobs\n{kept}")), "{text}");
}

#[test]
fn a_bill_longer_than_the_window_promises_no_part_of_what_was_delivered() {
    let line = |preemptions| BillLine {
        key: "total".into(),
        preemptions,
        lost_gpu_ms: 7_200_000,
        ..BillLine::default()
    };
    let bill = BillView {
        as_of: as_of(),
        since_at: NOW - 30 * DAY,
        by: "cause".into(),
        rows: vec![BillLine { key: "share".into(), ..line(2) }],
        total: Some(line(2)),
        reach: Some(reach(NOW - 20 * DAY, Some(NOW - 20 * DAY))),
        ..BillView::default()
    };
    check(
        &render::bill::bill(&bill, Some(NOW - 30 * DAY), &look()),
        "2 preemptions took 2 GPU-h
since Fri 30 Oct 14:02, 30 d
wasted (the job they were for did not start): 0
complete from Mon 9 Nov 14:02 on: what is older is not kept any more

CAUSE       PREEMPTIONS  LOST
fair share            2     2
",
    );
}
