use std::string::String;
use std::vec::Vec;

use super::{at, lab, name, who, with_lab};
use crate::budget::{Row, apply_tree, find, path, usage};
use crate::id::JobId;
use crate::ledger::{Class, Run};
use crate::spec::{Tier, Turn};
use crate::state::{InLine, Kind, State};
use crate::unit::{GpuCount, MilliGpus, Share, Span, Timestamp};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const HOUR: Span = Span::from_hours(1);

/// Places an attempt of `gpus` on `leaf` that runs from the start.
fn place(state: &mut State, leaf: &str, gpus: u32, tier: Tier) {
    let pool = name("main");
    let budget = find(state, leaf).expect("it is there");
    let path = path(state, budget);
    let rate = MilliGpus::new(u64::from(gpus) * 1000);
    let run = Run { pool: &pool, path: &path, tier, rate, protection: HOUR, go: None, started: None };
    state.books.reclass(&pool, GpuCount::new(gpus), Class::Idle, Class::Occupied { budget, tier }, START);
    state.books.placed(&run);
    state.books.go(&run, START, START);
    state.books.started(&Run { go: Some(START), ..run }, START, START);
}

fn row<'a>(rows: &'a [Row], path: &str) -> &'a Row {
    rows.iter().find(|row| row.path == path).expect("it has a row")
}

#[test]
fn a_pool_without_gpus_shows_the_tree() {
    let state = with_lab();
    let pools = usage(&state, START);
    assert_eq!(pools.len(), 1);
    let shown: Vec<String> =
        pools[0].rows.iter().map(|r| std::format!("{} {} {}", r.depth, r.path, r.share)).collect();
    assert_eq!(
        shown,
        [
            "0 lab 100%",
            "1 robotics 30%",
            "2 robotics/sim-rl 18%",
            "2 robotics/grasp 12%",
            "1 language 50%",
            "2 language/posttrain 15%",
            "2 language/pretrain 35%",
        ]
    );
    assert!(pools[0].rows.iter().all(|row| row.funded.ppm() == Some(0)));
}

#[test]
fn rows_say_what_was_used_what_it_is_worth_and_who_goes_first() {
    let mut state = with_lab();
    state.meta.settings.window = HOUR;
    state.books.gpus_added(&name("main"), GpuCount::new(100), Class::Idle, START);
    place(&mut state, "language/pretrain", 35, Tier::Funded);
    place(&mut state, "robotics/grasp", 6, Tier::Funded);
    place(&mut state, "robotics/grasp", 4, Tier::Free);
    let budget = find(&state, "robotics/sim-rl").expect("it is there");
    let place =
        InLine { budget, tier: Tier::Funded, turn: Turn::Normal, submitted_at: START, job: JobId::new(1) };
    state.line.insert(place, Kind::OWN);
    let now = START.plus(HOUR);
    let pools = usage(&state, now);
    assert_eq!(pools[0].gpus.get(), 100);
    let rows = &pools[0].rows;
    let of = |path: &str| {
        let row = row(rows, path);
        (row.funded.ppm(), row.goes, row.waiting, row.running.get())
    };
    assert_eq!(of("lab"), (Some(410_000), 1, 1, 45));
    assert_eq!(of("language"), (Some(700_000), 2, 0, 35));
    assert_eq!(of("language/pretrain"), (Some(1_000_000), 2, 0, 35));
    assert_eq!(of("robotics"), (Some(200_000), 1, 1, 10));
    assert_eq!(of("robotics/grasp"), (Some(500_000), 2, 0, 10));
    assert_eq!(of("robotics/sim-rl"), (Some(0), 1, 1, 0));
    assert_eq!(row(rows, "robotics").free.booked(), 4000 * u128::from(HOUR.as_millis()));
    for row in rows {
        let window = state.meta.settings.window;
        let main = name("main");
        let of = |tier| state.books.use_of(row.id, &main, tier, &state.budgets, window, now);
        assert_eq!((row.funded, row.free), (of(Tier::Funded), of(Tier::Free)));
    }
}

#[test]
fn a_closed_budget_is_shown_while_something_is_left_of_it() {
    let mut state = with_lab();
    state.books.gpus_added(&name("main"), GpuCount::new(100), Class::Idle, START);
    place(&mut state, "robotics/grasp", 6, Tier::Funded);
    let mut file = lab();
    at(&mut file, "robotics").children.clear();
    at(&mut file, "robotics").share = Share::default();
    apply_tree(&mut state, &file, &who("op")).expect("a good file");
    let rows = usage(&state, START.plus(HOUR)).remove(0).rows;
    assert_eq!(row(&rows, "robotics/grasp").running.get(), 6);
    assert!(rows.iter().all(|row| row.path != "robotics/sim-rl"));
}
