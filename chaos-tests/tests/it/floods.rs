//! Too much of something, and something too slow: whoever causes it is told so, and nobody else suffers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chaos_tests::client::{Client, fresh_mark, job, refusal, script};
use chaos_tests::lab::{Lab, Process, alive, send, until};
use proto::v1::{EnvVar, SubmitRequest};
use rustix::process::Signal;
use serde_json::Value;
use tonic::Status;

use crate::seen;

/// Calls at once: four times as many as one caller may have under way at a replica.
const AT_ONCE: usize = 256;
/// The flood ends after so many acknowledged submissions, or so long.
const ACKNOWLEDGED: usize = 300;
const SPAN: Duration = Duration::from_secs(10);

/// What a flood came to.
#[derive(Debug, Default)]
struct Came {
    acknowledged: AtomicUsize,
    told_to_wait: AtomicUsize,
    is_over: AtomicBool,
}

impl Came {
    fn has_enough(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.acknowledged.load(Ordering::Relaxed) >= ACKNOWLEDGED
    }

    /// Counts an answer. Besides the number of a job there is one more honest one: to try again, after a while.
    fn count(&self, answer: Result<u32, Status>) -> Result<(), Status> {
        match answer {
            Ok(_) => self.acknowledged.fetch_add(1, Ordering::Relaxed),
            Err(status) if status.metadata().contains_key("retry-after-ms") => {
                self.told_to_wait.fetch_add(1, Ordering::Relaxed)
            }
            Err(status) => return Err(status),
        };
        Ok(())
    }
}

/// A submission nearly as large as one may be: 60 KiB of environment.
fn large(name: &str, time: u64) -> Result<SubmitRequest> {
    let mut launch = script("true");
    launch.env =
        (0..15).map(|n| EnvVar { name: format!("FILLER_{n}"), value: "x".repeat(4 << 10) }).collect();
    let mark = Some(fresh_mark(time)?);
    Ok(SubmitRequest { mark, job: Some(job(name, "a", 4, 0)), launch: Some(launch) })
}

pub fn flood_of_large_submissions_is_told_to_wait_and_nobody_else_notices(lab: &mut Lab) -> Result<()> {
    /// A busy machine may elect once by itself; a flood that costs a leader its place does so again.
    const FLOODS: usize = 3;
    let is_kept = (0..FLOODS).map(|_| flood(lab)).find(|is_kept| !matches!(is_kept, Ok(false)));
    assert!(is_kept.transpose()?.is_some(), "each of {FLOODS} floods cost the leader its place");
    Ok(())
}

/// Lets a flood come, and returns whether the leader kept its place.
fn flood(lab: &mut Lab) -> Result<bool> {
    let (ana, bob) = (lab.client("ana")?, lab.client("bob")?);
    let name = lab.fresh("flood");
    // Both nodes are taken by others: what is submitted waits.
    let flags = ["--budget", "b/x", "--gpus", "4", "--min-runtime", "1h"];
    let jobs = (0..2).map(|_| lab.submit_gated("bob", &flags)).collect::<Result<Vec<_>>>()?;
    let processes: Vec<_> = jobs.iter().map(|(_, gate)| gate.running()).collect();
    let leader = lab.leader();
    let term = lab.block_on(bob.status())?.term;
    let time = lab.block_on(ana.hello())?.cluster_time_at;

    let came = Arc::new(Came::default());
    let floods: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (client, came, name) = (ana.from_replica(leader), Arc::clone(&came), name.clone());
            lab.handle().spawn(async move {
                while !came.has_enough() {
                    came.count(client.submit_at(leader, large(&name, time)?).await)?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    // Meanwhile somebody else works as on any day, through the same replica.
    let (begun, mut rounds) = (Instant::now(), 0);
    while rounds < 3 || (!came.has_enough() && begun.elapsed() < SPAN) {
        as_on_any_day(lab, &bob.from_replica(leader))?;
        rounds += 1;
    }
    // An end is a fact: it waits behind no submission.
    jobs[0].1.open(7);
    seen::assert_exit(&seen::ended(lab, &bob, jobs[0].0), 7);
    came.is_over.store(true, Ordering::Relaxed);
    for flood in floods {
        lab.block_on(flood).context("a flood ended")??;
    }
    let (acknowledged, told) =
        (came.acknowledged.load(Ordering::Relaxed), came.told_to_wait.load(Ordering::Relaxed));
    eprintln!(
        "{acknowledged} large submissions taken, {told} told to wait, {rounds} rounds of somebody else"
    );
    assert!(acknowledged > 0, "the flood was no work at all");
    assert!(told > 0, "the flood met no bound: it shows nothing");
    assert!(alive(processes[1]));
    let is_kept = lab.block_on(bob.status())?.term == term;
    let kept = lab.block_on(ana.jobs())?.iter().filter(|job| job.name == name).count();
    assert_eq!(kept, acknowledged, "acknowledged and kept are not the same");
    jobs[1].1.open(0);
    lab.settle()?;
    Ok(is_kept)
}

/// A submission, a look at it, and its cancel.
fn as_on_any_day(lab: &Lab, client: &Client) -> Result<()> {
    let number = lab.block_on(client.submit_new(job("on-any-day", "b/y", 4, 60_000), script("true")))?;
    let view = lab.block_on(client.show(number))?;
    assert_eq!(view.name, "on-any-day");
    lab.block_on(client.cancel(number, "it was only a look"))?;
    Ok(())
}

pub fn submission_that_is_too_large_is_refused_and_harms_nobody(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    for kib in [65, 300, 5_000, 40_000] {
        let mut request = large("too-large", lab.block_on(ana.hello())?.cluster_time_at)?;
        let launch = request.launch.as_mut().context("it has one")?;
        launch.env = vec![EnvVar { name: "FILLER".into(), value: "x".repeat(kib << 10) }];
        let status = lab.block_on(ana.submit_at(0, request)).err().context("it was taken")?;
        let said = refusal(&status);
        // Our own words up to the largest message; beyond that the transport does not read it.
        assert_eq!(said.is_some(), kib < 4 << 10, "{kib} KiB: {status:?}");
        assert!(!status.metadata().contains_key("retry-after-ms"), "{kib} KiB: another try cannot help");
    }
    let number = lab.block_on(ana.submit_new(job("after-it", "a", 1, 60_000), script("exit 3")))?;
    seen::assert_exit(&seen::ended(lab, &ana, number), 3);
    Ok(())
}

pub fn frozen_agent_hurts_only_its_own_node(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    let flags = ["--budget", "a", "--gpus", "4", "--min-runtime", "1h"];
    let (number, gate) = lab.submit_gated("ana", &flags)?;
    let process = gate.running();
    let node = seen::last(&seen::running(lab, &ana, number)).node;
    let frozen = lab.agents.iter().position(|agent| agent.name == node).context("no such node")?;
    let pid = lab.agents[frozen].pid().context("it runs")?;
    send(pid, Signal::STOP);
    // Its log cannot be had, which is said and not waited for.
    let said = lab.bursar_as("ana", &["--patience", "2s", "logs", &number.to_string()]);
    assert_ne!(said.code, 0, "{said:?}");
    // The other node takes work as ever.
    for code in 11..14 {
        let other =
            lab.block_on(ana.submit_new(job("beside-it", "a", 4, 60_000), script(&format!("exit {code}"))))?;
        let view = seen::ended(lab, &ana, other);
        seen::assert_exit(&view, code);
        assert_ne!(seen::last(&view).node, node);
    }
    // A word to it is taken, and waits for it.
    lab.block_on(ana.cancel(number, "to see that it waits for its agent"))?;
    assert!(alive(process), "nobody was there to end it");
    send(pid, Signal::CONT);
    let view = seen::ended(lab, &ana, number);
    assert_eq!(view.end.as_deref(), Some("cancelled"), "{view:#?}");
    until("it is gone", || (!alive(process)).then_some(()));
    Ok(())
}

pub fn watcher_that_stops_reading_holds_nobody_up_and_misses_nothing(lab: &mut Lab) -> Result<()> {
    const WRITES: usize = 300;
    let ana = lab.client("ana")?;
    let log = lab.folder().join(lab.fresh("watcher"));
    let mut command = lab.command("ana");
    command.args(["events", "-f", "-o", "jsonl"]);
    let mut watcher = Process::start(command, &log)?;
    until("the watcher follows", || {
        lab.block_on(ana.submit_new(job("seen-first", "a", 4, 0), script("true"))).ok()?;
        submitted(&log).pop()
    });
    send(watcher.pid(), Signal::STOP);
    let mut numbers = Vec::new();
    for _ in 0..WRITES {
        // It stays until it is cancelled: on a slow machine a shorter one has ended before that.
        let number = lab.block_on(ana.submit_new(job("seen-late", "a", 4, 0), script("exec sleep 600")))?;
        lab.block_on(ana.cancel(number, "only to be seen"))?;
        numbers.push(number);
    }
    send(watcher.pid(), Signal::CONT);
    until("the watcher has seen it all", || {
        let seen = submitted(&log);
        numbers.iter().all(|number| seen.contains(number)).then_some(())
    });
    let seen = submitted(&log);
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once, seen, "an event came twice, or out of its order");
    assert!(watcher.ended().is_none(), "{}", watcher.log_tail());
    Ok(())
}

/// Returns the jobs whose submission a watcher has told.
fn submitted(log: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let submitted = events.filter(|event| event["kind"] == "job.submitted");
    submitted.filter_map(|event| event["job"].as_u64().and_then(|job| u32::try_from(job).ok())).collect()
}
