//! One job's whole way.

use anyhow::Result;
use chaos_tests::lab::{Lab, alive, until};

use crate::seen;

pub fn job_ends_as_it_exits_and_is_charged_from_go_to_end_exactly(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--gpus", "3", "--min-runtime", "1h"])?;
    let process = gate.running();
    let view = seen::running(lab, &ana, job);
    let attempt = seen::last(&view);
    assert_eq!(attempt.slots.len(), 3);
    let protected_until = attempt.protected_until_at.expect("it is protected");
    assert_eq!(protected_until, attempt.started_at.expect("it runs") + 3_600_000);
    let pools = lab.block_on(ana.status())?.pools;
    assert_eq!(pools.iter().map(|pool| (pool.protected, pool.idle)).collect::<Vec<_>>(), [(3, 5)]);

    gate.open(7);
    let number = job.to_string();
    let waited = lab.bursar_as("ana", &["job", "wait", &number]);
    assert_eq!(waited.code, 7, "a job's exit code is passed on: {waited:#?}");
    assert!(!alive(process));
    let view = seen::ended(lab, &ana, job);
    seen::assert_exit(&view, 7);
    let attempt = seen::last(&view);
    let points = [Some(attempt.placed_at), attempt.go_at, attempt.started_at, attempt.ended_at];
    assert!(points.is_sorted() && points.iter().all(Option::is_some), "{view:#?}");
    assert_eq!(view.charged_milli_gpu_ms, attempt.charged_milli_gpu_ms, "{view:#?}");
    let logs = lab.bursar_as("ana", &["logs", &number]).ok();
    assert_eq!(logs.out, "at the gate\nends with 7\n");
    let shown = lab.bursar_as("ana", &["job", "show", &number, "-o", "json"]).json();
    assert_eq!((shown["schema"].as_str(), shown["end"].as_str()), (Some("job/v1"), Some("failed")));
    lab.bursar_as("ana", &["explain", &number]).ok();
    Ok(())
}

pub fn cancelled_job_ends_and_its_gpus_are_idle_again(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1h", "--resumable"])?;
    let process = gate.running();
    seen::running(lab, &ana, job);
    lab.bursar_as("ana", &["job", "cancel", &job.to_string()]).ok();
    let view = seen::ended(lab, &ana, job);
    assert_eq!(view.end.as_deref(), Some("cancelled"), "{view:#?}");
    let attempt = seen::last(&view);
    assert_eq!(attempt.charged_milli_gpu_ms, seen::price(&attempt).to_string(), "{view:#?}");
    until("the process is gone", || (!alive(process)).then_some(()));
    until("all GPUs are idle", || {
        let pools = lab.block_on(ana.status()).ok()?.pools;
        pools.iter().all(|pool| pool.idle == pool.gpus).then_some(())
    });
    assert_eq!(gate.runs().len(), 1);
    Ok(())
}
