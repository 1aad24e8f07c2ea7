//! Which of many nodes a gang takes: those that span the fewest groups of their topology, from the outermost level on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::id::Name;

/// Returns `wanted` of the nodes at `places`, by their position there, which is the order of preference; down to level
/// `within` all of them in one group, none if that cannot be.
pub(super) fn closest(places: &[&[Name]], wanted: usize, within: usize) -> Option<Vec<usize>> {
    let all: Vec<usize> = (0..places.len()).collect();
    choose(places, all, wanted, Level { at: 0, within })
}

#[derive(Clone, Copy)]
struct Level {
    /// Levels above, in which all of them are in one group.
    at: usize,
    /// Levels in which they must be.
    within: usize,
}

fn choose(places: &[&[Name]], able: Vec<usize>, wanted: usize, level: Level) -> Option<Vec<usize>> {
    let is_must = level.at < level.within;
    if able.len() < wanted {
        return None;
    }
    if !is_must && able.iter().all(|node| places[*node].len() <= level.at) {
        return Some(able.into_iter().take(wanted).collect());
    }
    let mut groups: BTreeMap<Option<&Name>, Vec<usize>> = BTreeMap::new();
    for node in able {
        groups.entry(places[node].get(level.at)).or_default().push(node);
    }
    if is_must {
        // Who has no such level is in no group of it.
        groups.remove(&None);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    // The smallest that holds all, so that larger ones stay useful for larger gangs.
    groups.sort_by_key(Vec::len);
    let below = Level { at: level.at + 1, ..level };
    let holding = groups.iter().filter(|group| group.len() >= wanted);
    for group in holding {
        if let Some(chosen) = choose(places, group.clone(), wanted, below) {
            return Some(chosen);
        }
    }
    if is_must { None } else { several(places, groups, wanted, below) }
}

/// The largest groups whole, and the rest from the smallest that has it.
fn several(
    places: &[&[Name]],
    mut groups: Vec<Vec<usize>>,
    wanted: usize,
    below: Level,
) -> Option<Vec<usize>> {
    let mut chosen = Vec::with_capacity(wanted);
    while chosen.len() < wanted {
        let left = wanted - chosen.len();
        let enough = groups.iter().position(|group| group.len() >= left);
        let largest = groups.iter().map(Vec::len).max()?;
        let group = groups.remove(enough.or_else(|| groups.iter().position(|group| group.len() == largest))?);
        let part = group.len().min(left);
        chosen.extend(choose(places, group, part, below)?);
    }
    Some(chosen)
}

/// Returns sets of the nodes at `places`, by their position there, such that `wanted` nodes of any one of them span the
/// fewest groups that they can; none if there are too few. Where several groups of a level are needed, it is one set: the
/// largest groups, and the rest from the smallest that has it.
pub(super) fn alternatives(places: &[&[Name]], wanted: usize) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..places.len()).collect();
    if all.len() < wanted {
        return Vec::new();
    }
    spanning(places, all, wanted, 0).1
}

/// Returns how many groups of each level are spanned, without ones at its end; and the sets that span so many.
fn spanning(
    places: &[&[Name]],
    able: Vec<usize>,
    wanted: usize,
    level: usize,
) -> (Vec<usize>, Vec<Vec<usize>>) {
    if able.iter().all(|node| places[*node].len() <= level) {
        return (Vec::new(), Vec::from([able]));
    }
    let mut groups: BTreeMap<Option<&Name>, Vec<usize>> = BTreeMap::new();
    for node in able {
        groups.entry(places[node].get(level)).or_default().push(node);
    }
    let (holding, mut groups): (Vec<_>, Vec<_>) =
        groups.into_values().partition(|group| group.len() >= wanted);
    let mut best: Option<(Vec<usize>, Vec<Vec<usize>>)> = None;
    for group in holding {
        let (mut spans, sets) = spanning(places, group, wanted, level + 1);
        if !spans.is_empty() {
            spans.insert(0, 1);
        }
        match &mut best {
            Some((least, all)) if *least == spans => all.extend(sets),
            Some((least, _)) if *least < spans => {}
            Some(_) | None => best = Some((spans, sets)),
        }
    }
    best.unwrap_or_else(|| {
        groups.sort_by_key(Vec::len);
        let (mut set, mut count) = (Vec::new(), 0);
        while set.len() < wanted {
            let left = wanted - set.len();
            let enough = groups.iter().position(|group| group.len() >= left);
            let Some(last) = groups.len().checked_sub(1) else { break };
            set.extend(groups.remove(enough.unwrap_or(last)));
            count += 1;
        }
        set.sort_unstable();
        (Vec::from([count]), Vec::from([set]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    /// Places as `a/x a/y b/x`, the nodes chosen as their positions.
    fn check(places: &str, wanted: usize, within: usize, expected: Option<&[usize]>) {
        let name = |text: &str| Name::new(text).expect("a name");
        let read = |text: &str| match text {
            "-" => Vec::new(),
            text => text.split('/').map(name).collect(),
        };
        let places: Vec<Vec<Name>> = places.split(' ').map(read).collect();
        let places: Vec<&[Name]> = places.iter().map(Vec::as_slice).collect();
        let found = closest(&places, wanted, within).map(|mut found| {
            found.sort_unstable();
            found
        });
        assert_eq!(found.as_deref(), expected, "{}", String::from("of these"));
    }

    #[test]
    fn a_gang_spans_the_fewest_groups_from_the_outermost_level_on() {
        check("a b a b b", 2, 0, Some(&[0, 2]));
        check("a b a b b", 3, 0, Some(&[1, 3, 4]));
        check("a b a b b", 4, 0, Some(&[0, 1, 3, 4]));
        check("a/x a/y a/x b/x b/x b/x", 2, 0, Some(&[0, 2]));
        check("a/x a/y a/z b/x b/x b/x b/y", 3, 0, Some(&[0, 1, 2]));
        check("a/x b/x b/y b/y b/x b/y", 4, 0, Some(&[1, 2, 3, 5]));
        check("- - a", 2, 0, Some(&[0, 1]));
        check("a b", 3, 0, None);
    }

    #[test]
    fn all_that_span_equally_few_are_alternatives() {
        let check = |places: &str, wanted: usize, expected: &[&[usize]]| {
            let read = |text: &str| text.split('/').map(|text| Name::new(text).expect("a name")).collect();
            let places: Vec<Vec<Name>> = places.split(' ').map(read).collect();
            let places: Vec<&[Name]> = places.iter().map(Vec::as_slice).collect();
            assert_eq!(alternatives(&places, wanted), expected);
        };
        check("a b a b b", 2, &[&[0, 2], &[1, 3, 4]]);
        check("a b a b b", 3, &[&[1, 3, 4]]);
        check("a b a b b", 4, &[&[0, 1, 2, 3, 4]]);
        check("a/x a/y b/x b/x b/y b/y", 2, &[&[2, 3], &[4, 5]]);
        check("a/x a/y a/z b/x b/x b/y", 3, &[&[3, 4, 5]]);
        check("a b", 3, &[]);
    }

    #[test]
    fn within_a_level_is_a_must() {
        check("a b a b", 2, 1, Some(&[0, 2]));
        check("a b a b", 3, 1, None);
        check("a/x a/y b/x b/x", 2, 2, Some(&[2, 3]));
        check("a/x a/y b/x b/y", 2, 2, None);
        check("a - -", 2, 1, None);
        check("a/x a a/x", 2, 2, Some(&[0, 2]));
    }
}
