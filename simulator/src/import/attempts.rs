//! Two traces in one derived form: `u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status`, where an
//! interval is the seconds since the submission of the row before.
//!
//! - **Helios, cluster Venus**: a row is a job. The file begins on 2020-05-27 at 23:58:26: from then on its submissions
//!   agree with the publisher's own throughput table in each 10 minutes.
//! - **Philly**: a row is an *attempt*. A job that was retried is several rows of one second, user, size and final
//!   status, which are put together here. The file begins on 2017-08-07 at 10:03:01 (585 of 796 rare pairs of
//!   duration and GPUs agree on that second with the file of passed jobs). With that file as companion, rows of passed
//!   jobs are put together only if it has their sum, and each job gets its virtual cluster: by exact match, else the one
//!   in which most of its user's jobs were.

use std::collections::HashMap;

use scheduler_core::unit::{Span, Timestamp};

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::open::open;
use super::options::Options;
use super::source::Lines;
use super::table::{Row, Table};
use super::value::{Bad, bad, end};
use crate::trace::{TraceEnd, TraceJob};

/// What its header has.
pub(super) const COLUMNS: &[&str] =
    &["u_id", "user", "gpu_num", "node_num", "interval", "run_time", "new_status"];

/// When Philly's file begins.
const PHILLY_START: Timestamp = Timestamp::from_millis(1_502_100_181_000);

/// When Helios' file begins.
const VENUS_START: Timestamp = Timestamp::from_millis(1_590_623_906_000);

fn begin<'s>(lines: Lines<'s>, into: &mut Collector<'_>, format: Format) -> Result<Table<'s>, Error> {
    let table = Table::csv(lines)?;
    table.header.require(table.path(), format, COLUMNS)?;
    into.note_unread(&table.header.others(&[COLUMNS, &["cpu_num", "wall_time"]].concat()));
    Ok(table)
}

/// Moves `now` by a row's interval. Without it all later times would be wrong, so a row without one is not passed over.
fn step(table: &Table<'_>, format: Format, now: Timestamp) -> Result<Timestamp, Error> {
    let form = |bad: Bad| Error::Form {
        path: table.path().to_owned(),
        line: table.number(),
        format,
        what: format!("{} `{}`", bad.why, bad.value),
        fix: "all times after this line hang on it: repair the line, or cut the file above it".to_owned(),
    };
    let interval = table.row().and_then(|row| row.seconds("interval")).map_err(form)?;
    let next = now.plus(interval);
    if next.since(Timestamp::ZERO) > Span::from_millis(Span::MAX.as_millis().saturating_mul(100)) {
        return Err(form(bad("`interval` adds up to a time after the year 2900")));
    }
    Ok(next)
}

fn job(row: &Row<'_>, submitted_at: Timestamp, letter: &str) -> Result<TraceJob, Bad> {
    Ok(TraceJob {
        name: row.own("u_id").unwrap_or_else(|| row.line.to_string()),
        line: row.line,
        submitted_at,
        duration: row.seconds("run_time")?,
        gpus: row.gpus("gpu_num")?,
        nodes: row.count_if("node_num")?,
        gpu_type: None,
        team: None,
        user: row.text("user").map(|user| format!("{letter}{user}")),
        time_limit: None,
        min_runtime: None,
        is_free: None,
        waited: None,
        end: end(row.raw("new_status")),
    })
}

/// Reads Helios' form: a row is a job.
pub(super) fn read_jobs(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let format = Format::HeliosIntervals;
    let mut table = begin(lines, into, format)?;
    let mut now = into.options().start.unwrap_or(VENUS_START);
    into.note("a row is a job; times are added up from the intervals, from the known start of the file");
    while table.advance()? {
        into.row();
        now = step(&table, format, now)?;
        let job = table.row().and_then(|row| job(&row, now, "h")).map(|mut job| {
            job.name = format!("venus-{}", job.name);
            job.gpu_type = Some("V100".to_owned());
            job
        });
        into.take(table.number(), job)?;
    }
    Ok(())
}

/// Reads Philly's form: a row is an attempt.
pub(super) fn read_attempts(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let format = Format::PhillyAttempts;
    let passed = Passed::open(into.options())?;
    let mut table = begin(lines, into, format)?;
    let mut now = into.options().start.unwrap_or(PHILLY_START);
    into.note("a row is an attempt; times are added up from the intervals, from the known start of the file");
    let mut second: Vec<TraceJob> = Vec::new();
    let mut merged = 0_u64;
    while table.advance()? {
        into.row();
        let next = step(&table, format, now)?;
        if next != now {
            merged += put_together(&mut second, passed.as_ref(), into)?;
            now = next;
        }
        match table.row().and_then(|row| job(&row, now, "p")) {
            Ok(attempt) => second.push(attempt),
            Err(bad) => into.skip(table.number(), &bad),
        }
    }
    merged += put_together(&mut second, passed.as_ref(), into)?;
    into.note(format!(
        "{merged} rows are further attempts of the job above them (one second, user, size and status), and were added \
         to it"
    ));
    match passed {
        Some(passed) => passed.give_teams(&mut into.jobs),
        None => into.note(
            "no team: give the file of passed jobs as companion to get the virtual clusters, and to keep jobs apart \
             that one user submitted in one second",
        ),
    }
    Ok(())
}

/// Puts the attempts of one second together to jobs; returns how many were added to another.
fn put_together(
    second: &mut Vec<TraceJob>,
    passed: Option<&Passed>,
    into: &mut Collector<'_>,
) -> Result<u64, Error> {
    let mut groups: Vec<Vec<TraceJob>> = Vec::new();
    let mut places: HashMap<(Option<String>, u32, TraceEnd), usize> = HashMap::new();
    for attempt in second.drain(..) {
        let place = places.entry((attempt.user.clone(), attempt.gpus, attempt.end)).or_insert(groups.len());
        match groups.get_mut(*place) {
            Some(group) => group.push(attempt),
            None => groups.push(vec![attempt]),
        }
    }
    let mut merged = 0;
    for group in groups {
        if passed.is_some_and(|passed| passed.keeps_apart(&group)) {
            for job in group {
                keep(job, into)?;
            }
            continue;
        }
        let mut rows = group.into_iter();
        let Some(mut job) = rows.next() else { continue };
        let mut longest = job.duration;
        for attempt in rows {
            merged += 1;
            job.duration = job.duration.plus(attempt.duration);
            if attempt.duration > longest {
                longest = attempt.duration;
                job.nodes = attempt.nodes;
            }
        }
        keep(job, into)?;
    }
    Ok(merged)
}

fn keep(mut job: TraceJob, into: &mut Collector<'_>) -> Result<(), Error> {
    job.name = format!("philly-a{}", job.name);
    into.take(job.line, Ok(job))
}

/// The passed jobs of the companion, by what the two files have in common.
struct Passed {
    durations: HashMap<(Timestamp, Span), u32>,
    teams: HashMap<(Timestamp, Span, u32), String>,
}

impl Passed {
    fn open(options: &Options) -> Result<Option<Self>, Error> {
        let Some(path) = &options.companion else { return Ok(None) };
        let trace = open(path, &Options { format: Some(Format::PhillyPass), ..Options::default() })?;
        let mut passed = Self { durations: HashMap::new(), teams: HashMap::new() };
        for job in trace.jobs {
            *passed.durations.entry((job.submitted_at, job.duration)).or_insert(0) += 1;
            if let Some(team) = job.team {
                passed.teams.insert((job.submitted_at, job.duration, job.gpus), team);
            }
        }
        Ok(Some(passed))
    }

    /// Returns whether passed rows of one second are proven to be jobs of their own.
    fn keeps_apart(&self, group: &[TraceJob]) -> bool {
        let Some(first) = group.first() else { return false };
        let total = group.iter().fold(Span::ZERO, |total, job| total.plus(job.duration));
        let has = |duration: Span| self.durations.contains_key(&(first.submitted_at, duration));
        group.len() > 1
            && first.end == TraceEnd::Completed
            && !has(total)
            && group.iter().all(|job| has(job.duration))
    }

    fn team(&self, job: &TraceJob) -> Option<&String> {
        self.teams.get(&(job.submitted_at, job.duration, job.gpus))
    }

    /// Gives each job its team: by exact match, else that of most of its user's jobs.
    fn give_teams(&self, jobs: &mut [TraceJob]) {
        let mut homes: HashMap<String, Vec<(String, u32)>> = HashMap::new();
        for job in jobs.iter() {
            let (Some(user), Some(team)) = (&job.user, self.team(job)) else { continue };
            let seen = homes.entry(user.clone()).or_default();
            match seen.iter_mut().find(|(known, _)| known == team) {
                Some((_, times)) => *times += 1,
                None => seen.push((team.clone(), 1)),
            }
        }
        for job in jobs {
            let home = || {
                let seen = homes.get(job.user.as_ref()?)?;
                let most = seen.iter().map(|(_, times)| *times).max()?;
                seen.iter().find(|(_, times)| *times == most).map(|(team, _)| team.clone())
            };
            job.team = self.team(job).cloned().or_else(home);
        }
    }
}
