//! Reading values as people and programs write them: counts, seconds, moments, lengths of time, ends.
//!
//! All of it is integers: a decimal of seconds becomes milliseconds digit by digit, and what is finer is cut off.

use scheduler_core::unit::{Span, Timestamp};

use crate::trace::TraceEnd;

/// A row that cannot be used, and the value that is to blame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bad {
    /// What it is counted under; one of a bounded number.
    pub why: String,
    /// The value, cut to what fits on a line.
    pub value: String,
}

/// Makes a reason without a value.
pub(super) fn bad(why: impl Into<String>) -> Bad {
    Bad { why: why.into(), value: String::new() }
}

/// Makes a reason with the value that is to blame.
pub(super) fn bad_value(why: impl Into<String>, value: &str) -> Bad {
    Bad { why: why.into(), value: shown(value) }
}

/// Returns `text` as a message can show it: on one line, at most 60 characters.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut out: String = text
        .chars()
        .take(MOST)
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}

/// What stands for nothing in the exports of databases and tools.
const NOTHING: &[&str] = &["", "none", "unknown", "null", "nan", "n/a", "nat", "-"];

/// Returns `text` without blanks around it, or nothing if it stands for nothing.
pub(super) fn something(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_nothing = NOTHING.iter().any(|nothing| nothing.eq_ignore_ascii_case(text));
    (!is_nothing).then_some(text)
}

/// Reads a whole number, also one that a table program wrote as `8.0`.
pub(super) fn whole(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let is_whole = !rest.is_empty() && rest.bytes().all(|digit| digit == b'0');
    digits(whole).filter(|_| is_whole)
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Reads a decimal as thousandths: `66.0` is 66,000. What is finer is cut off.
pub(super) fn thousandths(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    if !rest.bytes().all(|digit| digit.is_ascii_digit()) || (rest.is_empty() && text.contains('.')) {
        return None;
    }
    let rest: String = rest.chars().chain("000".chars()).take(3).collect();
    digits(whole)?.checked_mul(1000)?.checked_add(digits(&rest)?)
}

/// Reads seconds, `66` or `66.5`, of at most ten years.
pub(super) fn seconds(text: &str) -> Option<Span> {
    span(thousandths(text)?)
}

fn span(ms: u64) -> Option<Span> {
    Some(Span::from_millis(ms)).filter(|span| *span <= Span::MAX)
}

/// The first millisecond after the year 9999.
const END_OF_TIME_MS: u64 = 253_402_300_800_000;

/// Reads a decimal of a unit of so many milliseconds, of at most ten years.
pub(super) fn scaled(text: &str, unit_ms: u64) -> Option<Span> {
    span(thousandths(text)?.checked_mul(unit_ms)? / 1000)
}

/// Takes milliseconds as a moment, up to the year 9999.
pub(super) fn moment_ms(ms: u64) -> Option<Timestamp> {
    (ms < END_OF_TIME_MS).then_some(Timestamp::from_millis(ms))
}

/// Reads a moment: seconds (since 1970, or since the start of a log without dates) or a date with a time.
///
/// A date without a zone is taken as it stands, as if it were UTC.
pub(super) fn moment(text: &str) -> Option<Timestamp> {
    let ms = match thousandths(text) {
        Some(ms) => ms,
        None => date(text)?,
    };
    moment_ms(ms)
}

/// Reads `2020-06-09 18:41:01`, with `T`, a fraction, `Z` or an offset as it may be; milliseconds since 1970.
fn date(text: &str) -> Option<u64> {
    let (day, time) = text.split_at_checked(10)?;
    let mut parts = day.split('-');
    let mut next = |length: usize| parts.next().filter(|part| part.len() == length).and_then(digits);
    let (year, month, day) = (next(4)?, next(2)?, next(2)?);
    let days = days_since_1970(year, month, day)?;
    let time = match time.chars().next() {
        None => return days.checked_mul(86_400_000),
        Some('T' | ' ') => &time[1..],
        Some(_) => return None,
    };
    let zone_at = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let ms = days.checked_mul(86_400_000)?.checked_add(clock_ms(clock.trim_end())?)?;
    match zone.chars().next() {
        None => Some(ms),
        Some('Z') => (zone.len() == 1).then_some(ms),
        Some(sign) => {
            let offset_ms = zone_ms(&zone[1..])?;
            if sign == '+' { ms.checked_sub(offset_ms) } else { ms.checked_add(offset_ms) }
        }
    }
}

/// Reads `18:41`, `18:41:01` or `18:41:01.250`.
fn clock_ms(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let hours = parts.next().filter(|part| part.len() == 2).and_then(digits)?;
    let minutes = parts.next().filter(|part| part.len() == 2).and_then(digits)?;
    let ms = parts.next().map_or(Some(0), thousandths)?;
    let is_clock = hours < 24 && minutes < 60 && ms < 61_000 && parts.next().is_none();
    is_clock.then_some(hours * 3_600_000 + minutes * 60_000 + ms)
}

/// Reads `08:00`, `0800` or `08`.
fn zone_ms(text: &str) -> Option<u64> {
    let text = text.replace(':', "");
    let (hours, minutes) = match text.len() {
        2 => (digits(&text)?, 0),
        4 => (digits(text.get(..2)?)?, digits(text.get(2..)?)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(hours * 3_600_000 + minutes * 60_000)
}

/// Counts days by the era method: years begin in March, so that the leap day is the last of its year.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let most = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return None,
    };
    if !(1970..=9999).contains(&year) || !(1..=most).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(719_468)
}

/// Reads a length of time: `3600`, `1:00:00`, `2-00:00:00`, `05:30.250`, `1h30m`, `250ms`.
pub(super) fn length(text: &str) -> Option<Span> {
    if let Some(span) = seconds(text) {
        return Some(span);
    }
    if text.contains(':') { clock_length(text) } else { spoken_length(text) }
}

fn clock_length(text: &str) -> Option<Span> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (digits(days)?, clock),
        None => (0, text),
    };
    let mut parts = clock.rsplit(':');
    let ms = parts.next().and_then(thousandths)?;
    let minutes = parts.next().and_then(digits)?;
    let hours = parts.next().map_or(Some(0), digits)?;
    if parts.next().is_some() {
        return None;
    }
    let minutes = days.checked_mul(24)?.checked_add(hours)?.checked_mul(60)?.checked_add(minutes)?;
    span(minutes.checked_mul(60_000)?.checked_add(ms)?)
}

fn spoken_length(text: &str) -> Option<Span> {
    let mut rest = text;
    let mut ms = 0_u64;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let unit_ms = match unit.trim() {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        ms = ms.checked_add(digits(number)?.checked_mul(unit_ms)?)?;
        rest = after;
    }
    span(ms).filter(|_| !text.is_empty())
}

/// Reads yes or no.
pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" | "1" | "t" => Some(true),
        "false" | "no" | "n" | "0" | "f" => Some(false),
        _ => None,
    }
}

/// Reads how a job ended, in any of the words of the formats; the first word counts (`CANCELLED by 75200`).
///
/// Words that nobody knows are no error: they say nothing.
pub(super) fn end(text: &str) -> TraceEnd {
    let word = text.split_whitespace().next().unwrap_or("").trim_end_matches('+');
    match word.to_ascii_uppercase().as_str() {
        "COMPLETED" | "COMPLETE" | "PASS" | "PASSED" | "SUCCEEDED" | "SUCCESS" | "DONE" => {
            TraceEnd::Completed
        }
        "FAILED" | "FAIL" | "OUT_OF_MEMORY" | "OOM" | "ERROR" | "BOOT_FAIL" => TraceEnd::Failed,
        "CANCELLED" | "CANCELED" | "KILLED" | "REVOKED" => TraceEnd::Cancelled,
        "TIMEOUT" | "TIMED_OUT" | "TIMEDOUT" | "DEADLINE" => TraceEnd::TimedOut,
        "NODE_FAIL" | "NODE_FAILED" | "NODEFAILED" => TraceEnd::NodeFailed,
        "RUNNING" | "SUSPENDED" => TraceEnd::Running,
        _ => TraceEnd::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Option<u64> {
        moment(text).map(Timestamp::as_millis)
    }

    #[test]
    fn a_moment_is_read_in_every_form() {
        assert_eq!(ms("1592095241"), Some(1_592_095_241_000));
        assert_eq!(ms("1970-01-01 00:00:00"), Some(0));
        assert_eq!(ms("2020-02-29T12:00:00"), Some(1_582_977_600_000));
        assert_eq!(ms("2023-03-01 00:18:22+08:00"), ms("2023-02-28T16:18:22Z"));
        assert_eq!(ms("2023-03-01 00:18:22.5-0730"), ms("2023-03-01T07:48:22.500"));
        assert_eq!(ms("2023-03-01"), ms("2023-03-01 00:00"));
        for wrong in [
            "",
            "2021-02-29 00:00:00",
            "2020-13-01",
            "1969-12-31",
            "12:00",
            "2020-06-09 25:00:00",
            "2020-06-09x",
            "-5",
            "1e9",
            "99999999999999",
            "2020-06-09 18:41:01 CEST",
            "€€€€",
        ] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_length_is_read_in_every_form() {
        let read = |text| length(text).map(|span| span.to_string());
        let check = |text, expected: &str| assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        check("66.0", "1m6s");
        check("0.0625", "62ms");
        check("2-00:00:00", "2d");
        check("26:03:04", "1d2h3m4s");
        check("05:30.250", "5m30s250ms");
        check("1h30m", "1h30m");
        for wrong in ["", "h", "1x", "-1", "1:2:3:4", "99999999999", "5 years", "1.", "--"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn whole_numbers_survive_a_table_program_and_parts_do_not() {
        assert_eq!(whole("8.0"), Some(8));
        assert_eq!(whole("8"), Some(8));
        assert_eq!(whole("8.5"), None);
        assert_eq!(whole("-8"), None);
        assert_eq!(whole("99999999999999999999"), None);
    }
}
