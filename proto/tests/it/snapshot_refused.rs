//! Snapshots that were made or damaged by somebody: each is refused in words, and costs no more than what came.

use std::io::{self, Read, Write};

use prost::Message;
use proto::snapshot::{read, write};
use proto::state::v1::record::Record as Kind;
use proto::state::v1::{Header, Record, Trailer};
use scheduler_core::state::State;

use crate::everything::everything;

/// The records of a state, each with its length in front.
fn records(state: &State) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    write(state, &mut bytes).unwrap();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    while !rest.is_empty() {
        let before = rest;
        let record = Record::decode_length_delimited(&mut rest).unwrap();
        assert!(record.record.is_some());
        records.push(before[..before.len() - rest.len()].to_vec());
    }
    records
}

fn encoded(kind: Kind) -> Vec<u8> {
    Record { record: Some(kind) }.encode_length_delimited_to_vec()
}

/// The refusal of a snapshot after a change of its records, with its causes.
fn refusal(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> String {
    let mut records = records(&everything());
    change(&mut records);
    let refused = read(&mut records.concat().as_slice()).expect_err("it is refused");
    let mut words = refused.to_string();
    let mut cause = std::error::Error::source(&refused);
    while let Some(next) = cause {
        words += &format!(": {next}");
        cause = next.source();
    }
    words
}

/// The place of the first record of a kind.
fn first(records: &[Vec<u8>], is: impl Fn(&Kind) -> bool) -> usize {
    let kind = |bytes: &Vec<u8>| Record::decode_length_delimited(bytes.as_slice()).unwrap().record.unwrap();
    records.iter().position(|bytes| is(&kind(bytes))).unwrap()
}

fn is_job(kind: &Kind) -> bool {
    matches!(kind, Kind::Job(_))
}

#[test]
fn records_that_are_missing_twice_or_out_of_order_are_refused() {
    let missing = refusal(|records| drop(records.remove(first(records, is_job))));
    assert!(missing.contains("number of records differs"), "{missing}");
    let order = "out of order, or there twice";
    let twice = refusal(|records| {
        let at = first(records, is_job);
        records.insert(at, records[at].clone());
    });
    assert!(twice.contains(order), "{twice}");
    let swapped = refusal(|records| {
        let at = first(records, is_job);
        records.swap(at, at + 1);
    });
    assert!(swapped.contains(order), "{swapped}");
}

#[test]
fn a_record_of_another_state_makes_another_digest() {
    let words = refusal(|records| {
        let at = first(records, is_job);
        let Some(Kind::Job(mut job)) =
            Record::decode_length_delimited(records[at].as_slice()).unwrap().record
        else {
            panic!("it is a job")
        };
        job.retries_used += 1;
        records[at] = encoded(Kind::Job(job));
    });
    assert!(words.contains("digest differs"), "{words}");
}

#[test]
fn what_is_around_the_records_is_checked() {
    let format =
        refusal(|records| records[0] = encoded(Kind::Header(Header { format: 9, index: 1, term: 1 })));
    assert!(format.contains("format 9"), "{format}");
    let beginning = refusal(|records| drop(records.remove(0)));
    assert!(beginning.contains("beginning differs"), "{beginning}");
    let end = refusal(|records| records.push(vec![7]));
    assert!(end.contains("end differs"), "{end}");
    let again = refusal(|records| {
        let header = records[0].clone();
        records.insert(2, header);
    });
    assert!(again.contains("not in its place"), "{again}");
    let early = refusal(|records| {
        records.insert(2, encoded(Kind::Trailer(Trailer { records: 2, digest: vec![0; 32] })));
    });
    assert!(early.contains("differs"), "{early}");
    let cut = refusal(|records| drop(records.pop()));
    assert!(cut.contains("failed to read the snapshot after"), "{cut}");
}

/// Gives a few bytes and remembers how much room it was offered.
struct Few<'a> {
    bytes: &'a [u8],
    offered: usize,
}

impl Read for Few<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.offered = self.offered.max(buffer.len());
        self.bytes.read(buffer)
    }
}

#[test]
fn a_length_that_lies_costs_nothing() {
    // 63 MiB are announced, three bytes come; then more than any record has, and a length without an end.
    for (length, words) in [
        (&[0x80, 0x80, 0xc0, 0x1f, 1, 2, 3][..], "after 0 records"),
        (&[0xff, 0xff, 0xff, 0xff, 0x0f], "longer than any"),
        (&[0xff; 12], "no number"),
    ] {
        let mut few = Few { bytes: length, offered: 0 };
        let refused = read(&mut few).expect_err("it is refused");
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(format!("{refused}: {cause}").contains(words), "{refused}: {cause}");
        assert!(few.offered <= 64 * 1024, "{} bytes of room for three", few.offered);
    }
}

/// Takes everything and keeps the largest piece's size.
#[derive(Default)]
struct Largest(usize);

impl Write for Largest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_snapshot_is_written_record_by_record() {
    let state = everything();
    let mut out = Largest::default();
    write(&state, &mut out).unwrap();
    let longest = records(&state).iter().map(Vec::len).max().unwrap();
    assert_eq!(out.0, longest, "no more than one record is in memory");
}
