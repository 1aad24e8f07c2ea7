//! Cluster time over restarts of processes and machines, changes of leader, and wall clocks that are wrong.

mod rules;
mod site;

use scheduler_core::unit::{Span, Timestamp};

use crate::random::Random;
use site::{Site, WRONG};

const SEEDS: u64 = 60;
const STEPS: u64 = 300;

/// What one change of leader, one restart or one asking may move time by, in ms: the way of a message.
const WAY: u64 = 200;

#[test]
fn stamps_go_with_time_whatever_restarts_as_long_as_somebody_ran_on() {
    for replicas in [1, 3, 5] {
        for seed in 0..SEEDS {
            let mut random = Random::new(seed * 7 + replicas);
            let mut site = Site::new(usize::try_from(replicas).expect("few"), 4, &mut random);
            let mut handovers = 0;
            let begin = site.stamp();
            let since = site.passed();
            let mut last = begin;
            for step in 0..STEPS {
                site.pass(random.below(60_000));
                handovers += u64::from(disturb(&mut site, &mut random));
                site.settle(&mut random);
                let stamp = site.stamp();
                assert!(stamp >= last, "{replicas} replicas, seed {seed}, step {step}: time went back");
                last = stamp;
                let ran = stamp.since(begin).as_millis();
                let real = site.passed() - since;
                let bound = real / 1_000 + (handovers + 1) * WAY + step + 1;
                let off = ran.abs_diff(real);
                assert!(
                    off <= bound,
                    "{replicas} replicas, seed {seed}, step {step}: off by {off}, {handovers}"
                );
            }
        }
    }
}

/// Something happens to the site, but somebody keeps its time. Returns whether another line may lead from now on.
fn disturb(site: &mut Site, random: &mut Random) -> bool {
    let count = u64::try_from(site.replicas()).expect("few");
    let at = usize::try_from(random.below(count)).expect("few");
    match random.below(8) {
        0 => site.restart(at),
        1 => site.reboot(at, *random.pick(&WRONG)),
        2 => (0..site.replicas()).for_each(|at| site.reboot(at, *random.pick(&WRONG))),
        3 => site.lead(at, random),
        4 => site.step_wall(at, *random.pick(&WRONG)),
        5 => site.reboot_agent(usize::try_from(random.below(4)).expect("few")),
        _ => return false,
    }
    true
}

#[test]
fn restarted_process_reads_exactly_on() {
    let mut random = Random::new(3);
    let mut site = Site::new(1, 0, &mut random);
    for _ in 0..100 {
        site.pass(random.below(100_000));
        site.settle(&mut random);
        let before = site.stamp();
        site.restart(0);
        site.settle(&mut random);
        assert_eq!(site.stamp(), before);
        let down = random.below(10_000);
        site.restart(0);
        site.pass(down);
        site.settle(&mut random);
        let passed = site.stamp().since(before).as_millis();
        assert!(passed.abs_diff(down) <= down / 1_000 + 2, "{passed} of {down}");
    }
}

#[test]
fn right_wall_clocks_are_reached_and_one_wrong_one_moves_nothing() {
    for replicas in [3, 5] {
        for wrong in WRONG {
            let mut random = Random::new(11);
            let mut site = Site::new(replicas, 0, &mut random);
            (0..replicas).for_each(|at| site.step_wall(at, 5_000));
            site.step_wall(1, wrong);
            for _ in 0..700 {
                site.pass(10_000);
                site.settle(&mut random);
            }
            let off = site.ahead_of_real();
            assert!((4_700..=5_300).contains(&off), "{replicas} replicas, {wrong}: {off}");
        }
    }
}

#[test]
fn one_or_two_wall_clocks_that_are_wrong_are_not_followed() {
    for (replicas, wrong) in [(1, 3_600_000), (1, -86_400_000), (2, 3_600_000)] {
        let mut random = Random::new(5);
        let mut site = Site::new(replicas, 0, &mut random);
        site.step_wall(0, wrong);
        for _ in 0..100 {
            site.pass(10_000);
            site.settle(&mut random);
        }
        assert!(site.ahead_of_real().abs() <= 40, "{replicas}: {}", site.ahead_of_real());
    }
}

#[test]
fn without_any_witness_the_wall_clock_counts_for_72_hours_and_else_the_last_entry_does() {
    for replicas in [1, 3, 5] {
        for (wall, believed) in [(-86_400_000, false), (3_600_000, true), (WRONG[2], false), (0, true)] {
            let mut random = Random::new(9);
            let mut site = Site::new(replicas, 3, &mut random);
            site.pass(600_000);
            site.settle(&mut random);
            let last = site.stamp();
            (0..3).for_each(|at| site.reboot_agent(at));
            (0..replicas).for_each(|at| site.reboot(at, wall));
            site.pass(60_000);
            site.settle(&mut random);
            let resumed = site.stamp();
            if believed {
                let expected = site.real().plus_signed(wall);
                let off = resumed.since(expected).max(expected.since(resumed));
                assert!(off <= Span::from_millis(WAY), "{replicas} replicas, wall {wall}: {resumed:?}");
                assert!(!site.has_alarm());
            } else {
                assert_eq!(resumed, last, "{replicas} replicas, wall {wall}");
                assert!(site.has_alarm(), "{replicas} replicas, wall {wall}");
            }
        }
    }
}

/// A moment moved either way.
trait Signed {
    fn plus_signed(self, ms: i64) -> Self;
}

impl Signed for Timestamp {
    fn plus_signed(self, ms: i64) -> Self {
        Self::from_millis(self.as_millis().saturating_add_signed(ms))
    }
}
