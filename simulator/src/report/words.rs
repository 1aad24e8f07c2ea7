//! Numbers as people read them.

use crate::measure::Known;
use crate::measure::number::{gpu_hours, real};

/// Returns a length of time by its two largest units: `40s`, `7m 30s`, `3h 10m`, `2d 04h`.
#[must_use]
pub fn span(ms: u64) -> String {
    let secs = (ms + 500) / 1000;
    let (mins, hours, days) = (secs / 60, secs / 3600, secs / 86_400);
    if secs < 60 {
        format!("{secs}s")
    } else if mins < 60 {
        format!("{mins}m {:02}s", secs % 60)
    } else if hours < 48 {
        format!("{hours}h {:02}m", mins % 60)
    } else {
        format!("{days}d {:02}h", hours % 24)
    }
}

/// Returns the same of a length that may be a lower bound: then `>` stands before it.
#[must_use]
pub fn known(known: Known) -> String {
    let mark = if known.is_at_least { ">" } else { "" };
    format!("{mark}{}", span(known.ms))
}

/// Returns a part of one in percent.
#[must_use]
pub fn percent(ratio: f64) -> String {
    format!("{:.1}%", ratio * 100.0)
}

/// Returns GPU time in GPU-hours.
#[must_use]
pub fn hours(gpu_ms: u64) -> String {
    let hours = gpu_hours(gpu_ms);
    if hours < 100.0 { format!("{hours:.1}") } else { grouped(gpu_ms.saturating_add(1_800_000) / 3_600_000) }
}

/// Returns a count with its thousands apart: `18,412`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a length of time in whole days or hours, for a headline.
#[must_use]
pub fn length(ms: u64) -> String {
    let hours = real(ms) / 3_600_000.0;
    if hours >= 48.0 { format!("{:.0} days", hours / 24.0) } else { format!("{hours:.0} hours") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_two_units() {
        let cases = [
            (0, "0s"),
            (39_700, "40s"),
            (450_000, "7m 30s"),
            (11_400_000, "3h 10m"),
            (172_800_000, "2d 00h"),
            (1_000_000_000, "11d 13h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(span(ms), expected);
        }
        assert_eq!(known(Known { ms: 60_000, is_at_least: true }), ">1m 00s");
        assert_eq!(
            [0, 999, 1000, 18_412, 1_000_000].map(grouped),
            ["0", "999", "1,000", "18,412", "1,000,000"]
        );
        assert_eq!(hours(3_600_000 * 1234), "1,234");
        assert_eq!(length(28 * 86_400_000), "28 days");
    }
}
