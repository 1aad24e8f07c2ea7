//! How far back an answer from the history goes, and what is missing in it.

use proto::v1::{Missing, Reach};

use crate::form::text::{plain, wrap};
use crate::shell::Look;

/// Columns of the notes.
const WIDTH: usize = 100;

/// Renders what an answer leaves out of what was asked for, `since` then or ever; nothing if it is whole.
pub fn reach(reach: Option<&Reach>, since: Option<u64>, look: &Look) -> String {
    let Some(reach) = reach else { return String::new() };
    let mut notes = Vec::new();
    let is_short = since.is_none_or(|since| reach.complete_from_at > since);
    if let Some(kept) = reach.kept_from_at.filter(|kept| is_short && *kept >= reach.complete_from_at) {
        notes.push(format!("complete from {} on: what is older is not kept any more", look.zone.day(kept)));
    } else if is_short && since.is_some() {
        let from = look.zone.day(reach.complete_from_at);
        notes.push(format!("complete from {from} on; what is older was not looked through"));
    }
    notes.extend(reach.missing.iter().map(|hole| missing(hole, look)));
    let lines = notes.iter().flat_map(|note| wrap(note, WIDTH));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The same of a page: where others follow, only what is missing in it is worth a word.
pub fn page(reach: Option<&Reach>, has_more: bool, since: Option<u64>, look: &Look) -> String {
    match reach {
        Some(all) if has_more => {
            let page = Reach { kept_from_at: None, ..all.clone() };
            self::reach(Some(&page), None, look)
        }
        all => self::reach(all, since, look),
    }
}

fn missing(hole: &Missing, look: &Look) -> String {
    let when = match (hole.from_at, hole.to_at) {
        (Some(from), Some(to)) => format!("from {} to {}", look.zone.day(from), look.zone.day(to)),
        (Some(from), None) => format!("from {} on", look.zone.day(from)),
        (None, Some(to)) => format!("up to {}", look.zone.day(to)),
        (None, None) => "of a time that is not known".into(),
    };
    let why = if hole.why.is_empty() { String::new() } else { format!(": {}", plain(&hole.why)) };
    format!("missing: what happened {when} (entries {} to {}){why}", hole.first_index, hole.last_index)
}
