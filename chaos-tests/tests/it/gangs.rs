//! A job on several nodes runs on all of them or on none.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use chaos_tests::lab::{Lab, identity, send, until};
use chaos_tests::work::{Line, Work};
use proto::v1::AttemptView;
use rustix::process::Signal;

use crate::story::{self, Arena, LONG, gang};

/// Checks that of each attempt either every rank had a process or none, each one once.
fn assert_whole(work: &Work, ranks: usize) {
    let mut by_attempt: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for start in work.said("start") {
        by_attempt.entry(start.attempt).or_default().push(start.rank);
    }
    for (attempt, mut started) in by_attempt {
        started.sort_unstable();
        let all: Vec<u32> = (0..).take(ranks).collect();
        assert_eq!(started, all, "attempt {attempt} ran in part: {:#?}", work.lines());
    }
}

fn submit(lab: &Lab, arena: &Arena, words: &[&str]) -> Result<(u32, Work)> {
    lab.submit_work(&arena.ana, gang(&arena.a, 2, 4, LONG), words)
}

fn placed(lab: &Lab, arena: &Arena, job: u32) -> AttemptView {
    let view = story::when(lab, &arena.ana, job, "is placed", |view| !view.attempts.is_empty());
    view.attempts[0].clone()
}

/// Returns the agent of a rank's node.
fn agent_of(lab: &Lab, attempt: &AttemptView, rank: usize) -> Result<usize> {
    let name = attempt.nodes.get(rank).context("no such rank")?;
    lab.agents.iter().position(|agent| agent.name == *name).context("no such node")
}

pub fn ranks_meet_where_they_are_told_and_one_s_end_ends_all(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let (job, work) = submit(lab, &arena, &["meet", "term=ignore"])?;
    let attempt = story::started(lab, &arena.ana, job, 1);
    let met = until("both ranks met", || Some(work.said("met")).filter(|met| met.len() == 2));
    assert_eq!(met[0].value("at"), met[1].value("at"));
    let at = met[0].value("at").and_then(|at| at.rsplit_once(':')).context("an address")?;
    assert_eq!(at.1.parse().ok(), attempt.port, "{attempt:#?}");
    assert_whole(&work, 2);
    // Nobody runs before all are there: the latest `go` is before the first line.
    let starts = work.said("start");
    assert_ne!(starts[0].gpus(), starts[1].gpus());
    assert!(attempt.go_at <= attempt.started_at, "{attempt:#?}");

    work.end_rank(1, 3);
    let view = story::stands(lab, &arena.ana, job, "ended");
    let attempt = view.attempts[0].clone();
    let exit = view.exit.clone().context("no exit")?;
    assert_eq!(
        (view.end.as_deref(), exit.kind.as_str(), exit.value),
        (Some("failed"), "code", 3),
        "{view:#?}"
    );
    assert_eq!((attempt.end.as_deref(), view.attempts.len()), (Some("exited"), 1), "{view:#?}");
    // The other one ignored its end signal, so it had all of the grace, and the attempt lasted until then.
    let of = |rank: u32| move |line: &Line| line.rank == rank;
    let term: Vec<Line> = work.said("term").into_iter().filter(of(0)).collect();
    assert_eq!(term.len(), 1, "{:#?}", work.lines());
    assert!(work.said("term").iter().all(of(0)), "{:#?}", work.lines());
    let first = story::shim_file(lab, &attempt, job, 1, "exit")?.number("ended_ms");
    let last = story::shim_file(lab, &attempt, job, 0, "exit")?.number("ended_ms");
    assert!(last >= first + 2_000, "{last} {first}");
    assert!(work.lines().iter().filter(|line| line.rank == 0).all(|line| line.at <= last));
    assert_eq!(attempt.stop_grace_ms, Some(2_000), "{attempt:#?}");
    story::assert_charged(&attempt, 0);
    Ok(())
}

pub fn rank_that_ends_well_ends_nobody_else(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let (job, work) = submit(lab, &arena, &["meet"])?;
    story::started(lab, &arena.ana, job, 1);
    work.end_rank(0, 0);
    let gone = until("rank 0 has ended", || work.said("end").pop());
    until("rank 1 runs on", || work.said("beat").into_iter().find(|b| b.rank == 1 && b.at > gone.at + 500));
    let view = lab.block_on(arena.ana.show(job))?;
    assert_eq!((view.state.as_str(), view.attempts[0].stop_at), ("running", None), "{view:#?}");
    work.end_rank(1, 0);
    let view = story::stands(lab, &arena.ana, job, "ended");
    assert_eq!((view.end.as_deref(), view.attempts.len()), (Some("completed"), 1), "{view:#?}");
    Ok(())
}

pub fn node_that_nobody_hears_of_ends_no_gang(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let (job, work) = submit(lab, &arena, &["meet"])?;
    let attempt = story::started(lab, &arena.ana, job, 1);
    let stopped = agent_of(lab, &attempt, 1)?;
    let pid = lab.agents[stopped].pid().context("the agent runs")?;
    let name = lab.agents[stopped].name.clone();
    send(pid, Signal::STOP);
    until("the node is unreachable", || {
        let node = lab.block_on(arena.ana.node(&name)).ok()?;
        (node.state == "unreachable").then_some(())
    });
    let view = lab.block_on(arena.ana.show(job))?;
    assert_eq!((view.attempts.len(), view.attempts[0].stop_at), (1, None), "{view:#?}");
    assert_eq!(view.attempts[0].protected_until_at, attempt.protected_until_at);
    let pids: Vec<i32> = work.said("start").iter().map(|line| line.pid).collect();
    assert!(pids.iter().all(|pid| identity(*pid).is_some()), "a rank ended with the contact");
    send(pid, Signal::CONT);
    lab.wait_nodes();
    let after = story::started(lab, &arena.ana, job, 1);
    assert_eq!(after.started_at, attempt.started_at);
    assert!(pids.iter().all(|pid| identity(*pid).is_some()), "a rank ended when contact came back");
    work.end(0);
    let view = story::stands(lab, &arena.ana, job, "ended");
    assert_eq!((view.end.as_deref(), view.attempts.len()), (Some("completed"), 1), "{view:#?}");
    Ok(())
}

pub fn gang_without_all_its_nodes_ready_never_starts_and_blames_only_who_was_not(
    lab: &mut Lab,
) -> Result<()> {
    let arena = Arena::open(lab)?;
    // A stranger on one GPU of one node, and then silence there: prepared, and never ready.
    lab.agents[1].occupy(0, Some(std::process::id()))?;
    until("the node knows of the stranger", || {
        let free = lab.block_on(arena.ana.node(&lab.agents[1].name)).ok()?;
        (free.state == "ready").then_some(())
    });
    let (job, work) = submit(lab, &arena, &["meet"])?;
    let attempt = placed(lab, &arena, job);
    assert_eq!(attempt.go_at, None, "{attempt:#?}");
    let pid = lab.agents[1].pid().context("the agent runs")?;
    send(pid, Signal::STOP);
    lab.agents[1].occupy(0, None)?;
    let ended = story::ended(lab, &arena.ana, job, 1);
    assert_eq!((ended.end.as_deref(), ended.go_at), (Some("launch-failed-node"), None), "{ended:#?}");
    assert_eq!(ended.charged_milli_gpu_ms, "0", "{ended:#?}");
    assert_eq!(ended.ended_at, Some(ended.placed_at + 8_000), "not at its start limit: {ended:#?}");
    assert!(work.lines().is_empty(), "something ran: {:#?}", work.lines());
    let blamed = |n: usize| {
        let node = lab.block_on(arena.ana.node(&lab.agents[n].name));
        node.map(|node| node.backoff_until_at.is_some() || node.state == "backing-off")
    };
    assert!(!blamed(0)?, "a node that was ready is blamed");
    let view = lab.block_on(arena.ana.show(job))?;
    assert_ne!(view.state, "ended", "{view:#?}");
    send(pid, Signal::CONT);
    until("both ranks met", || Some(work.said("met")).filter(|met| met.len() == 2));
    assert_whole(&work, 2);
    Ok(())
}

pub fn gang_whose_node_cannot_be_proven_free_waits_and_then_starts_whole(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    lab.agents[1].occupy(2, Some(std::process::id()))?;
    let (job, work) = submit(lab, &arena, &["meet"])?;
    let ended = story::ended(lab, &arena.ana, job, 1);
    assert_eq!(ended.end.as_deref(), Some("launch-failed-node"), "{ended:#?}");
    let detail = ended.detail.clone().unwrap_or_default();
    assert!(detail.contains(&lab.agents[1].name) || detail.contains("GPU"), "who and why: {ended:#?}");
    assert!(work.lines().is_empty(), "a rank ran without the other: {:#?}", work.lines());
    lab.agents[1].occupy(2, None)?;
    until("both ranks met", || Some(work.said("met")).filter(|met| met.len() == 2));
    assert_whole(&work, 2);
    let view = story::stands(lab, &arena.ana, job, "running");
    let moments = |attempt: &AttemptView| (attempt.go_at, attempt.charged_milli_gpu_ms.clone());
    for attempt in &view.attempts[..view.attempts.len() - 1] {
        assert_eq!(moments(attempt), (None, "0".to_owned()), "{view:#?}");
    }
    Ok(())
}

pub fn leader_s_and_agent_s_death_between_prepare_and_go_start_it_once(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    lab.agents[1].occupy(1, Some(std::process::id()))?;
    let (job, work) = submit(lab, &arena, &["meet"])?;
    placed(lab, &arena, job);
    let leader = lab.leader();
    lab.replicas[leader].kill();
    lab.agents[0].kill();
    let parts = lab.parts.clone();
    lab.agents[0].start(&parts)?;
    lab.leader();
    assert!(work.lines().is_empty(), "a rank ran before its go: {:#?}", work.lines());
    lab.agents[1].occupy(1, None)?;
    let met = until("both ranks met", || Some(work.said("met")).filter(|met| met.len() >= 2));
    assert_eq!(met.len(), 2, "{met:#?}");
    assert_whole(&work, 2);
    lab.replicas[leader].start(&parts)?;
    Ok(())
}
