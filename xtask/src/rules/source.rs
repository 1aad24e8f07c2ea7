//! A small scanner of Rust source: what is code, what is text, what is a test, where functions end.
//!
//! It knows comments, literals and braces and nothing else of the language, which is enough for rules about
//! length and banned words and needs no parser among the dependencies.

use super::Text;

/// Text found in a source: a string literal or a doc comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    /// The line it starts on, from 1.
    pub line: usize,
    /// Its content, escapes as written.
    pub text: String,
}

/// A function and its extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to its closing brace.
    pub lines: usize,
}

/// A scanned source file.
#[derive(Debug)]
pub struct Source {
    /// The path relative to the repository.
    pub path: String,
    /// The code, with comments and the insides of literals blanked; lines are kept.
    pub code: String,
    /// String literals, in order.
    pub strings: Vec<Literal>,
    /// Doc comments, one a line, in order.
    pub docs: Vec<Literal>,
    test_lines: Vec<bool>,
}

impl Source {
    /// Scans `text`.
    pub fn scan(text: &Text) -> Self {
        let mut scanner = Scanner::new(&text.text);
        scanner.run();
        let code = String::from_utf8_lossy(&scanner.code).into_owned();
        let test_lines = test_lines(&text.path, &code);
        Self { path: text.path.clone(), code, strings: scanner.strings, docs: scanner.docs, test_lines }
    }

    /// Returns whether `line` (from 1) is test code: by the file's place, or below `#[cfg(test)]`.
    pub fn is_test(&self, line: usize) -> bool {
        self.test_lines.get(line.saturating_sub(1)).copied().unwrap_or(false)
    }

    /// Returns the lines of code, numbered from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code.lines())
    }

    /// Returns all functions with a body, in order.
    pub fn functions(&self) -> Vec<Function> {
        let bytes = self.code.as_bytes();
        let mut found = Vec::new();
        for start in word_starts(&self.code, "fn") {
            let name: String = self.code[start + 2..]
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            // `fn(` without a name is a pointer type.
            let Some(end) = block_end(bytes, start).filter(|_| !name.is_empty()) else { continue };
            let line = line_of(bytes, start);
            found.push(Function { name, line, lines: line_of(bytes, end) + 1 - line });
        }
        found
    }
}

/// Returns the offsets at which `word` stands alone in `code`.
pub fn word_starts<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word)
        .filter(move |(at, _)| {
            !is_part(code[..*at].chars().next_back()) && !is_part(code[at + word.len()..].chars().next())
        })
        .map(|(at, _)| at)
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    1 + bytes[..offset].iter().filter(|b| **b == b'\n').count()
}

/// Returns the offset of the brace that closes the item at `start`, or of the `;` that ends one without a body.
fn item_end(bytes: &[u8], start: usize) -> Option<(usize, bool)> {
    let (mut nested, mut braces) = (0_usize, 0_usize);
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested = nested.saturating_sub(1),
            b';' if nested == 0 && braces == 0 => return Some((at, false)),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && nested == 0 {
                    return Some((at, true));
                }
            }
            _ => {}
        }
    }
    None
}

fn block_end(bytes: &[u8], start: usize) -> Option<usize> {
    item_end(bytes, start).and_then(|(end, has_body)| has_body.then_some(end))
}

fn test_lines(path: &str, code: &str) -> Vec<bool> {
    let is_test_file =
        path.split('/').any(|part| ["tests", "tests.rs", "benches", "examples"].contains(&part))
            || path.starts_with("chaos-tests/");
    let mut lines = vec![is_test_file; code.lines().count()];
    let bytes = code.as_bytes();
    for (start, attribute) in code.match_indices("#[cfg(test)]") {
        let Some((end, _)) = item_end(bytes, start + attribute.len()) else { continue };
        for line in line_of(bytes, start)..=line_of(bytes, end) {
            if let Some(is_test) = lines.get_mut(line - 1) {
                *is_test = true;
            }
        }
    }
    lines
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    code: Vec<u8>,
    strings: Vec<Literal>,
    docs: Vec<Literal>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.as_bytes();
        Self { text, at: 0, code: text.to_vec(), strings: Vec::new(), docs: Vec::new() }
    }

    fn run(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'/' if self.follows(b"//") => self.line_comment(),
                b'/' if self.follows(b"/*") => self.block_comment(),
                b'"' => self.string(),
                b'r' if !self.is_inside_word() => self.raw_string_or_word(),
                b'\'' => self.char_or_lifetime(),
                _ => self.at += 1,
            }
        }
    }

    fn follows(&self, prefix: &[u8]) -> bool {
        self.text[self.at..].starts_with(prefix)
    }

    /// Returns whether the byte before is part of a word. `b` and `c` before a raw string are not such a part.
    fn is_inside_word(&self) -> bool {
        let part = |back: usize| {
            self.at
                .checked_sub(back)
                .and_then(|at| self.text.get(at))
                .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        };
        let is_prefix =
            matches!(self.at.checked_sub(1).map(|at| self.text[at]), Some(b'b' | b'c')) && !part(2);
        part(1) && !is_prefix
    }

    fn blank(&mut self, from: usize, to: usize) {
        for byte in &mut self.code[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }

    fn text_of(&self, from: usize, to: usize) -> Literal {
        let text = String::from_utf8_lossy(&self.text[from..to]).into_owned();
        Literal { line: line_of(self.text, from), text }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        let length = self.text[start..].iter().position(|b| *b == b'\n');
        let end = length.map_or(self.text.len(), |length| start + length);
        let is_doc = (self.follows(b"///") && !self.follows(b"////")) || self.follows(b"//!");
        if is_doc {
            self.docs.push(self.text_of(start + 3, end));
        }
        self.blank(start, end);
        self.at = end;
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let mut depth = 0_usize;
        while self.at < self.text.len() {
            if self.follows(b"/*") {
                depth += 1;
                self.at += 2;
            } else if self.follows(b"*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    break;
                }
            } else {
                self.at += 1;
            }
        }
        self.blank(start, self.at);
    }

    fn raw_string_or_word(&mut self) {
        let hashes = self.text[self.at + 1..].iter().take_while(|b| **b == b'#').count();
        if self.text.get(self.at + 1 + hashes) == Some(&b'"') {
            self.at += 1 + hashes;
            self.raw_string(hashes);
        } else {
            self.at += 1;
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        let start = self.at + 1;
        let close: Vec<u8> = [b'"'].into_iter().chain(std::iter::repeat_n(b'#', hashes)).collect();
        let length = self.text[start..].windows(close.len()).position(|window| window == close);
        let end = length.map_or(self.text.len(), |length| start + length);
        self.literal(start, end, end + close.len());
    }

    fn string(&mut self) {
        let start = self.at + 1;
        let mut end = start;
        while let Some(byte) = self.text.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        let end = end.min(self.text.len());
        self.literal(start, end, end + 1);
    }

    fn literal(&mut self, start: usize, end: usize, next: usize) {
        self.strings.push(self.text_of(start, end));
        self.blank(start, end);
        self.at = next;
    }

    fn char_or_lifetime(&mut self) {
        let rest = &self.text[self.at + 1..];
        let length = match rest.first() {
            Some(b'\\') => rest.iter().skip(2).position(|b| *b == b'\'').map(|length| length + 2),
            // A character is at most four bytes; a lifetime has no closing quote right behind one character.
            Some(first) => Some(utf8_length(*first)).filter(|length| rest.get(*length) == Some(&b'\'')),
            None => None,
        };
        match length {
            Some(length) => {
                self.blank(self.at + 1, self.at + 1 + length);
                self.at += length + 2;
            }
            None => self.at += 1,
        }
    }
}

fn utf8_length(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}
