//! Exact integers to the ratios that people read, without losing digits on the way.

/// One whole, in the parts that shares are counted in here: a product of three shares in parts per million fits.
const WHOLE: u64 = 1_000_000_000_000;

/// Returns `count` as a real number, exact up to 2^53.
pub(crate) fn real(count: u64) -> f64 {
    let low = u32::try_from(count & u64::from(u32::MAX)).expect("the upper half was cut off");
    let high = u32::try_from(count >> 32).expect("the lower half was shifted out");
    f64::from(high) * 4_294_967_296.0 + f64::from(low)
}

/// Returns `part / of`; none if `of` is nothing.
pub(crate) fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| real(part) / real(of))
}

/// Returns how much of `amount` a share is, rounded down. The share counts to twelve digits, so that three tenths are
/// three tenths, whatever their nearest binary fraction is.
pub(crate) fn part_of(amount: u64, share: f64) -> u64 {
    let part = u128::from(amount) * u128::from(trillionths(share)) / u128::from(WHOLE);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Returns a share in parts of [`WHOLE`], to the nearest; 0 of what is no share.
fn trillionths(share: f64) -> u64 {
    if !share.is_finite() || share <= 0.0 {
        return 0;
    }
    let bits = share.to_bits();
    let exponent = bits >> 52;
    let fraction = bits & ((1 << 52) - 1);
    // A subnormal share is less than a trillionth by far.
    let mantissa = u128::from(fraction | 1 << 52);
    let Some(shift) = 1075_u64.checked_sub(exponent).filter(|shift| *shift > 0) else { return u64::MAX };
    let Some(half) = u32::try_from(shift - 1).ok().and_then(|shift| 1_u128.checked_shl(shift)) else {
        return 0;
    };
    let scaled = mantissa * u128::from(WHOLE) + half;
    u64::try_from(scaled / 2 / half).unwrap_or(u64::MAX)
}

/// Returns GPU-hours.
pub(crate) fn gpu_hours(gpu_ms: u64) -> f64 {
    real(gpu_ms) / 3_600_000.0
}

/// Returns the length of a list.
pub(crate) fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_tenths_are_three_tenths() {
        assert_eq!(part_of(10, 0.3), 3);
        assert_eq!(part_of(3_600_000 * 128, 0.35), 161_280_000);
        assert_eq!(part_of(100, 1.0), 100);
        assert_eq!(part_of(100, 0.0), 0);
        assert_eq!(part_of(100, -1.0), 0);
        assert_eq!(part_of(100, f64::NAN), 0);
        assert_eq!(part_of(7, 0.5), 3);
    }

    proptest! {
        #[test]
        fn parts_are_rounded_down_and_never_more_than_the_whole(amount in 0_u64..1 << 50, ppm in 0_u32..=1_000_000) {
            let part = part_of(amount, f64::from(ppm) / 1e6);
            prop_assert_eq!(u128::from(part), u128::from(amount) * u128::from(ppm) / 1_000_000);
        }

        #[test]
        fn counts_keep_their_value(count in 0_u64..1 << 53) {
            prop_assert_eq!(format!("{:.0}", real(count)), count.to_string());
        }
    }
}
