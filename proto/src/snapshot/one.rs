//! Single records: what leaves state goes to history in the form that it has in snapshots.

use scheduler_core::array::JobArray;
use scheduler_core::bill::Bill;
use scheduler_core::decision;
use scheduler_core::id::{AttemptId, DecisionId, JobId, SpecHash};
use scheduler_core::job::{Job, PastAttempt};
use scheduler_core::state::Launch;
use scheduler_core::unit::Timestamp;

use super::{arrays, attempts, bills, jobs};
use crate::error::Error;
use crate::state::v1::record::Record as Kind;
use crate::state::v1::{self as state, Record};

fn record(kind: Kind) -> Record {
    Record { record: Some(kind) }
}

/// Returns a job's record.
#[must_use]
pub fn job_record(id: JobId, job: &Job) -> Record {
    record(Kind::Job(jobs::job(id, job)))
}

/// Reads a job.
///
/// # Errors
/// When a field is missing or can't be.
pub fn read_job_record(m: state::Job) -> Result<(JobId, Job), Error> {
    jobs::read_job(m)
}

/// Returns an array's record.
#[must_use]
pub fn array_record(id: JobId, array: &JobArray) -> Record {
    record(Kind::Array(arrays::array(id, array)))
}

/// Reads an array.
///
/// # Errors
/// When a field is missing or can't be.
pub fn read_array_record(m: state::JobArray) -> Result<(JobId, JobArray), Error> {
    arrays::read_array(m)
}

/// Returns the record of what nodes read.
#[must_use]
pub fn launch_record(hash: &SpecHash, launch: &Launch) -> Record {
    record(Kind::Launch(jobs::launch(hash, launch)))
}

/// Reads what nodes read.
///
/// # Errors
/// When a field is missing or can't be.
pub fn read_launch_record(m: state::Launch) -> Result<(SpecHash, Launch), Error> {
    jobs::read_launch(m)
}

/// Returns a decision's record.
#[must_use]
pub fn decision_record(id: DecisionId, decision: &decision::Record) -> Record {
    record(Kind::Decision(attempts::decision(id, decision)))
}

/// Reads a decision.
///
/// # Errors
/// When a field is missing or can't be.
pub fn read_decision_record(m: state::Decision) -> Result<(DecisionId, decision::Record), Error> {
    attempts::read_decision(m)
}

/// Returns a bill's record.
#[must_use]
pub fn bill_record(key: (Timestamp, AttemptId), bill: &Bill) -> Record {
    record(Kind::Bill(bills::bill(key, bill)))
}

/// Reads a bill.
///
/// # Errors
/// When a field is missing or can't be.
pub fn read_bill_record(m: state::BillRow) -> Result<((Timestamp, AttemptId), Bill), Error> {
    bills::read_bill(m)
}

/// Returns a past attempt's message.
#[must_use]
pub fn past_attempt(past: &PastAttempt) -> state::PastAttempt {
    attempts::past(past)
}

/// Reads a past attempt.
///
/// # Errors
/// When a field is missing or can't be.
pub fn read_past_attempt(m: state::PastAttempt) -> Result<PastAttempt, Error> {
    attempts::read_past(m)
}
