//! What a `bursar` command said and how it ended.

use serde_json::Value;

/// Codes whose message says itself what would be right: a field's range, the system's own words, a place in a file.
const SELF_EXPLAINING: [&str; 4] = ["B1011", "B1012", "B1120", "B1201"];

/// The end of a command.
#[derive(Debug, Clone)]
pub struct Said {
    /// What was typed.
    pub line: String,
    /// Its exit code; -1 if a signal ended it.
    pub code: i32,
    /// Its stdout.
    pub out: String,
    /// Its stderr.
    pub err: String,
}

impl Said {
    /// Returns itself if the command succeeded.
    ///
    /// # Panics
    /// With all it said when it did not.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.code == 0, "failed: {self:#?}");
        self
    }

    /// Returns its stdout as JSON.
    ///
    /// # Panics
    /// When it failed or printed no JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        let said = self.ok();
        serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {said:#?}"))
    }

    /// Returns the first line of stdout as a number: what `-o name` prints of a job.
    ///
    /// # Panics
    /// When it failed or the line is no number.
    #[track_caller]
    pub fn number(self) -> u32 {
        let said = self.ok();
        let first = said.out.lines().next().unwrap_or_default();
        first.trim().parse().unwrap_or_else(|e| panic!("{e}: {said:#?}"))
    }

    /// Checks that it was refused with exactly this exit code, with all these words on stderr, and with what to do.
    ///
    /// # Panics
    /// When it was not.
    #[track_caller]
    pub fn refused(&self, code: i32, words: &[&str]) {
        let has_all = words.iter().all(|word| self.err.contains(word));
        assert!(self.code == code && has_all, "expected exit {code} with {words:?}: {self:#?}");
        assert!(self.err.contains("error[B"), "no code that can be looked up: {self:#?}");
        let explains_itself = SELF_EXPLAINING.iter().any(|known| self.err.contains(known));
        assert!(explains_itself || self.err.contains("\n  fix   "), "nothing to do about it: {self:#?}");
    }
}
