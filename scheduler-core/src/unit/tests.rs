use alloc::vec::Vec;
use std::string::ToString;

use super::{ChargeMillis, GpuCount, GpuMillis, MilliGpus, Share, Span, Timestamp};

#[test]
fn spans_write_themselves_exactly() {
    for (ms, text) in [
        (0, "0s"),
        (50, "50ms"),
        (1500, "1s500ms"),
        (60_000, "1m"),
        (5_400_000, "1h30m"),
        (604_800_000, "7d"),
        (86_461_001, "1d1m1s1ms"),
    ] {
        assert_eq!(Span::from_millis(ms).to_string(), text);
    }
}

#[test]
fn shares_write_themselves_exactly() {
    for (ppm, text) in
        [(0, "0%"), (1, "0.0001%"), (125_000, "12.5%"), (333_333, "33.3333%"), (1_000_000, "100%")]
    {
        assert_eq!(Share::from_ppm(ppm).map(|share| share.to_string()).as_deref(), Some(text));
    }
    assert_eq!(Share::from_ppm(1_000_001), None);
}

#[test]
fn a_part_of_a_part_is_rounded_down() {
    let third = Share::from_ppm(333_333).expect("below the whole");
    assert_eq!(third.of(third).ppm(), 111_110);
    assert_eq!(Share::WHOLE.of(third), third);
    assert_eq!(third.of(Share::WHOLE), third);
    assert_eq!(third.of(Share::default()), Share::default());
}

#[test]
fn times_saturate_and_never_wrap() {
    let end = Timestamp::from_millis(u64::MAX);
    assert_eq!(end.plus(Span::MAX), end);
    assert_eq!(Timestamp::ZERO.minus(Span::MAX), Timestamp::ZERO);
    assert_eq!(Timestamp::ZERO.since(end), Span::ZERO);
    assert_eq!(Span::from_hours(u64::MAX).as_millis(), u64::MAX);
}

#[test]
fn quantities_refuse_to_overflow() {
    let most = GpuMillis::new(u64::MAX);
    assert_eq!(most.checked_add(GpuMillis::new(1)), None);
    assert_eq!(GpuMillis::default().checked_sub(GpuMillis::new(1)), None);
    assert_eq!(GpuMillis::used(GpuCount::new(u32::MAX), Span::from_millis(u64::MAX)), None);
    assert_eq!(GpuMillis::used(GpuCount::new(8), Span::from_secs(1)), Some(GpuMillis::new(8000)));
    assert_eq!(ChargeMillis::new(u128::MAX).checked_add(ChargeMillis::new(1)), None);
    assert_eq!(ChargeMillis::ZERO.checked_sub(ChargeMillis::new(1)), None);
    let largest = ChargeMillis::of(MilliGpus::new(u64::MAX), Span::from_millis(u64::MAX));
    assert_eq!(largest.get(), u128::from(u64::MAX) * u128::from(u64::MAX));
}

#[test]
fn the_median_is_the_middle_one_or_the_shorter_of_the_two_there() {
    assert_eq!(Span::median(&[]), None);
    // Few and many take different ways.
    for count in 1..40_u64 {
        let shuffled: Vec<Span> = (0..count).map(|n| Span::from_millis(10 * (n * 41 % count))).collect();
        assert_eq!(Span::median(&shuffled), Some(Span::from_millis(10 * ((count - 1) / 2))), "{count}");
    }
    let twice = [Span::from_secs(9), Span::from_secs(2), Span::from_secs(9)];
    assert_eq!(Span::median(&twice), Some(Span::from_secs(9)));
}
