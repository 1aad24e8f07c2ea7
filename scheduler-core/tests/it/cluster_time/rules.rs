//! The rules one by one.

use scheduler_core::cluster_time::{
    Alarm, BootTime, CREDIBLE, ClusterTime, Heard, Judged, Line, SLEW_PPM_MAX, Slew, Source, TRUSTED_ALONE,
    Wall, Witnesses, judge, look_at_walls,
};
use scheduler_core::id::ReplicaId;
use scheduler_core::unit::{Span, Timestamp};

use crate::random::Random;

const LAST: Timestamp = Timestamp::from_millis(1_795_972_127_000);

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

fn boot(ms: u64) -> BootTime {
    BootTime::from_millis(ms)
}

fn walls(at: &[u64]) -> Vec<Wall> {
    let wall = |(n, at): (u64, &u64)| Wall { replica: ReplicaId::new(n), at: Timestamp::from_millis(*at) };
    (1..).zip(at).map(wall).collect()
}

fn judged(replicas: &[Timestamp], agents: &[Timestamp], is_time_up: bool, wall: Timestamp) -> Judged {
    judge(&Witnesses { replicas, agents, are_all: false, is_time_up, wall }, LAST)
}

#[test]
fn line_never_goes_back_and_never_faster_than_its_rate() {
    let mut random = Random::new(1);
    for _ in 0..200 {
        let mut line = Line::through(boot(1_000), LAST);
        let mut now = 1_000;
        for _ in 0..50 {
            let most = i32::try_from(random.below(2_001)).expect("small") - 1_000;
            line = line.slewed(boot(now), Slew { ppm: most, until: boot(now + random.below(40_000)) });
            let before = line.at(boot(now));
            let step = random.below(60_000);
            now += step;
            let passed = line.at(boot(now)).since(before).as_millis();
            assert!(line.at(boot(now)) >= before);
            assert!(passed.abs_diff(step) <= step / 1_000 + 1, "{passed} in {step} at {most}");
        }
    }
}

#[test]
fn correction_that_nobody_renews_ends() {
    let mut time = ClusterTime::resume(Some((Line::through(boot(0), LAST), Source::Kept)), LAST, boot(0));
    time.slew(SLEW_PPM_MAX, boot(0));
    let weekend = 60 * 3_600_000;
    assert!(time.at(boot(weekend)).expect("a line").since(LAST).as_millis() - weekend <= 30);
}

#[test]
fn replicas_come_before_agents_and_three_agents_before_the_end_of_the_wait() {
    let late = LAST.plus(Span::from_hours(2));
    let wall = LAST.plus(Span::from_hours(9));
    assert_eq!(judged(&[late], &[wall; 5], false, wall), Judged::Time(late, Source::Replicas(1)));
    assert_eq!(judged(&[], &[late; 2], false, wall), Judged::Wait);
    assert_eq!(judged(&[], &[late; 3], false, wall), Judged::Time(late, Source::Agents(3)));
    assert_eq!(judged(&[], &[late], true, wall), Judged::Time(late, Source::Agents(1)));
    let all = Witnesses { replicas: &[], agents: &[late], are_all: true, is_time_up: false, wall };
    assert_eq!(judge(&all, LAST), Judged::Time(late, Source::Agents(1)));
}

#[test]
fn agent_that_lies_moves_nothing() {
    let real = LAST.plus(Span::from_hours(2));
    let ages = LAST.plus(Span::from_hours(40 * 365 * 24));
    let others = [real, real.plus(ms(3))];
    for lie in
        [Timestamp::ZERO, LAST.minus(Span::from_hours(1)), LAST, ages, Timestamp::from_millis(u64::MAX)]
    {
        let said = [lie, others[0], others[1]];
        let Judged::Time(time, _) = judged(&[], &said, true, LAST) else { panic!("time is up") };
        assert!((real..=others[1]).contains(&time), "{lie:?} makes it {time:?}");
    }
    // What is before the last entry cannot be, and alone nobody is believed without a bound.
    let unvouched = judged(&[], &[], true, ages);
    assert_eq!(judged(&[], &[LAST.minus(ms(2_001))], true, ages), unvouched);
    assert_eq!(judged(&[], &[ages], true, ages), unvouched);
    assert!(matches!(unvouched, Judged::Time(LAST, Source::LastEntry { .. })));
    let week = LAST.plus(Span::from_hours(7 * 24));
    assert_eq!(judged(&[], &[week; 3], true, ages), Judged::Time(week, Source::Agents(3)), "a long outage");
}

#[test]
fn time_is_never_before_the_last_entry_whoever_says_so() {
    let mut random = Random::new(2);
    for _ in 0..2_000 {
        let mut some = |count: u64| {
            let at = |random: &mut Random| Timestamp::from_millis(random.below(2 * LAST.as_millis()));
            (0..count).map(|_| at(&mut random)).collect::<Vec<_>>()
        };
        let (replicas, agents, wall) = (some(2), some(4), some(1)[0]);
        let replicas = &replicas[..usize::try_from(wall.as_millis() % 3).expect("small")];
        let Judged::Time(time, source) = judged(replicas, &agents, true, wall) else { panic!("time is up") };
        assert!(time >= LAST);
        let is_bounded = matches!(source, Source::Replicas(_) | Source::Agents(3..));
        assert!(is_bounded || time <= LAST.plus(CREDIBLE), "{time:?} by {source:?}");
    }
}

#[test]
fn old_line_of_the_same_boot_is_dropped() {
    let kept = Some((Line::through(boot(1_000), LAST), Source::Kept));
    let resumed = |entry, now| ClusterTime::resume(kept, entry, boot(now)).at(boot(now));
    assert_eq!(resumed(LAST, 5_000), Some(LAST.plus(ms(4_000))));
    assert_eq!(
        resumed(LAST.plus(ms(4_900)), 5_000),
        Some(LAST.plus(ms(4_900))),
        "a little behind is made up for"
    );
    assert_eq!(resumed(LAST.plus(Span::from_hours(2)), 5_000), None, "the log knows better");
    assert_eq!(resumed(LAST, 900), None, "a boot clock does not go back");
}

#[test]
fn follower_catches_up_at_once_and_waits_for_a_leader_that_is_behind() {
    let start = |ahead: u64| {
        let line = Line::through(boot(0), LAST.plus(ms(ahead)));
        ClusterTime::resume(Some((line, Source::Kept)), LAST, boot(0))
    };
    let heard = Heard { earliest: LAST.plus(ms(1_000)), latest: LAST.plus(ms(1_020)) };
    let mut behind = start(0);
    behind.follow(heard, boot(500));
    assert_eq!(behind.at(boot(500)), Some(heard.earliest));
    let mut in_step = start(510);
    assert!(!in_step.follow(heard, boot(500)), "within the way of the message");
    let mut ahead = start(720);
    ahead.follow(heard, boot(500));
    assert_eq!(ahead.at(boot(500)), Some(LAST.plus(ms(1_220))), "it does not go back");
    assert_eq!(ahead.at(boot(3_500)), Some(LAST.plus(ms(4_020))), "after a while it is in step");
    let mut far = start(60_000);
    far.follow(heard, boot(500));
    assert_eq!(far.at(boot(500)), Some(heard.earliest));
    far.seen(LAST.plus(ms(9_000)), boot(500));
    assert_eq!(far.at(boot(500)), Some(LAST.plus(ms(9_000))), "never behind the log");
}

#[test]
fn wall_clocks_are_followed_by_their_median_and_their_difference_is_an_alarm() {
    let now = Timestamp::from_millis(1_000_000_000);
    let seen = |at: &[u64]| {
        let walls = look_at_walls(&walls(at), now);
        (walls.ppm, walls.alarms)
    };
    assert_eq!(seen(&[]), (0, Vec::new()));
    assert_eq!(seen(&[1_000_000_015]), (0, Vec::new()), "rounding");
    assert_eq!(seen(&[1_000_000_030]), (500, Vec::new()));
    assert_eq!(seen(&[999_999_000]), (-SLEW_PPM_MAX, Vec::new()));
    let (ppm, alarms) = seen(&[1_000_000_030, 1_000_000_030, 4_000_000_000]);
    assert!(
        ppm == 500 && matches!(&alarms[..], [Alarm::Apart { wrong, .. }] if wrong == &[ReplicaId::new(3)])
    );
    let (ppm, alarms) = seen(&[1_000_000_000 + TRUSTED_ALONE.as_millis() + 1]);
    assert!(ppm == 0 && matches!(&alarms[..], [Alarm::Far { is_slewed: false, .. }]), "{alarms:?}");
    let (ppm, alarms) = seen(&[1_000_060_001]);
    assert!(ppm == SLEW_PPM_MAX && matches!(&alarms[..], [Alarm::Far { is_slewed: true, .. }]), "{alarms:?}");
    let (ppm, alarms) = seen(&[1_000_000_500, 1_000_020_000]);
    assert!(
        ppm == 0 && matches!(&alarms[..], [Alarm::Apart { wrong, .. }] if wrong.is_empty()),
        "{alarms:?}"
    );
}

#[test]
fn alarms_say_what_is_wrong_and_what_helps() {
    let now = Timestamp::from_millis(1_000_000_000_000);
    let said = |at: &[u64]| {
        let alarms = look_at_walls(&walls(at), now).alarms;
        alarms.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        said(&[1_000_000_000_000, 1_000_000_000_000, 1_000_003_600_000]),
        "the wall clocks of replicas are apart: r3 is 1h ahead of r1; off against the others: r3"
    );
    assert_eq!(
        said(&[1_000_086_400_000]),
        "cluster time is 1d behind the replicas' wall clocks: too far to follow so few clocks; `bursar cluster time \
         set`, if they are right; their clocks, if not"
    );
    assert_eq!(
        said(&[999_996_400_000; 3]),
        "cluster time is 1h ahead of the replicas' wall clocks: it is slewed, which takes 41d16h"
    );
}
