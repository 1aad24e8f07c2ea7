//! Power cuts and full disks, on file systems of the test's own. Needs root; says so where it cannot run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use raft_store::{ClusterId, Member, Replica, ReplicaId, propose};

use crate::cluster::{DEADLINE, config, eventually, pause};
use crate::killed::DIR;
use crate::register::{Register, set};

/// Says that this machine cannot run a test, past the harness, which swallows what a passing test prints.
fn not_available(what: &str) {
    use std::io::Write as _;
    // Nobody is left to tell when standard error itself is gone.
    let _ = writeln!(std::io::stderr(), "not available: {what}");
}

/// A file system that is taken down with the value.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn image(image: &Path, at: PathBuf) -> Result<Self, String> {
        std::fs::create_dir_all(&at).map_err(|cause| cause.to_string())?;
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(&at))?;
        Ok(Self { at })
    }

    fn memory(size: &str, at: PathBuf) -> Result<Self, String> {
        std::fs::create_dir_all(&at).map_err(|cause| cause.to_string())?;
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&at))?;
        Ok(Self { at })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(why) = run(Command::new("umount").arg(&self.at)) {
            eprintln!("failed to unmount {}: {why}", self.at.display());
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let Output { status, stderr, .. } = command.output().map_err(|cause| cause.to_string())?;
    if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&stderr).trim().to_owned()) }
}

fn child(dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["killed::child_writes_until_killed", "--exact", "--nocapture"]).env(DIR, dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the child starts")
}

/// Reads what the child says until it has acknowledged `more`, and returns what it held and the last number.
fn listen(child: &mut Child, more: u64) -> (u64, u64) {
    let (mut held, mut last) = (None, 0);
    let out = child.stdout.take().expect("it is piped");
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if let Some(number) = line.strip_prefix("held ") {
            held = number.parse().ok();
        } else if let Some(number) = line.strip_prefix("acknowledged ") {
            last = number.parse().expect("a number");
            if last >= held.unwrap_or_default() + more {
                break;
            }
        }
    }
    (held.expect("the child opened its directory"), last)
}

fn end(mut child: Child) {
    child.kill().expect("it runs");
    child.wait().expect("it is gone");
}

/// What a power cut leaves is what the device holds: a copy of the image taken while the file system above it
/// still has everything else in memory.
#[test]
fn nothing_acknowledged_is_missing_after_a_power_cut() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut image = dir.path().join("disk-0");
    let made = run(Command::new("truncate").args(["-s", "96M"]).arg(&image))
        .and_then(|()| run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image)));
    let mut acknowledged = 0;
    for round in 0..4u64 {
        let mounted =
            made.clone().and_then(|()| Mounted::image(&image, dir.path().join(format!("at-{round}"))));
        let mounted = match mounted {
            Ok(mounted) => mounted,
            Err(why) => return not_available(&format!("a file system of our own: {why}")),
        };
        let mut child = child(&mounted.at.join("data"));
        let (held, last) = listen(&mut child, 20 + round * 30);
        assert!(held >= acknowledged, "round {round}: {held} is held, {acknowledged} was acknowledged");
        acknowledged = last;
        end(child);
        let next = dir.path().join(format!("disk-{}", round + 1));
        run(Command::new("cp").arg(&image).arg(&next)).expect("the image is copied");
        drop(mounted);
        image = next;
    }
}

/// Longer than a fact takes that there is room for.
const A_WHILE: Duration = Duration::from_secs(15);

/// Fills the file system of `file` until only so many bytes are left.
fn fill(file: &Path, left: u64) {
    let seen = rustix::fs::statvfs(file.parent().expect("a file is in a folder")).expect("it can be asked");
    let length = seen.f_bavail.saturating_mul(seen.f_frsize).saturating_sub(left);
    std::fs::write(file, vec![0; usize::try_from(length).expect("a small disk")]).expect("there is room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_proposals_keeps_facts_and_recovers_by_itself() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mounted = match Mounted::memory("48M", dir.path().join("small")) {
        Ok(mounted) => mounted,
        Err(why) => return not_available(&format!("a file system of our own: {why}")),
    };
    let data = mounted.at.join("data");
    let open = || async {
        let machine = Register::default();
        let replica = Replica::open(config(&data), machine.clone()).await.expect("it opens");
        (replica, machine)
    };
    let (replica, machine) = open().await;
    let member =
        Member { id: ReplicaId::new(1), peer_addr: "127.0.0.1:1".into(), client_addr: String::new() };
    replica.found(ClusterId::new([7; 16]), ReplicaId::new(1), vec![member]).await.expect("it is founded");
    replica.watch().wait_for(|status| status.is_leader()).await.expect("it leads alone");
    replica.propose(set("before", "1")).await.expect("there is room");

    let others = mounted.at.join("others");
    fill(&others, 3 << 20);
    let refused = async |replica: &Replica, is_scarce| {
        eventually("what the disk has no room for is refused", || {
            let refusal = futures_util::FutureExt::now_or_never(replica.propose(set("new", "1")));
            matches!(refusal, Some(Err(propose::Error::DiskFull { is_scarce: seen })) if seen == is_scarce)
                .then_some(())
        })
        .await;
    };
    refused(&replica, true).await;
    let mut facts = 0;
    let padding = "p".repeat(100_000);
    let mut waiting = None;
    loop {
        let mut fact = Box::pin(replica.propose_from_reserve(set(&format!("fact-{facts}"), &padding)));
        match tokio::time::timeout(A_WHILE, &mut fact).await {
            Ok(Ok(_)) => facts += 1,
            Ok(Err(propose::Error::DiskFull { is_scarce: false })) => break,
            Ok(Err(error)) => panic!("a fact failed: {error}"),
            Err(_) => {
                // It was taken while the last room went: its write waits for more.
                waiting = Some(fact);
                break;
            }
        }
    }
    assert!(facts > 5, "the reserve took {facts} facts");
    refused(&replica, false).await;
    assert!(replica.status().is_leader());

    std::fs::remove_file(&others).expect("it was there");
    eventually("it goes on by itself", || {
        let room = replica.free_disk().expect("it can be asked").free_bytes;
        (room > 20 << 20).then_some(())
    })
    .await;
    let deadline = Instant::now() + DEADLINE;
    if let Some(fact) = waiting {
        let written = tokio::time::timeout(DEADLINE, fact).await;
        written.expect("it goes on when there is room").expect("what was taken is not lost");
        facts += 1;
    }
    while let Err(error) = replica.propose(set("after", "1")).await {
        assert!(matches!(error, propose::Error::DiskFull { .. }), "{error}");
        pause("proposals are taken again", deadline).await;
    }
    let held = machine.registers().values;
    replica.shutdown().await;
    let (replica, machine) = open().await;
    replica.watch().wait_for(|status| status.is_leader()).await.expect("it leads alone");
    replica.read_barrier().await.expect("it reads");
    assert_eq!(machine.registers().values, held);
    assert!(held.contains_key("before") && held.contains_key(&format!("fact-{}", facts - 1)));
    replica.shutdown().await;
}
