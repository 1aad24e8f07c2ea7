//! Arrays of jobs.

use scheduler_core::array::{Bits, JobArray};
use scheduler_core::id::JobId;

use super::jobs;
use crate::error::Error;
use crate::state::v1 as state;
use crate::terms::indexes;
use crate::wire::required;

pub(super) fn array(id: JobId, array: &JobArray) -> state::JobArray {
    state::JobArray {
        job: Some(jobs::job(id, &array.job)),
        indexes: array.indexes.to_string(),
        made: array.made,
        live: array.live,
        ends: array
            .ends
            .iter()
            .map(|(end, count)| state::EndCount { end: jobs::job_end(*end).into(), count: *count })
            .collect(),
        bad: array.bad.words(),
        skipped: array.skipped.words(),
    }
}

pub(super) fn read_array(m: state::JobArray) -> Result<(JobId, JobArray), Error> {
    let (id, job) = jobs::read_job(required("job", m.job)?)?;
    let ends = m.ends.into_iter().map(|m| Ok((jobs::read_job_end(m.end())?, m.count)));
    let array = JobArray {
        job,
        indexes: indexes(&m.indexes)?,
        made: m.made,
        live: m.live,
        ends: ends.collect::<Result<_, Error>>()?,
        bad: Bits::from_words(&m.bad),
        skipped: Bits::from_words(&m.skipped),
    };
    Ok((id, array))
}
