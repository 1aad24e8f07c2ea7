//! Any CSV with a header: columns by their names, usual or given.
//!
//! Needed are a submission, GPUs and a duration (or a start and an end); everything else is taken where it is there. A
//! number of time is in seconds, or in the unit that the column's name ends in (`_ms`, `_min`, `_h`); dates and lengths
//! that name their units are read as they stand. The form of normalised traces
//! (`job_id,submit_s,duration_s,gpus,nodes,team,user,gpu_type,status`) needs no names at all.

use std::collections::BTreeMap;

use scheduler_core::unit::Span;

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::options::{Field, OneGpu, Options, Unit};
use super::source::Lines;
use super::table::{Header, NO_GPU, Row, Table};
use super::value::{Bad, bad, end};
use crate::trace::{TraceEnd, TraceJob};

/// The columns of a file, by field.
struct Columns {
    places: BTreeMap<Field, String>,
}

/// Returns whether a header has what a job needs under the usual names.
pub(super) fn is_header(header: &Header) -> bool {
    let columns = usual(header);
    let has = |field| columns.places.contains_key(&field);
    has(Field::Submit) && has(Field::Gpus) && columns.has_duration()
}

fn usual(header: &Header) -> Columns {
    let places = Field::ALL.into_iter().filter_map(|field| {
        let column = header.first_of(field.usual())?;
        Some((field, column.to_owned()))
    });
    Columns { places: places.collect() }
}

impl Columns {
    fn of(header: &Header, path: &str, options: &Options) -> Result<Self, Error> {
        let mut columns = usual(header);
        for (field, column) in &options.columns {
            if !header.has(column) {
                let missing = format!("`{column}`, which was given for {}", field.name());
                return Err(header.lacks(
                    path,
                    Format::Csv,
                    &missing,
                    "give the name of a column that is there",
                ));
            }
            columns.places.insert(*field, column.clone());
        }
        let gpus = match options.one_gpu {
            Some(OneGpu { of: Unit::Nodes, .. }) => Field::Nodes,
            Some(OneGpu { of: Unit::Processors, .. }) | None => Field::Gpus,
        };
        let is_missing = |field: &Field| !columns.places.contains_key(field);
        let mut missing: Vec<&str> = [Field::Submit, gpus]
            .iter()
            .filter(|field| is_missing(field))
            .map(|field| field.name())
            .collect();
        if !columns.has_duration() {
            missing.push("duration (or start and end)");
        }
        if missing.is_empty() {
            return Ok(columns);
        }
        let missing = format!("for {}", missing.join(" and for "));
        let fix = "name the columns that say so, as submit=COLUMN";
        Err(header.lacks(path, Format::Csv, &missing, fix))
    }

    fn has_duration(&self) -> bool {
        let has = |field| self.places.contains_key(&field);
        has(Field::Duration) || (has(Field::Start) && has(Field::End))
    }

    /// Returns a field's column; a name that no header has where there is none.
    fn at(&self, field: Field) -> &str {
        self.places.get(&field).map_or("", String::as_str)
    }
}

/// Reads it.
pub(super) fn read(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let mut table = Table::csv(lines)?;
    let columns = Columns::of(&table.header, table.path(), into.options())?;
    let known: Vec<&str> = columns.places.values().map(String::as_str).collect();
    into.note_unread(&table.header.others(&known));
    if let Some(rule) = into.options().one_gpu {
        into.note(format!("rule: {rule} = 1 GPU"));
    }
    while table.advance()? {
        into.row();
        let job = table.row().and_then(|row| job(&row, &columns, into.options().one_gpu));
        into.take(table.number(), job)?;
    }
    Ok(())
}

fn job(row: &Row<'_>, columns: &Columns, one_gpu: Option<OneGpu>) -> Result<TraceJob, Bad> {
    let text = |field| row.own(columns.at(field));
    let gpus = gpus(row, columns, one_gpu)?;
    let started_at = row.moment_in(columns.at(Field::Start))?;
    let submitted_at =
        row.moment_in(columns.at(Field::Submit))?.ok_or_else(|| bad("has no time of submission"))?;
    if started_at.is_some_and(|started_at| started_at < submitted_at) {
        return Err(bad("started before it was submitted"));
    }
    let waited = row.length_in(columns.at(Field::Wait))?;
    Ok(TraceJob {
        name: text(Field::Job).unwrap_or_else(|| row.line.to_string()),
        line: row.line,
        submitted_at,
        duration: duration(row, columns)?,
        gpus,
        nodes: row.count_if(columns.at(Field::Nodes))?,
        gpu_type: text(Field::GpuType).filter(|gpu_type| gpu_type != "any"),
        team: text(Field::Team),
        user: text(Field::User),
        time_limit: row.length_in(columns.at(Field::TimeLimit))?,
        min_runtime: row.length_in(columns.at(Field::MinRuntime))?,
        is_free: row.yes_if(columns.at(Field::Free))?,
        waited: waited.or(started_at.map(|started_at| started_at.since(submitted_at))),
        end: text(Field::Status).map_or(TraceEnd::Unknown, |status| end(&status)),
    })
}

fn gpus(row: &Row<'_>, columns: &Columns, one_gpu: Option<OneGpu>) -> Result<u32, Bad> {
    let Some(rule) = one_gpu else { return row.gpus(columns.at(Field::Gpus)) };
    let amount = match rule.of {
        Unit::Nodes => row.count(columns.at(Field::Nodes))?,
        Unit::Processors => row.count(columns.at(Field::Gpus))?,
    };
    if amount == 0 { Err(bad(NO_GPU)) } else { Ok(rule.gpus(amount)) }
}

fn duration(row: &Row<'_>, columns: &Columns) -> Result<Span, Bad> {
    if let Some(duration) = row.length_in(columns.at(Field::Duration))? {
        return Ok(duration);
    }
    let moments = (row.moment_in(columns.at(Field::Start))?, row.moment_in(columns.at(Field::End))?);
    let (Some(started_at), Some(ended_at)) = moments else { return Err(bad("does not say how long it ran")) };
    if ended_at < started_at {
        return Err(bad("ended before it started"));
    }
    let ran = ended_at.since(started_at);
    if ran > Span::MAX { Err(bad("runs longer than ten years")) } else { Ok(ran) }
}
