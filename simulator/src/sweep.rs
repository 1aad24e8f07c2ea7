//! Several runs: every combination of settings, policies and seeds, on as many threads as there are cores.

use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::engine::{self, Progress};
use crate::measure::{Measures, measure};
use crate::policy::{self, Policy};
use crate::record::Record;
use crate::scenario::{self, Prepared, Scenario, prepare};

/// Settings that differ from a scenario, as `(key, value)`.
pub type Variant = Vec<(String, String)>;

/// One run to make.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    /// What of.
    pub scenario: &'a Scenario,
    /// Where its trace is looked for.
    pub folder: &'a Path,
    /// What chance is drawn from.
    pub seed: u64,
    /// Who decides, by name.
    pub policy: String,
    /// What differs from the scenario.
    pub variant: Variant,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// All that happened.
    pub record: Record,
    /// Its figures.
    pub measures: Measures,
    /// What a reader should know of its jobs.
    pub prepared: Source,
}

/// Where a run's jobs came from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Source {
    /// Rows of the trace that were left out.
    pub skipped: u64,
    /// Jobs that no set of machines holds.
    pub too_big: usize,
    /// Offered load.
    pub offered: f64,
    /// Notes of the import.
    pub notes: Vec<String>,
}

/// Why a run was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its scenario.
    #[error(transparent)]
    Scenario(#[from] scenario::Error),
    /// Its beginning.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// Nobody of this name decides.
    #[error("there is no policy `{0}`: there are {1}")]
    Policy(String, String),
    /// A sweep that makes more runs than anybody reads.
    #[error("these are {0} runs, and {MOST} is the most: leave some values out")]
    TooMany(usize),
}

/// The most runs of one sweep.
pub const MOST: usize = 512;

/// Returns every combination of the values of each key: `cap=8h,4h` and `dates=yes,no` are four.
///
/// # Errors
/// When there are too many.
pub fn combinations(sets: &[(String, Vec<String>)]) -> Result<Vec<Variant>, Error> {
    let count = sets.iter().try_fold(1_usize, |all, (_, values)| all.checked_mul(values.len()));
    let count = count.unwrap_or(usize::MAX);
    if count > MOST {
        return Err(Error::TooMany(count));
    }
    let mut all: Vec<Variant> = vec![Vec::new()];
    for (key, values) in sets {
        let with = |variant: &Variant| {
            let one = |value: &String| {
                let mut variant = variant.clone();
                variant.push((key.clone(), value.clone()));
                variant
            };
            values.iter().map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

/// Makes one run.
///
/// # Errors
/// When the scenario cannot be run.
pub fn one(case: &Case<'_>, tell: &mut dyn FnMut(Progress)) -> Result<Ran, Error> {
    let prepared = prepare(case.scenario, case.folder, case.seed, &case.variant)?;
    let mut policy = named(&case.policy)?;
    let source = source(&prepared);
    let record = engine::run(&prepared.setup, policy.as_mut(), tell)?;
    // The record has what is measured: nobody needs the jobs any more.
    drop(prepared);
    Ok(Ran { measures: measure(&record), record, prepared: source })
}

fn source(prepared: &Prepared) -> Source {
    Source {
        skipped: prepared.import.reasons.iter().map(|(_, count)| count).sum(),
        too_big: prepared.too_big,
        offered: prepared.offered,
        notes: prepared.import.notes.clone(),
    }
}

fn named(name: &str) -> Result<Box<dyn Policy>, Error> {
    let none = || Error::Policy(name.to_owned(), policy::NAMES.join(", "));
    policy::named(name).ok_or_else(none)
}

/// Makes all runs, on `threads` threads or as many as there are cores; `tell` hears which run is how far. Results come in
/// the order of the cases, whatever the threads do. `keep` says what is kept of each run, since all records of a large
/// sweep are more than a machine's memory.
///
/// # Errors
/// The first run that cannot be made, in the order of the cases.
pub fn all<T: Send>(
    cases: &[Case<'_>],
    threads: Option<NonZero<usize>>,
    tell: &(dyn Fn(usize, Progress) + Sync),
    keep: &(dyn Fn(usize, Ran) -> T + Sync),
) -> Result<Vec<T>, Error> {
    let threads = threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<T, Error>>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..threads.min(cases.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(case), Some(result)) = (cases.get(at), results.get(at)) else { return };
                    let ran = one(case, &mut |progress| tell(at, progress)).map(|ran| keep(at, ran));
                    if let Ok(mut result) = result.lock() {
                        *result = Some(ran);
                    }
                }
            });
        }
    });
    let taken = results.into_iter().filter_map(|result| result.into_inner().ok().flatten());
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_combined_each_with_each() {
        let set = |key: &str, values: &[&str]| {
            (key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
        };
        let all = combinations(&[set("cap", &["8h", "4h"]), set("dates", &["yes", "no"])]).unwrap();
        let shown: Vec<String> =
            all.iter().map(|v| v.iter().map(|(k, v)| format!("{k}={v} ")).collect()).collect();
        assert_eq!(shown, ["cap=8h dates=yes ", "cap=8h dates=no ", "cap=4h dates=yes ", "cap=4h dates=no "]);
        assert_eq!(combinations(&[]).unwrap(), [Variant::new()]);
        let many: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        let refused = combinations(&[("a".into(), many.clone()), ("b".into(), many)]);
        assert!(matches!(refused, Err(Error::TooMany(900))));
    }
}
