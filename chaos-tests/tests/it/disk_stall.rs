//! Disks that stand still or are slow, and disks with a busy neighbour.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chaos_tests::disk::Make;
use chaos_tests::lab::{ADMIN, Lab, Plan, Process, alive, try_until, until};
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
    let (leader, follower) = scene.leader_and_follower();
    let terms = scene.on.lab.leaders().len();
    let watch = Pulse::start();
    let frozen = scene.on.disks[follower].freeze()?;
    // As long as it takes a leader with such a disk to hand over, several times.
    until("four seconds of writes", || (watch.elapsed() > Duration::from_secs(4)).then_some(()));
    scene.wait_more(30);
    drop(frozen);
    assert_no_needless_election(&scene.on.lab, terms, watch);
    assert_eq!(scene.on.lab.leader(), leader);
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
    let terms = lab.leaders().len();
    let watch = Pulse::start();
    let before = load.told().acknowledged();
    let synced = neighbour(&lab, span)?;
    let acknowledged = load.told().acknowledged() - before;
    eprintln!(
        "{} MiB of a neighbour's in {} s, {acknowledged} calls acknowledged meanwhile, longest pause of this machine \
         {} ms",
        synced >> 20,
        span.as_secs(),
        watch.longest_ms(),
    );
    assert!(acknowledged > 0, "inconclusive: nobody wrote");
    assert_no_needless_election(&lab, terms, watch);
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

/// A thread that looks how long this machine lets a thread wait that wants nothing but a moment.
struct Pulse {
    begun: Instant,
    longest_ms: std::sync::Arc<AtomicU64>,
    is_over: std::sync::Arc<AtomicBool>,
}

impl Pulse {
    fn start() -> Self {
        let pulse =
            Self { begun: Instant::now(), longest_ms: Default::default(), is_over: Default::default() };
        let (longest, is_over) = (pulse.longest_ms.clone(), pulse.is_over.clone());
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let before = Instant::now();
                let _ = try_until(Duration::ZERO, || None::<()>);
                let _ = try_until(Duration::from_millis(1), || None::<()>);
                let took = u64::try_from(before.elapsed().as_millis()).unwrap_or(u64::MAX);
                longest.fetch_max(took, Ordering::Relaxed);
            }
        });
        pulse
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn longest_ms(&self) -> u64 {
        self.longest_ms.load(Ordering::Relaxed)
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Checks that nobody was elected since there were so many terms, unless this machine itself stood still so long that
/// an election was due.
#[track_caller]
fn assert_no_needless_election(lab: &Lab, terms: usize, watch: Pulse) {
    let now = lab.leaders().len();
    let due = Plan::usual().timing.election_min_ms / 2;
    if now != terms && watch.longest_ms() > due {
        not_available(&format!(
            "no needless election: this machine stood still for {} ms",
            watch.longest_ms()
        ));
        return;
    }
    assert_eq!(
        now,
        terms,
        "an election without need; longest pause of this machine {} ms",
        watch.longest_ms()
    );
}
