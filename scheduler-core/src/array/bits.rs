//! A set of places that is cheap to clone, and small where few are in it.

use alloc::sync::Arc;
use alloc::vec::Vec;

/// Words of a page.
const WORDS: usize = 32;
/// Places of a page.
const PAGE: usize = WORDS * 64;

/// A set of places from 0. A clone shares its pages; a write copies one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Bits {
    /// Those without a place are none; the last one is not.
    pages: Vec<Option<Arc<[u64; WORDS]>>>,
}

impl Bits {
    /// Whether a place is in it.
    #[must_use]
    pub fn contains(&self, place: u32) -> bool {
        let Some((page, word, bit)) = split(place) else { return false };
        self.pages.get(page).and_then(Option::as_ref).is_some_and(|page| page[word] & bit != 0)
    }

    /// Puts a place in. Says whether it was new.
    pub fn insert(&mut self, place: u32) -> bool {
        let Some((page, word, bit)) = split(place) else { return false };
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        let page = Arc::make_mut(self.pages[page].get_or_insert_with(|| Arc::new([0; WORDS])));
        let is_new = page[word] & bit == 0;
        page[word] |= bit;
        is_new
    }

    /// Returns how many places are in it.
    #[must_use]
    pub fn count(&self) -> u32 {
        let pages = self.pages.iter().flatten();
        pages.flat_map(|page| page.iter()).fold(0, |sum, word| sum.saturating_add(word.count_ones()))
    }

    /// Returns the places in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words =
            self.pages.iter().flat_map(|page| (0..WORDS).map(move |at| page.as_ref().map_or(0, |p| p[at])));
        (0_u32..).step_by(64).zip(words).flat_map(|(first, word)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| first + bit)
        })
    }

    /// Returns its words up to the last that is not zero.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        let words =
            self.pages.iter().flat_map(|page| (0..WORDS).map(move |at| page.as_ref().map_or(0, |p| p[at])));
        let mut words: Vec<u64> = words.collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        words
    }

    /// Makes a set from its words.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        let page = |chunk: &[u64]| {
            let mut page = [0; WORDS];
            page[..chunk.len()].copy_from_slice(chunk);
            (page != [0; WORDS]).then(|| Arc::new(page))
        };
        let mut pages: Vec<_> = words.chunks(WORDS).map(page).collect();
        while pages.last().is_some_and(Option::is_none) {
            pages.pop();
        }
        Self { pages }
    }
}

fn split(place: u32) -> Option<(usize, usize, u64)> {
    let place = usize::try_from(place).ok()?;
    Some((place / PAGE, place % PAGE / 64, 1 << (place % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_comes_back_from_its_words() {
        let mut set = Bits::default();
        for place in [0, 63, 64, 2_047, 2_048, 999_999] {
            assert!(set.insert(place) && !set.insert(place) && set.contains(place));
        }
        assert!(!set.contains(1) && !set.contains(1_000_000) && !set.contains(u32::MAX));
        assert_eq!(set.count(), 6);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 2_047, 2_048, 999_999]);
        assert_eq!(Bits::from_words(&set.words()), set);
        assert_eq!(Bits::from_words(&[0, 0]), Bits::default());
    }
}
