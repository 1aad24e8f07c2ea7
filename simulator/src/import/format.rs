//! The formats, and how one is told from another.

use std::fmt;
use std::str::FromStr;

use super::error::Error;
use super::source::Source;
use super::table::{Header, split_csv};
use super::value::shown;
use super::{acme, attempts, helios, kalos, openb, own, philly_pass, sacct};

/// A form that a trace can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Slurm's accounting: `sacct -P`.
    Sacct,
    /// Philly's `cluster_job_log`, JSON.
    Philly,
    /// Philly's passed jobs with their virtual cluster, CSV.
    PhillyPass,
    /// Philly's attempts with intervals, CSV.
    PhillyAttempts,
    /// Helios' `cluster_log.csv`.
    Helios,
    /// Helios' jobs with intervals, CSV.
    HeliosIntervals,
    /// Acme's `trace_seren.csv` and `trace_kalos.csv`.
    Acme,
    /// Acme Kalos in the derived form of a simulator.
    KalosIterations,
    /// Alibaba's openb pods, CSV.
    Openb,
    /// The Standard Workload Format of the Parallel Workloads Archive.
    Swf,
    /// Our own export.
    Bursar,
    /// Any CSV with a header.
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 12] = [
        Self::Sacct,
        Self::Philly,
        Self::PhillyPass,
        Self::PhillyAttempts,
        Self::Helios,
        Self::HeliosIntervals,
        Self::Acme,
        Self::KalosIterations,
        Self::Openb,
        Self::Swf,
        Self::Bursar,
        Self::Csv,
    ];

    /// Returns its name, as it is typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sacct => "sacct",
            Self::Philly => "philly",
            Self::PhillyPass => "philly-pass",
            Self::PhillyAttempts => "philly-attempts",
            Self::Helios => "helios",
            Self::HeliosIntervals => "helios-intervals",
            Self::Acme => "acme",
            Self::KalosIterations => "kalos-iterations",
            Self::Openb => "openb",
            Self::Swf => "swf",
            Self::Bursar => "bursar",
            Self::Csv => "csv",
        }
    }

    /// Returns all names, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| Error::NoSuchFormat { name: shown(name), known: Self::names() })
    }
}

/// Tells the format from how the content begins; the file's name decides only between twins.
pub(super) fn detect(source: &Source<'_>) -> Result<Format, Error> {
    let path = source.path().to_owned();
    let head = String::from_utf8_lossy(source.head());
    let head = head.trim_start_matches('\u{feff}');
    let Some((line, first)) = (1..).zip(head.lines()).find(|(_, line)| !line.trim().is_empty()) else {
        return Err(Error::Empty { path });
    };
    let text = first.trim();
    let is_swf_name = path.trim_end_matches(".gz").trim_end_matches(".zst").ends_with(".swf");
    if text.starts_with(own::MARK) {
        return Ok(Format::Bursar);
    }
    if text.starts_with(';') || is_swf_name || is_swf_row(text) {
        return Ok(Format::Swf);
    }
    if text.starts_with(['[', '{']) {
        return Ok(Format::Philly);
    }
    if let Some(format) = of_header(&path, line, first)? {
        return Ok(format);
    }
    Err(Error::UnknownFormat { path, line, found: shown(text), known: Format::names() })
}

fn is_swf_row(text: &str) -> bool {
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
    text.split_whitespace().count() == 18 && text.split_whitespace().all(is_number)
}

fn of_header(path: &str, line: u64, first: &str) -> Result<Option<Format>, Error> {
    if sacct::is_header(first) {
        return Ok(Some(Format::Sacct));
    }
    let Ok(columns) = split_csv(first) else { return Ok(None) };
    let header = Header::new(line, columns);
    let is = |columns: &[&str]| columns.iter().all(|column| header.has(column));
    if is(attempts::COLUMNS) {
        return of_twins(path, line).map(Some);
    }
    let known = [
        (Format::PhillyPass, philly_pass::COLUMNS),
        (Format::KalosIterations, kalos::COLUMNS),
        (Format::Openb, openb::COLUMNS),
        (Format::Helios, helios::MARKS),
        (Format::Acme, acme::MARKS),
    ];
    let found = known.into_iter().find(|(_, columns)| is(columns)).map(|(format, _)| format);
    Ok(found.or_else(|| super::generic::is_header(&header).then_some(Format::Csv)))
}

/// Two traces were published in one form: in one a row is a job, in the other an attempt.
fn of_twins(path: &str, line: u64) -> Result<Format, Error> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    match (name.contains("philly"), name.contains("helios")) {
        (true, false) => Ok(Format::PhillyAttempts),
        (false, true) => Ok(Format::HeliosIntervals),
        _ => {
            let (first, second) = (Format::PhillyAttempts, Format::HeliosIntervals);
            Err(Error::Ambiguous { path: path.to_owned(), line, first, second })
        }
    }
}
