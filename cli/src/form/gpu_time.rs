//! GPU time for people: GPU-hours from the exact thousandths of GPU-milliseconds, and use as a plain number.

use super::text::thousands;

/// Thousandths of a GPU times milliseconds, in one GPU-hour.
const MILLI_GPU_MS_PER_GPU_HOUR: i128 = 3_600_000_000;

/// Returns GPU-hours for decimal text of thousandths of GPU-milliseconds: `1,419`, `12.8`, `0.25`, `-752`.
///
/// Text that is no number comes back as it is: a newer replica may say what this client does not know.
pub fn hours(milli_gpu_ms: &str) -> String {
    match milli_gpu_ms.parse::<i128>() {
        Ok(exact) => hours_of(exact),
        Err(_) => super::text::plain(milli_gpu_ms),
    }
}

/// Returns GPU-hours, rounded to what its size makes useful.
pub fn hours_of(milli_gpu_ms: i128) -> String {
    let sign = if milli_gpu_ms < 0 { "-" } else { "" };
    let exact = milli_gpu_ms.unsigned_abs();
    let hour = MILLI_GPU_MS_PER_GPU_HOUR.unsigned_abs();
    let rounded = |per_hour: u128| exact.saturating_mul(per_hour).saturating_add(hour / 2) / hour;
    if exact == 0 {
        return "0".into();
    }
    if rounded(1000) == 0 {
        return format!("{sign}<0.001");
    }
    if rounded(1000) < 1000 {
        return format!("{sign}0.{:03}", rounded(1000));
    }
    if rounded(10) < 1000 {
        let tenths = rounded(10);
        return match tenths % 10 {
            0 => format!("{sign}{}", tenths / 10),
            tenth => format!("{sign}{}.{tenth}", tenths / 10),
        };
    }
    format!("{sign}{}", thousands(&rounded(1).to_string()))
}

/// Returns the difference of two decimal texts of thousandths of GPU-milliseconds.
pub fn less(whole: &str, part: &str) -> Option<i128> {
    whole.parse::<i128>().ok()?.checked_sub(part.parse::<i128>().ok()?)
}

/// Returns the sum of two decimal texts of thousandths of GPU-milliseconds.
pub fn sum(one: &str, other: &str) -> Option<i128> {
    one.parse::<i128>().ok()?.checked_add(other.parse::<i128>().ok()?)
}

/// Returns use for people, rounded down: `0.78`, `1.05`, small ones with more digits; `none` where the allocation is
/// zero, which sorts after everyone else.
pub fn usage(ppm: Option<u64>) -> String {
    match ppm {
        None => "none".into(),
        Some(0) => "0.00".into(),
        Some(ppm @ 1..100) => format!("0.0000{:02}", ppm % 100),
        Some(ppm @ 100..10_000) => format!("0.{:04}", ppm / 100),
        Some(ppm) => format!("{}.{:02}", ppm / 1_000_000, ppm / 10_000 % 100),
    }
}

/// Returns a share in percent: `30%`, `12.5%`.
pub fn percent(ppm: u32) -> String {
    let (whole, rest) = (ppm / 10_000, ppm % 10_000);
    if rest == 0 {
        return format!("{whole}%");
    }
    format!("{whole}.{}%", format!("{rest:04}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::{hours, percent, usage};

    #[test]
    fn gpu_time_is_shown_in_hours() {
        let shown = |n: i128| hours(&(n * 3_600_000).to_string());
        assert_eq!(shown(0), "0");
        assert_eq!(shown(250), "0.250");
        assert_eq!(shown(1000), "1");
        assert_eq!(shown(12_849), "12.8");
        assert_eq!(shown(1_419_000), "1,419");
        assert_eq!(shown(-752_000), "-752");
        assert_eq!(hours("1"), "<0.001");
        assert_eq!(hours("?"), "?");
    }

    #[test]
    fn use_and_share_are_plain_numbers() {
        assert_eq!(usage(Some(789_999)), "0.78");
        assert_eq!(usage(Some(1_050_000)), "1.05");
        assert_eq!(usage(Some(1_234)), "0.0012");
        assert_eq!(usage(Some(42)), "0.000042");
        assert_eq!(usage(Some(0)), "0.00");
        assert_eq!(usage(None), "none");
        assert_eq!(percent(300_000), "30%");
        assert_eq!(percent(125_000), "12.5%");
        assert_eq!(percent(1), "0.0001%");
    }
}
