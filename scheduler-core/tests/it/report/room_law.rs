//! Room against the planner: the largest job that has room starts, and no larger one does.

use scheduler_core::date::{Date, Promise};
use scheduler_core::id::{DecisionId, JobId, LogIndex, Name, Term};
use scheduler_core::plan::{Links, plan, shut};
use scheduler_core::report::{Capacity, Largest, Room, Within, capacity};
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use crate::lab::{NOW, state};
use crate::random::{Random, lab};

const LABS: u64 = 60;
const PROBE: u32 = 900;
const NODES_MAX: u32 = 6;
const GPUS_MAX: u32 = 8;

/// Work that runs, and nobody who waits. Nodes that are backed off take work again in a moment.
fn lines(seed: u64) -> String {
    let lines = lab(&mut Random::new(seed)).replace(" backoff", "");
    let kept: Vec<&str> = lines.lines().filter(|line| !line.starts_with("job")).collect();
    format!("{}\nbudget probe 1\n", kept.join("\n"))
}

/// Whether a job of that shape starts by the planner: on what is idle, or on everything that it may take from whomever,
/// as if its date had come.
fn starts(lines: &str, pool: &Name, room: &Room, shape: Largest) -> bool {
    let model = room.model.as_ref().map_or(String::new(), |model| format!(" type={model}"));
    let (tier, now) = match room.within {
        Within::Idle => ("free", NOW),
        Within::Unprotected(span) => ("min=1m", NOW.plus(span)),
    };
    let Largest { nodes, gpus_per_node } = shape;
    let job = format!("job {PROBE} probe {nodes}x{gpus_per_node} {tier} pool={pool}{model}");
    let mut lab = state(&format!("{lines}{job}"));
    if tier != "free" {
        promise(&mut lab, pool, now);
    }
    let made = plan(&lab, &Links::all_ready(&lab), now, Term::new(1));
    made.decisions.iter().any(|start| start.job == JobId::new(PROBE))
}

/// The date of the probe has come, on every node that takes work.
fn promise(lab: &mut State, pool: &Name, at: Timestamp) {
    let links = Links::all_ready(lab);
    let open = lab.nodes.iter().filter(|(_, node)| node.pool == *pool);
    let open = open.filter(|(id, node)| shut(**id, node, &links, at).is_none());
    let on = open.map(|(id, _)| (*id, Vec::new())).collect();
    let promise = Promise { at, until: at, on, awaits: Vec::new() };
    let decision = DecisionId { index: LogIndex::new(1), n: 0 };
    let date = Date { issued_at: NOW, decision, promise, moved: 0, moves: Vec::new() };
    lab.dates.insert((JobId::new(PROBE), pool.clone()), date);
}

/// Checks one row; returns whether it has room.
fn check(lines: &str, pool: &Name, room: &Room) -> bool {
    let largest = room.largest;
    if largest.gpus() > 0 {
        assert!(starts(lines, pool, room, largest), "{room:?} in {pool} has no room\n{lines}");
    }
    for nodes in 1..=NODES_MAX {
        let gpus_per_node = largest.gpus() / nodes + 1;
        let larger = Largest { nodes, gpus_per_node };
        let is_larger = gpus_per_node <= GPUS_MAX && starts(lines, pool, room, larger);
        assert!(!is_larger, "{larger:?} has room in {pool}, more than {room:?}\n{lines}");
    }
    largest.gpus() > 0
}

#[test]
fn the_largest_job_that_has_room_starts_and_no_larger_one_does() {
    let (mut rows, mut with_room) = (0, 0);
    for seed in 0..LABS {
        let lines = lines(seed);
        let lab = state(&lines);
        for Capacity { pool, rooms, .. } in capacity(&lab, &Links::all_ready(&lab), NOW) {
            for room in &rooms {
                rows += 1;
                with_room += usize::from(check(&lines, &pool, room));
            }
        }
    }
    assert!(rows > 300 && with_room > 200, "{rows} rows, {with_room} with room");
}
