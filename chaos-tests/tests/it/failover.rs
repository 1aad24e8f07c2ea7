//! Leaders die under load.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use chaos_tests::client::{Client, Failed, job, script};
use chaos_tests::lab::{Lab, alive, send, until};
use chaos_tests::work::whole_lines;
use rustix::process::Signal;
use tokio::runtime::Handle;

use crate::seen;

const ROUNDS: usize = 20;
const THREADS: usize = 3;
/// Between two submissions of one thread.
const PACE: Duration = Duration::from_millis(150);

/// After so many submissions that nobody waited for, threads go on more slowly, with this between two.
const AHEAD: usize = 60;
const SLOWLY: Duration = Duration::from_secs(1);

/// What the submitting threads were told.
#[derive(Debug, Default)]
pub struct Told {
    /// The jobs that were acknowledged, by name.
    pub acknowledged: Mutex<BTreeMap<String, u32>>,
    /// The calls that failed.
    pub failed: Mutex<Vec<Failed>>,
    /// How many were acknowledged.
    pub count: AtomicUsize,
    /// How many had been when more were last waited for.
    pub waited: AtomicUsize,
    /// Set when they are to end.
    pub is_over: AtomicBool,
}

impl Told {
    /// Submits one job after the other until it is over; `line` is what each runs.
    pub fn submit(&self, client: &Client, handle: &Handle, prefix: &str, line: &str, pace: Duration) {
        for n in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("{prefix}-{n}");
            match handle.block_on(client.submit_new(job(&name, "a", 1, 0), script(line))) {
                Ok(number) => {
                    self.acknowledged.lock().expect("no holder panics").insert(name, number);
                    self.count.fetch_add(1, Ordering::Relaxed);
                }
                Err(failed) => self.failed.lock().expect("no holder panics").push(failed),
            }
            // Rounds that take long, on a slow machine, are not to leave it more and more to do.
            let ahead =
                self.count.load(Ordering::Relaxed).saturating_sub(self.waited.load(Ordering::Relaxed));
            std::thread::sleep(if ahead > AHEAD { pace.max(SLOWLY) } else { pace });
        }
    }

    /// Waits until so many more are acknowledged.
    pub fn wait_more(&self, more: usize) {
        let count = self.count.load(Ordering::Relaxed);
        self.waited.store(count, Ordering::Relaxed);
        let wanted = count + more;
        until("writes are acknowledged again", || {
            assert!(self.failed.lock().expect("no holder panics").is_empty(), "a call failed: {self:?}");
            (self.count.load(Ordering::Relaxed) >= wanted).then_some(())
        });
    }

    /// Checks that no call failed, and that exactly the acknowledged jobs exist, each once, under its number.
    pub fn assert_kept(&self, lab: &Lab, client: &Client, prefix: &str) -> Result<BTreeMap<String, u32>> {
        assert!(self.failed.lock().expect("no holder panics").is_empty(), "{self:?}");
        let acknowledged = self.acknowledged.lock().expect("no holder panics").clone();
        let jobs = lab.block_on(client.jobs())?;
        let ours: Vec<_> = jobs.into_iter().filter(|job| job.name.starts_with(prefix)).collect();
        let by_name: BTreeMap<String, u32> = ours.iter().map(|job| (job.name.clone(), job.job)).collect();
        assert_eq!(ours.len(), by_name.len(), "a submission was made twice");
        assert_eq!(by_name, acknowledged);
        Ok(acknowledged)
    }
}

pub fn leader_s_death_costs_no_job_no_submission_and_no_call(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    let flags = ["--budget", "a", "--min-runtime", "1h"];
    let jobs = (0..3).map(|_| lab.submit_gated("ana", &flags)).collect::<Result<Vec<_>>>()?;
    let processes: Vec<_> = jobs.iter().map(|(_, gate)| gate.running()).collect();
    let prefix = lab.fresh("under-failover");
    let journal = lab.write(&format!("{prefix}.journal"), "")?;
    let line = format!("echo \"$BURSAR_JOB_ID $BURSAR_ATTEMPT\" >> {journal}");

    let (told, handle) = (Told::default(), lab.handle());
    std::thread::scope(|scope| -> Result<()> {
        for n in 0..THREADS {
            let (told, handle, client) = (&told, handle.clone(), ana.from_replica(n));
            let (line, prefix) = (line.as_str(), format!("{prefix}-{n}"));
            scope.spawn(move || told.submit(&client, &handle, &prefix, line, PACE));
        }
        let over = Over(&told);
        for round in 0..ROUNDS {
            let leader = lab.leader();
            lab.replicas[leader].kill();
            told.wait_more(THREADS);
            assert!(processes.iter().all(|process| alive(*process)), "round {round}: a job ended");
            let parts = lab.parts.clone();
            lab.replicas[leader].start(&parts)?;
        }
        drop(over);
        Ok(())
    })?;

    let acknowledged = told.assert_kept(lab, &ana, &prefix)?;
    let numbers: BTreeSet<u32> = acknowledged.values().copied().collect();
    let ended = until("all submissions have ended", || {
        let jobs = lab.block_on(ana.jobs()).ok()?;
        let ours: Vec<_> = jobs.into_iter().filter(|job| numbers.contains(&job.job)).collect();
        ours.iter().all(|job| job.state == "ended").then_some(ours)
    });
    assert_eq!(ended.len(), numbers.len());
    for view in ended {
        assert_eq!(view.end.as_deref(), Some("completed"), "{view:#?}");
    }
    let starts = fs::read_to_string(&journal)?;
    let starts: Vec<&str> = whole_lines(&starts).collect();
    assert_eq!(starts.len(), starts.iter().collect::<BTreeSet<_>>().len(), "an attempt ran twice");
    let ran: BTreeSet<&str> = starts.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(ran.len(), acknowledged.len());
    for (code, ((job, gate), process)) in (20..).zip(jobs.iter().zip(&processes)) {
        assert!(alive(*process));
        gate.open(code);
        seen::assert_exit(&seen::ended(lab, &ana, *job), u32::from(code));
        assert_eq!(gate.runs().len(), 1);
    }
    eprintln!("{} submissions over {ROUNDS} leaders' deaths", acknowledged.len());
    Ok(())
}

pub fn leader_that_hangs_costs_no_job_and_no_call(lab: &mut Lab) -> Result<()> {
    const HANGS: usize = 3;
    let ana = lab.client("ana")?;
    let (running, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1h"])?;
    let process = gate.running();
    for round in 0..HANGS {
        let leader = lab.leader();
        let pid = lab.replicas[leader].pid().context("the leader runs")?;
        send(pid, Signal::STOP);
        // The client's own connection is to the replica that hangs; so is `bursar`'s first one, in some round.
        let asked = ana.from_replica(leader);
        let name = lab.fresh("while-it-hangs");
        let number = lab.block_on(asked.submit_new(job(&name, "a", 1, 60_000), script("exit 4")))?;
        let told = lab.bursar_as("ana", &["queue"]);
        assert_eq!(told.code, 0, "round {round}: {told:?}");
        // It starts, runs and ends: its node has turned to the new leader.
        seen::assert_exit(&seen::ended(lab, &asked, number), 4);
        send(pid, Signal::CONT);
        lab.leader();
        assert!(alive(process), "round {round}: a job ended");
    }
    gate.open(9);
    seen::assert_exit(&seen::ended(lab, &ana, running), 9);
    Ok(())
}

/// Lets the submitting threads end, also when the law fails: a scope waits for its threads.
pub struct Over<'a>(pub &'a Told);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
