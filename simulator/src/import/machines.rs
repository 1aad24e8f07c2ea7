//! Machines, as some traces list them beside their jobs.

use std::path::Path;

use super::error::Error;
use super::format::Format;
use super::source::Source;
use super::table::{Header, Table};
use super::value::{bad, shown};

/// A machine of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its GPUs.
    pub gpus: u32,
    /// What they are, where the source says so: a model, or a size of memory.
    pub gpu_type: Option<String>,
}

/// More machines than this are no cluster.
const MACHINES_MAX: usize = 1_000_000;

/// The columns of a list of machines: name, GPUs, type. First Alibaba's openb, then Philly's, then Alibaba's spot trace,
/// then one's own.
const FORMS: [[&str; 3]; 4] = [
    ["sn", "gpu", "model"],
    ["machineId", "number of GPUs", "single GPU mem"],
    ["node_name", "gpu_capacity_num", "gpu_model"],
    ["name", "gpus", "gpu_type"],
];

/// Reads a list of machines: `openb_node_list_*.csv`, Philly's `cluster_machine_list`, or `name,gpus,gpu_type`.
///
/// Machines without GPUs are left out.
///
/// # Errors
///
/// When it cannot be read, has other columns, or a row that is no machine: a cluster with a machine too few would be
/// another cluster.
pub fn machines(path: &Path) -> Result<Vec<Machine>, Error> {
    let mut table = Table::csv(Source::open(path)?.lines())?;
    let [name, gpus, gpu_type] = form(&table)?;
    let mut machines = Vec::new();
    while table.advance()? {
        let read = table.row().and_then(|row| {
            let name = row.own(name).ok_or_else(|| bad("has no name"))?;
            Ok(Machine { name, gpus: row.count(gpus)?, gpu_type: row.own(gpu_type) })
        });
        let machine = read.map_err(|bad| Error::Form {
            path: table.path().to_owned(),
            line: table.number(),
            format: Format::Csv,
            what: format!("the row {} `{}`", bad.why, shown(&bad.value)),
            fix: "repair the row or take it out".to_owned(),
        })?;
        if machines.len() >= MACHINES_MAX {
            let (path, line) = (table.path().to_owned(), table.number());
            return Err(Error::TooMany { path, line, most: MACHINES_MAX });
        }
        if machine.gpus > 0 {
            machines.push(machine);
        }
    }
    if machines.is_empty() {
        let (path, what) = (table.path().to_owned(), "no machine here has a GPU".to_owned());
        return Err(Error::Option { path, what, fix: "give a list of machines with GPUs".to_owned() });
    }
    Ok(machines)
}

fn form(table: &Table<'_>) -> Result<[&'static str; 3], Error> {
    let is = |header: &Header, form: &[&str; 3]| form.iter().take(2).all(|column| header.has(column));
    FORMS.into_iter().find(|form| is(&table.header, form)).ok_or_else(|| {
        let fix = "give a list of machines with the columns name, gpus, gpu_type";
        table.header.lacks(table.path(), Format::Csv, "for a machine's name and its GPUs", fix)
    })
}
