//! The Standard Workload Format, version 2.2, of the Parallel Workloads Archive.
//!
//! Lines that begin with `;` are remarks; any other line is 18 numbers, and -1 is not known. There are no GPUs: the rule
//! that says how many processors stand for one has to be given. A job's processors are those it was given, or those it
//! asked for where that is not known. Its team is its group, or its queue where the log has no groups.

use std::collections::{HashMap, HashSet};

use scheduler_core::unit::{Span, Timestamp};

use super::collect::Collector;
use super::error::Error;
use super::options::{OneGpu, Unit};
use super::source::Lines;
use super::table::{NO_GPU, count};
use super::value::{Bad, bad, bad_value, moment, seconds};
use crate::trace::{TraceEnd, TraceJob};

/// Fields of a line.
const FIELDS: usize = 18;

/// A line of data, by the numbers that the format gives its fields.
struct Line<'l> {
    number: u64,
    fields: Vec<&'l str>,
}

impl<'l> Line<'l> {
    fn of(number: u64, text: &'l str) -> Result<Self, Bad> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        if fields.len() == FIELDS {
            return Ok(Self { number, fields });
        }
        Err(bad_value("has another number of fields than 18", &fields.len().to_string()))
    }

    /// Returns a field, counted from 1; nothing if it is -1, not known.
    fn at(&self, field: usize) -> Option<&'l str> {
        self.fields.get(field.checked_sub(1)?).copied().filter(|text| !text.starts_with('-'))
    }

    fn read<T>(&self, field: usize, what: &str, read: fn(&str) -> Option<T>) -> Result<Option<T>, Bad> {
        let text = self.at(field);
        text.map(|text| read(text).ok_or_else(|| bad_value(format!("field {field} is no {what}"), text)))
            .transpose()
    }

    fn count(&self, field: usize) -> Result<Option<u32>, Bad> {
        self.read(field, "whole number", count)
    }

    fn seconds(&self, field: usize) -> Result<Option<Span>, Bad> {
        self.read(field, "number of seconds up to ten years", seconds)
    }
}

/// Reads it.
pub(super) fn read(mut lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let Some(rule) = into.options().one_gpu.filter(|rule| rule.of == Unit::Processors) else {
        return Err(Error::Option {
            path: into.path().to_owned(),
            what: "this log has processors and no GPUs, and nothing says how many processors stand for one"
                .to_owned(),
            fix: "give the rule for one GPU, as `256 processors`".to_owned(),
        });
    };
    into.note(format!("rule: {rule} = 1 GPU"));
    let mut origin = Timestamp::ZERO;
    let mut parts = Parts::default();
    while lines.advance()? {
        let text = lines.text();
        if let Ok(text) = &text {
            if let Some(remark) = text.trim_start().strip_prefix(';') {
                origin = start_of(remark).unwrap_or(origin);
                continue;
            }
            if text.trim().is_empty() {
                continue;
            }
        }
        into.row();
        let number = lines.number();
        match text.map_err(bad).and_then(|text| {
            let line = Line::of(number, &text)?;
            let job = job(&line, rule, origin)?;
            Ok((line.count(11)?, line.count(1)?.map_or_else(|| number.to_string(), |id| id.to_string()), job))
        }) {
            Ok((status, id, job)) => parts.add(status, &id, job, into)?,
            Err(bad) => into.skip(number, &bad),
        }
    }
    Ok(())
}

/// Reads `UnixStartTime: 749458803` from a remark.
fn start_of(remark: &str) -> Option<Timestamp> {
    moment(remark.trim().strip_prefix("UnixStartTime:")?.trim())
}

fn job(line: &Line<'_>, rule: OneGpu, origin: Timestamp) -> Result<TraceJob, Bad> {
    let status = line.count(11)?;
    let is_cancelled = status == Some(5);
    let duration = line.seconds(4)?;
    if is_cancelled && duration.is_none_or(Span::is_zero) {
        return Err(bad("was cancelled before it ran"));
    }
    let duration = duration.ok_or_else(|| bad("has no run time"))?;
    let processors = line.count(5)?.filter(|count| *count > 0).or(line.count(8)?).filter(|count| *count > 0);
    let gpus = rule.gpus(processors.ok_or_else(|| bad(NO_GPU))?);
    let submitted = line.seconds(2)?.ok_or_else(|| bad("has no time of submission"))?;
    let named = |letter: &str, field| line.at(field).map(|number| format!("{letter}{number}"));
    Ok(TraceJob {
        name: line.at(1).unwrap_or("").to_owned(),
        line: line.number,
        submitted_at: origin.plus(submitted),
        duration,
        gpus,
        nodes: None,
        gpu_type: None,
        team: named("g", 13).or_else(|| named("q", 15)),
        user: named("u", 12),
        time_limit: line.seconds(9)?,
        min_runtime: None,
        is_free: None,
        waited: line.seconds(3)?,
        end: match status {
            Some(0 | 4) => TraceEnd::Failed,
            Some(1 | 3) => TraceEnd::Completed,
            Some(5) => TraceEnd::Cancelled,
            _ => TraceEnd::Unknown,
        },
    })
}

/// Jobs that were stopped and continued: lines of status 2, 3 and 4 are parts of one job.
#[derive(Default)]
struct Parts {
    wholes: HashSet<String>,
    places: HashMap<String, usize>,
}

impl Parts {
    fn add(
        &mut self,
        status: Option<u32>,
        id: &str,
        job: TraceJob,
        into: &mut Collector<'_>,
    ) -> Result<(), Error> {
        let is_part = matches!(status, Some(2..=4));
        if !is_part {
            self.wholes.insert(id.to_owned());
            return into.take(job.line, Ok(job));
        }
        if self.wholes.contains(id) {
            into.skip(job.line, &bad("is a part of a job that has a line of its own"));
            return Ok(());
        }
        let Some(place) = self.places.get(id) else {
            self.places.insert(id.to_owned(), into.jobs.len());
            return into.take(job.line, Ok(job));
        };
        into.event(
            job.line,
            "is a further part of a job that was stopped and continued, and was added to it",
        );
        if let Some(whole) = into.jobs.get_mut(*place) {
            whole.duration = whole.duration.plus(job.duration);
            whole.end = job.end;
        }
        Ok(())
    }
}
