//! The word that was probably meant.

/// Returns the one of `words` that is closest to `wrong`, if it is close enough to be meant.
pub fn closest<'a>(wrong: &str, words: &[&'a str]) -> Option<&'a str> {
    let wrong = wrong.to_lowercase().replace('-', "_");
    let distance = |word: &str| edits(&wrong, &word.replace('-', "_"));
    let (found, word) = words.iter().map(|word| (distance(word), *word)).min_by_key(|(edits, _)| *edits)?;
    (found <= wrong.chars().count().max(3) / 3).then_some(word)
}

/// Returns how many letters have to be put in, taken out, changed, or swapped with their neighbour.
fn edits(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut next = vec![i];
        for j in 1..=other.len() {
            let change = row[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = change.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let words = ["min_runtime", "time_limit", "resumable", "gpus", "budget"];
        assert_eq!(closest("min_runtmie", &words), Some("min_runtime"));
        assert_eq!(closest("min-runtime", &words), Some("min_runtime"));
        assert_eq!(closest("gpu", &words), Some("gpus"));
        assert_eq!(closest("Budget", &words), Some("budget"));
        assert_eq!(closest("colour", &words), None);
    }
}
