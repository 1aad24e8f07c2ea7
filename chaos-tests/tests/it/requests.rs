//! A request's name holds whatever replica it reaches, however often.

use anyhow::Result;
use chaos_tests::client::{job, refusal, script};
use chaos_tests::lab::Lab;
use proto::v1::SubmitRequest;

/// The code of a conflict.
const CONFLICT: u32 = 1501;

pub fn one_request_id_at_two_replicas_is_one_job(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    for round in 0..10 {
        let name = lab.fresh("twice");
        let mark = Some(lab.block_on(ana.mark())?);
        let request = SubmitRequest { mark, job: Some(job(&name, "a", 1, 0)), launch: Some(script("true")) };
        let (first, second) = lab.block_on(async {
            tokio::join!(ana.submit_at(0, request.clone()), ana.submit_at(1 + round % 2, request.clone()))
        });
        assert_eq!(first?, second?);
        let jobs = lab.block_on(ana.jobs())?;
        assert_eq!(jobs.iter().filter(|job| job.name == name).count(), 1);
    }
    Ok(())
}

pub fn one_request_id_with_another_body_is_a_conflict(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    let (one, other) = (lab.fresh("one"), lab.fresh("other"));
    let mark = Some(lab.block_on(ana.mark())?);
    let request = SubmitRequest { mark, job: Some(job(&one, "a", 1, 0)), launch: Some(script("true")) };
    let number = lab.block_on(ana.submit_at(0, request.clone()))?;
    let changed = SubmitRequest { job: Some(job(&other, "a", 1, 0)), ..request.clone() };
    for n in 0..lab.replicas.len() {
        let status = lab.block_on(ana.submit_at(n, changed.clone())).expect_err("another body");
        assert_eq!(refusal(&status).map(|refusal| refusal.code), Some(CONFLICT), "{status:?}");
        assert_eq!(lab.block_on(ana.submit_at(n, request.clone()))?, number);
    }
    assert!(!lab.block_on(ana.jobs())?.iter().any(|job| job.name == other));

    let key = lab.fresh("key");
    let submit = |name: &str| {
        let flags = ["submit", "-o", "name", "--budget", "a", "--unallocated", "--name", name];
        let rest = ["--idempotency-key", &key, "--", "true"];
        lab.bursar_as("ana", &flags.into_iter().chain(rest).collect::<Vec<_>>())
    };
    assert_eq!(submit("keyed").number(), submit("keyed").number());
    submit("changed").refused(7, &["B1501"]);
    Ok(())
}
