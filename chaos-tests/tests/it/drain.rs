//! A node gets empty, and nobody's protection is cut but by an operator's word.

use anyhow::{Context as _, Result};
use chaos_tests::client::Client;
use chaos_tests::lab::{ADMIN, Lab, until};
use proto::v1::{AttemptView, DrainNodeRequest, JobRequest};

use crate::story::{self, Arena, LONG, SHORT, refused, resumable};

/// The code of what somebody may not do.
const NOT_ALLOWED: u32 = 1401;
/// The grace of all jobs here. They leave at their notice: the rest of it is for the way of that.
const GRACE: u64 = 20_000;
/// A protection that lasts until everything is ordered that has to come before its end.
const SOME: u64 = 20_000;

fn request(name: &str) -> DrainNodeRequest {
    DrainNodeRequest {
        name: name.to_owned(),
        reason: "a fan is to be replaced".to_owned(),
        ..DrainNodeRequest::default()
    }
}

/// Starts a job on one whole node, and returns it with its number.
fn start(lab: &Lab, client: &Client, request: JobRequest) -> Result<(u32, AttemptView)> {
    let request = JobRequest { grace_ms: Some(GRACE), ..request };
    let (job, work) = lab.submit_work(client, request, &["save=200", "notice=leave"])?;
    Ok((job, story::listens(lab, client, (job, &work), 1)))
}

fn node_of(attempt: &AttemptView) -> &str {
    &attempt.nodes[0]
}

/// Ends the drain, and waits until all nodes take work again.
fn undrain(lab: &Lab, admin: &Client, node: &str) -> Result<()> {
    lab.block_on(admin.undrain(node))?;
    lab.wait_nodes();
    Ok(())
}

pub fn drain_takes_no_work_in_and_lets_all_leave_as_protection_ends(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let admin = lab.client(ADMIN)?;
    let (job, attempt) = start(lab, &arena.bob, resumable(&arena.x, 4, SOME))?;
    let node = node_of(&attempt).to_owned();
    let until_at = attempt.protected_until_at.context("it is protected")?;

    let preview = DrainNodeRequest { preview: true, ..request(&node) };
    let promised = lab.block_on(admin.drain(preview))?;
    assert_eq!(promised.empty_by_at, Some(until_at + GRACE), "{promised:#?}");
    let leaving = promised.jobs.first().context("who leaves")?;
    assert_eq!(
        (leaving.attempt.as_str(), leaving.cuts_ms),
        (format!("{job}.1").as_str(), 0),
        "{promised:#?}"
    );
    assert_eq!(lab.block_on(admin.node(&node))?.state, "ready", "a preview did something");
    refused(lab.block_on(arena.ana.drain(request(&node))), NOT_ALLOWED, &[]);
    let unsaid = DrainNodeRequest { reason: String::new(), ..request(&node) };
    assert!(lab.block_on(admin.drain(unsaid)).is_err(), "a drain without a reason");

    let told = lab.block_on(admin.drain(request(&node)))?;
    assert_eq!(told.empty_by_at, promised.empty_by_at, "{told:#?}");
    // Whoever leads by then, the promise holds.
    let leader = lab.leader();
    lab.replicas[leader].kill();
    let (other, elsewhere) = start(lab, &arena.ana, resumable(&arena.a, 4, LONG))?;
    assert_ne!(node_of(&elsewhere), node, "new work on a node that gets empty: job {other}");
    let (late, _) = lab.submit_work(&arena.ana, resumable(&arena.c, 1, SHORT), &[])?;

    let left = story::ended(lab, &arena.bob, job, 1);
    assert_eq!(left.stop_at, Some(until_at), "{left:#?}");
    assert_eq!(left.end.as_deref(), Some("preempted"), "{left:#?}");
    assert!(left.ended_at <= promised.empty_by_at, "{left:#?} {promised:#?}");
    story::assert_cost(&left, "drain");
    story::assert_charged(&left, 0);
    let empty = until("the node is empty", || {
        let view = lab.block_on(admin.node(&node)).ok()?;
        view.gpu_list.iter().all(|gpu| gpu.state == "idle").then_some(view)
    });
    assert_eq!((empty.state.as_str(), empty.unavailable, empty.idle), ("draining", 4, 0), "{empty:#?}");
    assert_eq!(empty.drained_by.as_deref(), Some(ADMIN), "{empty:#?}");
    let waits = lab.block_on(arena.ana.show(late))?;
    assert_eq!((waits.state.as_str(), waits.attempts.len()), ("waiting", 0), "{waits:#?}");

    let parts = lab.parts.clone();
    lab.replicas[leader].start(&parts)?;
    undrain(lab, &admin, &node)?;
    story::started(lab, &arena.ana, late, 1);
    Ok(())
}

pub fn deadline_and_now_cut_protection_and_what_is_cut_is_not_charged(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let admin = lab.client(ADMIN)?;
    let (job, attempt) = start(lab, &arena.bob, resumable(&arena.x, 4, SOME))?;
    let until_at = attempt.protected_until_at.context("it is protected")?;
    let node = node_of(&attempt).to_owned();
    // A second before its protection ends.
    let deadline_at = Some(until_at - 1_000 + GRACE);
    let told = lab.block_on(admin.drain(DrainNodeRequest { deadline_at, ..request(&node) }))?;
    assert_eq!(told.empty_by_at, deadline_at, "{told:#?}");
    assert_eq!(told.jobs.iter().map(|job| job.cuts_ms).collect::<Vec<_>>(), [1_000], "{told:#?}");
    let left = story::ended(lab, &arena.bob, job, 1);
    assert_eq!(left.stop_at, Some(until_at - 1_000), "{left:#?}");
    assert!(left.ended_at <= deadline_at, "{left:#?}");
    story::assert_cost(&left, "operator");
    story::assert_charged(&left, 1_000);
    undrain(lab, &admin, &node)?;

    // It waits again, and is on some node; the other word: at once.
    let again = story::started(lab, &arena.bob, job, 2);
    let node = node_of(&again).to_owned();
    let until_at = again.protected_until_at.context("it is protected")?;
    lab.block_on(admin.drain(DrainNodeRequest { now: true, ..request(&node) }))?;
    let left = story::ended(lab, &arena.bob, job, 2);
    let stop = left.stop_at.context("it was told")?;
    assert!(stop < until_at, "its protection was over anyway: {left:#?}");
    story::assert_cost(&left, "operator");
    story::assert_charged(&left, until_at - stop);
    let third = story::started(lab, &arena.bob, job, 3);
    assert_ne!(node_of(&third), node, "{third:#?}");
    undrain(lab, &admin, &node)
}

pub fn maintenance_window_lets_in_what_is_over_by_then(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let admin = lab.client(ADMIN)?;
    let name = lab.agents[0].name.clone();
    let now = lab.block_on(admin.hello())?.cluster_time_at;
    // A start limit of eight seconds has to fit before it, and all that is submitted here.
    let begins_at = now + 40_000;
    let told =
        lab.block_on(admin.drain(DrainNodeRequest { begins_at: Some(begins_at), ..request(&name) }))?;
    assert_eq!(told.begins_at, Some(begins_at), "{told:#?}");
    let (_, long) = start(lab, &arena.ana, resumable(&arena.a, 4, LONG))?;
    assert_ne!(node_of(&long), name, "protection would cross the window");
    let (crossing, _) = lab.submit_work(&arena.ana, resumable(&arena.c, 1, LONG), &[])?;
    let (short, attempt) = start(lab, &arena.bob, resumable(&arena.x, 1, SHORT))?;
    let (free, free_attempt) = start(lab, &arena.bob, resumable(&arena.y, 1, 0))?;
    assert_eq!((node_of(&attempt), node_of(&free_attempt)), (name.as_str(), name.as_str()));
    for job in [short, free] {
        let left = story::ended(lab, &arena.bob, job, 1);
        assert_eq!(left.stop_at, Some(begins_at), "{left:#?}");
        story::assert_cost(&left, "drain");
    }
    let waits = lab.block_on(arena.ana.show(crossing))?;
    assert_eq!((waits.state.as_str(), waits.attempts.len()), ("waiting", 0), "{waits:#?}");
    undrain(lab, &admin, &name)?;
    story::started(lab, &arena.ana, crossing, 1);
    Ok(())
}
