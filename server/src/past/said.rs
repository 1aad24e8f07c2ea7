//! Who asked what.
//!
//! Anyone with a token may read it, as reasons are public. It holds no arguments and no environment: a submission is
//! told by its name, its shape and its budget, and what `apply` refuses it with never quotes what the node reads.

use proto::history::v1::Record;
use proto::v1;
use scheduler_core::id::{JobId, LogIndex};
use scheduler_core::unit::Timestamp;
use tonic::Status;

use super::Walk;
use crate::history::{Direction, Query, Wants};
use crate::shared::{Read, Shared};

/// Which words are asked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of this principal.
    pub actor: Option<String>,
    /// From this moment on.
    pub since_at: Option<u64>,
    /// Before this moment.
    pub until_at: Option<u64>,
    /// This action, or a family of them.
    pub action: Option<String>,
    /// About this job.
    pub job: Option<JobId>,
    /// About this node.
    pub node: Option<String>,
    /// About this budget or one below it.
    pub budget: Option<String>,
    /// Refused ones alone.
    pub is_refused: bool,
    /// At most so many.
    pub most: usize,
}

impl Wanted {
    fn is_meant(&self, said: &v1::AuditView) -> bool {
        let is_action = |action: &str| {
            let rest = said.action.strip_prefix(action);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let is_below = |budget: &str| {
            super::is_below(said.budget.as_deref(), budget)
                || said.changes.iter().any(|change| super::is_below(Some(&change.path), budget))
        };
        self.actor.as_ref().is_none_or(|actor| said.actor == *actor)
            && self.action.as_deref().is_none_or(is_action)
            && self.job.is_none_or(|job| said.job == Some(job.get()))
            && self.node.as_ref().is_none_or(|node| said.node.as_ref() == Some(node))
            && self.budget.as_deref().is_none_or(is_below)
            && (!self.is_refused || said.refused.is_some())
    }

    fn query(&self, through: LogIndex) -> Query {
        let wants = Wants { audit: true, ..Wants::default() };
        let until = self.until_at.map_or(u64::MAX, |until| until.saturating_sub(1));
        Query {
            through,
            from_time: Timestamp::from_millis(self.since_at.unwrap_or(0)),
            through_time: Timestamp::from_millis(until),
            job: self.job,
            direction: Direction::Backward,
            ..Query::all(wants)
        }
    }
}

/// Where a list goes on: at an index, behind so many of what was asked with it.
type Place = (LogIndex, usize);

/// Returns a page of what was asked, newest first.
///
/// # Errors
/// When the history cannot be read.
pub async fn list(
    shared: &Shared,
    read: &Read,
    wanted: &Wanted,
    from: Option<Place>,
) -> Result<v1::AuditList, Status> {
    let (through, mut skip) = from.unwrap_or((read.view.index, 0));
    let mut walk = Walk::new(shared, read.view.index, wanted.query(through));
    let now = read.view.state.meta.time.as_millis();
    let mut rows = Vec::new();
    while let Some(records) = walk.page().await? {
        for record in records {
            let index = LogIndex::new(record.index);
            let skipped = if index == through { std::mem::take(&mut skip) } else { 0 };
            let at = record.time_ms;
            if let Some(skip) = take(&mut rows, record, wanted, skipped) {
                let missing = walk.missing().await?;
                let reach = v1::Reach { complete_from_at: at, kept_from_at: None, missing };
                return Ok(page(rows, Some((index, skip)), reach));
            }
        }
    }
    let next = walk.rest().map(|index| (index, 0));
    let reach = walk.reach(wanted.since_at, now).await?;
    Ok(page(rows, next, reach))
}

fn page(rows: Vec<v1::AuditView>, next: Option<Place>, reach: v1::Reach) -> v1::AuditList {
    v1::AuditList {
        schema: "audit-list/v1".to_owned(),
        as_of: None,
        rows,
        next: next.map(|(index, skip)| format!("{index}.{skip}")),
        reach: Some(reach),
    }
}

/// Reads where to go on, as a client gives it back.
#[must_use]
pub fn place(text: &str) -> Option<Place> {
    let (index, skip) = text.split_once('.')?;
    Some((LogIndex::new(index.parse().ok()?), skip.parse().ok()?))
}

/// Takes what was asked with one entry, the last first; returns how much to skip on the next page if there is no room.
fn take(rows: &mut Vec<v1::AuditView>, record: Record, wanted: &Wanted, skip: usize) -> Option<usize> {
    for (n, said) in record.audit.into_iter().rev().enumerate().skip(skip) {
        if !wanted.is_meant(&said) {
            continue;
        }
        if rows.len() >= wanted.most {
            return Some(n);
        }
        rows.push(said);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(action: &str, n: u32) -> v1::AuditView {
        v1::AuditView {
            n,
            actor: "ana".into(),
            action: action.into(),
            job: Some(7),
            budget: Some("a/b".into()),
            ..v1::AuditView::default()
        }
    }

    #[test]
    fn words_are_picked_by_who_what_and_about_what() {
        let check = |wanted: Wanted| wanted.is_meant(&said("job.cancel", 0));
        let all = Wanted::default;
        assert!(check(all()));
        assert!(check(Wanted { action: Some("job".into()), actor: Some("ana".into()), ..all() }));
        assert!(check(Wanted { action: Some("job.cancel".into()), budget: Some("a".into()), ..all() }));
        assert!(!check(Wanted { action: Some("jo".into()), ..all() }));
        assert!(!check(Wanted { actor: Some("an".into()), ..all() }));
        assert!(!check(Wanted { budget: Some("a/bb".into()), ..all() }));
        assert!(!check(Wanted { node: Some("n".into()), ..all() }));
        assert!(!check(Wanted { job: Some(JobId::new(8)), ..all() }));
        assert!(!check(Wanted { is_refused: true, ..all() }));
    }

    #[test]
    fn page_breaks_between_words_of_one_entry_and_goes_on_there() {
        let record =
            || Record { index: 5, audit: (0..3).map(|n| said("job.hold", n)).collect(), ..Record::default() };
        let wanted = Wanted { most: 2, ..Wanted::default() };
        let mut rows = Vec::new();
        let skip = take(&mut rows, record(), &wanted, 0);
        assert_eq!((rows.iter().map(|row| row.n).collect::<Vec<_>>(), skip), (vec![2, 1], Some(2)));
        rows.clear();
        assert_eq!(take(&mut rows, record(), &wanted, 2), None);
        assert_eq!(rows[0].n, 0);
        assert_eq!(place("5.2"), Some((LogIndex::new(5), 2)));
        assert_eq!(place("5"), None);
    }
}
