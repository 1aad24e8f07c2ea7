//! Philly's `cluster_job_log` (Microsoft, 2017; Jeon et al., ATC 2019): one JSON array of a gigabyte.
//!
//! It is read an object at a time: what stands between two braces is cut out and parsed alone, so that one broken object is
//! one counted row. A job's GPUs are those of its first attempt (no number was recorded before); its duration is the
//! time in all its attempts, without the waits between them, where the publisher's notebook takes the last end less the
//! first start. The virtual cluster is the team.

use scheduler_core::unit::{Span, Timestamp};
use serde_json::Value;

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::options::named;
use super::source::Lines;
use super::table::NO_GPU;
use super::value::{Bad, bad, bad_value, end, moment, something};
use crate::trace::{TraceEnd, TraceJob};

/// A longer object is no job.
const OBJECT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads it.
pub(super) fn read(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    into.note("GPUs are those of the first attempt; duration is the time in all attempts, without waits between them");
    into.note(
        "times have no zone (US Pacific; the clock went back on 2017-11-05) and are taken as they stand",
    );
    let mut objects = Objects { lines, bytes: Vec::new(), line: 1, is_array: false };
    let mut log = Log::default();
    while objects.advance()? {
        into.row();
        let line = objects.line;
        match objects.parse().and_then(|value| log.job(line, &value, into)) {
            Ok((job, ends)) => {
                if let Some(started_at) = ends {
                    log.running.push((into.jobs.len(), started_at));
                }
                into.take(line, Ok(job))?;
            }
            Err(bad) => into.skip(line, &bad),
        }
    }
    for (place, started_at) in log.running {
        if let Some(job) = into.jobs.get_mut(place) {
            job.duration = job.duration.plus(log.last.since(started_at));
        }
    }
    Ok(())
}

/// What was seen of the log so far.
#[derive(Default)]
struct Log {
    /// The latest time in it: until then, what has no end ran.
    last: Timestamp,
    /// Jobs whose last attempt has no end, and when that attempt started.
    running: Vec<(usize, Timestamp)>,
}

impl Log {
    /// Reads a job; with it the start of its last attempt, if that has no end.
    fn job(
        &mut self,
        line: u64,
        value: &Value,
        into: &mut Collector<'_>,
    ) -> Result<(TraceJob, Option<Timestamp>), Bad> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let attempts = value.get("attempts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let Some(first) = attempts.first() else {
            return Err(bad("has no attempt, so nobody knows its GPUs"));
        };
        let (gpus, nodes) = size(first)?;
        let submitted_at =
            self.time(value, "submitted_time")?.ok_or_else(|| bad("has no `submitted_time`"))?;
        let (mut duration, mut first_start, mut open) = (Span::ZERO, None, None);
        for (number, attempt) in (1..).zip(attempts) {
            let times = (self.time(attempt, "start_time")?, self.time(attempt, "end_time")?);
            let (started_at, ended_at) = match times {
                (Some(started_at), ended_at) => (started_at, ended_at),
                (None, _) => {
                    into.event(
                        line,
                        "has an attempt without a start (an error of the log), which counts nothing",
                    );
                    continue;
                }
            };
            first_start.get_or_insert(started_at);
            match ended_at {
                Some(ended_at) => {
                    let ran = into.clamped(line, started_at, ended_at, "the time of an attempt");
                    duration = duration.plus(ran);
                }
                None if number == attempts.len() => open = Some(started_at),
                None => {
                    into.event(line, "has an attempt without an end before its last, which counts nothing")
                }
            }
        }
        let first_start = first_start.ok_or_else(|| bad("never started"))?;
        if duration > Span::MAX {
            return Err(bad("runs longer than ten years"));
        }
        let job = TraceJob {
            name: text("jobid").map_or_else(|| format!("philly-{line}"), str::to_owned),
            line,
            submitted_at,
            duration,
            gpus,
            nodes: Some(nodes),
            gpu_type: None,
            team: named(text("vc")),
            user: named(text("user")),
            time_limit: None,
            min_runtime: None,
            is_free: None,
            waited: Some(into.clamped(line, submitted_at, first_start, "a wait")),
            end: if open.is_some() { TraceEnd::Running } else { end(text("status").unwrap_or("")) },
        };
        Ok((job, open))
    }

    fn time(&mut self, value: &Value, key: &str) -> Result<Option<Timestamp>, Bad> {
        let text = match value.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.as_str(),
            Some(other) => return Err(bad_value(format!("`{key}` is no time"), &other.to_string())),
        };
        let Some(text) = something(text) else { return Ok(None) };
        let at = moment(text).ok_or_else(|| bad_value(format!("`{key}` is no time"), text))?;
        self.last = self.last.max(at);
        Ok(Some(at))
    }
}

/// Returns the GPUs and the nodes of an attempt.
fn size(attempt: &Value) -> Result<(u32, u32), Bad> {
    let servers = attempt.get("detail").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of_server = |server: &Value| server.get("gpus").and_then(Value::as_array).map_or(0, Vec::len);
    let gpus = servers.iter().map(of_server).fold(0, usize::saturating_add);
    match (u32::try_from(gpus), u32::try_from(servers.len())) {
        (Ok(0), _) => Err(bad(NO_GPU)),
        (Ok(gpus), Ok(nodes)) => Ok((gpus, nodes)),
        _ => Err(bad("has too many GPUs")),
    }
}

/// The objects of an array, or of lines, one after the other.
struct Objects<'s> {
    lines: Lines<'s>,
    bytes: Vec<u8>,
    line: u64,
    is_array: bool,
}

/// Where a byte stands.
#[derive(Default)]
struct Cursor {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl Cursor {
    /// Moves over a byte inside an object; true if the object ends with it.
    fn step(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_text => self.is_escaped = true,
            b'"' => self.is_text = !self.is_text,
            b'{' if !self.is_text => self.depth += 1,
            b'}' if !self.is_text => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

impl Objects<'_> {
    /// Goes to the next object; false at the end.
    fn advance(&mut self) -> Result<bool, Error> {
        self.bytes.clear();
        if !self.find()? {
            return Ok(false);
        }
        self.line = self.lines.number() + 1;
        let mut cursor = Cursor::default();
        loop {
            let chunk = self.lines.fill()?;
            if chunk.is_empty() {
                let what = format!("the object that begins at line {} does not end", self.line);
                return Err(self.cut(what));
            }
            let end = chunk.iter().position(|byte| cursor.step(*byte));
            let taken = end.map_or(chunk.len(), |end| end + 1);
            if self.bytes.len() <= OBJECT_BYTES_MAX {
                self.bytes.extend_from_slice(&chunk[..taken]);
            }
            let line_ends = line_ends(&chunk[..taken]);
            self.lines.consume(taken, line_ends);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Passes over what stands between objects; false at the end of the source.
    fn find(&mut self) -> Result<bool, Error> {
        loop {
            let chunk = self.lines.fill()?;
            if chunk.is_empty() {
                if self.is_array {
                    return Err(self.cut("the array does not end".to_owned()));
                }
                return Ok(false);
            }
            let is_between = |byte: &u8| {
                byte.is_ascii_whitespace() || matches!(byte, b'[' | b']' | b',' | 0xef | 0xbb | 0xbf)
            };
            let at = chunk.iter().position(|byte| !is_between(byte));
            let passed = &chunk[..at.unwrap_or(chunk.len())];
            for byte in passed {
                match byte {
                    b'[' => self.is_array = true,
                    b']' => self.is_array = false,
                    _ => {}
                }
            }
            let (taken, line_ends) = (passed.len(), line_ends(passed));
            let next = at.and_then(|at| chunk.get(at)).copied();
            self.lines.consume(taken, line_ends);
            match next {
                None => {}
                Some(b'{') => return Ok(true),
                Some(other) => {
                    let what =
                        format!("there is `{}` where a job should begin", char::from(other).escape_default());
                    return Err(self.form(what, "the file is a JSON array with one object a job"));
                }
            }
        }
    }

    fn parse(&self) -> Result<Value, Bad> {
        if self.bytes.len() > OBJECT_BYTES_MAX {
            return Err(bad("is longer than 16 MiB"));
        }
        serde_json::from_slice(&self.bytes).map_err(|error| bad_value("is no JSON", &error.to_string()))
    }

    fn cut(&self, what: String) -> Error {
        self.form(what, "the file was cut short: copy or download it again")
    }

    fn form(&self, what: String, fix: &str) -> Error {
        let (path, line) = (self.lines.path().to_owned(), self.lines.number() + 1);
        Error::Form { path, line, format: Format::Philly, what, fix: fix.to_owned() }
    }
}

fn line_ends(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(u64::MAX)
}
