//! Words that mislead, kept out of what people read.

use super::source::{Literal, Source};
use super::{Finding, Text};

/// The words, and what to say instead.
pub const AVOID: &[(&str, &str)] = &[
    ("priority", "order (between budgets) or turn (inside one)"),
    ("priorities", "order (between budgets) or turn (inside one)"),
    ("urgent", "turn"),
    ("qos", "order, turn, minimum runtime"),
    ("evicted", "preempted"),
    ("bumped", "preempted"),
    ("quota", "share, allocation, use"),
    ("quotas", "share, allocation, use"),
    ("credits", "headroom"),
    ("opportunistic", "free tier"),
    ("scavenger", "free tier"),
    ("best-effort", "free tier"),
    ("walltime", "time limit or minimum runtime"),
];

/// The crates whose string literals people read, by folder.
const SPOKEN: &[&str] = &["cli/", "server/", "node-agent/", "scheduler-core/", "proto/", "raft-store/"];

/// The crate whose doc comments become help.
const HELP: &str = "cli/src/";

/// A place where a word is right.
#[derive(Debug)]
pub struct Exception {
    /// The file, or a folder ending in `/`.
    pub path: &'static str,
    /// The word.
    pub word: &'static str,
    /// Why it is right there.
    pub why: &'static str,
}

/// The places where a word is right.
pub const EXCEPTIONS: &[Exception] = &[
    Exception { path: "cli/src/", word: "priority", why: "the error that says what replaced `--priority`" },
    Exception {
        path: "docs/design/",
        word: "*",
        why: "pages about other schedulers use those schedulers' words",
    },
];

/// Returns the words to avoid in what people read: literals of the crates that speak, help, pages, examples.
pub fn check(text: &Text) -> Vec<Finding> {
    spoken(text)
        .iter()
        .flat_map(|literal| {
            let found = AVOID.iter().filter(|(word, _)| says(&literal.text, word));
            found.filter(|(word, _)| !is_excepted(&text.path, word)).map(|(word, instead)| {
                Finding::new(&text.path, literal.line, format!("`{word}` misleads: say {instead}"))
            })
        })
        .collect()
}

fn spoken(text: &Text) -> Vec<Literal> {
    if text.is_rust() {
        if !SPOKEN.iter().any(|folder| text.path.starts_with(folder)) {
            return Vec::new();
        }
        let source = Source::scan(text);
        let is_help = text.path.starts_with(HELP);
        let help = source.docs.iter().filter(|_| is_help);
        let heard = source.strings.iter().chain(help);
        return heard.filter(|literal| !source.is_test(literal.line)).cloned().collect();
    }
    let is_page = text.path.ends_with(".md") || text.path.starts_with("examples/");
    let is_page = is_page || text.path.starts_with("deploy/") || text.path.ends_with(".html");
    let lines = (1..).zip(text.text.lines()).filter(|_| is_page);
    lines.map(|(line, text)| Literal { line, text: text.into() }).collect()
}

fn is_excepted(path: &str, word: &str) -> bool {
    EXCEPTIONS.iter().any(|exception| {
        let is_here = match exception.path.ends_with('/') {
            true => path.starts_with(exception.path),
            false => path == exception.path,
        };
        is_here && (exception.word == word || exception.word == "*")
    })
}

/// Returns whether `text` has `word` standing alone, in any case.
fn says(text: &str, word: &str) -> bool {
    let text = text.to_lowercase();
    super::source::word_starts(&text, word).next().is_some()
}
