//! What a job says of its progress: small JSON objects, from anybody who can write as the job. Taken as a sign and never for
//! a time: the shim stamps what it receives with its own clock.

/// The largest report, in bytes.
pub const REPORT_MAX: usize = 4 << 10;
/// How deep values may nest.
const DEPTH_MAX: usize = 16;

/// What a report means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// A checkpoint is complete.
    Saved,
    /// `{"resumed": true}`: the job works, and has nothing new saved yet.
    Resumed,
}

/// Reads a report: one JSON object, whatever else it holds. `None` if it is anything else, or too large.
pub fn read(bytes: &[u8]) -> Option<Report> {
    if bytes.len() > REPORT_MAX || std::str::from_utf8(bytes).is_err() {
        return None;
    }
    let mut reader = Reader { rest: bytes, resumed: None };
    reader.space();
    reader.object(0)?;
    reader.space();
    match (reader.rest, reader.resumed) {
        ([], None) => Some(Report::Saved),
        ([], Some(true)) => Some(Report::Resumed),
        _ => None,
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    /// The value of `resumed` in the outermost object; false if it is no `true`.
    resumed: Option<bool>,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn take(&mut self, token: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.take(b"{")?;
        self.space();
        if self.take(b"}").is_some() {
            return Some(());
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.take(b":")?;
            self.space();
            let value = self.rest;
            self.value(depth + 1)?;
            if depth == 0 && key == b"resumed" {
                self.resumed = Some(value.starts_with(b"true"));
            }
            self.space();
            if self.take(b",").is_none() {
                return self.take(b"}");
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        self.take(b"[")?;
        self.space();
        if self.take(b"]").is_some() {
            return Some(());
        }
        loop {
            self.space();
            self.value(depth + 1)?;
            self.space();
            if self.take(b",").is_none() {
                return self.take(b"]");
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.rest.first()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.string().map(drop),
            b't' => self.take(b"true"),
            b'f' => self.take(b"false"),
            b'n' => self.take(b"null"),
            _ => self.number(),
        }
    }

    /// Returns what stands between the quotes, escapes as they are.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b"\"")?;
        let whole = self.rest;
        loop {
            match self.rest {
                [b'"', rest @ ..] => {
                    let length = whole.len() - self.rest.len();
                    self.rest = rest;
                    return Some(&whole[..length]);
                }
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => {
                    self.rest = rest
                }
                [b'\\', b'u', a, b, c, d, rest @ ..]
                    if [a, b, c, d].iter().all(|x| x.is_ascii_hexdigit()) =>
                {
                    self.rest = rest;
                }
                [letter, rest @ ..] if *letter >= 0x20 && *letter != b'\\' => self.rest = rest,
                _ => return None,
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let length = self.rest.iter().take_while(|byte| is_part(byte)).count();
        let (number, rest) = self.rest.split_at(length);
        let text = std::str::from_utf8(number).ok()?;
        let starts = number.strip_prefix(b"-").unwrap_or(number).first()?.is_ascii_digit();
        if !starts || text.parse::<f64>().is_err() {
            return None;
        }
        self.rest = rest;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{REPORT_MAX, Report, read};

    #[test]
    fn an_object_is_a_checkpoint_unless_it_says_resumed() {
        for text in [
            "{}",
            " {\"step\": 500, \"path\": \"/a\\u00e9\\n\", \"bytes\": 1e9, \"restore_s\": 4.5, \"next_in_s\": null}\n",
            "{\"began\": -1, \"more\": {\"resumed\": true, \"list\": [1, [], {}, \"x\", false]}}",
        ] {
            assert_eq!(read(text.as_bytes()), Some(Report::Saved), "{text}");
        }
        assert_eq!(read(b"{\"step\": 1, \"resumed\": true}"), Some(Report::Resumed));
    }

    #[test]
    fn anything_else_says_nothing() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(2_000), "]".repeat(2_000));
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(REPORT_MAX));
        for text in [
            "",
            "saved",
            "[]",
            "{",
            "{}{}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":+1}",
            "{\"a\":.5}",
            "{\"a\":\"\u{1}\"}",
            "{\"a\":\"\\x\"}",
            "{\"resumed\":false}",
            "{\"resumed\":1}",
            &deep,
            &long,
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read(b"{\"a\":\"\xff\"}"), None);
    }
}
