//! What the job is told before it has to leave: a JSON object in a file that it can read.

use std::fmt::Write;

/// A notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice<'a> {
    /// Why, for people.
    pub reason: &'a str,
    /// When it will be ended, in s of the wall clock: for display, since that clock may be set.
    pub deadline_s: i64,
    /// How much time it has from now, in ms.
    pub left_ms: u64,
}

impl Notice<'_> {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let (seconds, millis) = (self.left_ms / 1_000, self.left_ms % 1_000);
        let reason = quoted(self.reason);
        format!(
            "{{\"reason\":{reason},\"deadline\":{},\"left_s\":{seconds}.{millis:03},\"wanted\":\"checkpoint\"}}\n",
            self.deadline_s
        )
        .into_bytes()
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => {
                // Writing to a string can't fail.
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::Notice;
    use crate::report;

    #[test]
    fn a_notice_is_json_whatever_its_reason() {
        let notice = Notice { reason: "drained by \"eve\"\n\\", deadline_s: 1_700_000_000, left_ms: 119_050 };
        let text = String::from_utf8(notice.encode()).unwrap();
        assert!(report::read(text.as_bytes()).is_some(), "{text}");
        assert_eq!(
            text,
            "{\"reason\":\"drained by \\\"eve\\\"\\u000a\\\\\",\"deadline\":1700000000,\"left_s\":119.050,\
             \"wanted\":\"checkpoint\"}\n"
        );
    }
}
