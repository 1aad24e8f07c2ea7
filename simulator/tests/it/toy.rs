//! The toy with a known answer, small enough for a debug build; `cargo xtask findings` runs it with 4,000 trials.

use scheduler_core::unit::Span;
use simulator::toy::Toy;

/// Chances that are the middle of equal parts, in an order of their own: a sample that is exactly uniform.
fn even(count: u32, turn: u32) -> Vec<f64> {
    let at = |place: u32| (place * 7 + turn * 3) % count;
    (0..count).map(|place| (f64::from(at(place)) + 0.5) / f64::from(count)).collect()
}

const TOY: Toy = Toy {
    nodes: 20,
    protected: 16,
    needed: 10,
    cap: Span::from_hours(8),
    restart: Span::from_mins(10),
    save_every: Span::from_mins(30),
};

#[test]
fn a_large_job_waits_for_the_protection_that_it_lacks_and_no_longer() {
    for (turn, hours) in [(0, 8), (1, 8), (2, 8), (0, 1)] {
        let toy = Toy { cap: Span::from_hours(hours), ..TOY };
        let chances = even(toy.protected, turn);
        let mut sorted = chances.clone();
        sorted.sort_by(f64::total_cmp);
        let mut next = chances.into_iter();
        let trial = toy.trial(&mut || next.next().expect("one a machine")).expect("it runs");
        // Four machines may be taken at once: the sixth protection to end is the last that it waits for.
        // The chances are odd multiples of a 32nd.
        let parts = (sorted[5] * 32.0).round();
        let expected = (1_u32..32)
            .find(|part| f64::from(*part) == parts)
            .map(|part| toy.cap.as_millis() * u64::from(part) / 32);
        let expected = expected.expect("one of them");
        assert!(
            trial.waited.as_millis().abs_diff(expected) < 3_000,
            "turn {turn}, {hours} h: {:?}, not {expected} ms",
            trial.waited
        );
        assert!(trial.lost_each.is_some());
    }
}

#[test]
fn who_needs_no_more_than_may_be_taken_waits_for_nobody() {
    let toy = Toy { needed: 4, ..TOY };
    let mut next = even(toy.protected, 0).into_iter();
    let trial = toy.trial(&mut || next.next().expect("one a machine")).expect("it runs");
    assert!(trial.waited < Span::from_secs(2), "{:?}", trial.waited);
    assert_eq!((toy.mean_ms(), trial.lost_each), (0.0, None));
}

#[test]
fn the_formula_gives_the_published_means() {
    let mean = |protected: u32, needed: u32, cap: u64| {
        let toy = Toy { nodes: 128, protected, needed, cap: Span::from_hours(cap), ..TOY };
        (toy.mean_ms() / 36_000.0).round() / 100.0
    };
    let published =
        [(64, 64, 0.0), (90, 64, 2.29), (115, 64, 3.52), (128, 64, 3.97), (115, 16, 0.21), (128, 16, 0.99)];
    for (protected, needed, hours) in published {
        assert_eq!(mean(protected, needed, 8), hours, "{protected} protected, {needed} needed");
    }
    for (cap, hours) in [(1, 0.44), (2, 0.88), (4, 1.76), (8, 3.52), (16, 7.03), (24, 10.55)] {
        assert_eq!(mean(115, 64, cap), hours, "cap {cap}");
    }
}
