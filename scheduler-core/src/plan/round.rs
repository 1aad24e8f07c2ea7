//! One round: each pool, funded first, then the free tier.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::{Ask, Idle, Line, Links};
use crate::decision::{Plan, Start};
use crate::id::{JobId, Name, NodeId, Term};
use crate::lifecycle::need::rate;
use crate::lifecycle::place::protection;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{MilliGpus, Span, Timestamp};

/// Decides which waiting jobs start on idle GPUs, in order; at most [`Plan::DECISIONS_MAX`] of them.
///
/// `now` is the leader's estimate of cluster time, `term` its term. In safe mode nothing is planned.
#[must_use]
pub fn plan(state: &State, links: &Links, now: Timestamp, term: Term) -> Plan {
    let mut round = Round { state, now, started: BTreeSet::new(), decisions: Vec::new() };
    if state.meta.safe_mode.is_none() {
        round.run(links);
    }
    Plan { term, index: state.meta.index, decisions: round.decisions }
}

/// Returns the pools that have nodes, in order.
pub(crate) fn pools(state: &State) -> BTreeSet<&Name> {
    state.nodes.values().map(|node| &node.pool).collect()
}

struct Round<'a> {
    state: &'a State,
    now: Timestamp,
    started: BTreeSet<JobId>,
    decisions: Vec<Start>,
}

impl<'a> Round<'a> {
    fn run(&mut self, links: &Links) {
        let idle_of = |pool| Idle::of(self.state, pool, links, self.now);
        let with_room = pools(self.state).into_iter().map(|pool| (pool, idle_of(pool)));
        let with_room: Vec<(&Name, Idle<'_>)> = with_room.filter(|(_, idle)| idle.total() > 0).collect();
        if with_room.is_empty() {
            return;
        }
        for (pool, mut idle) in with_room {
            for tier in [Tier::Funded, Tier::Free] {
                self.tier(pool, tier, &mut idle);
            }
        }
    }

    fn tier(&mut self, pool: &'a Name, tier: Tier, idle: &mut Idle<'a>) {
        let mut line = Line::new(self.state, pool, tier, self.now);
        // Idle GPUs only become fewer in a round: what failed once fails for all its equals.
        let mut has_failed: BTreeSet<usize> = BTreeSet::new();
        while let Some(ask) = line.head() {
            if idle.total() == 0 || self.decisions.len() >= Plan::DECISIONS_MAX {
                return;
            }
            if has_failed.contains(&ask.class) || self.started.contains(&ask.id) {
                line.pass();
                continue;
            }
            let class = line.class(&ask);
            let Some((node, slots)) = idle.find(class.shape, &class.barred) else {
                has_failed.insert(ask.class);
                line.pass();
                continue;
            };
            idle.take(class.shape, node, &slots);
            let why = line.why();
            let (rate, protection) = self.price(&ask, node);
            line.place(rate, protection);
            self.started.insert(ask.id);
            let on = vec![(node, slots)];
            self.decisions.push(Start {
                job: ask.id,
                attempt: ask.job.next_attempt,
                on,
                takes: Vec::new(),
                why,
            });
        }
    }

    /// Returns what starting `ask` on `node` sets aside: its rate, and the length of its protection.
    fn price(&self, ask: &Ask<'_>, node: NodeId) -> (MilliGpus, Span) {
        let shape = &ask.job.terms.shape;
        let rate = self.state.nodes.get(&node).map_or(MilliGpus::default(), |node| rate(shape, node));
        (rate, protection(self.state, ask.id, ask.job))
    }
}
