//! Text of others made harmless for a terminal, and plain counting words.

use std::fmt::Write as _;

/// Returns `text` with control characters, line ends and direction marks written out, so that it cannot drive the
/// terminal or forge a line.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}') {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns `text` cut to `width` characters, the last one `…` if something was cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Returns `1st`, `2nd`, `3rd`, `4th`.
pub fn ordinal(n: u32) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

/// Returns `1 GPU`, `2 GPUs`.
pub fn count(n: u64, thing: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", thousands(&n.to_string()))
}

/// Returns decimal digits with a comma before each third one.
pub fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (n, c) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Returns slots as `0-3` where they are a run, as a list where not.
pub fn slots(slots: &[u32]) -> String {
    let is_run = slots.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    match (slots.first(), slots.last()) {
        (Some(first), Some(last)) if is_run && slots.len() > 2 => format!("{first}-{last}"),
        _ => slots.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    }
}

/// Returns `text` broken into lines of at most `width` characters at spaces; a longer word stays whole.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{count, cut, ordinal, plain, slots, thousands, wrap};

    #[test]
    fn numbers_read_like_words() {
        let said: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 112].into_iter().map(ordinal).collect();
        assert_eq!(said, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]);
        assert_eq!(count(1, "GPU"), "1 GPU");
        assert_eq!(count(1234, "GPU"), "1,234 GPUs");
        assert_eq!(thousands("1234567"), "1,234,567");
        assert_eq!(thousands("123"), "123");
        assert_eq!([slots(&[0, 1, 2]), slots(&[0, 1]), slots(&[0, 2, 3])], ["0-2", "0,1", "0,2,3"]);
    }

    #[test]
    fn text_of_others_stays_on_its_line() {
        assert_eq!(plain("a\u{1b}[31m\nb\u{202e}"), "a\\u{1b}[31m\\u{a}b\\u{202e}");
        assert_eq!(plain("größer 漢"), "größer 漢");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
    }
}
