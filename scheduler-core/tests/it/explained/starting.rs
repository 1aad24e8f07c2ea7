//! A gang that starts, and one that loses a rank.

use scheduler_core::agent::{EndedBy, RankEvent};
use scheduler_core::explain::{Explanation, job};
use scheduler_core::id::{AttemptId, JobId, NodeId};
use scheduler_core::job::Exit;
use scheduler_core::plan::Links;
use scheduler_core::unit::Span;

use super::check;
use crate::world::{World, ended, request};

fn explained(world: &World, id: JobId) -> Explanation {
    job(&world.state, &Links::all_ready(&world.state), id, world.now).expect("state has it")
}

/// A job over three nodes of two GPUs is placed.
fn gang() -> (World, [NodeId; 3], AttemptId) {
    let mut world = World::new();
    let nodes = ["n1", "n2", "n3"].map(|name| world.node(name, 2));
    let mut asked = request(2);
    asked.shape.nodes = 3;
    let job = world.submit("bob", asked);
    let attempt = world.start(job, &nodes.map(|node| (node, &[0, 1][..])), &[]);
    (world, nodes, attempt)
}

#[test]
fn a_gang_says_which_ranks_are_not_ready_and_which_have_no_process() {
    let (mut world, nodes, id) = gang();
    world.rank(nodes[1], id, 1, RankEvent::Ready);
    check(
        &explained(&world, id.job),
        world.now,
        &["what it needs", "its run"],
        &format!(
            "{0} train is starting: all its ranks start together, and ranks 0 on n1 and 2 on n3 of 3 are not ready yet
             starting.ready until +10m, nobody: all its ranks start together, and ranks 0 on n1 and 2 on n3 of 3 are not ready yet
             its ranks
             rank 0 on n1: not ready yet
             rank 1 on n2: ready +0s
             rank 2 on n3: not ready yet",
            id.job
        ),
    );
    world.wait(Span::from_secs(1)).rank(nodes[0], id, 0, RankEvent::Ready);
    world.rank(nodes[2], id, 2, RankEvent::Ready);
    world.wait(Span::from_secs(1)).rank(nodes[2], id, 2, RankEvent::Started);
    check(
        &explained(&world, id.job),
        world.now,
        &["what it needs", "its run"],
        &format!(
            "{0} train is starting: it is placed, and 2 of its 3 ranks have no process yet
             starting.agent until +9m58s, nobody: it is placed, and 2 of its 3 ranks have no process yet
             its ranks
             rank 0 on n1: no process yet
             rank 1 on n2: no process yet
             rank 2 on n3: started +0s",
            id.job
        ),
    );
}

#[test]
fn a_gang_waits_for_victims_and_ranks_at_once() {
    let mut world = World::new();
    let nodes = ["n1", "n2"].map(|name| world.node(name, 2));
    let mut asked = request(1);
    asked.min_runtime = Some(Span::ZERO);
    let free = world.submit("bob", asked);
    let victim = world.place(free, nodes[0], &[1]);
    world.report(nodes[0], victim, RankEvent::Started);
    let mut asked = request(2);
    asked.shape.nodes = 2;
    let job = world.submit("bob", asked);
    let on = nodes.map(|node| (node, &[0, 1][..]));
    let id = world.start(job, &on, &[(victim, scheduler_core::decision::Right::FreeTier)]);
    check(
        &explained(&world, id.job),
        world.now,
        &["what it needs", "its run"],
        &format!(
            "{0} train is starting: it is placed, and waits for {victim} (lang/post) (1 GPU), which saves and leaves
             placed.grace until +15s, nobody: it is placed, and waits for {victim} (lang/post) (1 GPU), which saves and leaves
             starting.ready until +10m15s, nobody: all its ranks start together, and rank 1 on n2 of 2 is not ready yet
             its ranks
             rank 0 on n1: waits for {victim}
             rank 1 on n2: not ready yet
             what it waits for
             {victim} (lang/post): 1 GPU +15s",
            id.job
        ),
    );
}

#[test]
fn a_gang_that_lost_a_rank_says_which_and_how() {
    let (mut world, nodes, id) = gang();
    for (rank, node) in (0_u16..).zip(nodes) {
        world.rank(node, id, rank, RankEvent::Ready);
    }
    for (rank, node) in (0_u16..).zip(nodes) {
        world.rank(node, id, rank, RankEvent::Started);
    }
    world.wait(Span::from_mins(1));
    world.rank(nodes[1], id, 1, ended(Exit::Signal(9), EndedBy::Itself));
    check(
        &explained(&world, id.job),
        world.now,
        &["what it needs", "its run"],
        &format!(
            "{0} train is stopping: rank 1 on n2 ended by signal 9, so the others end too
             stopping.rank until +10s, nobody: rank 1 on n2 ended by signal 9, so the others end too
             its ranks
             rank 0 on n1: started -1m
             rank 1 on n2: ended by signal 9 +0s
             rank 2 on n3: started -1m",
            id.job
        ),
    );
}
