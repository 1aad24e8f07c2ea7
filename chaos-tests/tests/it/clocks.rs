//! Machines restart, with wall clocks that are wrong, one or all at once. Whatever they show: protection neither ends
//! early nor grows, work runs on, and only without any witness is the wall clock asked at all.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chaos_tests::client::Client;
use chaos_tests::lab::{ADMIN, Agent, Gate, Identity, Lab, Machine, Replica, alive, until};
use proto::v1::AttemptView;
use xtask::not_available;

use crate::seen;

/// A day behind, an hour ahead, 40 years ahead, in seconds.
const WRONG: [i64; 3] = [-86_400, HOUR, 40 * 365 * 86_400];
const HOUR: i64 = 3_600;
const HOUR_MS: u64 = 3_600_000;

/// An entry is not older than so many ms when the replicas are restarted.
const IDLE: i64 = 60_000;
/// What the way of messages between agents and replicas, and slewing, may add up to, in ms.
const SLACK: i64 = 2_500;

/// Cluster time, and between which moments of this process it was read.
#[derive(Debug, Clone, Copy)]
struct Reading {
    time: u64,
    before: Instant,
    after: Instant,
}

impl Reading {
    /// Waits until the leader knows the time, and reads it.
    fn take(lab: &Lab, admin: &Client) -> Self {
        until("cluster time is known", || {
            let hello = |n: usize| lab.block_on(admin.hello_at(n)).ok();
            let is_it = |n: &usize| hello(*n).is_some_and(|said| said.role == "leader" && !said.time_unknown);
            let leader = (0..lab.replicas.len()).find(is_it)?;
            // Reads are answered once it leads.
            lab.block_on(admin.status()).ok()?;
            let before = Instant::now();
            let time = hello(leader)?.cluster_time_at;
            Some(Self { time, before, after: Instant::now() })
        })
    }

    /// Returns by how much cluster time went on since, in ms.
    fn ran(&self, since: &Self) -> i64 {
        i64::try_from(self.time).expect("no ages") - i64::try_from(since.time).expect("no ages")
    }

    /// Returns by how much more time went by than since, at least and at most, in ms.
    fn gained(&self, since: &Self) -> (i64, i64) {
        let (ran, longest) = (self.ran(since), ms(self.after.duration_since(since.before)));
        (ran - longest, ran - ms(self.before.duration_since(since.after)))
    }

    fn assert_goes_on(&self, since: &Self, what: &str) {
        self.assert_gained(since, 0, what);
    }

    /// Checks that so much more time went by than since.
    fn assert_gained(&self, since: &Self, more: i64, what: &str) {
        let (least, most) = self.gained(since);
        let is_so = least <= more + SLACK && most >= more - SLACK;
        assert!(is_so, "{what}: cluster time went on by {least} to {most} ms more than it should by {more}");
    }
}

fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).expect("no ages")
}

/// A job that runs, protected for long.
struct Running {
    job: u32,
    gate: Gate,
    process: Identity,
    attempt: AttemptView,
}

impl Running {
    fn start(lab: &Lab, ana: &Client, min_runtime: &str) -> Result<Self> {
        let flags = ["--budget", "a", "--min-runtime", min_runtime];
        let (job, gate) = lab.submit_gated("ana", &flags)?;
        let process = gate.running();
        let attempt = seen::last(&seen::running(lab, ana, job));
        Ok(Self { job, gate, process, attempt })
    }

    /// Checks that it is the same run with the same protection.
    fn assert_untouched(&self, lab: &Lab, ana: &Client, what: &str) {
        assert!(alive(self.process), "{what}: a job ended");
        let now = seen::last(&seen::running(lab, ana, self.job));
        assert_eq!(now.attempt, self.attempt.attempt, "{what}");
        assert_eq!(now.started_at, self.attempt.started_at, "{what}");
        assert_eq!(now.protected_until_at, self.attempt.protected_until_at, "{what}: protection moved");
    }

    /// Lets it end, and checks what it is charged.
    fn end(&self, lab: &Lab, ana: &Client) {
        self.gate.open(0);
        seen::assert_exit(&seen::ended(lab, ana, self.job), 0);
        assert_eq!(self.gate.runs().len(), 1);
    }
}

/// Restarts every replica's machine at once.
fn reboot_all(lab: &mut Lab, wall_ahead_s: i64) -> Result<()> {
    lab.replicas.iter_mut().for_each(Replica::kill);
    let (folder, parts) = (lab.folder().to_owned(), lab.parts.clone());
    for replica in &mut lab.replicas {
        replica.machine = Some(Machine::boot(&folder, wall_ahead_s)?);
        replica.start(&parts)?;
    }
    Ok(())
}

fn is_possible(lab: &Lab) -> bool {
    match Machine::missing(lab.folder()) {
        None => true,
        Some(why) => {
            not_available(&why);
            false
        }
    }
}

fn alarms(lab: &Lab, admin: &Client) -> Result<Vec<String>> {
    Ok(lab.block_on(admin.status())?.alarms)
}

/// Waits until an alarm has these words.
fn until_alarm(lab: &Lab, admin: &Client, words: &str) {
    until(&format!("an alarm says `{words}`"), || {
        let alarms = alarms(lab, admin).ok()?;
        alarms.iter().any(|alarm| alarm.contains(words)).then_some(())
    });
}

/// Brings every replica back to a machine whose wall clock is right, and what runs to rest.
fn put_right(lab: &mut Lab) -> Result<()> {
    reboot_all(lab, 0)?;
    let admin = lab.client(ADMIN)?;
    Reading::take(lab, &admin);
    lab.bursar(&["cluster", "time", "set", "now", "--reason", "the law is over", "--yes"]).ok();
    Ok(())
}

pub fn one_machine_that_restarts_goes_by_the_others_and_its_wall_clock_is_named(lab: &mut Lab) -> Result<()> {
    if !is_possible(lab) {
        return Ok(());
    }
    let (ana, admin) = (lab.client("ana")?, lab.client(ADMIN)?);
    let job = Running::start(lab, &ana, "4h")?;
    let before = Reading::take(lab, &admin);
    let leader = lab.leader();
    let (folder, parts) = (lab.folder().to_owned(), lab.parts.clone());
    lab.replicas[leader].kill();
    lab.replicas[leader].machine = Some(Machine::boot(&folder, WRONG[2])?);
    lab.replicas[leader].start(&parts)?;
    Reading::take(lab, &admin).assert_goes_on(&before, "one of three");
    let name = format!("off against the others: r{}", leader + 1);
    until_alarm(lab, &admin, &name);
    // Cluster time is the others' when it leads, too: it followed them.
    let other = lab.leader();
    if other != leader {
        lab.replicas[other].kill();
        Reading::take(lab, &admin).assert_goes_on(&before, "after a change of leader");
        lab.replicas[other].start(&parts)?;
    }
    job.assert_untouched(lab, &ana, "one of three");
    job.end(lab, &ana);
    put_right(lab)
}

pub fn machines_that_all_restart_go_by_the_agents_whatever_their_wall_clocks_show(
    lab: &mut Lab,
) -> Result<()> {
    if !is_possible(lab) {
        return Ok(());
    }
    let (ana, admin) = (lab.client("ana")?, lab.client(ADMIN)?);
    let job = Running::start(lab, &ana, "4h")?;
    let before = Reading::take(lab, &admin);
    for wrong in WRONG {
        let what = format!("wall clocks are {wrong} s ahead");
        reboot_all(lab, wrong)?;
        Reading::take(lab, &admin).assert_goes_on(&before, &what);
        job.assert_untouched(lab, &ana, &what);
        let side =
            if wrong < 0 { "ahead of the replicas' wall clocks" } else { "behind the replicas' wall clocks" };
        until_alarm(lab, &admin, side);
        assert!(
            alarms(lab, &admin)?.iter().all(|alarm| !alarm.contains("last entry")),
            "{what}: nobody vouched"
        );
    }
    let said = lab.bursar(&["events", "-o", "jsonl"]).ok();
    assert!(said.out.contains("by the word of two agents"), "{said:#?}");
    job.end(lab, &ana);
    put_right(lab)
}

pub fn machines_that_all_restart_without_any_agent_believe_the_wall_clock_near_the_last_entry_only(
    lab: &mut Lab,
) -> Result<()> {
    if !is_possible(lab) {
        return Ok(());
    }
    let (ana, admin) = (lab.client("ana")?, lab.client(ADMIN)?);
    let (long, short) = (Running::start(lab, &ana, "8h")?, Running::start(lab, &ana, "30m")?);
    let parts = lab.parts.clone();
    // What the rounds so far may have lost at most.
    let mut lost = 0;
    for wrong in WRONG {
        let what = format!("no agent, wall clocks are {wrong} s ahead");
        let before = Reading::take(lab, &admin);
        lab.agents.iter_mut().for_each(Agent::kill);
        reboot_all(lab, wrong)?;
        let now = Reading::take(lab, &admin);
        let (least, most) = now.gained(&before);
        if wrong == HOUR {
            // It is right but for its hour, and makes up for what was lost in the round before.
            let hour = 1_000 * HOUR;
            let is_right = most >= hour - SLACK && least < hour + lost + IDLE;
            assert!(is_right, "{what}: {least} to {most}, lost before that {lost}");
        } else {
            // Time stood still while nobody was there; it did not go back behind the last entry.
            assert!(least <= 0 && now.ran(&before) > -IDLE, "{what}: {least} to {most}");
            lost -= least;
            until_alarm(lab, &admin, "goes on from the last entry");
            assert!(lab.block_on(admin.hello())?.time_alarm.is_some(), "{what}");
        }
        for agent in &mut lab.agents {
            agent.start(&parts)?;
        }
        lab.wait_nodes();
        long.assert_untouched(lab, &ana, &what);
        ensure!(alive(short.process), "{what}: a job ended");
        // Clients are not locked out by a wrong time.
        lab.bursar(&["cluster", "time", "set", "now", "--reason", "go on", "--yes"]).ok();
        assert!(alarms(lab, &admin)?.iter().all(|alarm| !alarm.contains("last entry")), "{what}");
        ensure!(lab.block_on(admin.hello())?.time_alarm.is_none(), "{what}");
    }
    let said = lab.bursar(&["events", "-o", "jsonl"]).ok();
    for words in ["goes on from the last entry", "it goes on by the wall clock", "said to be right"] {
        assert!(said.out.contains(words), "`{words}` is missing: {said:#?}");
    }
    [long, short].iter().for_each(|job| job.end(lab, &ana));
    put_right(lab)
}

fn set<'a>(time: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["cluster", "time", "set", time, "--reason", "by the clock in the hall"];
    args.extend(more);
    args
}

pub fn operator_sets_time_forward_once_and_never_back(lab: &mut Lab) -> Result<()> {
    let (ana, admin) = (lab.client("ana")?, lab.client(ADMIN)?);
    let (long, short) = (Running::start(lab, &ana, "4h")?, Running::start(lab, &ana, "30m")?);
    let before = Reading::take(lab, &admin);
    lab.bursar(&set("2020-01-01 00:00", &["--yes"]))
        .refused(3, &["time never goes back", "nothing was changed"]);
    lab.bursar(&set("2h", &[]))
        .refused(2, &["confirmation", "nothing was changed", &format!("{}.1", short.job)]);
    lab.bursar_as("ana", &set("2h", &["--yes"])).refused(5, &["not an operator"]);
    let preview = lab.bursar(&set("2h", &["--preview", "-o", "json"])).json();
    assert_eq!(preview["protections"].as_array().context("a list")?.len(), 1, "{preview}");
    Reading::take(lab, &admin).assert_goes_on(&before, "only asked");

    let begun = Instant::now();
    let done = lab.bursar(&set("2h", &["--yes", "-o", "json"])).json();
    // Two hours from when the command began.
    let ahead = done["ahead_ms"].as_i64().context("a step")?;
    let expected = 2_000 * HOUR - ms(begun.elapsed()) - SLACK..=2_000 * HOUR + SLACK;
    assert!(expected.contains(&ahead), "{done}");
    Reading::take(lab, &admin).assert_gained(&before, ahead, "two hours ahead");
    // Nobody was silent for two hours, and every replica is there.
    let patience = Instant::now() + Duration::from_millis(1_500);
    until("some beats have passed", || (Instant::now() > patience).then_some(()));
    for agent in &lab.agents {
        assert_eq!(lab.block_on(admin.node(&agent.name))?.state, "ready", "{}", agent.name);
    }
    let times = lab.bursar(&["cluster", "time", "-o", "json"]).json();
    assert_eq!(times["replicas"].as_array().context("replicas")?.len(), 3, "{times}");
    for n in 0..3 {
        let hello = lab.block_on(admin.hello_at(n))?;
        assert!(hello.cluster_time_at >= before.time + 2 * HOUR_MS, "r{}: {hello:?}", n + 1);
    }
    long.assert_untouched(lab, &ana, "two hours ahead");
    ensure!(alive(short.process), "a job ended by a step of time");
    let pools = lab.block_on(admin.status())?.pools;
    assert_eq!((pools[0].protected, pools[0].interruptible), (1, 1), "{pools:#?}");
    until_alarm(lab, &admin, "ahead of the replicas' wall clocks");
    let said = lab.bursar(&["events", "-o", "jsonl"]).ok();
    assert!(said.out.contains("by the clock in the hall"), "{said:#?}");
    [long, short].iter().for_each(|job| job.end(lab, &ana));
    Ok(())
}
