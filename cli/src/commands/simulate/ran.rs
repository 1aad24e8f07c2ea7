//! What the commands share: finding a scenario, making runs with progress, and showing tables.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use simulator::engine::Progress;
use simulator::policy;
use simulator::report::Table as Rows;
use simulator::scenario::{SHIPPED, Scenario, TRACES, shipped};
use simulator::sweep::{self, Case, Ran, Variant};

use crate::clock::Deadline;
use crate::codes;
use crate::failure::Failure;
use crate::form::duration;
use crate::form::suggest::closest;
use crate::form::table::Table;
use crate::shell::Shell;

/// Progress on a terminal is written so often.
const TELL: Duration = Duration::from_millis(200);

/// A scenario, and where its trace is looked for.
pub struct Found {
    pub scenario: Scenario,
    pub folder: PathBuf,
}

/// Finds a scenario: a file, or one that ships.
pub fn find(name: &str) -> Result<Found, Failure> {
    let path = Path::new(name);
    if path.exists() {
        let scenario = Scenario::read(path).map_err(bad)?;
        let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        return Ok(Found { scenario, folder });
    }
    match shipped(name) {
        Some(scenario) => {
            let folder = std::env::var_os(TRACES).map(PathBuf::from).unwrap_or_default();
            Ok(Found { scenario: scenario.map_err(bad)?, folder })
        }
        None => {
            let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            let meant = closest(name, &names).map_or_else(
                || format!("write a file's name, or one of {}", names.join(", ")),
                |meant| format!("did you mean `{meant}`?"),
            );
            Err(Failure::new(codes::FILE, format!("there is no scenario `{name}`"))
                .why("no file has this name, and no scenario that ships")
                .fix(meant))
        }
    }
}

/// Makes a failure of what is wrong with a scenario or its run.
pub fn bad(error: impl std::error::Error) -> Failure {
    let text = error.to_string();
    let code = if text.starts_with("cannot read") || text.starts_with("failed to open") {
        codes::FILE
    } else {
        codes::BAD_FILE
    };
    let failure = match text.rsplit_once("; ") {
        Some((what, fix)) => Failure::new(code, what).fix(fix),
        None => Failure::new(code, text),
    };
    match error.source() {
        Some(source) if !failure.what.contains(&source.to_string()) => failure.why(source.to_string()),
        _ => failure,
    }
}

/// Reads `key=v1,v2`.
pub fn sets(texts: &[String]) -> Result<Vec<Variant>, Failure> {
    let mut sets: Vec<(String, Vec<String>)> = Vec::new();
    for text in texts {
        let wrong = || {
            Failure::new(codes::USAGE, format!("`--set {text}` is no setting"))
                .fix("write --set KEY=VALUE[,VALUE…]")
        };
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        sets.push((key.trim().to_owned(), values));
    }
    sweep::combinations(&sets).map_err(bad)
}

/// Checks the names of policies before anything runs.
pub fn policies(names: &[String]) -> Result<Vec<String>, Failure> {
    for name in names {
        if policy::named(name).is_none() {
            let fix = closest(name, policy::NAMES).map_or_else(
                || format!("there are {}", policy::NAMES.join(", ")),
                |meant| format!("did you mean `{meant}`? There are {}", policy::NAMES.join(", ")),
            );
            return Err(Failure::new(codes::USAGE, format!("there is no policy `{name}`")).fix(fix));
        }
    }
    Ok(if names.is_empty() { vec!["bursar".into()] } else { names.to_vec() })
}

/// Makes runs, with progress on a terminal.
pub fn make<T: Send>(
    shell: &Shell,
    cases: &[Case<'_>],
    keep: &(dyn Fn(usize, Ran) -> T + Sync),
) -> Result<Vec<T>, Failure> {
    let screen = Screen::new(shell, cases.len());
    let made = sweep::all(cases, None, &|at, progress| screen.tell(at, progress), &|at, ran| {
        screen.done(at);
        keep(at, ran)
    });
    screen.clear();
    made.map_err(bad)
}

/// How far all runs are.
struct Screen {
    is_shown: bool,
    begun: Deadline,
    state: Mutex<(Vec<f64>, Option<Deadline>)>,
}

impl Screen {
    fn new(shell: &Shell, runs: usize) -> Self {
        let is_shown = std::io::stderr().is_terminal() && !shell.is_quiet();
        Self { is_shown, begun: Deadline::after(TELL), state: Mutex::new((vec![0.0; runs], None)) }
    }

    #[expect(clippy::cast_precision_loss, reason = "a bar needs no exact number")]
    fn tell(&self, at: usize, progress: Progress) {
        let whole = progress.end.since(progress.begin).as_millis().max(1) as f64;
        self.set(at, progress.now.since(progress.begin).as_millis() as f64 / whole);
    }

    fn done(&self, at: usize) {
        self.set(at, 1.0);
    }

    fn set(&self, at: usize, part: f64) {
        let Ok(mut state) = self.state.lock() else { return };
        if let Some(known) = state.0.get_mut(at) {
            *known = part;
        }
        let is_due = state.1.as_ref().is_none_or(Deadline::is_over);
        if self.is_shown && is_due {
            state.1 = Some(Deadline::after(TELL));
            // Nobody is left to tell if stderr is closed.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{}", self.line(&state.0));
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a bar needs no exact number")]
    fn line(&self, parts: &[f64]) -> String {
        let done = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
        let over = parts.iter().filter(|part| **part >= 1.0).count();
        let left = match done > 0.01 {
            true => {
                let left = self.begun.elapsed().mul_f64((1.0 - done) / done);
                format!("about {} left", duration::long(left.as_secs().saturating_mul(1_000)))
            }
            false => "…".into(),
        };
        let filled = "█".repeat(bar(done));
        format!("{filled:░<20} {:3.0} %  {over} of {} runs  {left}", done * 100.0, parts.len())
    }

    fn clear(&self) {
        if self.is_shown {
            // Nobody is left to tell if stderr is closed.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 20")]
fn bar(done: f64) -> usize {
    (done * 20.0).clamp(0.0, 20.0) as usize
}

/// Renders rows: numbers stand to the right.
pub fn table(rows: &Rows) -> String {
    let headings: Vec<String> = rows
        .headers
        .iter()
        .enumerate()
        .map(|(at, text)| format!("{}{text}", if at == 0 { "" } else { ">" }))
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for row in &rows.rows {
        table.row(row);
    }
    let mut out = String::new();
    if !rows.title.is_empty() {
        out.push_str(&format!("{}\n", rows.title));
    }
    out.push_str(&table.render());
    for note in &rows.notes {
        out.push_str(&format!("{note}\n"));
    }
    out
}

/// Says what a reader of the figures should know of where the jobs came from.
pub fn notes(shell: &Shell, ran: &Ran) {
    let source = &ran.prepared;
    if source.skipped > 0 {
        shell.say(&format!(
            "{} rows of the trace were left out: bursar simulate trace FILE says why",
            source.skipped
        ));
    }
    if source.too_big > 0 {
        shell.say(&format!("{} jobs are larger than the cluster and were left out", source.too_big));
    }
    for note in &source.notes {
        shell.say(&format!("note: {note}"));
    }
}
