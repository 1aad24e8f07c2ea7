//! From a file to a trace.

use std::io::Read;
use std::path::Path;

use super::collect::Collector;
use super::error::Error;
use super::format::{Format, detect};
use super::options::Options;
use super::source::Source;
use super::{acme, attempts, generic, helios, kalos, openb, own, philly, philly_pass, sacct, swf};
use crate::trace::Trace;

/// Imports a file.
///
/// # Errors
///
/// When it cannot be read, is of no known format, or has no job that can be replayed: see [`Error`].
pub fn open(path: &Path, options: &Options) -> Result<Trace, Error> {
    import(Source::open(path)?, options)
}

/// Imports bytes from anywhere; `name` is what messages call them.
///
/// # Errors
///
/// As [`open`].
pub fn read(name: &str, bytes: impl Read, options: &Options) -> Result<Trace, Error> {
    import(Source::new(name.to_owned(), bytes)?, options)
}

fn import(source: Source<'_>, options: &Options) -> Result<Trace, Error> {
    let format = match options.format {
        Some(format) => format,
        None => detect(&source)?,
    };
    let mut into = Collector::new(source.path(), options);
    let lines = source.lines();
    match format {
        Format::Sacct => sacct::read(lines, &mut into)?,
        Format::Philly => philly::read(lines, &mut into)?,
        Format::PhillyPass => philly_pass::read(lines, &mut into)?,
        Format::PhillyAttempts => attempts::read_attempts(lines, &mut into)?,
        Format::Helios => helios::read(lines, &mut into)?,
        Format::HeliosIntervals => attempts::read_jobs(lines, &mut into)?,
        Format::Acme => acme::read(lines, &mut into)?,
        Format::KalosIterations => kalos::read(lines, &mut into)?,
        Format::Openb => openb::read(lines, &mut into)?,
        Format::Swf => swf::read(lines, &mut into)?,
        Format::Bursar => own::read(lines, &mut into)?,
        Format::Csv => generic::read(lines, &mut into)?,
    }
    into.finish(fix(format))
}

/// What usually helps when no row of a format was of use.
const fn fix(format: Format) -> &'static str {
    match format {
        Format::Sacct => {
            "export finished jobs with the command in docs/users/traces.md; a site has GPUs in its accounting once \
             gres/gpu is among its AccountingStorageTRES"
        }
        Format::Philly => "give cluster_job_log as it was published, unpacked or as .gz or .zst",
        Format::Swf => "give the rule for one GPU that fits its processors",
        Format::Bursar => "export again with a time in which jobs were submitted",
        Format::Csv => "name its columns, as gpus=COLUMN",
        Format::PhillyPass
        | Format::PhillyAttempts
        | Format::Helios
        | Format::HeliosIntervals
        | Format::Acme
        | Format::KalosIterations
        | Format::Openb => "give the file as it was published, or name its format or columns",
    }
}
