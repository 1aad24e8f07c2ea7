//! What goes wrong, told so that it can be mended: what, where, why, what to type.

use std::fmt::Write as _;

use crate::codes;
use crate::exit::Exit;
use crate::form::Style;
use crate::form::text::plain;

/// A failure of a command, with a stable code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The number in `B1203`; zero is no failure to tell (the reader of our output left).
    pub code: u16,
    /// How the process ends.
    pub exit: Exit,
    /// What is wrong.
    pub what: String,
    /// Where, if it is in a file; boxed, so that results stay small.
    pub place: Option<Box<Place>>,
    /// Why that is refused; may be empty.
    pub why: String,
    /// What to do; may be empty.
    pub fix: String,
    /// What the failure left undone: `nothing was submitted`; may be empty.
    pub closing: &'static str,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The places, the first one names the whole.
    pub marks: Vec<Mark>,
}

/// A marked part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// How many characters; one at least.
    pub length: usize,
    /// What is the matter with it; may be empty.
    pub label: String,
}

impl Failure {
    /// Makes a failure whose exit follows from its code.
    pub fn new(code: u16, what: impl Into<String>) -> Self {
        let (why, fix) = (String::new(), String::new());
        Self { code, exit: codes::exit_of(code), what: what.into(), place: None, why, fix, closing: "" }
    }

    /// The reader of our output left: the command ends, quietly and without a fault.
    pub fn reader_left() -> Self {
        Self { exit: Exit::Done, ..Self::new(0, "") }
    }

    /// Adds why.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds what to do.
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    /// Adds the place.
    pub fn at(mut self, place: Option<Place>) -> Self {
        self.place = place.map(Box::new);
        self
    }

    /// Sets another exit than the code's own.
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Adds what was not done.
    pub fn closing(mut self, closing: &'static str) -> Self {
        self.closing = closing;
        self
    }

    /// Returns the text for a person.
    pub fn render(&self, style: Style) -> String {
        let mut out = String::new();
        let head = style.red(&format!("error[B{}]", self.code));
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{head}: {}", plain(&self.what));
        if let Some(place) = &self.place {
            out.push_str(&place.render());
        }
        let fix = if self.fix.is_empty() { codes::way_out(self.code).join("\n") } else { self.fix.clone() };
        for (name, text) in [("why", &self.why), ("fix", &fix)] {
            for (n, line) in text.lines().enumerate() {
                let name = if n == 0 { name } else { "" };
                let _ = writeln!(out, "  {name:<5} {}", plain(line));
            }
        }
        if !self.closing.is_empty() {
            let _ = writeln!(out, "{}", self.closing);
        }
        out
    }
}

impl Place {
    fn render(&self) -> String {
        let mut out = String::new();
        let Some(first) = self.marks.first() else {
            return format!("  {}\n", plain(&self.file));
        };
        let _ = writeln!(out, "  {}:{}:{}", plain(&self.file), first.line, first.column);
        let mut marks: Vec<&Mark> = self.marks.iter().collect();
        marks.sort_by_key(|mark| (mark.line, mark.column));
        let width = marks.last().map_or(1, |mark| mark.line.to_string().len()).max(2);
        for mark in marks {
            let Some(line) = self.text.lines().nth(mark.line.saturating_sub(1)) else { continue };
            let _ = writeln!(out, "  {:>width$} | {}", mark.line, plain(&line.replace('\t', " ")));
            let indent = " ".repeat(mark.column.saturating_sub(1));
            let under = "^".repeat(mark.length.max(1));
            let _ =
                writeln!(out, "  {:>width$} | {}", "", format!("{indent}{under} {}", mark.label).trim_end());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Mark, Place};
    use crate::exit::Exit;
    use crate::form::Style;

    #[test]
    fn a_failure_says_what_where_why_and_what_to_type() {
        let mark = |line, column, length, label: &str| Mark { line, column, length, label: label.into() };
        let place = Place {
            file: "train.yaml".into(),
            text: "name: a\ncontract:\n  min_runtime: 8h\n  time_limit: 30m\n".into(),
            marks: vec![mark(3, 16, 2, "8 h of protection"), mark(4, 15, 3, "but stopped after 30 min")],
        };
        let failure = Failure::new(1203, "minimum runtime is longer than the time limit")
            .at(Some(place))
            .why("protected time is hard to place")
            .fix("min_runtime: 30m\nor raise time_limit")
            .closing("nothing was submitted");
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(
            failure.render(Style::plain()),
            "error[B1203]: minimum runtime is longer than the time limit
  train.yaml:3:16
   3 |   min_runtime: 8h
     |                ^^ 8 h of protection
   4 |   time_limit: 30m
     |               ^^^ but stopped after 30 min
  why   protected time is hard to place
  fix   min_runtime: 30m
        or raise time_limit
nothing was submitted
"
        );
    }

    #[test]
    fn hostile_text_cannot_drive_the_terminal() {
        let text = Failure::new(1301, "no budget `\u{1b}[2Jx`").render(Style::plain());
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
