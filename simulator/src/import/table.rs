//! Tables with a header: rows by line, values by the name of their column, never by position.

use scheduler_core::unit::{Span, Timestamp};

use super::error::Error;
use super::format::Format;
use super::source::Lines;
use super::value::{self, Bad, bad, bad_value, shown, something};

/// The names of the columns.
#[derive(Debug, Clone)]
pub(super) struct Header {
    line: u64,
    names: Vec<String>,
}

impl Header {
    /// Takes names as they stand in the header's line; blanks around a name are no part of it.
    pub(super) fn new(line: u64, names: Vec<String>) -> Self {
        Self { line, names: names.into_iter().map(|name| name.trim().to_owned()).collect() }
    }

    /// Returns the place of a column, in any case.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// Returns whether there is such a column.
    pub(super) fn has(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// Returns the first of these columns that is there.
    pub(super) fn first_of<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has(name))
    }

    /// Returns the columns that are none of `known`.
    pub(super) fn others(&self, known: &[&str]) -> Vec<&str> {
        let is_known = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
        self.names.iter().map(String::as_str).filter(|name| !name.is_empty() && !is_known(name)).collect()
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Makes the error that a column is missing.
    pub(super) fn lacks(&self, path: &str, format: Format, missing: &str, fix: &str) -> Error {
        let names: Vec<String> = self.names.iter().take(40).map(|name| shown(name)).collect();
        let found = names.join(", ");
        let (path, missing, fix) = (path.to_owned(), missing.to_owned(), fix.to_owned());
        Error::Columns { path, line: self.line, format, missing, found, fix }
    }

    /// Checks that all of `columns` are there.
    pub(super) fn require(&self, path: &str, format: Format, columns: &[&str]) -> Result<(), Error> {
        let missing: Vec<String> =
            columns.iter().filter(|column| !self.has(column)).map(|column| format!("`{column}`")).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let fix = "give the file as it was published, with its header, or name its columns as format csv";
        Err(self.lacks(path, format, &missing.join(" and "), fix))
    }
}

/// A table and its current row.
pub(super) struct Table<'s> {
    lines: Lines<'s>,
    /// Its header.
    pub header: Header,
    split: fn(&str, &str) -> Result<Vec<String>, &'static str>,
    delimiter: String,
    fields: Result<Vec<String>, Bad>,
}

/// A row, by the names of its columns.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    /// Its line.
    pub line: u64,
    header: &'t Header,
    fields: &'t [String],
}

impl<'s> Table<'s> {
    /// Reads the header of a CSV.
    pub(super) fn csv(lines: Lines<'s>) -> Result<Self, Error> {
        Self::new(lines, ",", |text, _| split_csv(text))
    }

    /// Reads the header of a table whose fields have no quotes.
    pub(super) fn plain(lines: Lines<'s>, delimiter: &str) -> Result<Self, Error> {
        Self::new(lines, delimiter, |text, delimiter| Ok(text.split(delimiter).map(str::to_owned).collect()))
    }

    fn new(
        mut lines: Lines<'s>,
        delimiter: &str,
        split: fn(&str, &str) -> Result<Vec<String>, &'static str>,
    ) -> Result<Self, Error> {
        while lines.advance()? {
            let text = lines.text().unwrap_or_default();
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            let names = split(&text, delimiter).unwrap_or_default();
            let header = Header::new(lines.number(), names);
            let (delimiter, fields) = (delimiter.to_owned(), Ok(Vec::new()));
            return Ok(Self { lines, header, split, delimiter, fields });
        }
        Err(Error::Empty { path: lines.path().to_owned() })
    }

    /// Returns what the source is called.
    pub(super) fn path(&self) -> &str {
        self.lines.path()
    }

    /// Returns the current line's number.
    pub(super) fn number(&self) -> u64 {
        self.lines.number()
    }

    /// Goes to the next row that is not empty; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool, Error> {
        while self.lines.advance()? {
            let text = match self.lines.text() {
                Ok(text) => text,
                Err(why) => {
                    self.fields = Err(bad(why));
                    return Ok(true);
                }
            };
            if text.trim().is_empty() {
                continue;
            }
            self.fields = self.split(&text);
            return Ok(true);
        }
        Ok(false)
    }

    fn split(&self, text: &str) -> Result<Vec<String>, Bad> {
        let mut fields = (self.split)(text, &self.delimiter).map_err(|why| bad_value(why, text))?;
        // One more separator at the end of each line is how `sacct -p` and some exporters end it.
        if fields.len() == self.header.len() + 1 && fields.last().is_some_and(String::is_empty) {
            fields.pop();
        }
        if fields.len() != self.header.len() {
            let counts = format!("{} instead of {}", fields.len(), self.header.len());
            return Err(bad_value("has another number of fields than the header", &counts));
        }
        Ok(fields)
    }

    /// Returns the current row.
    pub(super) fn row(&self) -> Result<Row<'_>, Bad> {
        match &self.fields {
            Ok(fields) => Ok(Row { line: self.lines.number(), header: &self.header, fields }),
            Err(bad) => Err(bad.clone()),
        }
    }
}

impl<'t> Row<'t> {
    /// Returns a value as it stands; empty where there is no such column.
    pub(super) fn raw(&self, column: &str) -> &'t str {
        let field = self.header.place(column).and_then(|at| self.fields.get(at));
        field.map_or("", |field| field.trim())
    }

    /// Returns a value, or nothing where the source says nothing.
    pub(super) fn text(&self, column: &str) -> Option<&'t str> {
        something(self.raw(column))
    }

    /// Returns a value as its own text.
    pub(super) fn own(&self, column: &str) -> Option<String> {
        self.text(column).map(str::to_owned)
    }

    fn need(&self, column: &str) -> Result<&'t str, Bad> {
        self.text(column).ok_or_else(|| bad_value(format!("`{column}` is empty"), self.raw(column)))
    }

    fn read<T>(text: &str, column: &str, what: &str, read: fn(&str) -> Option<T>) -> Result<T, Bad> {
        read(text).ok_or_else(|| bad_value(format!("`{column}` is no {what}"), text))
    }

    /// Returns a count.
    pub(super) fn count(&self, column: &str) -> Result<u32, Bad> {
        Self::read(self.need(column)?, column, COUNT, count)
    }

    /// Returns a count, where there is one.
    pub(super) fn count_if(&self, column: &str) -> Result<Option<u32>, Bad> {
        self.text(column).map(|text| Self::read(text, column, COUNT, count)).transpose()
    }

    /// Returns the count of GPUs.
    ///
    /// # Errors
    ///
    /// When it is zero too: such a job is none of ours.
    pub(super) fn gpus(&self, column: &str) -> Result<u32, Bad> {
        let gpus = self.count(column)?;
        if gpus == 0 { Err(bad(NO_GPU)) } else { Ok(gpus) }
    }

    /// Returns seconds.
    pub(super) fn seconds(&self, column: &str) -> Result<Span, Bad> {
        Self::read(self.need(column)?, column, SECONDS, value::seconds)
    }

    /// Returns seconds, where there are any.
    pub(super) fn seconds_if(&self, column: &str) -> Result<Option<Span>, Bad> {
        self.text(column).map(|text| Self::read(text, column, SECONDS, value::seconds)).transpose()
    }

    /// Returns a length of time in any form, where there is one.
    pub(super) fn length_if(&self, column: &str) -> Result<Option<Span>, Bad> {
        self.text(column).map(|text| Self::read(text, column, "length of time", value::length)).transpose()
    }

    /// Returns a moment.
    pub(super) fn moment(&self, column: &str) -> Result<Timestamp, Bad> {
        Self::read(self.need(column)?, column, MOMENT, value::moment)
    }

    /// Returns a moment, where there is one.
    pub(super) fn moment_if(&self, column: &str) -> Result<Option<Timestamp>, Bad> {
        self.text(column).map(|text| Self::read(text, column, MOMENT, value::moment)).transpose()
    }

    /// Returns a moment by the unit that the column's name ends in: `_ms`, else seconds or a date.
    pub(super) fn moment_in(&self, column: &str) -> Result<Option<Timestamp>, Bad> {
        if !column.ends_with("_ms") {
            return self.moment_if(column);
        }
        let read = |text: &str| value::whole(text).and_then(value::moment_ms);
        let text = self.text(column);
        text.map(|text| Self::read(text, column, "time in milliseconds since 1970", read)).transpose()
    }

    /// Returns a length of time by the unit that the column's name ends in: `_ms`, `_min`, `_h`, else seconds or any
    /// form that names its units.
    pub(super) fn length_in(&self, column: &str) -> Result<Option<Span>, Bad> {
        let read: fn(&str) -> Option<Span> = match column.rsplit('_').next() {
            Some("ms") => |text| value::scaled(text, 1),
            Some("min") => |text| value::scaled(text, 60_000),
            Some("h") => |text| value::scaled(text, 3_600_000),
            _ => return self.length_if(column),
        };
        self.text(column).map(|text| Self::read(text, column, "length of time", read)).transpose()
    }

    /// Returns yes or no, where the source says so.
    pub(super) fn yes_if(&self, column: &str) -> Result<Option<bool>, Bad> {
        self.text(column).map(|text| Self::read(text, column, "yes or no", value::yes_or_no)).transpose()
    }
}

/// What a job without GPUs is counted under.
pub(super) const NO_GPU: &str = "has no GPU";

const COUNT: &str = "whole number from 0";
const SECONDS: &str = "number of seconds from 0 to ten years";
const MOMENT: &str = "time (seconds, or as 2026-01-31 18:41:01)";

/// Reads a count, as any of the formats writes it.
pub(super) fn count(text: &str) -> Option<u32> {
    value::whole(text).and_then(|count| u32::try_from(count).ok())
}

/// Splits a line of CSV: fields may be quoted, a quote inside is doubled. A field never goes on in the next line.
///
/// # Errors
///
/// When a quote is not closed, or text follows it.
pub(super) fn split_csv(text: &str) -> Result<Vec<String>, &'static str> {
    if !text.contains('"') {
        return Ok(text.split(',').map(str::to_owned).collect());
    }
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (field, after) =
                rest.split_once(',').map_or((rest, None), |(field, after)| (field, Some(after)));
            fields.push(field.to_owned());
            let Some(after) = after else { return Ok(fields) };
            rest = after;
            continue;
        };
        let (field, after) = unquote(quoted)?;
        fields.push(field);
        if after.is_empty() {
            return Ok(fields);
        }
        rest = after.strip_prefix(',').ok_or("has text behind a closing quote")?;
    }
}

fn unquote(quoted: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('"').ok_or("has a quote that is not closed on its line")?;
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_are_split_as_a_table_program_writes_them() {
        let check = |text, expected: &[&str]| assert_eq!(split_csv(text).unwrap(), expected, "{text}");
        check("a,b,,", &["a", "b", "", ""]);
        check("\"a,b\",\"say \"\"x\"\"\",c", &["a,b", "say \"x\"", "c"]);
        check("\"\",x", &["", "x"]);
        assert!(split_csv("\"a,b").is_err());
        assert!(split_csv("\"a\"b,c").is_err());
    }
}
