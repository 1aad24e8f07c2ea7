//! Jobs on their way into a trace: what is taken, what is left and why, what a reader should know.

use std::collections::BTreeMap;

use scheduler_core::unit::{Span, Timestamp};

use super::Options;
use super::error::Error;
use super::table::NO_GPU;
use super::value::{Bad, bad};
use crate::trace::{Import, Skipped, Trace, TraceJob};

/// A trace in the making.
pub(super) struct Collector<'o> {
    path: String,
    options: &'o Options,
    /// Jobs, as they stand in the source.
    pub jobs: Vec<TraceJob>,
    import: Import,
    reasons: BTreeMap<String, u64>,
    events: BTreeMap<String, Event>,
}

/// Something that happened to rows that were taken all the same.
struct Event {
    times: u64,
    first_line: u64,
}

impl<'o> Collector<'o> {
    /// Begins a trace from a source that messages call `path`.
    pub(super) fn new(path: &str, options: &'o Options) -> Self {
        Self {
            path: path.to_owned(),
            options,
            jobs: Vec::new(),
            import: Import::default(),
            reasons: BTreeMap::new(),
            events: BTreeMap::new(),
        }
    }

    /// Returns what messages call the source.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the options.
    pub(super) fn options(&self) -> &'o Options {
        self.options
    }

    /// Counts a row of data.
    pub(super) fn row(&mut self) {
        self.import.rows += 1;
    }

    /// Takes a job, or leaves the row out with the reason.
    ///
    /// # Errors
    ///
    /// When there are more jobs than the options allow.
    pub(super) fn take(&mut self, line: u64, job: Result<TraceJob, Bad>) -> Result<(), Error> {
        match job {
            Ok(job) => return self.push(job),
            Err(bad) => self.skip(line, &bad),
        }
        Ok(())
    }

    fn push(&mut self, job: TraceJob) -> Result<(), Error> {
        if self.jobs.len() >= self.options.jobs_max {
            let (path, most) = (self.path.clone(), self.options.jobs_max);
            return Err(Error::TooMany { path, line: job.line, most });
        }
        self.jobs.push(job);
        Ok(())
    }

    /// Leaves a row out.
    pub(super) fn skip(&mut self, line: u64, bad: &Bad) {
        let so_far = self.reasons.entry(bad.why.clone()).or_insert(0);
        *so_far += 1;
        let is_shown = usize::try_from(*so_far).is_ok_and(|so_far| so_far <= Import::SHOWN);
        if is_shown {
            let reason = match bad.value.as_str() {
                "" => bad.why.clone(),
                value => format!("{}: `{value}`", bad.why),
            };
            self.import.skipped.push(Skipped { line, reason });
        }
    }

    /// Says something about the whole source.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.import.notes.push(note.into());
    }

    /// Counts something that befell a row that is taken all the same; becomes one note with the count and a line.
    pub(super) fn event(&mut self, line: u64, what: impl Into<String>) {
        let event = self.events.entry(what.into()).or_insert(Event { times: 0, first_line: line });
        event.times += 1;
    }

    /// Notes the columns that nobody reads.
    pub(super) fn note_unread(&mut self, columns: &[&str]) {
        if !columns.is_empty() {
            let listed: Vec<String> = columns.iter().take(40).map(|name| super::value::shown(name)).collect();
            self.note(format!("columns that nobody reads: {}", listed.join(", ")));
        }
    }

    /// Returns the span between two moments; zero with a counted note where they are the wrong way round.
    pub(super) fn clamped(&mut self, line: u64, from: Timestamp, to: Timestamp, what: &str) -> Span {
        if to < from {
            self.event(
                line,
                format!("{what} would be negative (a clock that was set back?) and counts as 0"),
            );
        }
        to.since(from)
    }

    /// Sorts, cuts to what was asked for, and hands the trace over.
    ///
    /// # Errors
    ///
    /// When no job is left.
    pub(super) fn finish(mut self, fix: &str) -> Result<Trace, Error> {
        self.window();
        self.sort();
        self.cut();
        for (what, event) in std::mem::take(&mut self.events) {
            let rows = if event.times == 1 { "1 row".to_owned() } else { format!("{} rows", event.times) };
            self.note(format!("{rows}, first at line {}: {what}", event.first_line));
        }
        let mut reasons: Vec<(String, u64)> = std::mem::take(&mut self.reasons).into_iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        self.import.reasons = reasons;
        self.import.skipped.sort_by_key(|skipped| skipped.line);
        if self.jobs.is_empty() {
            return Err(self.no_jobs(fix));
        }
        let name = self.options.name.clone().unwrap_or_else(|| name_of(&self.path));
        Ok(Trace { name, jobs: self.jobs, import: self.import })
    }

    /// Leaves out what was submitted outside the asked time.
    fn window(&mut self) {
        let (since, until) = (self.options.since, self.options.until);
        if since.is_none() && until.is_none() {
            return;
        }
        let is_inside =
            |at: Timestamp| since.is_none_or(|since| at >= since) && until.is_none_or(|end| at < end);
        let (inside, outside) = std::mem::take(&mut self.jobs)
            .into_iter()
            .partition::<Vec<_>, _>(|job| is_inside(job.submitted_at));
        self.jobs = inside;
        for job in outside {
            self.skip(job.line, &bad("was submitted outside the time that was asked for"));
        }
    }

    fn sort(&mut self) {
        let mut latest = Timestamp::ZERO;
        let (mut late, mut first) = (0_u64, None);
        for job in &self.jobs {
            if job.submitted_at < latest {
                late += 1;
                first.get_or_insert(job.line);
            }
            latest = latest.max(job.submitted_at);
        }
        if let Some(first) = first {
            self.note(format!(
                "times out of order: {late} jobs were submitted before a job above them, first at line {first}; all \
                 were sorted by submission"
            ));
            self.jobs.sort_by_key(|job| (job.submitted_at, job.line));
        }
    }

    fn cut(&mut self) {
        let Some(limit) = self.options.limit.filter(|limit| *limit < self.jobs.len()) else { return };
        for job in self.jobs.split_off(limit) {
            self.skip(job.line, &bad("comes after as many jobs as were asked for"));
        }
    }

    fn no_jobs(&self, fix: &str) -> Error {
        let shown = self.import.reasons.iter().take(3).map(|(why, rows)| {
            let example = self.import.skipped.iter().find(|skipped| skipped.reason.starts_with(why.as_str()));
            match example {
                Some(example) => format!("{rows} as line {}: {}", example.line, example.reason),
                None => format!("{rows}: {why}"),
            }
        });
        let shown: Vec<String> = shown.collect();
        let reasons = if shown.is_empty() { "it has a header only".to_owned() } else { shown.join("; ") };
        let has_no_gpu = self.import.reasons.first().is_some_and(|(why, _)| why == NO_GPU);
        let rule = "; for a log without GPUs give the rule for one GPU, as `256 processors` or `1 node`";
        let fix = format!("{fix}{}", if has_no_gpu { rule } else { "" });
        Error::NoJobs { path: self.path.clone(), rows: self.import.rows, reasons, fix }
    }
}

/// Returns the name of a file without folders and endings.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split('.').next().unwrap_or(file);
    if stem.is_empty() { file.to_owned() } else { stem.to_owned() }
}
