//! Jobs: submit, cancel, show, list, the queue, explanations.

use std::sync::Arc;

use proto::{Wire as _, v1};
use scheduler_core::array::JobArray;
use scheduler_core::budget as budgets;
use scheduler_core::command::{Blob, Cancel, Command, Outcome, Submit};
use scheduler_core::explain as why;
use scheduler_core::id::{
    AttemptId, AttemptNo, BudgetId, BudgetPath, DecisionId, JobId, LogIndex, Name, SpecHash,
};
use scheduler_core::job::{Job, Phase};
use scheduler_core::lifecycle::array;
use scheduler_core::plan::Links;
use scheduler_core::principal::Actor;
use scheduler_core::spec::Request as Asked;
use scheduler_core::unit::Timestamp;
use tonic::{Request, Status};

use super::{budget, cluster, likely, name};
use crate::past;
use crate::refusal;
use crate::shared::{self, Read, Shared};
use crate::views::queue::{Standings, Wanted};
use crate::views::{self, Scene, receipt};
use crate::write::{mark, write};

/// Jobs in one list at most.
const LIST_MAX: usize = 10_000;
const LIST_DEFAULT: usize = 1_000;

/// Takes a job.
pub async fn submit(shared: &Shared, asked: Request<v1::SubmitRequest>) -> Result<v1::SubmitReply, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::SubmitRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "submit", &body)?;
    let submit = submission(message.job, message.launch)?;
    shared.disk.admit().map_err(|rejection| refusal::status(&rejection))?;
    let command = Command::Submit(submit);
    let actor = Actor::Principal(caller.name.clone());
    let written = write(shared, actor, Some(mark), command, deadline).await?;
    let Outcome::Submitted { job } = written.outcome else { return Err(refusal::strange_answer()) };
    let read = shared.after(written.index).await?;
    let scene = shared.scene(&read);
    let record = views::job::of(scene.state(), job);
    Ok(v1::SubmitReply { job: job.get(), receipt: record.map(|record| receipt::receipt(scene, job, record)) })
}

/// Reads a submission.
pub(super) fn submission(
    request: Option<v1::JobRequest>,
    launch: Option<v1::Launch>,
) -> Result<Submit, Status> {
    let request = request.ok_or_else(|| refusal::missing("job"))?;
    let request = Asked::from_wire(request).map_err(|cause| refusal::bad(&cause))?;
    let mut launch = launch.ok_or_else(|| refusal::missing("launch"))?;
    // The node tells by it which checkpoints are complete.
    launch.checkpoint_glob = request.checkpoint_glob.clone();
    let bytes: Arc<[u8]> = proto::canonical_launch(launch).map_err(|cause| refusal::bad(&cause))?.into();
    let launch = Blob { hash: SpecHash::new(*blake3::hash(&bytes).as_bytes()), bytes };
    Ok(Submit { request, launch })
}

/// Ends a job.
pub async fn cancel(shared: &Shared, asked: Request<v1::CancelRequest>) -> Result<v1::CancelReply, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let mark = mark(message.mark.as_ref(), "cancel", &v1::CancelRequest { mark: None, ..message.clone() })?;
    let job = JobId::new(message.job);
    let command = Command::Cancel(Cancel { job, is_now: message.now, reason: message.reason });
    let actor = Actor::Principal(caller.name.clone());
    let written = write(shared, actor, Some(mark), command, deadline).await?;
    let read = shared.after(written.index).await?;
    let record = views::job::of(&read.view.state, job);
    let has_ended = record.is_none_or(|record| matches!(record.phase, Phase::Ended { .. }));
    Ok(v1::CancelReply { state: if has_ended { "ended" } else { "stopping" }.to_owned() })
}

/// Shows a job.
pub async fn show(shared: &Shared, asked: Request<v1::ShowJobRequest>) -> Result<v1::JobView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let found = find_task(shared, &read, message.job, message.task, false).await?;
    let scene = shared.scene(&found.read);
    let links = shared.linked(scene.state());
    let show = || show_one(scene, &links, found.id, &caller.name);
    let view = shared.long_view(show).await??;
    Ok(v1::JobView { left_at: found.left_at.map(Timestamp::as_millis), ..view })
}

/// Shows a job, an array, or what an array tells of one of its tasks.
fn show_one(scene: Scene<'_>, links: &Links, id: JobId, reader: &Name) -> Result<v1::JobView, Status> {
    let state = scene.state();
    let mut standings = Standings::new(scene, links);
    if let Some(record) = state.jobs.get(&id) {
        let stands = standings.of(id, record);
        let date = why::date_of(state, id, scene.now).map(|date| views::date::view(state, &date));
        return Ok(v1::JobView { date, ..views::job::view(scene, id, record, reader, &stands) });
    }
    if let Some(whole) = state.arrays.get(&id) {
        let stands = views::array::stands(scene, id, whole, &mut standings);
        return Ok(views::array::view(scene, id, whole, reader, &stands));
    }
    match array::of(state, id) {
        Some((of, whole, place)) => Ok(views::array::absent(scene, (of, whole), place, reader)),
        None => Err(refusal::not_found(format!("there is no job {id}, or it ended long ago"))),
    }
}

/// Finds a job, or one task of an array by its index.
async fn find_task(
    shared: &Shared,
    read: &Read,
    number: u32,
    task: Option<u32>,
    with_others: bool,
) -> Result<Found, Status> {
    let Some(index) = task else { return find(shared, read, number, with_others).await };
    let whole = find(shared, read, number, false).await?;
    let state = &whole.read.view.state;
    let Some(array) = state.arrays.get(&JobId::new(number)) else {
        return Err(refusal::not_found(format!("job {number} is no array, so it has no task {index}")));
    };
    let Some(place) = array.indexes.place(index) else {
        let indexes = &array.indexes;
        return Err(refusal::not_found(format!(
            "array {number} has no task {index}: its tasks are {indexes}"
        )));
    };
    let id = JobArray::task_at(JobId::new(number), place);
    if state.jobs.contains(&id) || id >= state.meta.next_job || place >= array.made {
        return Ok(Found { id, ..whole });
    }
    // It left state before its array: the history has it, and else the array knows how it ended.
    match find(shared, &whole.read, id.get(), with_others).await {
        Ok(found) => Ok(found),
        Err(_) => Ok(Found { id, ..whole }),
    }
}

/// A state that has the job that is asked for.
struct Found {
    id: JobId,
    read: Read,
    /// When the job left state, if it was put back.
    left_at: Option<Timestamp>,
}

/// Finds a job: in state, then in the history.
async fn find(shared: &Shared, read: &Read, number: u32, with_others: bool) -> Result<Found, Status> {
    let id = JobId::new(number);
    if views::job::of(&read.view.state, id).is_some() || array::unmade(&read.view.state, id).is_some() {
        return Ok(Found { id, read: read.clone(), left_at: None });
    }
    past::settle(shared, read.view.index).await?;
    let past::Revived { read, left_at } = past::job(shared, read, id, with_others).await?;
    Ok(Found { id, read, left_at: Some(left_at) })
}

/// Lists jobs, newest first.
pub async fn list(shared: &Shared, asked: Request<v1::ListJobsRequest>) -> Result<v1::JobList, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let state = scene.state();
    let above = message.budget.as_deref().map(|path| budget(state, path)).transpose()?;
    let user = message.user.as_deref().map(|text| name("user", text)).transpose()?;
    let links = shared.linked(state);
    if let Some(since_at) = message.since_at {
        if message.states.iter().any(|state| state != "ended") {
            let what = "with a time only jobs that ended are listed; the others live now";
            return Err(refusal::bad(&proto::Error::bad("states", what)));
        }
        return ended(shared, &caller.name, &read, &message, (above, user, since_at)).await;
    }
    let is_meant = |record: &Job| {
        let is_below = |above| budgets::path(state, record.budget).contains(&above);
        above.is_none_or(is_below) && user.as_ref().is_none_or(|user| *user == record.user)
    };
    let limit = usize::try_from(message.limit).ok().filter(|limit| *limit > 0);
    let most = limit.unwrap_or(LIST_DEFAULT).min(LIST_MAX);
    let below = message.from.as_deref().map(|text| text.parse().map(JobId::new).map_err(|_| not_a_place()));
    let below = below.transpose()?;
    let make = || {
        let mut standings = Standings::new(scene, &links);
        let (mut jobs, mut left_out) = (Vec::new(), 0);
        let single = state.jobs.iter().filter(|(_, record)| message.tasks || record.array.is_none());
        let whole = state.arrays.iter().map(|(id, array)| (id, &array.job));
        let mut all: Vec<(&JobId, &Job)> =
            single.chain(whole).filter(|(_, record)| is_meant(record)).collect();
        all.retain(|(id, _)| below.is_none_or(|below| **id < below));
        all.sort_unstable_by_key(|(id, _)| **id);
        for (id, record) in all.into_iter().rev() {
            let has_ended = matches!(record.phase, Phase::Ended { .. });
            if message.states.is_empty() && has_ended {
                continue;
            }
            let array = state.arrays.get(id);
            let stands = match array {
                Some(array) => views::array::stands(scene, *id, array, &mut standings),
                None => standings.of(*id, record),
            };
            if !message.states.is_empty() && !message.states.iter().any(|s| s == stands.stage.as_str()) {
                continue;
            }
            if jobs.len() < most {
                jobs.push(match array {
                    Some(array) => views::array::view(scene, *id, array, &caller.name, &stands),
                    None => views::job::view(scene, *id, record, &caller.name, &stands),
                });
            } else {
                left_out += 1;
            }
        }
        (jobs, left_out)
    };
    let (jobs, left_out): (Vec<v1::JobView>, u64) = shared.long_view(make).await?;
    let next = jobs.last().filter(|_| left_out > 0).map(|job| job.job.to_string());
    Ok(v1::JobList {
        schema: "job-list/v1".to_owned(),
        as_of: scene.as_of(),
        jobs,
        left_out,
        next,
        ..v1::JobList::default()
    })
}

/// Refuses to go on from a place that no list named.
fn not_a_place() -> Status {
    refusal::bad(&proto::Error::bad("from", "no answer gave it"))
}

/// Lists jobs that ended from a moment on, a page at a time.
async fn ended(
    shared: &Shared,
    reader: &Name,
    read: &Read,
    message: &v1::ListJobsRequest,
    (budget, user, since_at): (Option<BudgetId>, Option<Name>, u64),
) -> Result<v1::JobList, Status> {
    let from = message.from.as_deref().map(|text| past::Place::parse(text).ok_or_else(not_a_place));
    let limit = usize::try_from(message.limit).ok().filter(|limit| *limit > 0);
    let wanted = past::Wanted {
        budget,
        user,
        since: Timestamp::from_millis(since_at),
        until: message.until_at.map(Timestamp::from_millis),
        most: limit.unwrap_or(LIST_DEFAULT).min(LIST_DEFAULT),
    };
    past::settle(shared, read.view.index).await?;
    let found = past::ended(shared, read, &wanted, from.transpose()?).await?;
    let scene = shared.scene(&found.read);
    let links = Links::all_ready(scene.state());
    let make = || {
        let mut standings = Standings::new(scene, &links);
        let view = |one: &past::One| {
            let stands = standings.of(one.id, &one.job);
            let view = views::job::view(scene, one.id, &one.job, reader, &stands);
            v1::JobView { left_at: one.left_at.map(Timestamp::as_millis), ..view }
        };
        found.jobs.iter().map(view).collect()
    };
    let jobs = shared.long_view(make).await?;
    Ok(v1::JobList {
        schema: "job-list/v1".to_owned(),
        as_of: scene.as_of(),
        jobs,
        left_out: 0,
        next: found.next.map(|place| place.to_string()),
        reach: Some(found.reach),
    })
}

/// Shows the queue.
pub async fn queue(shared: &Shared, asked: Request<v1::QueueRequest>) -> Result<v1::QueueView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let wanted = Wanted {
        budget: message.budget.as_deref().map(|path| budget(scene.state(), path)).transpose()?,
        user: message.user.as_deref().map(|text| name("user", text)).transpose()?,
        top: usize::try_from(message.top).unwrap_or(usize::MAX),
    };
    let links = shared.linked(scene.state());
    let view = shared.long_view(|| views::queue::view(scene, &links, &wanted)).await?;
    Ok(v1::QueueView { last_round_at: cluster::last_round(shared).await, ..view })
}

/// What is to be explained.
enum Subject {
    /// A job, one task of it, and one attempt.
    Job(u32, Option<u32>, Option<u16>),
    Decision(DecisionId),
    /// By its path.
    Budget(String),
}

/// Who asks, and for how many futures.
#[derive(Clone, Copy)]
struct Asking<'a> {
    who: &'a Name,
    futures: Option<u32>,
}

/// Explains a job, an attempt or a decision.
pub async fn explain(shared: &Shared, asked: Request<v1::ExplainRequest>) -> Result<v1::Explanation, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let message = asked.into_inner();
    let subject = parse(&message.subject).ok_or_else(|| {
        let what =
            "it is a job `4190`, a task `4190[7]`, an attempt `4190.1` or a decision `d12.0`, a budget `a/b`";
        refusal::bad(&proto::Error::bad("subject", what))
    })?;
    let read = shared.read(&caller, message.read.unwrap_or_default().stale).await?;
    match subject {
        Subject::Job(number, task, attempt) => {
            let asked = Asking { who: &caller.name, futures: message.futures };
            job(shared, &read, &message.subject, (number, task, attempt), asked).await
        }
        Subject::Budget(path) => {
            let scene = shared.scene(&read);
            let id = budget(scene.state(), &path)?;
            let story = shared.long_view(|| why::budget(scene.state(), id, scene.now)).await?;
            let story = story.ok_or_else(|| refusal::not_found(format!("there is no budget `{path}`")))?;
            Ok(views::explain::budget(scene, &message.subject, &story))
        }
        Subject::Decision(id) => {
            let asked = Asking { who: &caller.name, futures: message.futures };
            decision(shared, read, &message.subject, id, asked).await
        }
    }
}

/// Explains a job, a task of it, or an attempt.
async fn job(
    shared: &Shared,
    read: &Read,
    subject: &str,
    (number, task, attempt): (u32, Option<u32>, Option<u16>),
    asked: Asking<'_>,
) -> Result<v1::Explanation, Status> {
    let found = find_task(shared, read, number, task, true).await?;
    let scene = shared.scene(&found.read);
    let state = scene.state();
    let id = found.id;
    let next = state.jobs.get(&id).map_or(1, |record| record.next_attempt.get());
    if attempt.is_some_and(|attempt| attempt == 0 || attempt >= next) {
        return Err(refusal::not_found(format!("there is no attempt {subject}")));
    }
    let links = shared.linked(state);
    let explain = || match attempt {
        None => why::job(state, &links, id, scene.now),
        Some(no) => {
            let attempt = AttemptId { job: id, no: AttemptNo::new(no) };
            why::attempt(state, &links, attempt, scene.now)
        }
    };
    let explained = shared.long_view(explain).await?;
    let explained = explained.ok_or_else(|| match array::unmade(state, id) {
        Some((of, whole, _)) => refusal::not_found(format!(
            "the turn of {subject} has not come: at most {} tasks of {of} are in line or run at once",
            whole.width()
        )),
        None => refusal::not_found(format!("nothing is known of {subject} any more")),
    })?;
    let view = views::explain::job(scene, subject, &explained);
    let likely = match &explained.place {
        // The first task in line stands for all.
        Some(_) => {
            let job = explained.waits_as;
            let state = (state.clone(), links, job);
            likely::of(shared, scene, asked.who, state, asked.futures, true).await
        }
        None => None,
    };
    Ok(v1::Explanation { left_at: found.left_at.map(Timestamp::as_millis), likely, ..view })
}

/// Explains a decision: from state, then from the history.
async fn decision(
    shared: &Shared,
    read: Read,
    subject: &str,
    id: DecisionId,
    asked: Asking<'_>,
) -> Result<v1::Explanation, Status> {
    let is_kept = read.view.state.decisions.contains(&id);
    if !is_kept && let Some(dated) = why::dated_by(&read.view.state, id) {
        // What there is to tell of a date is told with its job.
        return job(shared, &read, subject, (dated.get(), None, None), asked).await;
    }
    let read = if is_kept {
        Some(read)
    } else {
        past::settle(shared, read.view.index).await?;
        past::decision(shared, &read, id).await?
    };
    let explained = read.as_ref().and_then(|read| {
        let scene = shared.scene(read);
        Some(views::explain::decision(scene, subject, &why::decision(scene.state(), id)?))
    });
    let what = || format!("there is no decision {id}, or it is older than what is kept");
    explained.ok_or_else(|| refusal::not_found(what()))
}

fn parse(subject: &str) -> Option<Subject> {
    // Levels of budgets have no dots and no brackets; a number alone is a job.
    let is_number = subject.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number && BudgetPath::parse(subject).is_ok() {
        return Some(Subject::Budget(subject.to_owned()));
    }
    if let Some(decision) = subject.strip_prefix('d') {
        let (index, n) = decision.split_once('.')?;
        return Some(Subject::Decision(DecisionId {
            index: LogIndex::new(index.parse().ok()?),
            n: n.parse().ok()?,
        }));
    }
    let (number, attempt) = match subject.split_once('.') {
        Some((number, attempt)) => (number, Some(attempt)),
        None => (subject, None),
    };
    let (number, task) = match number.split_once('[') {
        Some((number, task)) => (number, Some(task.strip_suffix(']')?)),
        None => (number, None),
    };
    Some(Subject::Job(
        number.parse().ok()?,
        task.map(str::parse).transpose().ok()?,
        attempt.map(str::parse).transpose().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_jobs_attempts_and_decisions() {
        assert!(matches!(parse("4190"), Some(Subject::Job(4190, None, None))));
        assert!(matches!(parse("4190.3"), Some(Subject::Job(4190, None, Some(3)))));
        assert!(matches!(parse("4190[7].3"), Some(Subject::Job(4190, Some(7), Some(3)))));
        assert!(matches!(parse("4190[7]"), Some(Subject::Job(4190, Some(7), None))));
        let id = DecisionId { index: LogIndex::new(12), n: 4 };
        assert!(matches!(parse("d12.4"), Some(Subject::Decision(found)) if found == id));
        assert!(matches!(parse("language/posttrain"), Some(Subject::Budget(_))));
        assert!(matches!(parse("d12"), Some(Subject::Budget(path)) if path == "d12"));
        for text in
            ["", "X", "a//b", "4190.", "4190.x", "d.1", "-1", "4190[", "4190[]", "4190]", "4190[x]", "[7]"]
        {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
