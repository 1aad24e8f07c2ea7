//! Who asked what, newest first.

use proto::v1::{AuditList, AuditView};

use super::{reach, words};
use crate::form::table::Table;
use crate::form::text::cut;
use crate::shell::Look;

/// Columns of a line.
const LINE: usize = 100;
/// The most columns of who, what and on what.
const WHO: usize = 12;
const WHAT: usize = 16;
const ON: usize = 16;

/// Renders them; `since` is the moment that was asked for.
pub fn audit(list: &AuditList, since: Option<u64>, look: &Look) -> String {
    let now = words::now(list.as_of.as_ref());
    let mut out = if list.rows.is_empty() {
        "nobody asked for anything like that\n".into()
    } else {
        table(list, now, look)
    };
    if list.next.is_some() {
        out.push_str("there may be more that are older: --limit N shows more of them\n");
    }
    out.push_str(&reach::page(list.reach.as_ref(), list.next.is_some(), since, look));
    out
}

fn table(list: &AuditList, now: u64, look: &Look) -> String {
    let mut headings = vec!["WHEN", "WHO", "WHAT", "ON", "OUTCOME", "SAID"];
    if look.is_wide {
        headings.extend(["ASKED", "AS", "VIA", ">INDEX", "CODE"]);
    }
    let mut table = Table::new(&headings);
    let size = |width: usize, text: &str| if look.is_wide { text.into() } else { cut(text, width) };
    let room = room(list, now, look);
    for row in &list.rows {
        let mut cells = vec![
            if look.is_wide { look.zone.full(row.at) } else { look.zone.short(row.at, now) },
            size(WHO, &row.actor),
            size(WHAT, &row.action),
            size(ON, &row.subject),
            outcome(row).into(),
            size(room, said(row, look)),
        ];
        if look.is_wide {
            cells.push(row.sentence.clone());
            cells.push(row.actor_kind.clone());
            cells.push(row.via.map_or_else(|| "-".into(), |replica| format!("replica {replica}")));
            cells.push(format!("{}.{}", row.index, row.n));
            cells.push(row.refused.as_ref().map_or_else(String::new, |refusal| format!("B{}", refusal.code)));
        }
        table.row(cells);
    }
    table.render()
}

/// Returns the columns that are left for what was said.
fn room(list: &AuditList, now: u64, look: &Look) -> usize {
    let width = |of: &dyn Fn(&AuditView) -> usize| list.rows.iter().map(of).max().unwrap_or(0);
    let when = width(&|row| look.zone.short(row.at, now).chars().count()).max("WHEN".len());
    let who = width(&|row| row.actor.chars().count()).clamp("WHO".len(), WHO);
    let what = width(&|row| row.action.chars().count()).clamp("WHAT".len(), WHAT);
    let on = width(&|row| row.subject.chars().count()).clamp("ON".len(), ON);
    LINE.saturating_sub(when + who + what + on + "OUTCOME".len() + 5 * 2)
}

fn outcome(row: &AuditView) -> &'static str {
    if row.refused.is_some() { "refused" } else { "done" }
}

/// Returns why it was refused; else the reason that was given; else, where that has no column of its own, what was asked.
fn said<'a>(row: &'a AuditView, look: &Look) -> &'a str {
    match &row.refused {
        Some(refusal) => &refusal.what,
        None if row.reason.is_empty() && !look.is_wide => &row.sentence,
        None => &row.reason,
    }
}
