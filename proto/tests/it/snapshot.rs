use std::sync::LazyLock;

use proptest::prelude::*;
use proto::snapshot::{read, write};
use scheduler_core::command::Command;
use scheduler_core::principal::Actor;
use scheduler_core::state::State;

use crate::everything::everything;
use crate::history::history;
use crate::sample::name;

static STATE: LazyLock<State> = LazyLock::new(everything);

fn bytes_of(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(state, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_restored_state_is_the_state_and_goes_on_alike() {
    let mut history = history();
    let mut restored = read(&mut bytes_of(&history.state).as_slice()).unwrap();
    assert_eq!(restored.digest(), history.state.digest());
    assert_eq!(bytes_of(&restored), bytes_of(&history.state));
    let tables = [
        ("budgets", restored.budgets.len()),
        ("principals", restored.principals.len()),
        ("join tokens", restored.join_tokens.len()),
        ("nodes", restored.nodes.len()),
        ("jobs", restored.jobs.len()),
        ("attempts", restored.attempts.len()),
        ("launches", restored.launches.len()),
        ("decisions", restored.decisions.len()),
        ("requests", restored.requests.len()),
        ("strays", restored.strays.len()),
        ("line", restored.line.len()),
        ("ended", restored.ended.len()),
        ("timers", restored.timers.len()),
        ("pools", restored.books.pools().len()),
    ];
    for (table, len) in tables {
        assert!(len > 0, "the history leaves nothing in {table}, so this test shows nothing of it");
    }
    std::mem::swap(&mut history.state, &mut restored);
    let end = || Command::RevokePrincipal { name: name("ada") };
    history.apply(Actor::Principal(name("ceo")), end());
}

#[test]
fn everything_that_a_state_can_hold_comes_back_as_it_was() {
    let state = everything();
    let restored = read(&mut bytes_of(&state).as_slice()).unwrap();
    assert_eq!(restored.meta, state.meta);
    assert!(restored.edits == state.edits, "edits");
    assert!(restored.grants == state.grants, "grants");
    assert!(restored.budgets == state.budgets, "budgets");
    assert!(restored.nodes == state.nodes, "nodes");
    assert!(restored.jobs == state.jobs, "jobs");
    assert!(restored.attempts == state.attempts, "attempts");
    assert!(restored.bills == state.bills, "bills");
    assert!(restored.decisions == state.decisions, "decisions");
    assert!(restored.timers == state.timers, "timers");
    assert!(restored.results == state.results, "results");
    assert_eq!(restored.digest(), state.digest());
    assert_eq!(bytes_of(&restored), bytes_of(&state));
}

#[test]
fn a_snapshot_that_was_cut_is_refused() {
    let bytes = bytes_of(&STATE);
    for cut in (0..bytes.len()).step_by(7) {
        assert!(read(&mut &bytes[..cut]).is_err(), "cut at {cut} of {}", bytes.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_never_gives_another_state(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let mut bytes = bytes_of(&STATE);
        let place = at.index(bytes.len());
        bytes[place] ^= 1 << bit;
        // A bit that changes nothing (an unknown field's, a default's) may be read; it must then be the same state.
        if let Ok(read) = read(&mut bytes.as_slice()) {
            prop_assert_eq!(read.digest(), STATE.digest());
        }
    }
}
