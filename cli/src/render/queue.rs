//! The line, in the order in which jobs start.

use proto::v1::{QueueRow, QueueView};

use super::words;
use crate::form::duration;
use crate::form::gpu_time;
use crate::form::table::Table;
use crate::form::text::{cut, plain, wrap};
use crate::shell::Look;

/// Renders the line.
pub fn queue(view: &QueueView, look: &Look) -> String {
    let mut out = String::new();
    for pool in &view.pools {
        out.push_str(&words::pool(pool));
        out.push('\n');
    }
    out.push_str(&words::as_of(view.as_of.as_ref(), look));
    if let Some(at) = view.last_round_at {
        let age = words::now(view.as_of.as_ref()).saturating_sub(at);
        out.push_str(&format!("last round of planning {} ago\n", duration::long(age)));
    }
    if let Some(why) = &view.safe_mode {
        out.push_str(&format!("safe mode: no job is started ({})\n", plain(why)));
    }
    if view.rows.is_empty() {
        out.push_str("nobody waits\n");
        return out;
    }
    out.push_str("order = use of allocation, compared level by level; lower goes first");
    let is_over = |row: &QueueRow| !row.over_burst.is_empty();
    out.push_str(if view.rows.iter().any(is_over) { ", above its burst limit (*) last\n\n" } else { "\n\n" });
    out.push_str(&rows(view, look));
    if view.left_out > 0 {
        out.push_str(&format!("and {} more: --top N shows more of them\n", view.left_out));
    }
    let notes: Vec<String> = over(&view.rows).into_iter().chain(note(&view.rows)).collect();
    let notes: String = notes.iter().map(|note| told(note)).collect();
    if !notes.is_empty() {
        out.push_str(&format!("\n{notes}"));
    }
    out
}

/// So many budgets above their burst limit are told of.
const OVER_MAX: usize = 3;

/// Returns which budgets go after the others whatever their use, and why.
fn over(rows: &[QueueRow]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| !row.over_burst.is_empty()) {
        let note = format!("* {}", plain(&row.over_burst));
        if told.len() < OVER_MAX && !told.contains(&note) {
            told.push(note);
        }
    }
    told
}

/// Columns of a terminal that no screen goes beyond.
const COLUMNS: usize = 100;

/// Returns a note in lines that fit; what is one word and does not is cut.
fn told(note: &str) -> String {
    let width = COLUMNS - NOTE.len();
    let lines = wrap(note, width).into_iter().map(|line| cut(&line, width)).enumerate();
    lines.map(|(at, line)| format!("{:<6}{line}\n", if at == 0 { NOTE } else { "" })).collect()
}

/// How a note begins.
const NOTE: &str = "note: ";

/// How wide name, budget, use and reason may be: tried in order until the table fits.
const WIDTHS: [[usize; 4]; 5] =
    [[20, 24, 26, 22], [14, 20, 20, 22], [12, 18, 18, 15], [10, 14, 18, 12], [8, 12, 11, 10]];

fn rows(view: &QueueView, look: &Look) -> String {
    let mut table = String::new();
    for widths in WIDTHS {
        table = rows_in(view, look, widths);
        if look.is_wide || table.lines().all(|line| line.chars().count() <= COLUMNS) {
            break;
        }
    }
    table
}

fn rows_in(view: &QueueView, look: &Look, widths: [usize; 4]) -> String {
    let mut headings =
        vec![">#", ">JOB", "NAME", "BUDGET", ">GPUS", ">MIN", "USE BY LEVEL", ">HEADROOM", ">WAIT", "NOW"];
    if look.is_wide {
        headings.insert(3, "USER");
        headings.push("SUBMITTED");
        headings.push("WHY");
    }
    let now = words::now(view.as_of.as_ref());
    let mut table = Table::new(&headings);
    for row in &view.rows {
        let is_free = row.tier == "free";
        let size = |width: usize, text: &str| if look.is_wide { text.into() } else { cut(text, width) };
        let headroom =
            row.use_by_level.last().map_or("-".into(), |leaf| gpu_time::hours(&leaf.headroom_milli_gpu_ms));
        let mut cells = vec![
            if row.place == 0 { "-".into() } else { row.place.to_string() },
            number(row),
            size(widths[0], &row.name),
            size(widths[1], &row.budget),
            row.gpus.to_string(),
            if is_free { "-".into() } else { duration::short(row.min_runtime_ms) },
            if is_free { "free tier".into() } else { size(widths[2], &levels(row)) },
            if is_free { "-".into() } else { headroom },
            duration::wait(now.saturating_sub(row.waiting_since_at)),
            size(widths[3], &what(row, look, now)),
        ];
        if look.is_wide {
            cells.insert(3, row.user.clone());
            cells.push(look.zone.short(row.submitted_at, now));
            cells.push(row.sentence.clone());
        }
        table.row(cells);
    }
    table.render()
}

/// Returns a job's number; of an array with its tasks: `4190[0-9%4]`.
fn number(row: &QueueRow) -> String {
    match &row.tasks {
        Some(tasks) => cut(&format!("{}[{}]", row.job, tasks.indexes), 18),
        None => words::shown(&row.shown_as, row.job),
    }
}

/// Returns why a job is there; of an array where its tasks are.
fn what(row: &QueueRow, look: &Look, now: u64) -> String {
    match (&row.tasks, row.date_at) {
        (Some(tasks), _) => {
            let of = |states: &[&str]| -> u32 {
                let meant = tasks.states.iter().filter(|part| states.contains(&part.state.as_str()));
                meant.map(|part| part.tasks).sum()
            };
            let parts = [
                (of(&["starting", "running", "stopping"]), "run"),
                (of(&["waiting"]), "wait"),
                (of(&["held"]), "held"),
            ];
            let told = parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}"));
            told.collect::<Vec<_>>().join(", ")
        }
        (None, Some(at)) if row.reason == "waiting.protection" => {
            format!("date {}", look.zone.short(at, now))
        }
        (None, _) => words::reason(&row.reason),
    }
}

/// Returns use from the top level down to the leaf, the root left out: `0.68 > 0.54`.
fn levels(row: &QueueRow) -> String {
    let levels: Vec<String> = row.use_by_level.iter().map(|level| gpu_time::usage(level.use_ppm)).collect();
    let mark = if row.over_burst.is_empty() { "" } else { "* " };
    format!("{mark}{}", levels.join(" > "))
}

/// Returns why two neighbours stand as they do, where their leaf numbers alone look wrong.
fn note(rows: &[QueueRow]) -> Option<String> {
    let funded: Vec<&QueueRow> = rows.iter().filter(|row| row.tier != "free").collect();
    funded.windows(2).find_map(|pair| {
        let (one, other) = (&pair[0], &pair[1]);
        let (first, second) = (one.use_by_level.last()?, other.use_by_level.last()?);
        let (low, high) = (first.use_ppm?, second.use_ppm?);
        // A burst limit parts them, whatever their use.
        let is_parted = one.over_burst.is_empty() != other.over_burst.is_empty();
        if low <= high || one.budget == other.budget || is_parted {
            return None;
        }
        let parted = one
            .use_by_level
            .iter()
            .zip(&other.use_by_level)
            .position(|(mine, theirs)| mine.budget != theirs.budget)?;
        let (mine, theirs) = (&one.use_by_level[parted], &other.use_by_level[parted]);
        if parted + 1 == one.use_by_level.len().min(other.use_by_level.len()) {
            return None;
        }
        Some(format!(
            "{} ({}) goes before {} ({}): they part higher up, {} {}, {} {}",
            words::leaf(&one.budget),
            gpu_time::usage(Some(low)),
            words::leaf(&other.budget),
            gpu_time::usage(Some(high)),
            words::leaf(&mine.budget),
            gpu_time::usage(mine.use_ppm),
            words::leaf(&theirs.budget),
            gpu_time::usage(theirs.use_ppm),
        ))
    })
}
