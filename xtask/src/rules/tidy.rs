//! Length of files and functions, and calls that have no place.

use super::source::{Source, word_starts};
use super::{Finding, Text};

/// Lines a source file may have.
pub const FILE_LINES_MAX: usize = 600;

/// Lines a function may have. About 70 is the habit; this is the wall.
pub const FUNCTION_LINES_MAX: usize = 100;

/// Where a banned call is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All our code.
    Everywhere,
    /// Code that ships, outside tests.
    Shipped,
    /// Test code.
    Tests,
}

/// A call that has no place, and the files that need it all the same.
#[derive(Debug)]
pub struct Ban {
    /// What is looked for in the code.
    pub call: &'static str,
    /// Where.
    pub scope: Scope,
    /// What to do instead.
    pub instead: &'static str,
    /// Where it is right: paths, folders ending in `/`, ends of paths beginning with `/`.
    pub allowed: &'static [&'static str],
}

/// The banned calls.
pub const BANS: &[Ban] = &[
    Ban {
        call: "SystemTime::now",
        scope: Scope::Shipped,
        instead: "only a clock module reads the wall clock: take the time as an argument",
        allowed: WALL_CLOCKS,
    },
    Ban {
        call: "Instant::now",
        scope: Scope::Shipped,
        instead: "only a clock module reads a clock: take the time as an argument",
        allowed: TIMERS,
    },
    Ban {
        call: "process::exit",
        scope: Scope::Everywhere,
        instead: "return an ExitCode from main, so that destructors run",
        allowed: EXITS,
    },
    Ban {
        call: "thread::sleep",
        scope: Scope::Tests,
        instead: "poll with a deadline through the one function that does it",
        allowed: POLLS,
    },
    Ban {
        call: "time::sleep",
        scope: Scope::Tests,
        instead: "poll with a deadline through the one function that does it",
        allowed: POLLS,
    },
    Ban {
        call: "#[ignore",
        scope: Scope::Everywhere,
        instead: "print `not available: why` and return, or delete the test",
        allowed: &[],
    },
    Ban { call: "todo!", scope: Scope::Everywhere, instead: "write it, or leave it out", allowed: &[] },
    Ban {
        call: "unimplemented!",
        scope: Scope::Everywhere,
        instead: "write it, or leave it out",
        allowed: &[],
    },
    Ban { call: "dbg!", scope: Scope::Everywhere, instead: "remove it", allowed: &[] },
    Ban {
        call: ".unwrap()",
        scope: Scope::Shipped,
        instead: "return the error, or `expect` with the reason why it cannot fail",
        allowed: &[],
    },
];

/// The modules that may read the wall clock.
const WALL_CLOCKS: &[&str] = &[
    "/clock.rs",
    // Compares with times that the file system gave to files: only the wall clock can.
    "node-agent/src/executor/run.rs",
];

/// The modules that may read a monotonic clock: those above, and those that wait for a disk, a link or a process.
const TIMERS: &[&str] = &[
    "/clock.rs",
    // Waits for disks and peers; what it stores carries no time of its own.
    "raft-store/src/",
    // Waits for shims, processes and a library that may hang; what it reports carries cluster time.
    "node-agent/src/",
    // Waits for an event as long as its caller said, like the library it stands in for.
    "node-agent/fake-nvml/src/events.rs",
    "xtask/src/commands/step.rs",
];

/// The places that may end the process themselves.
const EXITS: &[&str] = &[
    "/main.rs",
    // A process of its own, whose threads may hang in the driver for ever: it must not wait for them.
    "node-agent/src/probe/serve.rs",
];

/// The files of functions that poll with a deadline, and so have to wait between two looks.
const POLLS: &[&str] = &[
    "/support.rs",
    "/poll.rs",
    // Spaces out its load as it was told, and waits for what it measures.
    "chaos-tests/src/bench/",
    "chaos-tests/src/lab/wait.rs",
    // Spaces out its writes.
    "chaos-tests/src/disk/load.rs",
    // A job's own program, which works at a pace.
    "chaos-tests/src/work/worker.rs",
    // Spaces out its submissions.
    "chaos-tests/tests/it/failover.rs",
    "node-agent/tests/it/agents.rs",
    "node-agent/tests/it/probes.rs",
    "raft-store/tests/it/cluster.rs",
    // Measures, and waits for what it measures.
    "raft-store/examples/",
];

/// Returns the files and functions that are too long.
pub fn lengths(text: &Text) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.text.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split it where a reader would scroll");
        findings.push(Finding::new(&text.path, 0, what));
    }
    for function in Source::scan(text).functions() {
        if function.lines > FUNCTION_LINES_MAX {
            let (name, lines) = (function.name, function.lines);
            let what = format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}");
            findings.push(Finding::new(&text.path, function.line, what));
        }
    }
    findings
}

/// Returns the banned calls in `text`.
pub fn banned_calls(text: &Text) -> Vec<Finding> {
    let source = Source::scan(text);
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        for ban in BANS {
            let is_in_scope = match ban.scope {
                Scope::Everywhere => true,
                Scope::Shipped => !source.is_test(number),
                Scope::Tests => source.is_test(number),
            };
            if is_in_scope && !is_allowed(&text.path, ban.allowed) && contains_call(line, ban.call) {
                findings.push(Finding::new(&text.path, number, format!("`{}`: {}", ban.call, ban.instead)));
            }
        }
    }
    findings
}

/// Returns where one statement borrows a watched value twice. The first guard lives as long as the statement: a writer who
/// comes in between waits for it, and the second reader for the writer, for ever.
pub fn borrowed_twice(text: &Text) -> Vec<Finding> {
    let code = Source::scan(text).code;
    let mut findings = Vec::new();
    let mut line = 1;
    for statement in code.split_inclusive(';') {
        let mut seen: Vec<&str> = Vec::new();
        for (at, _) in statement.match_indices(".borrow()") {
            let before = &statement[..at];
            let start =
                before.rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).map_or(0, |at| at + 1);
            let whose = &before[start..];
            if seen.contains(&whose) {
                let number = line + statement[..at].matches('\n').count();
                let what = format!(
                    "`{whose}.borrow()` twice in one statement: take a copy first, or a writer in between waits for ever"
                );
                findings.push(Finding::new(&text.path, number, what));
            }
            seen.push(whose);
        }
        line += statement.matches('\n').count();
    }
    findings
}

fn is_allowed(path: &str, allowed: &[&str]) -> bool {
    allowed.iter().any(|entry| match (entry.starts_with('/'), entry.ends_with('/')) {
        (true, _) => path.ends_with(entry),
        (_, true) => path.starts_with(entry),
        _ => path == *entry,
    })
}

/// Returns whether `line` has `call`; one that begins with a letter has to stand alone there.
fn contains_call(line: &str, call: &str) -> bool {
    if call.starts_with(|c: char| c.is_alphabetic()) {
        let word: String = call.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        return word_starts(line, &word).any(|at| line[at..].starts_with(call));
    }
    line.contains(call)
}
