//! Lengths of time as people write and read them: `90s`, `15m`, `4h`, `3d`, `1h30m`; at most ten years.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Span;

/// Reads a length of time.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn parse(text: &str) -> Result<Span, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative: a length of time is zero or more"));
    }
    if text == "0" {
        return Ok(Span::ZERO);
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("`{text}` has no unit: write `{text}s`, `{text}m`, `{text}h` or `{text}d`"));
    }
    let mut total: u64 = 0;
    let mut rest = text;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let (number, unit, next) = part(rest).ok_or_else(|| not_a_duration(text))?;
        if unit >= last {
            return Err(format!(
                "`{text}` has its units out of order: write the larger one first, like `1h30m`"
            ));
        }
        last = unit;
        total =
            number.checked_mul(unit).and_then(|ms| total.checked_add(ms)).ok_or_else(|| too_long(text))?;
        rest = next;
    }
    if text.is_empty() {
        return Err(not_a_duration(text));
    }
    if total > Span::MAX.as_millis() {
        return Err(too_long(text));
    }
    Ok(Span::from_millis(total))
}

fn too_long(text: &str) -> String {
    format!("`{text}` is longer than ten years, the longest time that is taken")
}

fn not_a_duration(text: &str) -> String {
    format!(
        "`{text}` is not a length of time: write whole numbers with a unit, like `90s`, `15m`, `4h`, `3d`"
    )
}

/// Returns the first number, its unit in milliseconds, and what follows.
fn part(text: &str) -> Option<(u64, u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let letters = text[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
    let unit = match &text[digits..digits + letters] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    // More digits than 64 bits hold are too long in any unit.
    let number = if digits == 0 { return None } else { text[..digits].parse().unwrap_or(u64::MAX) };
    Some((number, unit, &text[digits + letters..]))
}

/// Returns a length of time as it is typed: `4h`, `1h30m`, `90s`; two units at most, the rest dropped.
#[must_use]
pub fn short(ms: u64) -> String {
    spell(ms, "")
}

/// Returns a length of time as it is read: `4 h`, `1 h 30 min`, `90 s`.
#[must_use]
pub fn long(ms: u64) -> String {
    spell(ms, " ")
}

fn spell(ms: u64, gap: &str) -> String {
    let minute = if gap.is_empty() { "m" } else { "min" };
    let seconds = ms / 1000;
    if ms < 1000 {
        return if ms == 0 { format!("0{gap}s") } else { format!("{ms}{gap}ms") };
    }
    // A time just above a minute reads better in seconds.
    if seconds < 60 || (seconds <= 120 && !seconds.is_multiple_of(60)) {
        return format!("{seconds}{gap}s");
    }
    let units = [(86_400, "d"), (3600, "h"), (60, minute), (1, "s")];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (length, name) in units {
        if parts.len() < 2 && rest >= length {
            parts.push(format!("{}{gap}{name}", rest / length));
            rest %= length;
        } else if !parts.is_empty() {
            break;
        }
    }
    parts.join(gap)
}

/// Returns a wait as a clock: `0:06`, `5:31`, `2d 3:07` (hours and minutes).
#[must_use]
pub fn wait(ms: u64) -> String {
    let minutes = ms / 60_000;
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    if days > 0 { format!("{days}d {hours}:{minutes:02}") } else { format!("{hours}:{minutes:02}") }
}

#[cfg(test)]
mod tests {
    use super::{long, parse, short, wait};

    fn ms(text: &str) -> u64 {
        parse(text).expect(text).as_millis()
    }

    #[test]
    fn lengths_of_time_need_a_unit() {
        assert_eq!(ms("90s"), 90_000);
        assert_eq!(ms("15m"), 900_000);
        assert_eq!(ms("4h"), 14_400_000);
        assert_eq!(ms("3d"), 259_200_000);
        assert_eq!(ms("1h30m"), 5_400_000);
        assert_eq!(ms("250ms"), 250);
        assert_eq!(ms("0"), 0);
        assert_eq!(ms("3650d"), 315_360_000_000);
        for (bad, said) in [
            ("-1h", "negative"),
            ("1e99", "not a length of time"),
            ("90", "no unit"),
            ("", "not a length of time"),
            ("h", "not a length of time"),
            ("1.5h", "not a length of time"),
            ("1m1h", "out of order"),
            ("3651d", "ten years"),
            ("99999999999999999999h", "ten years"),
            ("1 h", "not a length of time"),
            ("4ü", "not a length of time"),
        ] {
            let error = parse(bad).expect_err(bad);
            assert!(error.contains(said), "{bad}: {error}");
        }
    }

    #[test]
    fn lengths_of_time_are_shown_as_typed() {
        assert_eq!(short(14_400_000), "4h");
        assert_eq!(short(5_400_000), "1h30m");
        assert_eq!(short(90_000), "90s");
        assert_eq!(short(120_000), "2m");
        assert_eq!(short(604_800_000), "7d");
        assert_eq!(short(0), "0s");
        assert_eq!(long(14_400_000), "4 h");
        assert_eq!(long(120_000), "2 min");
        assert_eq!(long(250), "250 ms");
        assert_eq!(wait(360_000), "0:06");
        assert_eq!(wait(19_860_000), "5:31");
        assert_eq!(wait(90_000_000), "1d 1:00");
    }
}
