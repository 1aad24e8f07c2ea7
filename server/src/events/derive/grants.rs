//! What became of grants and of edits with a start time: time alone changes them too.

use proto::v1::EventView;
use scheduler_core::budget::{Became, Grant, Standing, label};
use scheduler_core::id::GrantId;

use super::{NOBODY, Scene, event};

impl Scene<'_> {
    /// Edits of the tree whose time came.
    pub(super) fn edits(&self, out: &mut Vec<EventView>) {
        for (id, edit) in self.after.edits.iter() {
            let was_open = self.before.edits.get(id).is_some_and(|was| was.became.is_none());
            match edit.became.as_ref().filter(|_| was_open) {
                None => {}
                Some(Became::Applied { revision, .. }) => {
                    let said =
                        format!("edit {id} of {} took effect: the tree is revision {revision}", edit.by);
                    out.push(event("budget.changed", NOBODY, said));
                }
                Some(Became::Dropped { why }) => {
                    let said = format!("edit {id} of {} was dropped: {why}", edit.by);
                    out.push(event("budget.edit-dropped", NOBODY, said));
                }
            }
        }
    }

    /// Grants that were made, began, ended or were taken back.
    pub(super) fn grants(&self, out: &mut Vec<EventView>) {
        for (id, grant) in self.after.grants.iter() {
            let was = self.before.grants.get(id).map(|was| was.standing(self.before.meta.time));
            let is = grant.standing(self.after.meta.time);
            if was.is_none() {
                out.push(self.grant(grant, "budget.granted", &self.actor, &made(*id, grant)));
            }
            if is >= Standing::On && was.is_some_and(|was| was < Standing::On) {
                let said = format!("grant {id} of {} began: {}", grant.share, grant.reason);
                out.push(self.grant(grant, "budget.grant-began", NOBODY, &said));
            }
            if is == Standing::Over && was.is_some_and(|was| was < Standing::Over) {
                let (who, why) = match &grant.ended {
                    Some(ended) => (&*self.actor, format!(": {}", ended.reason)),
                    None => (NOBODY, String::new()),
                };
                let said = format!("grant {id} of {} ended{why}", grant.share);
                out.push(self.grant(grant, "budget.grant-ended", who, &said));
            }
        }
        for (id, grant) in self.before.grants.iter().filter(|(id, _)| !self.after.grants.contains(id)) {
            if grant.standing(self.before.meta.time) == Standing::ToCome {
                let said = format!("grant {id} of {} was taken back", grant.share);
                out.push(self.grant(grant, "budget.grant-ended", &self.actor, &said));
            }
        }
    }

    fn grant(&self, grant: &Grant, kind: &str, who: &str, said: &str) -> EventView {
        EventView { budget: Some(label(self.after, grant.to)), ..event(kind, who, said) }
    }
}

fn made(id: GrantId, grant: &Grant) -> String {
    format!("grant {id}: {} more for a time: {}", grant.share, grant.reason)
}
