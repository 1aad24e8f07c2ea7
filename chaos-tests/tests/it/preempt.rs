//! Who gives way to whom, and what that costs.

use std::time::Duration;

use anyhow::{Context as _, Result};
use chaos_tests::client::Client;
use chaos_tests::lab::{Lab, try_until, until};
use proto::v1::{AttemptView, JobRequest, Shape};

use crate::story::{self, Arena, LONG, SHORT, gang, resumable};

/// The shape that no known nodes could hold.
const IMPOSSIBLE: u32 = 1205;
/// What cluster time and the boot clock may differ by over seconds, in ms: the one runs up to a thousandth faster or
/// slower.
const SLEWED: u64 = 10;
/// The grace of who ignores everything, in ms.
const GRACE: u64 = 9_000;

/// Checks that `victim` gave way to `taker`, by one decision of which both sides tell the same.
fn assert_taken(
    lab: &Lab,
    client: &Client,
    taker: (u32, &AttemptView),
    victim: (u32, &AttemptView),
    right: &str,
) -> Result<()> {
    let taker_id = format!("{}.{}", taker.0, taker.1.attempt);
    let victim_id = format!("{}.{}", victim.0, victim.1.attempt);
    // Evict and place are one entry.
    assert_eq!(victim.1.stop_at, Some(taker.1.placed_at), "{victim:#?}");
    assert_eq!(victim.1.taken_for.as_deref(), Some(taker_id.as_str()), "{victim:#?}");
    let decision = lab.block_on(client.explain(&taker.1.decision))?;
    let took: Vec<_> = decision.victims.iter().map(|v| (v.attempt.as_str(), v.right.as_str())).collect();
    assert_eq!(took, [(victim_id.as_str(), right)], "{decision:#?}");
    assert_eq!(decision.decided_at, Some(taker.1.placed_at), "{decision:#?}");
    let explained = lab.block_on(client.explain(&victim_id))?;
    let taken = explained.taken.clone().with_context(|| format!("not told as taken: {explained:#?}"))?;
    assert_eq!(taken.right, right, "{explained:#?}");
    assert_eq!(explained.cost, victim.1.cost, "{explained:#?}");
    if right == "share" {
        let (mine, theirs) = (taken.mine.clone().context("no use")?, taken.theirs.clone().context("no use")?);
        let ppm = |view: &proto::v1::UseView| view.use_ppm.context("no allocation");
        // By the margin, and by the numbers as they were.
        assert!(ppm(&mine)? + 100_000 <= ppm(&theirs)? + 1, "{explained:#?}");
        assert_eq!(decision.victims[0].theirs, Some(theirs), "{decision:#?}");
    }
    Ok(())
}

pub fn free_tier_gives_way_first_and_then_whoever_is_past_its_protection(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let (ana, bob) = (&arena.ana, &arena.bob);
    let with_grace = |request| JobRequest { grace_ms: Some(8_000), ..request };
    let words = ["save=200", "notice=leave"];
    let (free, free_work) = lab.submit_work(bob, with_grace(resumable(&arena.y, 4, 0)), &words)?;
    let (funded, work) = lab.submit_work(bob, with_grace(resumable(&arena.x, 4, SHORT)), &words)?;
    story::listens(lab, bob, (free, &free_work), 1);
    story::listens(lab, bob, (funded, &work), 1);

    // The free tier's job is younger, has as many GPUs and has lost no more: still it goes first.
    let (first, first_work) = lab.submit_work(ana, resumable(&arena.a, 4, LONG), &[])?;
    let taker = story::started(lab, ana, first, 1);
    let gave_way = story::ended(lab, bob, free, 1);
    assert_taken(lab, bob, (first, &taker), (free, &gave_way), "free-tier")?;
    let held = lab.block_on(bob.show(free))?;
    assert!(["held", "waiting"].contains(&held.state.as_str()), "{held:#?}");
    story::assert_cost(&gave_way, "free-tier");

    let (second, second_work) = lab.submit_work(ana, resumable(&arena.c, 4, LONG), &[])?;
    let taker = story::started(lab, ana, second, 1);
    let gave_way = story::ended(lab, bob, funded, 1);
    assert_taken(lab, bob, (second, &taker), (funded, &gave_way), "share")?;
    story::assert_cost(&gave_way, "share");
    story::assert_charged(&gave_way, 0);
    assert_files_agree(lab, &gave_way, funded, &work)?;

    // It saved after its notice, left at once, and its GPUs went on.
    for (job, work, attempt) in [(free, &free_work, None), (funded, &work, Some(&gave_way))] {
        let (notices, saved) = (work.said_by(1, "notice"), work.said_by(1, "saved"));
        assert_eq!(notices.len(), 1, "job {job}: {:#?}", work.lines());
        assert!(saved.last().is_some_and(|saved| saved.at >= notices[0].at), "job {job}: {saved:#?}");
        let Some(attempt) = attempt else { continue };
        let exit = attempt.exit.clone().context("no exit")?;
        assert_eq!((attempt.end.as_deref(), exit.kind.as_str(), exit.value), (Some("preempted"), "code", 0));
        let (stop, ended) = (attempt.stop_at.context("no stop")?, attempt.ended_at.context("no end")?);
        assert!(ended < stop + 8_000, "it left, and still its grace passed: {attempt:#?}");
    }

    // The other node comes free: it goes on there, under its number, where it had saved.
    let waiting = lab.block_on(bob.show(funded))?;
    assert_eq!((waiting.state.as_str(), waiting.attempts.len()), ("waiting", 1), "{waiting:#?}");
    first_work.end(0);
    let again = story::started(lab, bob, funded, 2);
    assert_ne!(again.nodes, gave_way.nodes, "{again:#?}");
    // Its process exists before it has said so.
    let starts = until("the word of its second start", || {
        let starts = work.said("start");
        (starts.len() >= 2).then_some(starts)
    });
    let step = |line: &chaos_tests::work::Line| line.value("step").map(String::from);
    assert_eq!(starts.len(), 2, "{starts:#?}");
    assert_eq!(step(&starts[1]), work.said_by(1, "saved").last().and_then(step), "{:#?}", work.lines());
    assert!(starts[0].gpus().iter().all(|gpu| !starts[1].gpus().contains(gpu)), "{starts:#?}");
    assert_eq!(second_work.said("start").len(), 1);
    assert_restart_is_measured(lab, bob, funded)
}

/// Checks the reported age by what the shim and the process wrote: all of it is in time of the boot clock.
fn assert_files_agree(
    lab: &Lab,
    attempt: &AttemptView,
    job: u32,
    work: &chaos_tests::work::Work,
) -> Result<()> {
    let exit = story::shim_file(lab, attempt, job, 0, "exit")?.number("ended_ms");
    let saved = story::shim_file(lab, attempt, job, 0, "saves")?.number("saved_ms");
    let age = attempt.cost.as_ref().context("no cost")?.age_ms;
    assert!(age.abs_diff(exit - saved) <= SLEWED, "by its shim {} ms: {attempt:#?}", exit - saved);
    // The shim's stamp is when it heard, which is after the process saved and before its end.
    let by_itself = work.said_by(attempt.attempt, "saved").pop().context("it saved")?.at;
    assert!(by_itself <= saved + SLEWED && saved <= exit, "{by_itself} {saved} {exit}");
    Ok(())
}

/// Checks that the price of a preemption has the restart in it once that was seen, and that the bill adds up.
fn assert_restart_is_measured(lab: &Lab, client: &Client, job: u32) -> Result<()> {
    let view = story::when(lab, client, job, "has a measured restart", |view| {
        let cost = story::find(view, 1).and_then(|attempt| attempt.cost);
        cost.is_some_and(|cost| cost.restart_basis == "measured")
    });
    let (first, second) = (story::find(&view, 1).context("1")?, story::find(&view, 2).context("2")?);
    let cost = story::assert_cost(&first, "share");
    assert_eq!(
        second.signed_at.zip(second.started_at).map(|(s, t)| s - t),
        Some(cost.restart_ms),
        "{view:#?}"
    );
    assert_eq!(cost.wasted, Some(false), "{view:#?}");

    let bill = lab.block_on(client.bill(None, "cause"))?;
    let total = bill.total.clone().context("no total")?;
    let sum = |field: fn(&proto::v1::BillLine) -> u64| bill.rows.iter().map(field).sum::<u64>();
    assert_eq!(sum(|row| row.lost_gpu_ms), total.lost_gpu_ms, "{bill:#?}");
    assert_eq!(sum(|row| u64::from(row.preemptions)), u64::from(total.preemptions), "{bill:#?}");
    assert_eq!(bill.wasted, 0, "{bill:#?}");
    Ok(())
}

/// Lets a budget that has everything lose half of it to the other one; returns taker and victim.
fn take(
    lab: &Lab,
    arena: &Arena,
    victim: JobRequest,
    words: &[&str],
) -> Result<(u32, u32, chaos_tests::work::Work)> {
    let (victim, work) = lab.submit_work(&arena.bob, victim, words)?;
    let (_, _) = lab.submit_work(&arena.bob, resumable(&arena.y, 4, LONG), &[])?;
    story::listens(lab, &arena.bob, (victim, &work), 1);
    let (taker, _) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &[])?;
    story::started(lab, &arena.ana, taker, 1);
    Ok((taker, victim, work))
}

pub fn victim_that_does_not_resume_ends_as_preempted_and_costs_all_it_did(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let request = JobRequest { resumable: Some(false), ..resumable(&arena.x, 4, SHORT) };
    let (_, victim, work) = take(lab, &arena, request, &["notice=end"])?;
    let view = story::stands(lab, &arena.bob, victim, "ended");
    assert_eq!((view.end.as_deref(), view.attempts.len()), (Some("preempted"), 1), "{view:#?}");
    let attempt = story::find(&view, 1).context("it ran")?;
    let cost = story::assert_cost(&attempt, "share");
    assert_eq!((cost.basis.as_str(), cost.restart_basis.as_str()), ("unknown", "none"), "{view:#?}");
    assert_eq!(cost.lost_gpu_ms, 4 * (attempt.ended_at.context("end")? - attempt.go_at.context("go")?));
    assert_eq!(work.said("start").len(), 1);
    Ok(())
}

pub fn job_that_ignores_everything_is_gone_when_its_grace_is_over(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    // Between its end signal and the kill there is a third of it.
    let request = JobRequest { grace_ms: Some(GRACE), ..resumable(&arena.x, 4, SHORT) };
    let (taker, victim, work) = take(lab, &arena, request, &["notice=ignore", "term=ignore"])?;
    let attempt = story::ended(lab, &arena.bob, victim, 1);
    let exit = attempt.exit.clone().context("no exit")?;
    assert_eq!((attempt.end.as_deref(), exit.kind.as_str(), exit.value), (Some("preempted"), "signal", 9));
    let (stop, ended) = (attempt.stop_at.context("no stop")?, attempt.ended_at.context("no end")?);
    let grace = attempt.stop_grace_ms.context("no grace")?;
    assert_eq!(grace, GRACE, "{attempt:#?}");
    assert!(ended + SLEWED >= stop + grace, "it was not given its grace: {attempt:#?}");
    // Told, then asked to end, then killed: what the shim wrote and what the process saw are one story.
    let (notice, term) = (work.said_by(1, "notice"), work.said_by(1, "term"));
    assert_eq!((notice.len(), term.len()), (1, 1), "{:#?}", work.lines());
    let phase = story::shim_file(lab, &attempt, victim, 0, "phase")?;
    let exit = story::shim_file(lab, &attempt, victim, 0, "exit")?;
    let seen = phase.number("stop_seen_ms");
    assert_eq!(exit.number("noticed"), 1);
    assert!(exit.number("ended_ms") >= seen + grace, "{exit:?} {phase:?}");
    assert!(term[0].at >= seen + grace * 2 / 3, "{:#?} {phase:?}", work.lines());
    // The GPUs were the victim's until then, and the taker's go is the proof that they were empty.
    let taker = story::started(lab, &arena.ana, taker, 1);
    assert!(taker.go_at.is_some_and(|go| go >= ended), "{taker:#?} {attempt:#?}");
    story::assert_charged(&attempt, 0);
    Ok(())
}

pub fn fixed_demand_comes_to_rest_and_nothing_is_taken_in_vain(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let one = |budget: &str, ms| resumable(budget, 1, ms);
    let words = ["save=500", "notice=leave"];
    let submit = |client: &Client, request: JobRequest, count: usize| {
        (0..count).map(|_| lab.submit_work(client, request.clone(), &words)).collect::<Result<Vec<_>>>()
    };
    let bobs = submit(&arena.bob, one(&arena.x, SHORT), 8)?;
    for (job, _) in &bobs {
        story::started(lab, &arena.bob, *job, 1);
    }
    // Never anything to take for the free tier, whoever waits.
    let frees = submit(&arena.bob, one(&arena.y, 0), 2)?;
    // Just what their shares are worth.
    let mut anas = submit(&arena.ana, one(&arena.a, SHORT), 2)?;
    anas.extend(submit(&arena.ana, one(&arena.c, SHORT), 2)?);
    for (job, _) in &anas {
        story::started(lab, &arena.ana, *job, 1);
    }
    let attempts = || -> Result<Vec<usize>> {
        let all = bobs.iter().chain(&anas).chain(&frees);
        all.map(|(job, _)| Ok(lab.block_on(arena.ana.show(*job))?.attempts.len())).collect()
    };
    let count = |counts: &[usize]| (counts[..8].iter().sum::<usize>(), counts[8..12].iter().sum::<usize>());
    let before = attempts()?;
    assert_eq!(count(&before), (8, 4), "{before:?}");
    assert_eq!(before[12..], [0, 0], "{before:?}");
    // More than a window of the same demand: everything that was charged before has left the sums.
    let moved = try_until(Duration::from_secs(25), || attempts().ok().filter(|now| *now != before));
    assert_eq!(moved, None, "it does not come to rest: first {before:?}");
    let bill = lab.block_on(arena.bob.bill(None, "cause"))?;
    assert_eq!(bill.wasted, 0, "{bill:#?}");
    Ok(())
}

pub fn job_that_cannot_start_takes_nothing(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    // No node has nine GPUs, nor five.
    let shape = |gpus| Some(Shape { nodes: 1, gpus_per_node: gpus, ..Shape::default() });
    for gpus in [5, 9] {
        let request = JobRequest { shape: shape(gpus), ..resumable(&arena.a, gpus, SHORT) };
        let answer = lab.submit_work(&arena.ana, request, &[]);
        let refused = answer.expect_err("it fits nowhere").downcast::<chaos_tests::client::Failed>()?;
        assert_eq!(refused.code, IMPOSSIBLE, "{refused:?}");
    }
    // One GPU of each node is protected: there is plenty to take, and never a whole node.
    let (one, _) = lab.submit_work(&arena.bob, resumable(&arena.x, 3, LONG), &[])?;
    let (other, _) = lab.submit_work(&arena.bob, resumable(&arena.x, 3, LONG), &[])?;
    let (small, _) = lab.submit_work(&arena.bob, resumable(&arena.y, 1, SHORT), &[])?;
    let (free, _) = lab.submit_work(&arena.bob, resumable(&arena.y, 1, 0), &[])?;
    for job in [one, other, small, free] {
        story::started(lab, &arena.bob, job, 1);
    }
    let (whole, _) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, SHORT), &[])?;
    let (both, _) = lab.submit_work(&arena.ana, gang(&arena.a, 2, 2, SHORT), &[])?;
    let is_moved = || {
        let states = [one, other, small, free].map(|job| lab.block_on(arena.bob.show(job)).map(|v| v.state));
        states.iter().any(|state| state.as_ref().is_ok_and(|state| state != "running")).then_some(states)
    };
    // Long past the margin: what may be taken now may be taken for ever.
    let moved = try_until(Duration::from_secs(5), is_moved);
    assert!(moved.is_none(), "something was taken in vain: {moved:?}");
    for job in [whole, both] {
        let view = lab.block_on(arena.ana.show(job))?;
        assert_eq!((view.state.as_str(), view.attempts.len()), ("waiting", 0), "{view:#?}");
    }
    // One that fits takes, and no more than it needs.
    let (fits, _) = lab.submit_work(&arena.ana, resumable(&arena.a, 1, SHORT), &[])?;
    story::started(lab, &arena.ana, fits, 1);
    until("the free tier gave way", || {
        let view = lab.block_on(arena.bob.show(free)).ok()?;
        view.attempts.first()?.ended_at
    });
    assert_eq!(lab.block_on(arena.bob.show(small))?.state, "running");
    Ok(())
}
