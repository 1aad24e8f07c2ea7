//! GPUs in Slurm's lists of resources.
//!
//! `gres/gpu` is the total of a job over all its nodes, `gres/gpu:TYPE` a part of that same total: never both are added.
//! Releases before trackable resources have `gpu:2` or `gpu:a100:2`, for each node.

use super::table::count;
use super::value::{Bad, bad_value};

/// The GPUs of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gpus {
    /// How many.
    pub count: u32,
    /// Of which type, where they are all of one.
    pub gpu_type: Option<String>,
}

/// Reads `AllocTRES` or `ReqTRES`; nothing if the list has no GPU in it.
pub(super) fn tres(list: &str) -> Result<Option<Gpus>, Bad> {
    let mut total = None;
    let mut typed = Typed::default();
    for (name, value) in list.split(',').filter_map(|entry| entry.split_once('=')) {
        let Some(kind) = name.trim().strip_prefix("gres/gpu") else { continue };
        let read = count(value.trim())
            .ok_or_else(|| bad_value("has a list of resources that nobody can read", list));
        match kind.strip_prefix(':') {
            Some(gpu_type) => typed.add(gpu_type, read?),
            None if kind.is_empty() => total = Some(read?),
            // `gres/gpumem` and `gres/gpuutil` begin alike and are no GPUs.
            None => {}
        }
    }
    Ok(typed.with(total))
}

/// Reads the number of something else in the list, as `cpu` or `node`.
pub(super) fn amount(list: &str, of: &str) -> Option<u32> {
    let mut entries = list.split(',').filter_map(|entry| entry.split_once('='));
    entries.find(|(name, _)| name.trim() == of).and_then(|(_, value)| count(value.trim()))
}

/// Reads `AllocGRES` or `ReqGRES`: GPUs of each node.
pub(super) fn gres(list: &str) -> Result<Option<Gpus>, Bad> {
    let mut untyped = None;
    let mut typed = Typed::default();
    for entry in list.split(',') {
        let entry = entry.trim().trim_start_matches("gres:").trim_start_matches("gres/");
        let entry = entry.split('(').next().unwrap_or(entry);
        let mut parts = entry.split([':', '=']);
        if parts.next() != Some("gpu") {
            continue;
        }
        let rest: Vec<&str> = parts.collect();
        let read = |text: &str| {
            count(text).ok_or_else(|| bad_value("has a list of resources that nobody can read", list))
        };
        match rest.as_slice() {
            [] => untyped = Some(1),
            [number] => untyped = Some(read(number)?),
            [gpu_type, number, ..] => typed.add(gpu_type, read(number)?),
        }
    }
    Ok(typed.with(untyped))
}

#[derive(Default)]
struct Typed {
    sum: Option<u32>,
    types: Vec<String>,
}

impl Typed {
    fn add(&mut self, gpu_type: &str, count: u32) {
        self.sum = Some(self.sum.unwrap_or(0).saturating_add(count));
        if count > 0 && !self.types.iter().any(|known| known == gpu_type) {
            self.types.push(gpu_type.to_owned());
        }
    }

    fn with(self, total: Option<u32>) -> Option<Gpus> {
        let count = total.or(self.sum).filter(|count| *count > 0)?;
        let gpu_type = if let [only] = self.types.as_slice() { Some(only.clone()) } else { None };
        Some(Gpus { count, gpu_type })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(read: fn(&str) -> Result<Option<Gpus>, Bad>, list: &str, expected: Option<(u32, Option<&str>)>) {
        let expected =
            expected.map(|(count, gpu_type)| Gpus { count, gpu_type: gpu_type.map(str::to_owned) });
        assert_eq!(read(list), Ok(expected), "{list}");
    }

    #[test]
    fn a_typed_entry_is_part_of_the_total_and_is_not_added_to_it() {
        check(tres, "billing=14,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=256G,node=1", Some((4, Some("a100"))));
        check(tres, "gres/gpu=4,gres/gpu:a100=4", Some((4, Some("a100"))));
        check(tres, "gres/gpu:a100=4,gres/gpu:v100=2", Some((6, None)));
        check(tres, "gres/gpu:h100=8", Some((8, Some("h100"))));
    }

    #[test]
    fn what_only_begins_like_gpus_is_none() {
        check(tres, "cpu=8,gres/gpumem=80G,gres/gpuutil=93,gres/shard=4,gres/mps=100,mem=7.50G", None);
        check(tres, "", None);
        check(tres, "gres/gpu=0", None);
        assert!(tres("gres/gpu=many").is_err());
    }

    #[test]
    fn old_releases_say_gpus_of_a_node() {
        check(gres, "gpu:2", Some((2, None)));
        check(gres, "gpu:tesla:4(S:0-1),craynetwork:1", Some((4, Some("tesla"))));
        check(gres, "gres:gpu:1", Some((1, None)));
        check(gres, "(null)", None);
        assert!(gres("gpu:x:y").is_err());
    }
}
