//! Records to state.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use prost::Message;
use scheduler_core::id::{BudgetId, Name};
use scheduler_core::ledger::{Account, Books, Class, Curve, Merged, PoolBooks, WeighedCurves};
use scheduler_core::lifecycle::before;
use scheduler_core::spec::Tier;
use scheduler_core::state::{self, State};
use scheduler_core::table::{Store, Table};
use scheduler_core::unit::Weight;

use super::{FORMAT, arrays, attempts, bills, books, dates, edits, grants, jobs, people};
use crate::error;
use crate::state::v1::record::Record as Kind;
use crate::state::v1::{Record, Trailer};
use crate::wire::required;

/// The most bytes of one record: a job spec is 64 KiB, a curve with all the points there may be 50 MB.
const RECORD_MAX: u64 = 64 * 1024 * 1024;

/// Why a snapshot can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes stopped or failed.
    #[error("failed to read the snapshot after {records} records")]
    Read {
        /// Records that were read.
        records: u64,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A record can't be.
    #[error("record {at} of the snapshot is not valid")]
    Record {
        /// Which, from 1.
        at: u64,
        /// The cause.
        #[source]
        source: error::Error,
    },
    /// It is of a format that this build doesn't know.
    #[error("the snapshot has format {found}; this build reads format {FORMAT}")]
    Format {
        /// What it has.
        found: u32,
    },
    /// Its end doesn't fit its records.
    #[error("the snapshot's {what} differs from its records: it is damaged or was cut")]
    Differs {
        /// The beginning, the number of records, the digest, or the end.
        what: &'static str,
    },
}

/// Reads a whole state.
///
/// # Errors
/// When a record can't be, or the records don't fit the trailer.
pub fn read(from: &mut dyn Read) -> Result<State, Error> {
    let mut source = Source { from, records: 0, buffer: Vec::new() };
    match source.next()? {
        Kind::Header(header) if header.format == FORMAT => {}
        Kind::Header(header) => return Err(Error::Format { found: header.format }),
        _ => return Err(Error::Differs { what: "beginning" }),
    }
    let mut building = Building::default();
    loop {
        match source.next()? {
            Kind::Trailer(trailer) => {
                let records = source.records - 1;
                source.end()?;
                return building.finish(records, &trailer);
            }
            record => {
                let at = source.records;
                building.take(record).map_err(|cause| Error::Record { at, source: cause })?;
            }
        }
    }
}

struct Source<'a> {
    from: &'a mut dyn Read,
    records: u64,
    buffer: Vec<u8>,
}

impl Source<'_> {
    fn next(&mut self) -> Result<Kind, Error> {
        let records = self.records;
        let failed = |source| Error::Read { records, source };
        let len = self.length().map_err(failed)?;
        // Grows with what comes, whatever the length says.
        self.buffer.clear();
        let read = self.from.take(len).read_to_end(&mut self.buffer).map_err(failed)?;
        if u64::try_from(read) != Ok(len) {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        self.records += 1;
        let record = Record::decode(self.buffer.as_slice())
            .map_err(|cause| error::Error::NoMessage("snapshot record", cause))
            .and_then(|record| required("record", record.record));
        record.map_err(|source| Error::Record { at: self.records, source })
    }

    /// Checks that nothing comes any more.
    fn end(&mut self) -> Result<(), Error> {
        let read = self.from.take(1).read_to_end(&mut self.buffer);
        let records = self.records;
        match read.map_err(|source| Error::Read { records, source })? {
            0 => Ok(()),
            _ => Err(Error::Differs { what: "end" }),
        }
    }

    /// Reads a varint, as `encode_length_delimited` writes it.
    fn length(&mut self) -> io::Result<u64> {
        let mut len = 0_u64;
        for shift in (0..35).step_by(7) {
            let mut byte = [0];
            self.from.read_exact(&mut byte)?;
            len |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                let too_long =
                    || io::Error::new(io::ErrorKind::InvalidData, "a record is longer than any can be");
                return if len <= RECORD_MAX { Ok(len) } else { Err(too_long()) };
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a record's length is no number"))
    }
}

#[derive(Default)]
struct Building {
    state: State,
    merged: Merged,
    pools: BTreeMap<Name, books::PoolParts>,
    classes: BTreeMap<Name, Table<Class, Curve>>,
    accounts: BTreeMap<Name, Table<(BudgetId, Tier), Arc<Account>>>,
    demand: BTreeMap<Name, Table<BudgetId, Curve>>,
    weighed: BTreeMap<Name, Table<Weight, WeighedCurves>>,
}

impl Building {
    fn take(&mut self, record: Kind) -> Result<(), error::Error> {
        let state = &mut self.state;
        match record {
            Kind::Header(_) | Kind::Trailer(_) => {
                return Err(error::Error::bad("record", "not in its place"));
            }
            Kind::Meta(m) => {
                self.merged = books::read_merged(&m)?;
                state.meta = people::read_meta(m)?;
            }
            Kind::Budget(m) => put(&mut state.budgets, people::read_budget(m)?)?,
            Kind::Edit(m) => put(&mut state.edits, edits::read_edit(m)?)?,
            // What they do to shares is not written: it follows from them.
            Kind::Grant(m) => grants::take(state, m)?,
            Kind::Principal(m) => put(&mut state.principals, people::read_principal(m)?)?,
            Kind::JoinToken(m) => put(&mut state.join_tokens, people::read_join_token(m)?)?,
            Kind::MadePool(m) => put(&mut state.pools, people::read_made_pool(m)?)?,
            Kind::Node(m) => put(&mut state.nodes, people::read_node(m)?)?,
            Kind::Job(m) => {
                let (id, job) = jobs::read_job(m)?;
                if !job.phase.is_ended() {
                    before::enter(state, id, &job.before);
                }
                put(&mut state.jobs, (id, job))?;
            }
            Kind::Array(m) => {
                let (id, array) = arrays::read_array(m)?;
                if !array.job.phase.is_ended() {
                    before::enter(state, id, &array.job.before);
                }
                put(&mut state.arrays, (id, array))?;
            }
            Kind::Attempt(m) => put(&mut state.attempts, attempts::read_attempt(m)?)?,
            Kind::Pool(m) => {
                let (name, parts) = books::read_pool(m)?;
                self.pools.insert(name, parts);
            }
            Kind::ClassCurve(m) => {
                let (pool, class, curve) = books::read_class_curve(m)?;
                put(self.classes.entry(pool).or_default(), (class, curve))?;
            }
            Kind::Account(m) => {
                let (pool, key, account) = books::read_account(m)?;
                put(self.accounts.entry(pool).or_default(), (key, Arc::new(account)))?;
            }
            Kind::Demand(m) => {
                let (pool, budget, curve) = books::read_demand(m)?;
                put(self.demand.entry(pool).or_default(), (budget, curve))?;
            }
            Kind::Weighed(m) => {
                let (pool, weight, curves) = books::read_weighed(m)?;
                put(self.weighed.entry(pool).or_default(), (weight, curves))?;
            }
            Kind::Launch(m) => put(&mut state.launches, jobs::read_launch(m)?)?,
            Kind::Decision(m) => put(&mut state.decisions, attempts::read_decision(m)?)?,
            Kind::Bill(m) => put(&mut state.bills, bills::read_bill(m)?)?,
            Kind::Request(m) => put(&mut state.requests, people::read_request(m)?)?,
            Kind::Stray(m) => put(&mut state.strays, jobs::read_stray(m)?)?,
            Kind::Date(m) => put(&mut state.dates, dates::read_date(m)?)?,
            Kind::InLine(m) => {
                let place = jobs::read_in_line(m)?;
                let job = state.jobs.get(&place.job);
                let kind = job.map(state::Kind::of).ok_or(error::Error::Missing("the job in line"))?;
                put(&mut state.line, (place, kind))?;
            }
            Kind::Ended(m) => put(&mut state.ended, (jobs::read_ended_job(&m), ()))?,
            Kind::Result(m) => {
                let (id, result) = jobs::read_result(m)?;
                state.results_by_end.insert((result.at, id), ());
                put(&mut state.results, (id, result))?;
            }
            Kind::Timer(m) => put(&mut state.timers, (jobs::read_timer(m)?, ()))?,
        }
        Ok(())
    }

    fn finish(mut self, records: u64, trailer: &Trailer) -> Result<State, Error> {
        if records != trailer.records {
            return Err(Error::Differs { what: "number of records" });
        }
        let mut pools = Table::default();
        for (name, parts) in self.pools {
            let classes = self.classes.remove(&name).unwrap_or_default();
            let accounts = self.accounts.remove(&name).unwrap_or_default();
            let demand = self.demand.remove(&name).unwrap_or_default();
            let weighed = self.weighed.remove(&name).unwrap_or_default();
            let pool = PoolBooks::from_parts(parts.since, parts.installed, classes, accounts, demand)
                .with_weights(weighed, parts.reweighed_at);
            pools.insert(name, Arc::new(pool));
        }
        self.state.books = Books::from_parts(pools, self.merged);
        if self.state.digest().as_slice() != trailer.digest.as_slice() {
            return Err(Error::Differs { what: "digest" });
        }
        Ok(self.state)
    }
}

/// Appends a record: they come in key order, each once.
pub(super) fn put<K: Ord + Clone, V, S: Store<V>>(
    table: &mut Table<K, V, S>,
    (key, value): (K, V),
) -> Result<(), error::Error> {
    if table.last().is_some_and(|(last, _)| *last >= key) {
        return Err(error::Error::bad("record", "out of order, or there twice"));
    }
    table.insert(key, value);
    Ok(())
}
