//! Replicas come, go, break and come back under new numbers; work and calls do not notice.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chaos_tests::disk::copy_tree;
use chaos_tests::lab::{ADMIN, Gate, Identity, Lab, Said, alive, kill, until};
use serde_json::Value;

use crate::failover::{Over, Told};
use crate::seen;

/// Between two submissions of the thread that never stops to submit.
const PACE: Duration = Duration::from_millis(200);

/// What runs on meanwhile: jobs behind gates, and somebody who submits.
struct Work {
    jobs: Vec<(u32, Gate)>,
    processes: Vec<Identity>,
}

impl Work {
    fn start(lab: &Lab) -> Result<Self> {
        let flags = ["--budget", "a", "--min-runtime", "1h"];
        let jobs = (0..2).map(|_| lab.submit_gated("ana", &flags)).collect::<Result<Vec<_>>>()?;
        let processes = jobs.iter().map(|(_, gate)| gate.running()).collect();
        Ok(Self { jobs, processes })
    }

    fn assert_runs(&self, when: &str) {
        assert!(self.processes.iter().all(|process| alive(*process)), "{when}: a job ended");
    }

    fn end(self, lab: &Lab) -> Result<()> {
        self.assert_runs("at the end");
        let ana = lab.client("ana")?;
        for (code, (job, gate)) in (20..).zip(&self.jobs) {
            gate.open(code);
            seen::assert_exit(&seen::ended(lab, &ana, *job), u32::from(code));
            assert_eq!(gate.runs().len(), 1, "a job was started twice");
        }
        Ok(())
    }
}

/// Does something to the replicas while jobs run and are submitted; no job and no call may notice.
fn under_work(
    lab: &mut Lab,
    what: &str,
    act: impl FnOnce(&mut Lab, &Work, &Told) -> Result<()>,
) -> Result<()> {
    let work = Work::start(lab)?;
    let prefix = lab.fresh(what);
    let client = lab.client("ana")?;
    let (told, handle) = (Told::default(), lab.handle());
    std::thread::scope(|scope| -> Result<()> {
        let submitter = client.from_replica(0);
        let (told, prefix) = (&told, prefix.as_str());
        scope.spawn(move || told.submit(&submitter, &handle, prefix, "true", PACE));
        let over = Over(told);
        act(lab, &work, told)?;
        told.wait_more(2);
        drop(over);
        Ok(())
    })?;
    // The replicas are others than those that this client was made with.
    told.assert_kept(lab, &lab.client("ana")?, &prefix)?;
    work.end(lab)
}

fn status(lab: &Lab) -> Value {
    lab.bursar(&["cluster", "status", "-o", "json"]).json()
}

/// Returns the numbers of the replicas that vote.
fn voters(lab: &Lab) -> BTreeSet<u64> {
    let status = status(lab);
    let replicas = status["replicas"].as_array().expect("replicas are a list").iter();
    let votes = replicas.filter(|replica| replica["votes"] == true);
    votes.map(|replica| replica["replica"].as_u64().expect("a number")).collect()
}

/// Returns the number of the replica at a place of the lab.
fn number(lab: &Lab, at: usize) -> u64 {
    let client = lab.client(ADMIN).expect("the admin's context is there");
    until("a replica says who it is", || lab.block_on(client.hello_at(at)).ok().filter(|it| it.replica > 0))
        .replica
}

/// Whether the replica at an address says that it leads.
fn leads(lab: &Lab, client: &str) -> bool {
    let at = lab.replicas.iter().position(|replica| replica.client == client);
    let admin = lab.client(ADMIN).expect("the admin's context is there");
    at.is_some_and(|at| lab.block_on(admin.hello_at(at)).is_ok_and(|hello| hello.role == "leader"))
}

/// Adds replicas until so many vote; returns what was said.
fn grow(lab: &mut Lab, to: usize) -> Result<Said> {
    let more: Vec<String> = (lab.replicas.len()..to)
        .map(|_| lab.add_replica().map(|at| lab.replicas[at].client.clone()))
        .collect::<Result<_>>()?;
    let mut args = vec!["cluster", "member", "add"];
    args.extend(more.iter().map(String::as_str));
    Ok(lab.bursar(&args).ok())
}

fn at_least_three(lab: &mut Lab) -> Result<()> {
    if lab.replicas.len() < 3 {
        grow(lab, 3)?;
    }
    Ok(())
}

/// Removes the replica at a place, which then ends by itself and says why.
fn remove(lab: &mut Lab, at: usize) -> Result<()> {
    let number = number(lab, at);
    // While the others have only just come, too few of them may answer: it is refused, and nothing is done.
    let mut is_asked = false;
    until("the replica can go", || {
        let said = lab.bursar(&["cluster", "member", "remove", &format!("r{number}"), "--yes"]);
        // An earlier word that nobody answered in time may have been carried out.
        let is_gone = said.code == 0 || is_asked && said.err.contains("B1402");
        is_asked = true;
        is_gone.then_some(())
    });
    let mut gone = lab.replicas.remove(at);
    let process = gone.process.as_mut().context("it runs")?;
    let ended = process.wait_end();
    assert!(ended.success(), "{ended}\n{}", process.log_tail());
    assert!(process.log_tail().contains("bursar server rebuild"), "{}", process.log_tail());
    let mut again = gone.spawn(&lab.parts)?;
    assert!(!again.wait_end().success(), "a removed replica started again");
    assert!(again.log_tail().contains("was removed from its cluster"), "{}", again.log_tail());
    Ok(())
}

pub fn replicas_come_and_go_while_work_and_calls_go_on(lab: &mut Lab) -> Result<()> {
    // The submitter knows all of them beforehand; so may clients that were told.
    assert_eq!(voters(lab).len(), 1);
    for _ in 0..4 {
        lab.add_replica()?;
    }
    let waiting: Vec<String> = lab.replicas[1..].iter().map(|replica| replica.client.clone()).collect();
    under_work(lab, "come-and-go", |lab, work, told| {
        let add = |lab: &Lab, pair: &[String]| {
            let said = lab.bursar(&["cluster", "member", "add", &pair[0], &pair[1]]).ok();
            assert_eq!(said.out.matches("has joined and votes").count(), 2, "{said:#?}");
        };
        add(lab, &waiting[..2]);
        told.wait_more(1);
        // The leader dies in the middle; the command goes on with the next one.
        let leader =
            until("one of them leads", || lab.replicas[..3].iter().position(|one| leads(lab, &one.client)));
        let pid = lab.replicas[leader].pid().context("it runs")?;
        std::thread::scope(|scope| {
            let adding = scope.spawn(|| add(lab, &waiting[2..]));
            kill(pid);
            adding.join().expect("they join");
        });
        lab.replicas[leader].kill();
        let parts = lab.parts.clone();
        lab.replicas[leader].start(&parts)?;
        told.wait_more(1);
        assert_eq!(voters(lab).len(), 5);
        work.assert_runs("five replicas");
        // The founder is the first to go, with the address that everybody was given.
        for _ in 0..2 {
            remove(lab, 0)?;
            told.wait_more(1);
            work.assert_runs("a replica went");
        }
        Ok(())
    })?;
    assert_eq!(voters(lab).len(), 3);
    // Who was given the founder's address alone has learned the others: people by their context, agents by their link.
    let mut queue = Command::new(&lab.parts.bursar);
    queue.arg("queue");
    lab.run(&mut queue, ADMIN)?.ok();
    lab.agents[0].kill();
    let parts = lab.parts.clone();
    lab.agents[0].start(&parts)?;
    lab.wait_nodes();
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1m"])?;
    gate.open(0);
    seen::assert_exit(&seen::ended(lab, &lab.client("ana")?, job), 0);
    Ok(())
}

pub fn leadership_moves_on_a_word_and_a_replica_that_is_needed_is_not_ok_to_stop(
    lab: &mut Lab,
) -> Result<()> {
    at_least_three(lab)?;
    let (leader, first) = (lab.leader(), number(lab, 0));
    let next = (leader + 1) % 3;
    under_work(lab, "hand-over", |lab, _, told| {
        let (to, place) = (number(lab, next), lab.replicas[next].id);
        let before = lab.leaders().len();
        let said = lab.bursar(&["cluster", "transfer-leader", &format!("r{to}")]).ok();
        assert!(said.out.contains(&format!("r{to} leads")), "{said:#?}");
        // By what they logged: a busy machine may elect another one soon after.
        let led = |from: usize| lab.leaders().into_values().skip(from).flatten().collect::<Vec<_>>();
        until("it leads", || led(before).contains(&place).then_some(()));
        told.wait_more(1);
        let before = lab.leaders().len();
        lab.bursar(&["cluster", "transfer-leader"]).ok();
        until("another one leads", || led(before).iter().any(|one| *one != place).then_some(()));
        Ok(())
    })?;
    lab.bursar(&["cluster", "transfer-leader", "r99"]).refused(4, &["B1402", "no replica r99"]);
    lab.bursar_as("ana", &["cluster", "transfer-leader", &format!("r{first}")]).refused(5, &["B1401"]);
    lab.bursar_as("ana", &["cluster", "member", "remove", &format!("r{first}"), "--yes"])
        .refused(5, &["B1401"]);
    lab.bursar(&["cluster", "member", "remove", &format!("r{first}")]).refused(2, &["B1004"]);
    lab.bursar(&["cluster", "member", "add", "127.0.0.1:1"]).refused(6, &["B1102"]);

    let stop = |lab: &Lab, numbers: &[u64]| {
        let names: Vec<String> = numbers.iter().map(|number| format!("r{number}")).collect();
        let args: Vec<&str> = ["cluster", "ok-to-stop", "-o", "json"]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .collect();
        lab.bursar(&args)
    };
    let all: Vec<u64> = (0..3).map(|at| number(lab, at)).collect();
    for one in &all {
        let ok = until("each one can be spared", || Some(stop(lab, &[*one])).filter(|said| said.code == 0));
        assert_eq!(ok.json()["ok"], true);
    }
    assert_eq!(stop(lab, &all[..2]).code, 9);
    let (away, other) = ((lab.leader() + 1) % 3, (lab.leader() + 2) % 3);
    lab.replicas[away].kill();
    until("the others are needed, and it is said why", || {
        let said = stop(lab, &[all[other]]);
        let no: Value = serde_json::from_str(&said.out).ok().filter(|_| said.code == 9)?;
        no["wait_for"].to_string().contains(&format!("r{} does not answer", all[away])).then_some(())
    });
    until("one that is down is not counted on", || (stop(lab, &[all[away]]).code == 0).then_some(()));
    // At once, not only when it has long been silent: begun, it could never be decided, and nothing else could.
    let removed = lab.bursar(&["cluster", "member", "remove", &format!("r{}", all[other]), "--yes"]);
    removed.refused(3, &["B1605"]);
    assert_eq!(voters(lab).len(), 3);
    // What is wrong is told, with what to type; and that nothing is, once it is back.
    until("what is wrong is found", || {
        let doctor = lab.bursar(&["doctor", "-o", "json"]);
        let report: Value = serde_json::from_str(&doctor.out).ok().filter(|_| doctor.code == 1)?;
        let findings = report["findings"].to_string();
        (findings.contains("replica.down") && findings.contains(&format!("r{}", all[away]))).then_some(())
    });
    let parts = lab.parts.clone();
    lab.replicas[away].start(&parts)?;
    until("nothing is wrong", || Some(lab.bursar(&["doctor"])).filter(|said| said.code == 0));
    Ok(())
}

/// Rebuilds the replica at a place by the one command that its own message names, and starts it again.
fn rebuild(lab: &mut Lab, at: usize) -> Result<()> {
    let before = voters(lab);
    let config = lab.replicas[at].config().display().to_string();
    lab.bursar(&["server", "rebuild", "-c", &config]).refused(2, &["B1004"]);
    let said = lab.bursar(&["server", "rebuild", "-c", &config, "--yes"]).ok();
    assert!(said.out.contains("rebuilt: this replica is r"), "{said:#?}");
    let parts = lab.parts.clone();
    lab.replicas[at].start(&parts)?;
    let fresh = number(lab, at);
    assert!(!before.contains(&fresh), "a number was used again");
    let after = voters(lab);
    assert!(after.contains(&fresh) && after.len() == before.len(), "{before:?} {after:?}");
    until("it counts", || {
        let status = status(lab);
        let replicas = status["replicas"].as_array()?.clone();
        replicas.iter().all(|replica| replica["role"] != "no answer").then_some(())
    });
    Ok(())
}

pub fn damaged_replica_is_rebuilt_by_the_command_that_it_names(lab: &mut Lab) -> Result<()> {
    at_least_three(lab)?;
    let damaged = (lab.leader() + 1) % 3;
    under_work(lab, "rebuild", |lab, work, _| {
        let config = lab.replicas[damaged].config().display().to_string();
        let running = lab.bursar(&["server", "rebuild", "-c", &config, "--yes"]);
        running.refused(1, &["the replica runs"]);
        lab.replicas[damaged].stop();
        let data = lab.replicas[damaged].data.clone();
        let file = fs::File::options().write(true).open(data.join("log/db"))?;
        file.set_len(20_000)?;
        let mut process = lab.replicas[damaged].spawn(&lab.parts)?;
        assert!(!process.wait_end().success(), "a damaged replica started");
        assert!(process.log_tail().contains("bursar server rebuild -c FILE"), "{}", process.log_tail());
        let dir = data.display().to_string();
        let looked = lab.bursar(&["doctor", "--data", &dir, "-o", "json"]);
        assert_eq!(looked.code, 1, "{looked:#?}");
        assert!(looked.out.contains("data.damaged"), "{looked:#?}");
        rebuild(lab, damaged)?;
        assert!(data.join("kept-1/log/db").exists(), "the old data is not kept");
        work.assert_runs("a replica was rebuilt");
        Ok(())
    })
}

pub fn wiped_or_old_copy_of_a_replica_takes_no_part_under_its_old_number(lab: &mut Lab) -> Result<()> {
    at_least_three(lab)?;
    let back = (lab.leader() + 1) % 3;
    let parts = lab.parts.clone();
    lab.replicas[back].stop();
    let (data, old) = (lab.replicas[back].data.clone(), lab.folder().join("old-copy"));
    copy_tree(&data, &old)?;
    lab.replicas[back].start(&parts)?;
    for _ in 0..5 {
        let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1m"])?;
        gate.open(0);
        seen::ended(lab, &lab.client("ana")?, job);
    }
    lab.standings();
    // What is remembered of it is written down within a second or two of standing still; all of them then restart.
    if lab.leader() == back {
        let other = number(lab, (back + 1) % 3);
        lab.bursar(&["cluster", "transfer-leader", &format!("r{other}")]).ok();
    }
    let knows = lab.leader();
    let peers = lab.replicas[knows].data.join("peers");
    let written = || fs::metadata(&peers).and_then(|seen| seen.modified()).ok();
    let before = written();
    // More to remember: the next time that it is written, the other jobs are in it.
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1m"])?;
    gate.open(0);
    seen::ended(lab, &lab.client("ana")?, job);
    lab.standings();
    until("the leader has written down what it remembers", || (written() > before).then_some(()));
    lab.replicas.iter_mut().for_each(chaos_tests::lab::Replica::stop);
    let kept = lab.folder().join("newest-copy");
    fs::rename(&data, &kept)?;
    fs::rename(&old, &data)?;
    // It is there first: nobody is there to tell it. Then comes who knows, before it may get everything from others.
    lab.replicas[back].start(&parts)?;
    lab.replicas[knows].start(&parts)?;
    let mut process = lab.replicas[back].process.take().context("it was started")?;
    assert!(!process.wait_end().success(), "an older copy takes part");
    let tail = process.log_tail();
    assert!(tail.contains("older copy") && tail.contains("bursar server rebuild -c FILE"), "{tail}");
    lab.replicas[3 - back - knows].start(&parts)?;
    // A wiped one waits: nobody gives it its number back, and it founds nothing.
    fs::remove_dir_all(&data)?;
    lab.replicas[back].start(&parts)?;
    let client = lab.client(ADMIN)?;
    assert_eq!(lab.block_on(client.hello_at(back))?.role, "waiting");
    assert_eq!(voters(lab).len(), 3);
    assert_eq!(lab.block_on(client.hello_at(back))?.role, "waiting");
    lab.replicas[back].stop();
    rebuild(lab, back)
}

pub fn replicas_go_until_one_is_left_and_it_keeps_everything(lab: &mut Lab) -> Result<()> {
    at_least_three(lab)?;
    under_work(lab, "to-one", |lab, work, told| {
        while lab.replicas.len() > 1 {
            remove(lab, 0)?;
            told.wait_more(1);
            work.assert_runs("a replica went");
        }
        Ok(())
    })?;
    let last = number(lab, 0);
    assert_eq!(voters(lab), BTreeSet::from([last]));
    let only = lab.bursar(&["cluster", "member", "remove", &format!("r{last}"), "--yes"]);
    only.refused(3, &["B1605", "only replica that votes"]);
    assert_eq!(lab.bursar(&["cluster", "ok-to-stop", &format!("r{last}")]).code, 9);
    Ok(())
}
