//! What nodes went through between two states.

use proto::v1::EventView;
use scheduler_core::id::NodeId;
use scheduler_core::node::{Contact, Drain, Node};

use super::{NOBODY, Scene, event};
use crate::views::words;

impl Scene<'_> {
    /// Tells what became of every node that the entry touched.
    pub(super) fn nodes(&self, out: &mut Vec<EventView>) {
        for (id, now) in self.after.nodes.touched_since(&self.before.nodes) {
            let Some(old) = self.before.nodes.get(id) else { continue };
            let mut tell = |kind: &str, who: &str, said: String| {
                out.push(self.of_node(*id, event(kind, who, said)));
            };
            self.contact(old, now, &mut tell);
            self.cordon(old, now, &mut tell);
            self.drain(*id, old, now, &mut tell);
        }
    }

    fn contact(&self, old: &Node, now: &Node, tell: &mut impl FnMut(&str, &str, String)) {
        let boot = |node: &Node| node.facts.as_ref().map(|facts| facts.boot.clone());
        match (boot(old), boot(now)) {
            (None, Some(_)) => tell("node.ready", &self.actor, "reported for the first time".to_owned()),
            (Some(old), Some(new)) if old != new => {
                tell("node.restarted", &self.actor, "came back from a restart".to_owned());
            }
            (None | Some(_), _) => {}
        }
        let is_away = |node: &Node| matches!(node.contact, Contact::Unreachable { .. });
        match (is_away(old), is_away(now)) {
            (false, true) => {
                let said = "not heard of for long; its work stays its own".to_owned();
                tell("node.unreachable", &self.actor, said);
            }
            (true, false) => tell("node.back", &self.actor, "reports again".to_owned()),
            (false, false) | (true, true) => {}
        }
    }

    fn cordon(&self, old: &Node, now: &Node, tell: &mut impl FnMut(&str, &str, String)) {
        match (&old.cordon, &now.cordon) {
            (old, Some(cordon)) if old.as_ref() != Some(cordon) => {
                let who = cordon.who.as_ref().map_or_else(|| NOBODY.to_owned(), ToString::to_string);
                let said = format!("takes no new work{}", words::because(&cordon.reason));
                tell("node.cordoned", &who, said);
            }
            (Some(_), None) => tell("node.uncordoned", &self.actor, "takes work again".to_owned()),
            (None | Some(_), _) => {}
        }
    }

    fn drain(&self, id: NodeId, old: &Node, now: &Node, tell: &mut impl FnMut(&str, &str, String)) {
        let is_same = |a: &Drain, b: &Drain| a.ordered_at == b.ordered_at && a.is_active == b.is_active;
        match (&old.drain, &now.drain) {
            (old, Some(drain)) if !old.as_ref().is_some_and(|old| is_same(old, drain)) => {
                let why = words::because(&drain.reason);
                let said = match drain.is_active {
                    true => format!("gets empty{why}"),
                    false => format!("will get empty from its maintenance window on{why}"),
                };
                tell("node.draining", &drain.who.to_string(), said);
            }
            (Some(_), None) => {
                tell(
                    "node.undrained",
                    &self.actor,
                    "takes work again; what was told to leave leaves".to_owned(),
                );
            }
            (None | Some(_), _) => {}
        }
        let is_empty = |node: &Node| node.gpus.iter().all(|gpu| gpu.holder.is_none() && gpu.next.is_none());
        let was_done = old.is_draining() && is_empty(old);
        if now.is_draining() && is_empty(now) && !was_done {
            tell("node.empty", NOBODY, format!("{} is empty", words::node_name(self.after, id)));
        }
    }
}
