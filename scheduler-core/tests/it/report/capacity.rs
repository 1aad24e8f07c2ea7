//! What has room, now and as protection ends.

use scheduler_core::id::{AttemptId, AttemptNo, JobId, Name};
use scheduler_core::job::{Attempt, AttemptEnd, Ended, Exit};
use scheduler_core::node::{Cordon, Node};
use scheduler_core::plan::Links;
use scheduler_core::report::{Capacity, Within, capacity};
use scheduler_core::state::State;
use scheduler_core::unit::Span;

use crate::lab::{NOW, name, state};

pub fn node<'a>(lab: &'a mut State, wanted: &str) -> &'a mut Node {
    let found = lab.nodes.iter().find(|(_, node)| node.name.as_str() == wanted).map(|(id, _)| *id);
    lab.nodes.get_mut(&found.expect("a known node")).expect("it was just found")
}

pub fn attempt(job: u32) -> AttemptId {
    AttemptId { job: JobId::new(job), no: AttemptNo::new(1) }
}

pub fn live(lab: &mut State, job: u32) -> &mut Attempt {
    lab.attempts.get_mut(&attempt(job)).expect("a known attempt")
}

fn of(lab: &State, pool: &Name) -> Capacity {
    let all = capacity(lab, &Links::all_ready(lab), NOW);
    all.into_iter().find(|capacity| capacity.pool == *pool).expect("a known pool")
}

/// Shows capacity: classes, rooms, idle nodes, ends.
fn check(lab: &State, expected: &str) {
    let found = of(lab, &name("main"));
    let c = found.classes;
    assert_eq!(
        c.gpus,
        c.protected + c.interruptible + c.free_tier + c.idle + c.handover + c.overhead + c.unavailable
    );
    let mut shown = vec![format!(
        "{} GPUs: {} protected, {} interruptible, {} free tier, {} idle, {} handover, {} overhead, {} unavailable",
        c.gpus, c.protected, c.interruptible, c.free_tier, c.idle, c.handover, c.overhead, c.unavailable
    )];
    shown.extend(found.rooms.iter().map(|room| {
        let within = match room.within {
            Within::Idle => "idle".to_owned(),
            Within::Unprotected(span) => format!("in {span}"),
        };
        let model = room.model.as_ref().map_or(String::new(), |model| format!(" {model}"));
        let largest = room.largest;
        format!("{within}{model}: {} GPUs, {} x {}", room.gpus, largest.nodes, largest.gpus_per_node)
    }));
    shown.extend(found.idle.iter().map(|row| format!("{} x {} of {} idle", row.nodes, row.idle, row.of)));
    shown.extend(
        found
            .ends
            .iter()
            .map(|end| format!("{} ends in {}, {} GPUs", end.attempt, end.at.since(NOW), end.gpus)),
    );
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown, expected, "found\n{}", shown.join("\n"));
}

#[test]
fn room_grows_as_protection_ends() {
    let lab = state(
        "node n1 8 h100
         node n2 8 h100
         node n3 8 h100
         node n4 8 h100
         budget a 100
         runs 1.1 a 8 n1 0-7 for=5h min=1h
         runs 2.1 a 8 n2 0-7 for=90m min=2h
         runs 3.1 a 2 n3 0-1 for=1h min=8h
         runs 4.1 a 2 n3 2-3 for=1h free",
    );
    check(
        &lab,
        "32 GPUs: 10 protected, 8 interruptible, 2 free tier, 12 idle, 0 handover, 0 overhead, 0 unavailable
         idle: 12 GPUs, 1 x 8
         in 0s: 22 GPUs, 3 x 6
         in 1h: 30 GPUs, 3 x 8
         in 8h: 32 GPUs, 4 x 8
         1 x 8 of 8 idle
         1 x 4 of 8 idle
         2.1 ends in 30m, 8 GPUs
         3.1 ends in 7h, 2 GPUs",
    );
}

#[test]
fn nodes_that_take_no_work_have_no_room() {
    let mut lab = state(
        "node n1 8 h100
         node n2 4 h100 gone
         node n3 2 h100
         node n4 1 h100 backoff
         budget a 100
         runs 1.1 a 2 n3 0-1 for=1h free",
    );
    let cordon = Cordon { who: None, reason: "GPU 3 cannot be cleared".to_owned(), since: NOW };
    node(&mut lab, "n3").cordon = Some(cordon);
    check(
        &lab,
        "15 GPUs: 0 protected, 0 interruptible, 2 free tier, 9 idle, 0 handover, 0 overhead, 4 unavailable
         idle: 8 GPUs, 1 x 8
         in 0s: 8 GPUs, 1 x 8
         in 1h: 8 GPUs, 1 x 8
         in 8h: 8 GPUs, 1 x 8
         1 x 8 of 8 idle",
    );
}

#[test]
fn each_model_has_its_own_room_where_there_are_several() {
    let lab = state("node n1 4 h100\nnode n2 2 a100\nbudget a 100\nruns 1.1 a 1 n2 0 for=1h min=90m");
    check(
        &lab,
        "6 GPUs: 1 protected, 0 interruptible, 0 free tier, 5 idle, 0 handover, 0 overhead, 0 unavailable
         idle: 5 GPUs, 1 x 4
         in 0s: 5 GPUs, 1 x 4
         in 1h: 6 GPUs, 1 x 4
         in 8h: 6 GPUs, 1 x 4
         idle a100: 1 GPUs, 1 x 1
         in 0s a100: 1 GPUs, 1 x 1
         in 1h a100: 2 GPUs, 1 x 2
         in 8h a100: 2 GPUs, 1 x 2
         idle h100: 4 GPUs, 1 x 4
         in 0s h100: 4 GPUs, 1 x 4
         in 1h h100: 4 GPUs, 1 x 4
         in 8h h100: 4 GPUs, 1 x 4
         1 x 4 of 4 idle
         1 x 1 of 2 idle
         1.1 ends in 30m, 1 GPUs",
    );
}

#[test]
fn gpus_on_their_way_to_another_attempt_are_handover() {
    let mut lab = state(
        "node n1 8 h100
         budget a 100
         runs 1.1 a 2 n1 0-1 for=5h min=1h
         runs 2.1 a 4 n1 2-5 for=1h min=1h
         runs 3.1 a 1 n1 6 for=1h free",
    );
    // 2 was placed on idle GPUs and on those of 1, which has ended and is not proven empty; 3 ends too, for nobody.
    live(&mut lab, 1).ended =
        Some(Ended { at: NOW, cause: AttemptEnd::Preempted, exit: Some(Exit::Code(0)) });
    live(&mut lab, 3).ended = Some(Ended { at: NOW, cause: AttemptEnd::Exited, exit: Some(Exit::Code(0)) });
    for slot in 0..2 {
        node(&mut lab, "n1").gpus[slot].next = Some(attempt(2));
    }
    let taker = live(&mut lab, 2);
    (taker.go_at, taker.started_at) = (None, None);
    (taker.placed_at, taker.latest_go) = (NOW, NOW.plus(Span::from_mins(2)));
    taker.start_by = NOW.plus(Span::from_mins(12));
    check(
        &lab,
        "8 GPUs: 0 protected, 0 interruptible, 0 free tier, 1 idle, 4 handover, 3 overhead, 0 unavailable
         idle: 1 GPUs, 1 x 1
         in 0s: 2 GPUs, 1 x 2
         in 1h: 2 GPUs, 1 x 2
         in 8h: 8 GPUs, 1 x 8
         1 x 1 of 8 idle
         2.1 ends in 1h12m, 4 GPUs",
    );
    // The holder is gone, and not all of the others: still the taker's.
    for slot in 0..2 {
        node(&mut lab, "n1").gpus[slot].holder = None;
    }
    assert_eq!(of(&lab, &name("main")).classes.handover, 6);
}

#[test]
fn pools_are_told_apart() {
    let lab = state("node n1 4 h100 pool=east\nnode n2 2 h100 pool=west\nbudget a 100");
    let gpus = |pool| of(&lab, &name(pool)).classes.gpus;
    assert_eq!((gpus("east"), gpus("west")), (4, 2));
}
