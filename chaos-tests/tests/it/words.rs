//! What people say about their jobs, and jobs that try again.

use anyhow::{Context as _, Result};
use chaos_tests::lab::{ADMIN, Lab, until};
use proto::v1::JobRequest;

use crate::story::{self, Arena, LONG, refused, resumable};

/// The code of what somebody may not do.
const NOT_ALLOWED: u32 = 1401;

pub fn held_job_starts_when_it_is_released_and_a_live_one_is_not_held(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let admin = lab.client(ADMIN)?;
    let (block, _) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &[])?;
    let (other, _) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &[])?;
    story::started(lab, &arena.ana, block, 1);
    story::started(lab, &arena.ana, other, 1);
    // It runs: the refusal says what to do instead.
    let live = lab.bursar_as("ana", &["job", "hold", &block.to_string()]);
    assert!(live.code != 0 && live.err.contains("B1503") && live.err.contains("job requeue"), "{live:#?}");

    let (job, work) = lab.submit_work(&arena.ana, resumable(&arena.c, 4, LONG), &[])?;
    refused(lab.block_on(arena.bob.hold(job, "mine first")), NOT_ALLOWED, &[]);
    assert_eq!(lab.block_on(arena.ana.hold(job, ""))?, "held");
    assert_eq!(lab.block_on(arena.ana.release(job, ""))?, "waiting");
    // What an operator holds, its user does not release.
    assert!(lab.block_on(admin.hold(job, "")).is_err(), "somebody else's job without a reason");
    assert_eq!(lab.block_on(admin.hold(job, "the data is not there yet"))?, "held");
    let held = lab.block_on(arena.ana.show(job))?;
    assert_eq!(held.state, "held", "{held:#?}");
    let why = lab.block_on(arena.ana.explain(&job.to_string()))?;
    assert!(format!("{why:?}").contains("the data is not there yet"), "{why:#?}");
    refused(lab.block_on(arena.ana.release(job, "")), NOT_ALLOWED, &[]);
    lab.block_on(arena.ana.cancel_softly(block))?;
    story::stands(lab, &arena.ana, block, "ended");
    let later = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &["ends=0"])?.0;
    story::stands(lab, &arena.ana, later, "ended");
    assert!(work.said("start").is_empty(), "a held job ran");
    lab.block_on(admin.release(job, "now it is"))?;
    let attempt = story::started(lab, &arena.ana, job, 1);
    assert_eq!(attempt.attempt, 1, "holding takes no attempt");
    Ok(())
}

pub fn requeued_job_saves_and_starts_again_under_its_number(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let admin = lab.client(ADMIN)?;
    let request = JobRequest { resumable: Some(false), ..resumable(&arena.a, 4, LONG) };
    let (job, work) = lab.submit_work(&arena.ana, request, &["notice=leave"])?;
    story::started(lab, &arena.ana, job, 1);
    until("it listens", || work.said("beat").pop());
    lab.block_on(arena.ana.requeue(job, ""))?;
    let first = story::ended(lab, &arena.ana, job, 1);
    assert_eq!(first.end.as_deref(), Some("preempted"), "{first:#?}");
    assert_eq!(first.cost, None, "its own user's word is no preemption: {first:#?}");
    story::started(lab, &arena.ana, job, 2);
    assert_eq!(work.said_by(1, "saved").len(), 1, "{:#?}", work.lines());
    until("it listens again", || work.said_by(2, "beat").pop());
    // Somebody else's word has a price, and uses no retry either.
    lab.block_on(admin.requeue(job, "its node is to be looked at"))?;
    let second = story::ended(lab, &arena.ana, job, 2);
    story::assert_cost(&second, "operator");
    story::started(lab, &arena.ana, job, 3);
    let view = lab.block_on(arena.ana.show(job))?;
    assert_eq!((view.retries_used, view.attempts.len()), (0, 3), "{view:#?}");
    Ok(())
}

pub fn failed_job_is_tried_again_as_often_as_it_says_and_its_own_code_counts(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let request = JobRequest { retries: 2, requeue_code: Some(85), ..resumable(&arena.a, 1, LONG) };
    let (job, work) = lab.submit_work(&arena.ana, request.clone(), &["ends=3,85,0"])?;
    let view = story::stands(lab, &arena.ana, job, "ended");
    assert_eq!((view.end.as_deref(), view.retries_used), (Some("completed"), 2), "{view:#?}");
    let codes: Vec<u32> = view.attempts.iter().map(|a| a.exit.as_ref().map_or(999, |e| e.value)).collect();
    assert_eq!(codes, [3, 85, 0], "{view:#?}");
    assert_eq!(work.said("start").len(), 3);
    let (job, _) = lab.submit_work(&arena.ana, request.clone(), &["ends=3,4,5,0"])?;
    let view = story::stands(lab, &arena.ana, job, "ended");
    assert_eq!((view.end.as_deref(), view.attempts.len()), (Some("failed"), 3), "{view:#?}");
    let charged: u128 =
        view.attempts.iter().map(|a| a.charged_milli_gpu_ms.parse::<u128>().expect("a number")).sum();
    assert_eq!(view.charged_milli_gpu_ms, charged.to_string(), "{view:#?}");
    view.attempts.iter().for_each(|attempt| story::assert_charged(attempt, 0));
    Ok(())
}

pub fn job_that_three_nodes_fail_to_launch_is_held_until_somebody_releases_it(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    if lab.agents.len() < 3 {
        lab.add_node(3, 1)?;
        lab.wait_nodes();
    }
    // A stranger on every GPU: no node can prove one free, and each is to blame for its own.
    for agent in &lab.agents {
        for slot in 0..if agent.name.ends_with('3') { 1 } else { 4 } {
            agent.occupy(slot, Some(std::process::id()))?;
        }
    }
    let (job, work) = lab.submit_work(&arena.ana, resumable(&arena.a, 1, LONG), &[])?;
    let view = story::stands(lab, &arena.ana, job, "held");
    let mut nodes: Vec<_> = view.attempts.iter().map(|attempt| attempt.node.clone()).collect();
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "{view:#?}");
    let ends = view.attempts.iter().map(|attempt| attempt.end.as_deref());
    assert!(ends.into_iter().all(|end| end == Some("launch-failed-node")), "{view:#?}");
    let why = lab.block_on(arena.ana.explain(&job.to_string()))?;
    assert!(why.reason.starts_with("held."), "{why:#?}");
    assert!(work.said("start").is_empty());
    for agent in &lab.agents {
        for slot in 0..if agent.name.ends_with('3') { 1 } else { 4 } {
            agent.occupy(slot, None)?;
        }
    }
    assert_eq!(lab.block_on(arena.ana.release(job, ""))?, "waiting");
    let count = u32::try_from(view.attempts.len()).context("few")?;
    story::started(lab, &arena.ana, job, count + 1);
    Ok(())
}
