//! Classes of equal jobs: placed alike, so one failure in a round speaks for all of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::fit::barred;
use crate::id::{JobId, Name, NodeId};
use crate::job::Job;
use crate::lifecycle::need::{could_hold, most_together};
use crate::node::Node;
use crate::pool;
use crate::spec::Shape;
use crate::state::{Kind, State};

/// What a class of jobs needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class<'a> {
    pub shape: &'a Shape,
    /// The cluster that it names; none also where each is a pool of its own.
    pub cluster: Option<&'a Name>,
    /// Where it is not tried: nodes that it excludes, and where its launch failed before.
    pub barred: BTreeSet<NodeId>,
}

impl<'a> Class<'a> {
    /// Returns the class of a job.
    pub(crate) fn of(state: &State, job: &'a Job) -> Self {
        Self { shape: &job.terms.shape, cluster: confined(state, job), barred: barred(state, job) }
    }

    /// Whether a node is in a cluster where such a job may be.
    pub(crate) fn is_in_cluster(&self, node: &Node) -> bool {
        self.cluster.is_none_or(|cluster| *cluster == node.cluster)
    }

    /// Whether nodes of `pool` could hold such a job.
    pub(crate) fn fits_in(&self, state: &State, pool: &Name) -> bool {
        let able = state
            .nodes
            .iter()
            .filter(|(id, node)| node.pool == *pool && self.is_in_cluster(node) && !self.barred.contains(id));
        let is_plain = self.shape.within.is_none() && self.shape.or_types.is_empty();
        if !is_plain || self.shape.nodes > 1 && !state.pools.is_empty() {
            let able: Vec<&Node> = able.map(|(_, node)| node).collect();
            return most_together(self.shape, &able) >= self.shape.nodes;
        }
        let wanted = usize::try_from(self.shape.nodes).unwrap_or(usize::MAX);
        able.filter(|(_, node)| could_hold(self.shape, node)).take(wanted).count() >= wanted
    }
}

/// One waiting job, as far as order and place need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub id: JobId,
    pub job: &'a Job,
    /// Its class, by number.
    pub class: usize,
    /// Those who declared the same, by number.
    pub alike: u32,
}

/// Those who declared the same: one of them was looked at.
#[derive(Debug, Clone, Copy)]
struct Alike {
    class: usize,
    /// Whether the pool is one where they may stand.
    stands: bool,
}

/// So many classes are looked through faster than they are looked up.
const LOOKED_THROUGH: usize = 16;

/// The classes that were met in one pool.
#[derive(Debug, Default)]
pub(super) struct Classes<'a> {
    pub list: Vec<Class<'a>>,
    fits: Vec<bool>,
    known: BTreeMap<Class<'a>, usize>,
    last: usize,
    alikes: Vec<Alike>,
    kinds: BTreeMap<Kind, u32>,
    last_kind: Option<(Kind, u32)>,
}

impl<'a> Classes<'a> {
    /// Returns the number of those who declared the same as a job in line; none if they do not stand in the pool.
    pub(super) fn alike(&mut self, state: &'a State, pool: &Name, id: JobId, kind: Kind) -> Option<u32> {
        let is_own = kind == Kind::OWN;
        let known = match self.last_kind {
            Some((last, alike)) if last == kind && !is_own => Some(alike),
            _ if is_own => None,
            _ => self.kinds.get(&kind).copied(),
        };
        let alike = match known {
            Some(alike) => alike,
            None => {
                let alike = u32::try_from(self.alikes.len()).ok()?;
                let one = self.look_at(state, pool, state.jobs.get(&id)?);
                self.alikes.push(one);
                if !is_own {
                    self.kinds.insert(kind, alike);
                }
                alike
            }
        };
        self.last_kind = Some((kind, alike));
        self.alikes.get(usize::try_from(alike).ok()?).is_some_and(|alike| alike.stands).then_some(alike)
    }

    /// Returns the class of those who are alike.
    pub(super) fn class_of(&self, alike: u32) -> usize {
        usize::try_from(alike).ok().and_then(|at| self.alikes.get(at)).map_or(0, |alike| alike.class)
    }

    /// A job that names no pool stands in each where some node could hold it.
    fn look_at(&mut self, state: &State, pool: &Name, job: &'a Job) -> Alike {
        let shape = &job.terms.shape;
        if shape.nodes == 0 || shape.gpus_per_node.get() == 0 {
            return Alike { class: 0, stands: false };
        }
        let (class, fits) = self.number(state, pool, job);
        let named = job.terms.cluster.as_ref();
        Alike { class, stands: named.map_or(fits, |named| pool::has(state, pool, named)) }
    }

    /// Returns the number of a job's class, and whether the pool has a node that could hold it.
    fn number(&mut self, state: &State, pool: &Name, job: &'a Job) -> (usize, bool) {
        // Neighbours in line are mostly alike.
        let shape = &job.terms.shape;
        let cluster = confined(state, job);
        let is_alike =
            |class: &Class<'_>| *class.shape == *shape && class.cluster == cluster && class.barred.is_empty();
        if job.failed_on.is_empty() && job.terms.exclude.is_empty() {
            let is_last = self.list.get(self.last).is_some_and(is_alike);
            let few = || self.list.iter().take(LOOKED_THROUGH).position(is_alike);
            if let Some(number) = if is_last { Some(self.last) } else { few() } {
                self.last = number;
                return (number, self.fits[number]);
            }
        }
        let class = Class::of(state, job);
        let number = match self.known.get(&class) {
            Some(number) => *number,
            None => {
                self.fits.push(class.fits_in(state, pool));
                self.list.push(class.clone());
                self.known.insert(class, self.list.len() - 1);
                self.list.len() - 1
            }
        };
        self.last = number;
        (number, self.fits[number])
    }
}

/// Returns the cluster that a job names, where a pool may have others.
fn confined<'a>(state: &State, job: &'a Job) -> Option<&'a Name> {
    job.terms.cluster.as_ref().filter(|_| !state.pools.is_empty())
}
