//! State to records.

use std::io::{self, Write};

use prost::Message;
use scheduler_core::state::State;

use super::{FORMAT, arrays, attempts, bills, books, dates, edits, grants, jobs, people};
use crate::state::v1::record::Record as Kind;
use crate::state::v1::{Header, Record, Trailer};

/// Writes a whole state.
///
/// # Errors
/// When `out` can't be written to.
pub fn write(state: &State, out: &mut dyn Write) -> io::Result<()> {
    let mut sink = Sink { out, records: 0, buffer: Vec::new() };
    let meta = &state.meta;
    sink.put(Kind::Header(Header { format: FORMAT, index: meta.index.get(), term: meta.term.get() }))?;
    sink.put(Kind::Meta(people::meta(state)))?;
    state.budgets.iter().try_for_each(|(id, value)| sink.put(Kind::Budget(people::budget(*id, value))))?;
    state.edits.iter().try_for_each(|(id, value)| sink.put(Kind::Edit(edits::edit(*id, value))))?;
    state.grants.iter().try_for_each(|(id, value)| sink.put(Kind::Grant(grants::grant(*id, value))))?;
    state
        .principals
        .iter()
        .try_for_each(|(id, value)| sink.put(Kind::Principal(people::principal(id, value))))?;
    state
        .join_tokens
        .iter()
        .try_for_each(|(id, value)| sink.put(Kind::JoinToken(people::join_token(id, value))))?;
    state
        .pools
        .iter()
        .try_for_each(|(name, value)| sink.put(Kind::MadePool(people::made_pool(name, value))))?;
    state.nodes.iter().try_for_each(|(id, value)| sink.put(Kind::Node(people::node(*id, value))))?;
    state.jobs.iter().try_for_each(|(id, value)| sink.put(Kind::Job(jobs::job(*id, value))))?;
    state.arrays.iter().try_for_each(|(id, value)| sink.put(Kind::Array(arrays::array(*id, value))))?;
    state
        .attempts
        .iter()
        .try_for_each(|(id, value)| sink.put(Kind::Attempt(attempts::attempt(*id, value))))?;
    for (name, pool) in state.books.pools().iter() {
        sink.put(Kind::Pool(books::pool(name, pool)))?;
        for (class, curve) in pool.class_curves().iter() {
            sink.put(Kind::ClassCurve(books::class_curve(name, *class, curve)))?;
        }
        for ((budget, tier), account) in pool.accounts().iter() {
            sink.put(Kind::Account(books::account(name, *budget, *tier, account)))?;
        }
        for (budget, curve) in pool.demand_curves().iter() {
            sink.put(Kind::Demand(books::demand(name, *budget, curve)))?;
        }
        for (weight, curves) in pool.weighed().iter() {
            sink.put(Kind::Weighed(books::weighed(name, *weight, curves)))?;
        }
    }
    state.launches.iter().try_for_each(|(id, value)| sink.put(Kind::Launch(jobs::launch(id, value))))?;
    state
        .decisions
        .iter()
        .try_for_each(|(id, value)| sink.put(Kind::Decision(attempts::decision(*id, value))))?;
    state.bills.iter().try_for_each(|(key, bill)| sink.put(Kind::Bill(bills::bill(*key, bill))))?;
    state.requests.iter().try_for_each(|(id, value)| sink.put(Kind::Request(people::request(id, value))))?;
    state.strays.iter().try_for_each(|(id, value)| sink.put(Kind::Stray(jobs::stray(*id, value))))?;
    state.dates.iter().try_for_each(|(key, value)| sink.put(Kind::Date(dates::date(key, value))))?;
    state.line.keys().try_for_each(|id| sink.put(Kind::InLine(jobs::in_line(id))))?;
    state.ended.keys().try_for_each(|id| sink.put(Kind::Ended(jobs::ended_job(*id))))?;
    // Their index by end follows from them; who waits for whom follows from the jobs.
    state.results.iter().try_for_each(|(id, value)| sink.put(Kind::Result(jobs::result(*id, value))))?;
    state.timers.keys().try_for_each(|id| sink.put(Kind::Timer(jobs::timer(id))))?;
    let records = sink.records;
    sink.put(Kind::Trailer(Trailer { records, digest: state.digest().to_vec() }))
}

struct Sink<'a> {
    out: &'a mut dyn Write,
    records: u64,
    buffer: Vec<u8>,
}

impl Sink<'_> {
    fn put(&mut self, record: Kind) -> io::Result<()> {
        self.buffer.clear();
        Record { record: Some(record) }
            .encode_length_delimited(&mut self.buffer)
            .map_err(io::Error::other)?;
        self.records += 1;
        self.out.write_all(&self.buffer)
    }
}
