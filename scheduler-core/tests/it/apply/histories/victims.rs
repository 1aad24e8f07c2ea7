//! Who is protected is never the victim: many short histories around takers, starts, ends and the end of protections.

use scheduler_core::agent::RankEvent;
use scheduler_core::id::NodeId;
use scheduler_core::job::StopCause;
use scheduler_core::spec::Turn;
use scheduler_core::unit::Span;

use super::{History, Seen, base};
use crate::world::{World, request};

/// The histories are the paths of a tree: each step has so many ways to go on. 4 x 3 x 3 x 3 x 3 x 4 x 8 are 10,368. The
/// first choice is the test's, so that four run side by side.
const WAYS: [u64; 6] = [3, 3, 3, 3, 4, 8];
/// Histories that once broke the law, as they are printed.
const KEPT: &[&[u64]] = &[];

#[test]
fn a_protected_job_is_never_the_victim_1() {
    histories(0);
}

#[test]
fn a_protected_job_is_never_the_victim_2() {
    histories(1);
}

#[test]
fn a_protected_job_is_never_the_victim_3() {
    histories(2);
}

#[test]
fn a_protected_job_is_never_the_victim_4() {
    histories(3);
}

#[test]
fn a_protected_job_was_not_the_victim_in_any_history_that_was_kept() {
    for path in KEPT {
        let mut history = History::of(crowded(), 0);
        for way in *path {
            history = history.went(*way);
        }
    }
}

fn histories(first: u64) {
    let mut seen = Seen::default();
    let begin = History::of(crowded(), 0).went(first);
    let count = grow(&begin, &mut vec![first], &mut seen);
    assert_eq!(count, WAYS.iter().product::<u64>());
    assert!(seen.taken > 100 && seen.protected > 100, "too little happened: {seen:?}");
}

/// Goes on in every way; returns how many histories there were.
fn grow(history: &History, path: &mut Vec<u64>, seen: &mut Seen) -> u64 {
    let Some(ways) = WAYS.get(path.len() - 1) else { return 1 };
    let mut count = 0;
    for way in 0..*ways {
        path.push(way);
        let told = Told(path.clone());
        let next = history.went(way);
        drop(told);
        seen.add(&next.seen);
        count += grow(&next, path, seen);
        path.pop();
    }
    count
}

/// Says which history it was if it breaks.
struct Told(Vec<u64>);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the history that broke, to be kept in KEPT: &{:?}", self.0);
        }
    }
}

/// A world whose nodes are full: with free-tier work, work whose protection ends soon, later, and work that waits for its
/// go; and jobs that wait.
fn crowded() -> (World, Vec<NodeId>) {
    let (mut world, nodes) = base();
    let job = |world: &mut World, budget: &str, minutes: u64, (count, gpus): (u32, u32), turn| {
        let mut asked = request(gpus);
        asked.shape.nodes = count;
        asked.budget = String::from(budget);
        asked.min_runtime = Some(Span::from_mins(minutes));
        asked.turn = turn;
        world.submit(if budget == "vision" { "eve" } else { "bob" }, asked)
    };
    let runs = [("lang/pre", 0, 0, [0, 1]), ("lang/post", 10, 0, [2, 3]), ("lang/pre", 20, 1, [0, 1])];
    for (budget, minutes, node, slots) in runs {
        let id = job(&mut world, budget, minutes, (1, 2), Some(Turn::Last));
        let attempt = world.place(id, nodes[node], &slots);
        world.report(nodes[node], attempt, RankEvent::Started);
    }
    let id = job(&mut world, "vision", 10, (2, 1), None);
    world.start(id, &[(nodes[1], &[2]), (nodes[2], &[0])], &[]);
    for (budget, minutes, shape, turn) in [
        ("vision", 10, (1, 2), None),
        ("lang/post", 10, (1, 1), Some(Turn::First)),
        ("lang/pre", 30, (2, 2), None),
        ("lang/post", 0, (1, 1), None),
        ("lang/post", 60, (1, 4), None),
    ] {
        job(&mut world, budget, minutes, shape, turn);
    }
    world.wait(Span::from_mins(9));
    (world, nodes)
}

impl History {
    /// Returns this history one step further, in one of the ways to go on.
    fn went(&self, way: u64) -> Self {
        let seed = self.seed.wrapping_mul(31).wrapping_add(way + 1);
        let mut next = Self {
            sent: self.sent.clone(),
            marked: self.marked.clone(),
            boots: self.boots,
            forgotten: self.forgotten,
            ..Self::of((self.world.clone(), self.nodes.clone()), seed)
        };
        next.step_around_takers();
        next
    }

    fn step_around_takers(&mut self) {
        match self.below(12) {
            0..5 => self.adopt_taking(),
            5..7 => self.be_ready(),
            7 => self.leave(),
            8 => self.report(),
            9 => self.word_about_a_node(),
            _ => {
                let spans = [59_999, 60_000, 60_001, 600_000, 1, 1_200_000];
                let span = Span::from_millis(spans[self.below(spans.len())]);
                self.world.wait(span);
            }
        }
    }
}

/// The law is found if it is broken: a victim is stopped by hand.
#[test]
#[should_panic(expected = "was protected")]
fn a_protected_victim_is_found() {
    let (mut world, nodes) = crowded();
    let before = world.state.clone();
    let (id, _) = before
        .attempts
        .iter()
        .find(|(_, attempt)| super::laws::is_protected(attempt, world.now))
        .expect("somebody is protected");
    let waits = *world.state.line.keys().next().expect("somebody waits");
    let start = world.start_of(waits.job, &[(nodes[0], &[0])], &[]);
    let taken = scheduler_core::job::Taken {
        by: *id,
        decision: before.attempts.get(id).expect("it is there").decision,
        right: crate::apply::taking::share(),
        price: crate::world::price(),
        considered: u32::try_from(start.takes.len()).expect("few"),
    };
    let stop =
        scheduler_core::job::Stop { at: world.now, cause: StopCause::Preempt(taken), grace: Span::ZERO };
    world.state.attempts.get_mut(id).expect("it is there").stop = Some(stop);
    super::laws::who_is_protected_gives_way_to_nobody(&before, &world.state);
}
