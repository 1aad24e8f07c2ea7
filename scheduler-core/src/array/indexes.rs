//! Which tasks an array has: `0-9%4`, `0-99:10`, `1,3,7`.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The most tasks of an array.
pub const TASKS_MAX: u32 = 1_000_000;
/// The most tasks of an array that live at once.
pub const LIVE_MAX: u32 = 256;
/// The most ranges of an array.
pub const RANGES_MAX: usize = 64;

/// The indexes of an array in the order in which their tasks are made, each once, and how many may live at once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Indexes {
    ranges: Vec<Range>,
    limit: Option<u32>,
}

/// Indexes at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The first of them.
    pub first: u32,
    /// The last of them.
    pub last: u32,
    /// From one to the next; 1 if there is one alone.
    pub step: u32,
}

/// Why a text is no array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not numbers, ranges and a limit.
    #[error(
        "`{0}` is not a range of tasks: write 0-9, 0-99:10 or 1,3,7, with %4 behind it for four at a time"
    )]
    Syntax(String),
    /// A range that runs backwards.
    #[error("the range {first}-{last} has no task: its end is below its start")]
    Backwards {
        /// Its start.
        first: u32,
        /// Its end.
        last: u32,
    },
    /// A step of zero.
    #[error("a step of 0 never gets on: leave it out, or write 1 or more")]
    NoStep,
    /// A limit of zero.
    #[error("with %0 no task could ever run: leave it out, or write %1 or more")]
    NoLimit,
    /// More tasks than an array can have.
    #[error("{0} tasks; an array has at most 1,000,000")]
    TooMany(u64),
    /// An index that stands in two ranges.
    #[error("task {0} is in there twice")]
    Twice(u32),
    /// More ranges than an array can have.
    #[error("{0} ranges; an array has at most 64: a range with a step, like 0-99:10, says more in one")]
    TooManyRanges(usize),
}

impl Range {
    /// Returns how many indexes it has.
    #[must_use]
    pub const fn count(&self) -> u32 {
        ((self.last - self.first) / self.step).saturating_add(1)
    }

    fn position(&self, index: u32) -> Option<u32> {
        let is_in =
            (self.first..=self.last).contains(&index) && (index - self.first).is_multiple_of(self.step);
        is_in.then(|| (index - self.first) / self.step)
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Syntax(shown(text));
        let number = |digits: &str| {
            let is_plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse::<u32>().ok().filter(|_| is_plain).ok_or_else(wrong)
        };
        let (range, step) = match text.split_once(':') {
            Some((range, step)) => (range, Some(number(step.trim())?)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first.trim())?, number(last.trim())?),
            None if step.is_some() => return Err(wrong()),
            None => (number(range.trim())?, number(range.trim())?),
        };
        if last < first {
            return Err(Error::Backwards { first, last });
        }
        match step {
            Some(0) => Err(Error::NoStep),
            step => {
                let step = step.unwrap_or(1);
                let last = last - (last - first) % step;
                Ok(Self { first, last, step: if first == last { 1 } else { step } })
            }
        }
    }

    /// Returns an index that both have.
    fn common(&self, other: &Self) -> Option<u32> {
        let from = self.first.max(other.first);
        let until = self.last.min(other.last);
        if from > until {
            return None;
        }
        // self.first + i x self.step = other.first (mod other.step)
        let (step, modulus) = (i128::from(self.step), i128::from(other.step));
        let (divisor, inverse) = divide(step, modulus);
        let apart = i128::from(other.first) - i128::from(self.first);
        if apart % divisor != 0 {
            return None;
        }
        let i = (apart / divisor * inverse).rem_euclid(modulus / divisor);
        let (first, period) = (i128::from(self.first) + i * step, step / divisor * modulus);
        let behind = (i128::from(from) - first).max(0);
        let index = first + (behind + period - 1) / period * period;
        u32::try_from(index).ok().filter(|index| *index <= until)
    }
}

/// Returns the greatest common divisor of two positive numbers, and by what the first gives it modulo the second.
fn divide(one: i128, other: i128) -> (i128, i128) {
    let (mut rest, mut next) = (one, other);
    let (mut factor, mut next_factor) = (1, 0);
    while next != 0 {
        let times = rest / next;
        (rest, next) = (next, rest - times * next);
        (factor, next_factor) = (next_factor, factor - times * next_factor);
    }
    (rest, factor)
}

impl Indexes {
    /// Reads `0-9%4`, `0-99:10`, `1,3,7`.
    ///
    /// # Errors
    /// When it is none, names a task twice or has too many.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let (list, limit) = match text.split_once('%') {
            Some((list, limit)) => {
                let limit = limit.trim();
                let is_plain = !limit.is_empty() && limit.bytes().all(|b| b.is_ascii_digit());
                let limit = limit.parse::<u32>().ok().filter(|_| is_plain);
                (list, Some(limit.ok_or_else(|| Error::Syntax(shown(text)))?))
            }
            None => (text, None),
        };
        let parts = list.split(',').count();
        if parts > RANGES_MAX {
            return Err(Error::TooManyRanges(parts));
        }
        let ranges: Vec<Range> =
            list.split(',').map(|part| Range::parse(part.trim())).collect::<Result<_, _>>()?;
        Self::new(ranges, limit)
    }

    fn new(ranges: Vec<Range>, limit: Option<u32>) -> Result<Self, Error> {
        if limit == Some(0) {
            return Err(Error::NoLimit);
        }
        let count: u64 = ranges.iter().map(|range| u64::from(range.count())).sum();
        if count > u64::from(TASKS_MAX) {
            return Err(Error::TooMany(count));
        }
        for (at, range) in ranges.iter().enumerate() {
            if let Some(twice) = ranges[..at].iter().find_map(|earlier| earlier.common(range)) {
                return Err(Error::Twice(twice));
            }
        }
        Ok(Self { ranges, limit })
    }

    /// Returns how many tasks there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.count()))
    }

    /// Returns the index at a place.
    #[must_use]
    pub fn at(&self, place: u32) -> Option<u32> {
        let mut left = place;
        for range in &self.ranges {
            match left.checked_sub(range.count()) {
                None => return Some(range.first + left * range.step),
                Some(rest) => left = rest,
            }
        }
        None
    }

    /// Returns the place of an index.
    #[must_use]
    pub fn place(&self, index: u32) -> Option<u32> {
        let mut before = 0;
        for range in &self.ranges {
            if let Some(position) = range.position(index) {
                return Some(before + position);
            }
            before += range.count();
        }
        None
    }

    /// Returns how many may live at once, as it was asked for.
    #[must_use]
    pub const fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Returns how many may live at once.
    #[must_use]
    pub fn live_max(&self) -> u32 {
        self.limit.map_or(LIVE_MAX, |limit| limit.min(LIVE_MAX))
    }

    /// Returns the lowest index.
    #[must_use]
    pub fn lowest(&self) -> u32 {
        self.ranges.iter().map(|range| range.first).min().unwrap_or(0)
    }

    /// Returns the highest index.
    #[must_use]
    pub fn highest(&self) -> u32 {
        self.ranges.iter().map(|range| range.last).max().unwrap_or(0)
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match range {
                Range { first, last, .. } if first == last => write!(f, "{comma}{first}")?,
                Range { first, last, step: 1 } => write!(f, "{comma}{first}-{last}")?,
                Range { first, last, step } => write!(f, "{comma}{first}-{last}:{step}")?,
            }
        }
        self.limit.map_or(Ok(()), |limit| write!(f, "%{limit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    fn read(text: &str) -> Indexes {
        Indexes::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn ranges_steps_and_limits() {
        let tasks = |text: &str| {
            let indexes = read(text);
            (0..indexes.count()).filter_map(|place| indexes.at(place)).collect::<Vec<_>>()
        };
        assert_eq!(tasks("0-3%4"), [0, 1, 2, 3]);
        assert_eq!(tasks("0-99:30"), [0, 30, 60, 90]);
        assert_eq!(tasks("7, 1,3"), [7, 1, 3]);
        assert_eq!(tasks("5-5:9"), [5]);
        assert_eq!(read("0-999999").count(), TASKS_MAX);
        let mixed = read("10-20:5,3,4-6%2");
        assert_eq!((mixed.count(), mixed.lowest(), mixed.highest(), mixed.live_max()), (7, 3, 20, 2));
        assert_eq!(read("0-9").live_max(), LIVE_MAX);
        assert_eq!(read("0-9%1000").live_max(), LIVE_MAX);
        for (place, index) in (0..).zip([10, 15, 20, 3, 4, 5, 6]) {
            assert_eq!((mixed.at(place), mixed.place(index)), (Some(index), Some(place)));
        }
        assert_eq!((mixed.at(7), mixed.place(11)), (None, None));
    }

    #[test]
    fn they_are_shown_as_they_are_read() {
        for text in ["0-9%4", "0-90:10", "1,3,7", "5", "4294967295", "1-3,9-11:2%7"] {
            assert_eq!(read(text).to_string(), text);
            assert_eq!(read(&read(text).to_string()), read(text));
        }
        assert_eq!(read("0-99:10").to_string(), "0-90:10");
    }

    #[test]
    fn what_cannot_be_is_told() {
        assert_eq!(Indexes::parse("9-0"), Err(Error::Backwards { first: 9, last: 0 }));
        assert_eq!(Indexes::parse("0-9%0"), Err(Error::NoLimit));
        assert_eq!(Indexes::parse("0-9:0"), Err(Error::NoStep));
        assert_eq!(Indexes::parse("0-1999999"), Err(Error::TooMany(2_000_000)));
        assert_eq!(Indexes::parse("0-9,4"), Err(Error::Twice(4)));
        assert_eq!(Indexes::parse("4,4"), Err(Error::Twice(4)));
        let many: String = (0..65).map(|n| alloc::format!("{n},")).collect();
        assert_eq!(Indexes::parse(many.trim_end_matches(',')), Err(Error::TooManyRanges(65)));
        for wrong in
            ["", "x", "1-", "-1", "1,,2", "1%", "1%x", "1-2-3", "1:2", "+1", "0-9%4%4", "4294967296", "٣"]
        {
            assert!(matches!(Indexes::parse(wrong), Err(Error::Syntax(_))), "{wrong}");
        }
    }

    #[test]
    fn a_common_index_is_found_wherever_there_is_one() {
        let range =
            |first: u32, count: u32, step: u32| Range { first, last: first + (count - 1) * step, step };
        let all = |r: Range| (0..r.count()).map(|at| r.first + at * r.step).collect::<BTreeSet<_>>();
        for first in 0..7 {
            for (step, other) in (1..9).flat_map(|step| (1..9).map(move |other| (step, other))) {
                let (a, b) = (range(5, 9, step), range(first, 12, other));
                assert_eq!(a.common(&b), all(a).intersection(&all(b)).next().copied(), "{a:?} {b:?}");
                assert_eq!(b.common(&a), a.common(&b));
            }
        }
        let far = range(u32::MAX - 10, 2, 10);
        assert_eq!(far.common(&range(u32::MAX, 1, 1)), Some(u32::MAX));
    }
}
