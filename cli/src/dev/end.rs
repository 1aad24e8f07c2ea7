//! The end: jobs are cancelled, parts stopped, what is left of our own tree is ended, the folder removed.

use std::collections::BTreeSet;
use std::time::Duration;

use proto::v1::{CancelRequest, ListJobsRequest};
use rustix::process::Signal;
use tokio::time::sleep;

use super::cluster::Cluster;
use super::part::Part;
use super::place::Place;
use super::processes::{self, Identity};
use super::state::State;
use crate::clock::Deadline;
use crate::failure::Failure;

/// How long cancelled jobs may take.
const JOBS_WITHIN: Duration = Duration::from_secs(10);
/// How long a part may take after TERM.
const TERM_WITHIN: Duration = Duration::from_secs(5);
/// How long killed processes may take.
const KILL_WITHIN: Duration = Duration::from_secs(5);
/// Pause between two looks for them.
const PAUSE: Duration = Duration::from_millis(20);

/// Ends a cluster. What cannot be done is said and passed over: nothing of it may stay.
pub async fn end(cluster: &mut Cluster, say: impl Fn(&str)) {
    let running = cluster.replicas.iter().filter(|replica| replica.process().is_some()).count();
    let leads = running > cluster.replicas.len() / 2;
    if cluster.is_ready
        && leads
        && let Err(failure) = cancel_jobs(cluster).await
    {
        say(&format!(
            "jobs could not be cancelled ({}); their processes are ended all the same",
            failure.what
        ));
    }
    for part in cluster.replicas.iter_mut().chain(&mut cluster.agents) {
        part.is_wanted = false;
    }
    stop(&mut cluster.agents).await;
    let us = cluster.supervisor.pid;
    let kept: Vec<Identity> = cluster.replicas.iter().filter_map(Part::process).collect();
    let left = kill_left(us, &kept).await;
    stop(&mut cluster.replicas).await;
    if left > 0 || kill_left(us, &[]).await > 0 {
        say("some processes do not go, even killed: they wait for the kernel");
    }
}

async fn cancel_jobs(cluster: &Cluster) -> Result<(), Failure> {
    let client = cluster.client(Duration::from_secs(5))?;
    let live = || client.list_jobs(ListJobsRequest { limit: 10_000, ..ListJobsRequest::default() });
    for job in live().await?.jobs {
        let mark = Some(client.mark(None).await?);
        let reason = "the development cluster ends".to_string();
        // One that ended meanwhile needs no cancelling.
        let _ = client.cancel(CancelRequest { mark, job: job.job, now: true, reason }).await;
    }
    let deadline = Deadline::after(JOBS_WITHIN);
    while !deadline.is_over() && !live().await?.jobs.is_empty() {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Asks parts to end, and kills those that do not.
async fn stop(parts: &mut [Part]) {
    for part in parts.iter() {
        part.signal(Signal::TERM);
    }
    for (signal, within) in [(None, TERM_WITHIN), (Some(Signal::KILL), KILL_WITHIN)] {
        let deadline = Deadline::after(within);
        for part in parts.iter() {
            if let Some(signal) = signal {
                part.signal(signal);
            }
        }
        while !deadline.is_over()
            && parts.iter_mut().any(|part| part.has_ended().is_none() && part.process().is_some())
        {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Kills what descends from us, but for `kept`; returns how many are still there after a while.
async fn kill_left(us: i32, kept: &[Identity]) -> usize {
    let deadline = Deadline::after(KILL_WITHIN);
    let kept_pids: Vec<i32> = kept.iter().map(|one| one.pid).collect();
    loop {
        processes::reap(us, &kept_pids);
        let mut left = processes::descendants(us);
        // A replica has no children of its own; it is stopped in its turn.
        left.retain(|one| !kept.contains(one));
        if left.is_empty() || deadline.is_over() {
            return left.len();
        }
        for one in left {
            processes::signal(one, Signal::KILL);
        }
        sleep(PAUSE).await;
    }
}

/// Ends what one left that was killed itself: its parts by pid and start time, shims by their program, jobs by their
/// environment, and all that descends from them; then its folder goes, unless it was to be kept.
pub fn clear(place: &Place, say: impl Fn(&str)) {
    let Some(state) = State::read(&place.state()) else { return };
    if processes::is_alive(state.supervisor) {
        return;
    }
    let folder = place.folder();
    let mut ended = BTreeSet::new();
    let deadline = Deadline::after(KILL_WITHIN);
    // Again and again: an agent may start one more thing before it is ended itself.
    loop {
        let parts = state.replicas.iter().chain(&state.agents).filter_map(|part| part.process);
        let found = processes::of_programs_in(folder).into_iter().chain(processes::of_jobs_in(folder));
        let roots: Vec<Identity> = parts.chain(found).filter(|one| processes::is_alive(*one)).collect();
        if roots.is_empty() || deadline.is_over() {
            break;
        }
        let below: Vec<Identity> = roots.iter().flat_map(|one| processes::descendants(one.pid)).collect();
        ended.extend(roots.into_iter().chain(below).filter(|one| processes::signal(*one, Signal::KILL)));
        std::thread::sleep(PAUSE);
    }
    let folder = folder.display();
    if !ended.is_empty() {
        let count = ended.len();
        say(&format!("ended {count} processes of a development cluster that was killed, {folder}"));
    }
    if !state.keep
        && let Err(error) = place.remove()
    {
        say(&format!("could not remove {folder}: {error}"));
    }
}
