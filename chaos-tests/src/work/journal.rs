//! What processes of jobs wrote about themselves.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The ending of a journal's name.
pub(super) const ENDING: &str = "work";

/// One line of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When, in ms of the boot clock.
    pub at: u64,
    /// The job's number.
    pub job: u32,
    /// The attempt's.
    pub attempt: u32,
    /// The rank's.
    pub rank: u32,
    /// The process's.
    pub pid: i32,
    /// What happened: start, beat, notice, term, saved, met, child, end.
    pub what: String,
    /// The rest of it.
    pub rest: String,
}

impl Line {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(7, ' ');
        Some(Self {
            at: words.next()?.parse().ok()?,
            job: words.next()?.parse().ok()?,
            attempt: words.next()?.parse().ok()?,
            rank: words.next()?.parse().ok()?,
            pid: words.next()?.parse().ok()?,
            what: words.next()?.to_owned(),
            rest: words.next().unwrap_or_default().to_owned(),
        })
    }

    /// Returns the value of `key=` in the rest.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.rest.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Returns the GPUs that a start names, sorted.
    #[must_use]
    pub fn gpus(&self) -> Vec<&str> {
        let list = self.value("gpus").unwrap_or_default();
        let mut gpus: Vec<&str> = list.split(',').filter(|gpu| !gpu.is_empty()).collect();
        gpus.sort_unstable();
        gpus
    }
}

/// Returns all lines of all journals in a folder, each journal's in order.
///
/// # Errors
/// When a journal cannot be read.
pub fn lines_in(folder: &Path) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).context("failed to list the lab's folder")? {
        let path = entry.context("failed to list the lab's folder")?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            lines.extend(read(&path)?);
        }
    }
    Ok(lines)
}

pub(super) fn read(journal: &Path) -> Result<Vec<Line>> {
    let text =
        std::fs::read_to_string(journal).with_context(|| format!("failed to read {}", journal.display()))?;
    whole_lines(&text)
        .map(|line| Line::parse(line).with_context(|| format!("no line of a journal: {line}")))
        .collect()
}

/// Returns the lines that are there to their end: a reader may come while the last one is being written.
pub fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

/// The time that a process surely was on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Stay {
    from: u64,
    to: u64,
    attempt: (u32, u32),
}

/// Returns where two attempts had processes on one GPU at the same time: never any.
#[must_use]
pub fn overlaps(lines: &[Line]) -> Vec<String> {
    let mut stays: BTreeMap<String, BTreeMap<(u32, u32, i32), Stay>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.what == "start") {
        let key = (line.job, line.attempt, line.pid);
        let own = lines.iter().filter(|other| (other.job, other.attempt, other.pid) == key);
        let to = own.map(|other| other.at).max().unwrap_or(line.at);
        for gpu in line.gpus() {
            let stay = Stay { from: line.at, to, attempt: (line.job, line.attempt) };
            stays.entry(gpu.to_owned()).or_default().insert(key, stay);
        }
    }
    let mut found = Vec::new();
    for (gpu, stays) in stays {
        let mut stays: Vec<Stay> = stays.into_values().collect();
        stays.sort();
        // The longest one so far, of whatever attempt: a stay may reach over several others.
        let mut last: Option<Stay> = None;
        for stay in stays {
            if let Some(last) = &last
                && last.attempt != stay.attempt
                && stay.from < last.to
            {
                found.push(format!("{gpu}: {last:?} and {stay:?}"));
            }
            if last.as_ref().is_none_or(|last| last.to < stay.to) {
                last = Some(stay);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Line, overlaps, whole_lines};

    fn lines(text: &str) -> Vec<Line> {
        text.lines().map(|line| Line::parse(line.trim()).expect("a line")).collect()
    }

    #[test]
    fn line_is_read_back_with_its_gpus() {
        let line = Line::parse("17 4 2 1 99 start gpus=GPU-b,GPU-a node=n").expect("a line");
        assert_eq!((line.at, line.job, line.attempt, line.rank, line.pid), (17, 4, 2, 1, 99));
        assert_eq!(line.gpus(), ["GPU-a", "GPU-b"]);
        assert_eq!(line.value("node"), Some("n"));
        assert_eq!(Line::parse("17 4 2 1 99"), None);
    }

    #[test]
    fn line_that_is_being_written_is_none_yet() {
        let read = |text: &'static str| whole_lines(text).collect::<Vec<_>>();
        assert_eq!(read("17 4\n18 4 "), ["17 4"]);
        assert_eq!(read("17 4\n18 4 2\n"), ["17 4", "18 4 2"]);
        assert_eq!(read("17"), [""; 0]);
    }

    #[test]
    fn two_attempts_on_one_gpu_at_the_same_time_are_found() {
        let apart = "10 1 1 0 5 start gpus=g,h\n20 1 1 0 5 end 0\n20 2 1 0 6 start gpus=g\n";
        assert_eq!(overlaps(&lines(apart)), [] as [String; 0]);
        let twice = "10 1 1 0 5 start gpus=g,h\n21 1 1 0 5 beat\n20 2 1 0 6 start gpus=h\n";
        assert_eq!(overlaps(&lines(twice)).len(), 1);
        // A child of the same attempt is no second holder, but it does hold.
        let child = "10 1 1 0 5 start gpus=g\n11 1 1 0 7 start gpus=g\n30 1 1 0 7 beat\n\
                     12 1 1 0 5 end 0\n25 2 1 0 6 start gpus=g\n";
        assert_eq!(overlaps(&lines(child)).len(), 1);
    }
}
