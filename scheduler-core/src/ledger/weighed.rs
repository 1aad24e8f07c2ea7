//! GPUs that count more or less than one: what capacity is by their weights.
//!
//! Occupancy is physical and knows no weight. For capacity each weight but one has two curves beside it, so a pool in
//! which every GPU counts one has none, and its figures are those of the physical curves.

use super::{Class, Curve, Merged, PoolBooks};
use crate::unit::{GpuCount, Span, Timestamp, Weight};

/// Some GPUs of one weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weighed {
    /// How many.
    pub count: GpuCount,
    /// What each of them counts.
    pub weight: Weight,
}

impl From<GpuCount> for Weighed {
    /// So many that count one.
    fn from(count: GpuCount) -> Self {
        Self { count, weight: Weight::ONE }
    }
}

/// The GPUs of one weight over time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct WeighedCurves {
    /// All of them.
    pub installed: Curve,
    /// Those that are unavailable.
    pub unavailable: Curve,
}

/// A change of some GPUs in the books of their weight.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// They come, in a class.
    Come(Class),
    /// They leave, out of a class.
    Leave(Class),
    /// They go from one class to another.
    Change(Class, Class),
}

impl PoolBooks {
    /// Books a change of GPUs that do not count one. What happened before weights changed last counts from there.
    pub(super) fn weigh(&mut self, gpus: Weighed, step: Step, at: Timestamp, merged: Merged) {
        if gpus.weight == Weight::ONE || gpus.count.get() == 0 {
            return;
        }
        let (at, count) = (at.max(self.reweighed_at), u64::from(gpus.count.get()));
        if !self.weighed.contains(&gpus.weight) {
            self.weighed.insert(gpus.weight, WeighedCurves::default());
        }
        let curves = self.weighed.get_mut(&gpus.weight).expect("it was there or was just put there");
        match step {
            Step::Come(class) => {
                curves.installed.rise(at, count, merged);
                if class == Class::Unavailable {
                    curves.unavailable.rise(at, count, merged);
                }
            }
            Step::Leave(class) => {
                curves.installed.fall(at, count, merged);
                if class == Class::Unavailable {
                    curves.unavailable.fall(at, count, merged);
                }
            }
            Step::Change(Class::Unavailable, _) => curves.unavailable.fall(at, count, merged),
            Step::Change(_, Class::Unavailable) => curves.unavailable.rise(at, count, merged),
            Step::Change(_, _) => {}
        }
    }

    /// Returns what was in service between two moments by weight, in milli-GPU-milliseconds.
    pub(super) fn worth_in_service(&self, from: Timestamp, to: Timestamp) -> u128 {
        let mut plain = self.in_service_between(from, to);
        let mut worth = 0;
        for (weight, curves) in self.weighed.iter() {
            let all = curves.installed.between(from, to);
            let in_service = all.saturating_sub(curves.unavailable.between(from, to));
            plain = plain.saturating_sub(in_service);
            worth += u128::from(weight.milli()) * in_service;
        }
        worth + u128::from(Weight::ONE.milli()) * plain
    }

    /// Returns what is in service now by weight, in milli-GPUs.
    pub(super) fn worth_now(&self) -> u128 {
        let mut plain = u128::from(self.in_service().get());
        let mut worth = 0;
        for (weight, curves) in self.weighed.iter() {
            let in_service = u128::from(curves.installed.rate().saturating_sub(curves.unavailable.rate()));
            plain = plain.saturating_sub(in_service);
            worth += u128::from(weight.milli()) * in_service;
        }
        worth + u128::from(Weight::ONE.milli()) * plain
    }

    pub(super) fn merge_weighed(
        &mut self,
        (from, to): (Timestamp, Timestamp),
        step: Span,
        oldest: Timestamp,
    ) {
        let weights: alloc::vec::Vec<Weight> = self.weighed.keys().copied().collect();
        for weight in weights {
            let Some(curves) = self.weighed.get_mut(&weight) else { continue };
            curves.installed.thin(from, to, step, oldest);
            curves.unavailable.thin(from, to, step, oldest);
        }
    }
}
