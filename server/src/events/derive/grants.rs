//! What became of grants: they begin and end by time, by a person's word, or with a budget.

use proto::v1::EventView;
use scheduler_core::budget::{Grant, Standing, label};
use scheduler_core::id::GrantId;

use super::{NOBODY, Scene, event};

impl Scene<'_> {
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
