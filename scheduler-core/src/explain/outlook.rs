//! What stands between a class of jobs and its GPUs, node by node.

use alloc::vec::Vec;

use crate::id::{Name, NodeId};
use crate::lifecycle::need::{could_hold, is_of_type, taken};
use crate::node::Node;
use crate::plan::{Class, Idle, Links, Room, Shut, shut};
use crate::queue::{Standing, standing};
use crate::state::State;
use crate::unit::Timestamp;

/// The GPUs of one pool as one class of jobs sees them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outlook {
    /// GPUs of its type by what they do, on nodes that take work; `barred` ones apart.
    pub idle: u32,
    pub protected: u32,
    pub interruptible: u32,
    pub free_tier: u32,
    pub changing: u32,
    /// When the next protected one is so no more.
    pub next_end: Option<Timestamp>,
    /// The most idle GPUs on one node that could hold it.
    pub most_idle: u32,
    /// It would start now, if it were alone in line.
    pub fits_now: bool,
    /// A node has enough GPUs for it without waiting for a protection to end.
    pub is_occupied: bool,
    /// The earliest moment at which a node has enough GPUs that are not protected.
    pub unprotected_at: Option<Timestamp>,
    /// Nodes that could hold it and take no work: which, why, and how many of their GPUs of its type are idle.
    pub shut: Vec<(NodeId, Shut, u32)>,
    /// A node that could hold it takes work.
    pub has_open: bool,
    /// GPUs on nodes where its launch failed before.
    pub barred: u32,
    /// GPUs of other types, and on nodes too small for it.
    pub unfit: u32,
}

impl Outlook {
    /// Looks at every node of `pool`.
    pub(crate) fn of(state: &State, pool: &Name, links: &Links, class: &Class<'_>, now: Timestamp) -> Self {
        let mut outlook = Self::default();
        for (id, node) in state.nodes.iter().filter(|(_, node)| node.pool == *pool) {
            if !could_hold(class.shape, node) {
                outlook.unfit += count(node.gpus.len());
            } else if class.barred.contains(id) {
                outlook.barred += count(node.gpus.len());
            } else if let Some(why) = shut(*id, node, links, now) {
                let idle = matching(state, node, class, now).filter(|s| is_spare(*s)).count();
                outlook.shut.push((*id, why, count(idle)));
            } else {
                let has_cores = Room::of(node, taken(state, *id)).holds(class.shape, node);
                outlook.node(state, node, class, has_cores, now);
            }
        }
        let idle = Idle::of(state, pool, links, now);
        outlook.fits_now = idle.find(class.shape, &class.barred).is_some();
        outlook
    }

    /// Whether no node of the pool could ever hold it.
    pub(crate) fn is_empty(&self) -> bool {
        self.shut.is_empty() && self.barred == 0 && !self.has_open
    }

    fn node(&mut self, state: &State, node: &Node, class: &Class<'_>, has_cores: bool, now: Timestamp) {
        self.has_open = true;
        let wanted = usize::try_from(class.shape.gpus_per_node.get()).unwrap_or(usize::MAX);
        let (mut idle, mut open, mut ends) = (0_usize, 0_usize, Vec::new());
        for gpu in matching(state, node, class, now) {
            match gpu {
                Standing::Idle => {
                    self.idle += 1;
                    idle += 1;
                }
                Standing::Interruptible => {
                    self.interruptible += 1;
                    open += 1;
                }
                Standing::Free => {
                    self.free_tier += 1;
                    open += 1;
                }
                Standing::Clearing | Standing::Starting { until: None } => {
                    self.changing += 1;
                    open += 1;
                }
                Standing::Starting { until: Some(until) } => {
                    self.changing += 1;
                    ends.push(until);
                }
                Standing::Protected { until } => {
                    self.protected += 1;
                    self.next_end = Some(self.next_end.map_or(until, |next| next.min(until)));
                    ends.push(until);
                }
                Standing::Unavailable => {}
            }
        }
        self.most_idle = self.most_idle.max(count(idle));
        ends.sort_unstable();
        match wanted.saturating_sub(idle + open) {
            // All its GPUs are idle here: it fits, or other jobs have the cores or the memory.
            0 => self.is_occupied |= wanted > idle || !has_cores,
            lacking => {
                let at = ends.get(lacking - 1).copied();
                self.unprotected_at = [self.unprotected_at, at].into_iter().flatten().min();
            }
        }
    }
}

fn matching<'a>(
    state: &'a State,
    node: &'a Node,
    class: &'a Class<'_>,
    now: Timestamp,
) -> impl Iterator<Item = Standing> + 'a {
    let gpus = node.gpus.iter().filter(|gpu| is_of_type(class.shape, gpu));
    gpus.map(move |gpu| standing(state, node, gpu, now))
}

/// Whether a GPU of a node that takes no work is with nobody.
fn is_spare(standing: Standing) -> bool {
    matches!(standing, Standing::Idle | Standing::Unavailable)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
