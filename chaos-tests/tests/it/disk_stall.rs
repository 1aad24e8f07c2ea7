//! Disks that stand still or are slow, and disks with a busy neighbour.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chaos_tests::disk::Make;
use chaos_tests::lab::{ADMIN, Lab, Process, alive, costs_no_election, try_until, until};
use xtask::not_available;

use crate::disk_lab::{PATIENCE, Scene, long_job, number, plan};

/// How long the neighbour writes, in seconds.
const NEIGHBOUR_S: &str = "BURSAR_NEIGHBOUR_S";
/// What it writes and syncs at once, and how often a second.
const PIECE: usize = 1 << 20;
const PIECES_A_SECOND: u32 = 8;

/// A leader whose disk stands still hands over, and nobody's call fails; when it moves again it follows.
pub fn leader_whose_disk_stands_still_hands_over_and_comes_back_as_a_follower() -> Result<()> {
    let Some(scene) = Scene::start(plan(3, 0), Make::Ext4 { mib: 96 })? else { return Ok(()) };
    scene.wait_more(20);
    let (leader, _) = scene.leader_and_follower();
    let frozen = scene.on.disks[leader].freeze()?;
    let begun = Instant::now();
    scene.another_leads(leader);
    eprintln!("another replica leads {} ms after the leader's disk stood still", begun.elapsed().as_millis());
    scene.wait_more(30);
    drop(frozen);
    let client = scene.on.lab.client(ADMIN)?;
    until("it follows", || {
        let hello = scene.on.lab.block_on(client.hello_at(leader)).ok()?;
        (hello.role == "follower").then_some(())
    });
    let told = scene.load.told();
    assert_eq!(told.unanswered, 0, "calls were not answered in time");
    scene.assert_nothing_lost()
}

/// A follower whose disk stands still is missed by nobody.
pub fn follower_whose_disk_stands_still_costs_no_election_and_catches_up() -> Result<()> {
    let Some(scene) = Scene::start(plan(3, 0), Make::Ext4 { mib: 96 })? else { return Ok(()) };
    scene.wait_more(20);
    let is_seen = costs_no_election(&scene.on.lab, |calm| {
        let (_, follower) = scene.leader_and_follower();
        let frozen = scene.on.disks[follower].freeze()?;
        // As long as it takes a leader with such a disk to hand over, several times.
        until("four seconds of writes", || (calm.elapsed() > Duration::from_secs(4)).then_some(()));
        scene.wait_more(30);
        drop(frozen);
        Ok(())
    })?;
    if !is_seen {
        not_available("no needless election: this machine let replicas wait too long");
    }
    scene.assert_nothing_lost()
}

/// Each sync of the leader takes two seconds: as good as none.
pub fn leader_whose_syncs_take_seconds_hands_over() -> Result<()> {
    let Some(scene) = Scene::start(plan(3, 0), Make::Ext4 { mib: 96 })? else { return Ok(()) };
    scene.wait_more(20);
    let (leader, _) = scene.leader_and_follower();
    let pid = scene.on.lab.replicas[leader].pid().context("it runs")?;
    let Some(slow) = slow_syncs(&scene.on.lab, pid)? else { return Ok(()) };
    scene.another_leads(leader);
    scene.wait_more(30);
    drop(slow);
    scene.assert_nothing_lost()
}

/// Delays every sync of a process until the value is dropped; `None` where nothing can.
fn slow_syncs(lab: &Lab, pid: i32) -> Result<Option<Process>> {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        not_available("slow syncs: there is no strace");
        return Ok(None);
    }
    let log = lab.folder().join("strace.log");
    let mut command = Command::new("strace");
    command.args(["-f", "-p", &pid.to_string(), "-e", "trace=fdatasync"]);
    command.args(["-e", "inject=fdatasync:delay_enter=2000000", "-o"]).arg(lab.folder().join("strace.out"));
    let mut strace = Process::start(command, &log)?;
    let attached = try_until(PATIENCE, || {
        let is_there = std::fs::read_to_string(&log).is_ok_and(|text| text.contains("attached"));
        (is_there || strace.ended().is_some()).then_some(())
    });
    if attached.is_none() || strace.ended().is_some() {
        not_available(&format!("slow syncs: strace: {}", strace.log_tail()));
        return Ok(None);
    }
    Ok(Some(strace))
}

/// Somebody else's syncs on the same disk cost no election. `BURSAR_NEIGHBOUR_S=600` is the long form.
pub fn neighbour_that_syncs_on_the_same_disk_costs_no_election() -> Result<()> {
    let _lock = xtask::cluster_lock();
    let lab = Lab::start(plan(3, 0))?;
    let (_gate, process) = long_job(&lab)?;
    let journal = lab.write("runs.journal", "")?;
    let load = chaos_tests::disk::Load::start(&lab, &journal)?;
    assert!(load.wait_more(20, PATIENCE));
    let span = Duration::from_secs(u64::try_from(number(NEIGHBOUR_S, 15)).context("seconds")?);
    let is_seen = costs_no_election(&lab, |_| {
        let before = load.told().acknowledged();
        let synced = neighbour(&lab, span)?;
        // On a slow machine the first one may be on its way still.
        assert!(load.told().acknowledged() > before || load.wait_more(1, PATIENCE), "nobody writes");
        let acknowledged = load.told().acknowledged() - before;
        eprintln!(
            "{} MiB of a neighbour's in {} s, {acknowledged} calls acknowledged meanwhile",
            synced >> 20,
            span.as_secs(),
        );
        Ok(())
    })?;
    if !is_seen {
        not_available("no needless election: this machine let replicas wait too long");
    }
    load.pause();
    assert_eq!(load.losses(&lab)?, [] as [String; 0]);
    assert!(alive(process));
    Ok(())
}

/// Writes and syncs beside the replicas' data, at its rate if the disk can.
fn neighbour(lab: &Lab, span: Duration) -> Result<u64> {
    let path = lab.folder().join("neighbour");
    let piece = vec![7; PIECE];
    let begun = Instant::now();
    let mut synced = 0;
    for count in 1_u32.. {
        if begun.elapsed() > span {
            break;
        }
        // One file a second, or it would fill the disk.
        let is_new = count % PIECES_A_SECOND == 1;
        let mut file =
            File::options().append(!is_new).write(true).truncate(is_new).create(true).open(&path)?;
        file.write_all(&piece).and_then(|()| file.sync_data()).context("failed to write beside replicas")?;
        synced += u64::try_from(PIECE).context("a piece")?;
        let due = Duration::from_secs(1) * count / PIECES_A_SECOND;
        let _ = try_until(due.saturating_sub(begun.elapsed()), || None::<()>);
    }
    Ok(synced)
}
