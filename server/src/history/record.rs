//! Records: as the machine hands them over, as frames, and read again.

use std::collections::BTreeSet;

use prost::Message as _;
use proto::history::v1::{ForgottenAttempt, Record};
use proto::snapshot;
use proto::state::v1 as state;
use proto::state::v1::record::Record as Kept;
use proto::v1::{AuditView, EventView};
use scheduler_core::array::JobArray;
use scheduler_core::bill::Bill;
use scheduler_core::decision;
use scheduler_core::id::{AttemptId, ClusterId, DecisionId, JobId, LogIndex, SpecHash};
use scheduler_core::job::{Job, PastAttempt};
use scheduler_core::state::{Launch, State};
use scheduler_core::unit::Timestamp;

use super::frame::{self, Kind, Label};

/// A part of a record is closed when it has so many bytes.
const PART: usize = 1 << 20;

/// A bill has about so many bytes.
const BILL: usize = 128;

/// What an entry has to tell, as the machine hands it over.
#[derive(Debug)]
pub struct Told {
    /// The entry.
    pub index: LogIndex,
    /// Its cluster time.
    pub time: Timestamp,
    /// Whose history it is.
    pub cluster: ClusterId,
    /// Who asked what.
    pub audit: Vec<AuditView>,
    /// What happened.
    pub events: Vec<EventView>,
    /// What left state.
    pub left: Option<Left>,
}

/// What left state with an entry: keys, and the state that has them still.
#[derive(Debug)]
pub struct Left {
    /// The state before the entry.
    pub before: State,
    /// Jobs.
    pub jobs: Vec<JobId>,
    /// Arrays.
    pub arrays: Vec<JobId>,
    /// Decisions, those of the jobs and others.
    pub decisions: Vec<DecisionId>,
    /// Bills.
    pub bills: Vec<(Timestamp, AttemptId)>,
}

/// One entry's frames, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) index: u64,
    pub(super) time_ms: u64,
    pub(super) frames: Vec<u8>,
    /// Jobs that the frames mention: which, at which offset, and whether the job left state there.
    pub(super) jobs: Vec<(u32, usize, bool)>,
}

/// Collects one entry's parts.
struct Parts {
    parts: Vec<(Kind, Record)>,
    bytes: usize,
}

impl Parts {
    /// Returns the part of this kind that has room, a new one if there is none.
    fn part(&mut self, kind: Kind) -> &mut Record {
        let is_fit = self.bytes < PART && self.parts.last().is_some_and(|(last, _)| *last == kind);
        if !is_fit {
            self.bytes = 0;
            self.parts.push((kind, Record::default()));
        }
        &mut self.parts.last_mut().expect("one was pushed if there was none").1
    }
}

impl Told {
    /// Returns the entry's frames.
    pub(super) fn encode(self) -> Encoded {
        let (index, time_ms) = (self.index.get(), self.time.as_millis());
        let mut parts = Parts { parts: Vec::new(), bytes: 0 };
        if !self.audit.is_empty() || !self.events.is_empty() {
            let record = parts.part(Kind::Told);
            record.audit = self.audit.into_iter().map(bare_line).collect();
            record.events = self.events.into_iter().map(bare_event).collect();
        }
        if let Some(left) = self.left {
            left.put(&mut parts);
        }
        let mut encoded = Encoded { index, time_ms, frames: Vec::new(), jobs: Vec::new() };
        let last = parts.parts.len().saturating_sub(1);
        for (n, (kind, record)) in parts.parts.into_iter().enumerate() {
            let offset = encoded.frames.len();
            encoded.jobs.extend(mentions(&record).into_iter().map(|(job, left)| (job, offset, left)));
            let label = Label { kind, is_last: n == last, index, time_ms };
            frame::seal(label, &record.encode_to_vec(), &mut encoded.frames);
        }
        encoded
    }
}

impl Left {
    fn put(&self, parts: &mut Parts) {
        for key in &self.bills {
            if let Some(bill) = self.before.bills.get(key) {
                parts.part(Kind::Bills).left.push(snapshot::bill_record(*key, bill));
                parts.bytes += BILL;
            }
        }
        let mut of_jobs = BTreeSet::new();
        for id in &self.jobs {
            let Some(job) = self.before.jobs.get(id) else { continue };
            parts.part(Kind::Jobs);
            if !parts.has_launch(job.launch)
                && let Some(launch) = self.before.launches.get(&job.launch)
            {
                parts.put_whole(snapshot::launch_record(&job.launch, launch));
            }
            parts.put_whole(snapshot::job_record(*id, job));
            for past in &job.past {
                of_jobs.insert(past.decision);
                if let Some(decision) = self.before.decisions.get(&past.decision) {
                    parts.put_whole(snapshot::decision_record(past.decision, decision));
                }
            }
            parts.count();
        }
        for id in &self.arrays {
            let Some(array) = self.before.arrays.get(id) else { continue };
            parts.part(Kind::Jobs);
            if !parts.has_launch(array.job.launch)
                && let Some(launch) = self.before.launches.get(&array.job.launch)
            {
                parts.put_whole(snapshot::launch_record(&array.job.launch, launch));
            }
            parts.put_whole(snapshot::array_record(*id, array));
            parts.count();
        }
        for id in self.decisions.iter().filter(|id| !of_jobs.contains(id)) {
            let Some(decision) = self.before.decisions.get(id) else { continue };
            let job = decision.start.job;
            parts.part(Kind::Jobs).left.push(snapshot::decision_record(*id, decision));
            let past =
                self.before.jobs.get(&job).and_then(|job| job.past.iter().find(|past| past.decision == *id));
            if let Some(past) = past {
                let past = snapshot::past_attempt(past);
                let forgotten = ForgottenAttempt { job: job.get(), past: Some(past) };
                parts.part(Kind::Jobs).forgotten.push(forgotten);
            }
            parts.count();
        }
    }
}

impl Parts {
    /// Puts a record into the present part of jobs, full or not: what belongs to one job stays together.
    fn put_whole(&mut self, record: state::Record) {
        if let Some((_, part)) = self.parts.last_mut() {
            part.left.push(record);
        }
    }

    /// Counts the part's bytes after a job is whole.
    fn count(&mut self) {
        self.bytes = self.parts.last().map_or(0, |(_, part)| part.encoded_len());
    }

    fn has_launch(&self, hash: SpecHash) -> bool {
        let part = self.parts.last().map(|(_, part)| part.left.as_slice()).unwrap_or_default();
        part.iter().any(|record| {
            matches!(&record.record, Some(Kept::Launch(launch)) if launch.hash == hash.as_bytes().as_slice())
        })
    }
}

fn bare_line(line: AuditView) -> AuditView {
    AuditView { schema: String::new(), index: 0, n: 0, at: 0, ..line }
}

fn bare_event(event: EventView) -> EventView {
    EventView { schema: String::new(), index: 0, n: 0, at: 0, ..event }
}

/// Puts back what is not stored with each line and event.
pub(super) fn complete(record: &mut Record) {
    let (index, at) = (record.index, record.time_ms);
    for (n, line) in (0..).zip(&mut record.audit) {
        (line.schema, line.index, line.n, line.at) = ("audit/v1".to_owned(), index, n, at);
    }
    for (n, event) in (0..).zip(&mut record.events) {
        (event.schema, event.index, event.n, event.at) = ("event/v1".to_owned(), index, n, at);
    }
}

/// Leaves only what belongs to one job of what left state.
pub(super) fn only_job(record: &mut Record, job: JobId) {
    let number = job.get();
    let launch = record.left.iter().find_map(|kept| match &kept.record {
        Some(Kept::Job(kept)) if kept.id == number => Some(kept.launch.clone()),
        Some(Kept::Array(kept)) if is_array(kept, number) => kept.job.as_ref().map(|job| job.launch.clone()),
        _ => None,
    });
    record.left.retain(|kept| match &kept.record {
        Some(Kept::Job(kept)) => kept.id == number,
        Some(Kept::Array(kept)) => is_array(kept, number),
        Some(Kept::Launch(kept)) => launch.as_ref() == Some(&kept.hash),
        Some(Kept::Decision(kept)) => kept.start.as_ref().is_some_and(|start| start.job == number),
        Some(Kept::Bill(kept)) => kept.attempt.is_some_and(|attempt| attempt.job == number),
        Some(_) | None => false,
    });
    record.forgotten.retain(|forgotten| forgotten.job == number);
    record.audit.retain(|line| line.job == Some(number));
    record.events.retain(|event| event.job == Some(number));
}

fn is_array(kept: &state::JobArray, number: u32) -> bool {
    kept.job.as_ref().is_some_and(|job| job.id == number)
}

/// A job that left state, with what left with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Gone {
    /// With which entry.
    pub index: LogIndex,
    /// When, by cluster time.
    pub at: Timestamp,
    /// Which.
    pub id: JobId,
    /// The job as it was, with those of its past attempts that had left before it.
    pub job: Job,
    /// The array, if it is one; `job` is what each of its tasks was.
    pub array: Option<JobArray>,
    /// What its nodes read.
    pub launch: Option<(SpecHash, Launch)>,
    /// Why its attempts were placed.
    pub decisions: Vec<(DecisionId, decision::Record)>,
    /// The bills of its attempts, as far as they have left state.
    pub bills: Vec<((Timestamp, AttemptId), Bill)>,
}

impl Gone {
    /// Collects a job from records that mention it, in any order; none if none of them has the job itself.
    ///
    /// # Errors
    /// When a record cannot be.
    pub(super) fn of(id: JobId, records: Vec<Record>) -> Result<Option<Self>, proto::Error> {
        let (mut found, mut array) = (None, None);
        let (mut launch, mut decisions, mut bills) = (None, Vec::new(), Vec::new());
        let mut forgotten: Vec<PastAttempt> = Vec::new();
        for record in records {
            let at = (LogIndex::new(record.index), Timestamp::from_millis(record.time_ms));
            for past in record.forgotten.into_iter().filter_map(|forgotten| forgotten.past) {
                forgotten.push(snapshot::read_past_attempt(past)?);
            }
            for kept in record.left.into_iter().filter_map(|kept| kept.record) {
                match kept {
                    Kept::Job(job) if job.id == id.get() => {
                        found = Some((at, snapshot::read_job_record(job)?.1))
                    }
                    Kept::Array(kept) if is_array(&kept, id.get()) => {
                        let (_, kept) = snapshot::read_array_record(kept)?;
                        found = Some((at, kept.job.clone()));
                        array = Some(kept);
                    }
                    Kept::Launch(kept) => launch = Some(snapshot::read_launch_record(kept)?),
                    Kept::Decision(kept) => decisions.push(snapshot::read_decision_record(kept)?),
                    Kept::Bill(kept) => bills.push(snapshot::read_bill_record(kept)?),
                    _ => {}
                }
            }
        }
        let Some(((index, at), mut job)) = found else { return Ok(None) };
        decisions.sort_by_key(|(id, _)| *id);
        bills.sort_by_key(|(key, _)| *key);
        forgotten.retain(|past| !job.past.iter().any(|other| other.no == past.no));
        job.past.extend(forgotten);
        job.past.sort_by_key(|past| past.no);
        let launch = launch.filter(|(hash, _)| *hash == job.launch);
        Ok(Some(Self { index, at, id, job, array, launch, decisions, bills }))
    }

    /// Puts the job back into a copy of a state, so that whatever looks at jobs can look at this one. What has a newer
    /// form there stays.
    pub fn put_into(&self, state: &mut State) {
        match &self.array {
            Some(array) if !state.arrays.contains(&self.id) => {
                state.arrays.insert(self.id, array.clone());
            }
            None if !state.jobs.contains(&self.id) => {
                state.jobs.insert(self.id, self.job.clone());
            }
            Some(_) | None => {}
        }
        if let Some((hash, launch)) = &self.launch
            && !state.launches.contains(hash)
        {
            state.launches.insert(*hash, launch.clone());
        }
        for (id, decision) in &self.decisions {
            if !state.decisions.contains(id) {
                state.decisions.insert(*id, decision.clone());
            }
        }
        for (key, bill) in &self.bills {
            if !state.bills.contains(key) {
                state.bills.insert(*key, bill.clone());
            }
        }
    }
}

impl Encoded {
    /// Reads one entry's frames again, with what they mention.
    pub(super) fn of_frames(frames: &[u8]) -> Result<Self, frame::Error> {
        let first = frame::open(frames)?.label;
        let mut encoded =
            Self { index: first.index, time_ms: first.time_ms, frames: frames.to_vec(), jobs: Vec::new() };
        let mut offset = 0;
        while offset < frames.len() {
            let frame = frame::open(&frames[offset..])?;
            let record = Record::decode(frame.payload).map_err(|_| frame::Error::Content)?;
            encoded.jobs.extend(mentions(&record).into_iter().map(|(job, left)| (job, offset, left)));
            offset += frame.length;
        }
        Ok(encoded)
    }
}

/// Returns the jobs that a part mentions, as its writer does.
fn mentions(record: &Record) -> BTreeSet<(u32, bool)> {
    let told = record.audit.iter().map(|line| line.job).chain(record.events.iter().map(|event| event.job));
    let told = told.flatten().map(|job| (job, false));
    let left = record.left.iter().filter_map(|kept| match &kept.record {
        Some(Kept::Job(job)) => Some(job.id),
        Some(Kept::Array(array)) => array.job.as_ref().map(|job| job.id),
        Some(Kept::Decision(decision)) => decision.start.as_ref().map(|start| start.job),
        Some(Kept::Bill(bill)) => bill.attempt.map(|attempt| attempt.job),
        Some(_) | None => None,
    });
    told.chain(left.map(|job| (job, true))).collect()
}
