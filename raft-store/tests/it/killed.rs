//! A replica killed while it writes, again and again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use raft_store::{ClusterId, Member, Replica, ReplicaId};

use crate::cluster::{DEADLINE, config};
use crate::register::{Register, set};

pub const DIR: &str = "RAFT_STORE_CHILD_DIR";
const ROUNDS: u64 = 20;

/// Not a test of its own: the child of the test below, which writes until it is killed.
#[test]
fn child_writes_until_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(write(Path::new(&dir)));
}

async fn write(dir: &Path) {
    let machine = Register::default();
    let mut config = config(dir);
    // Snapshots and purges are killed too.
    config.snapshot_every = 50;
    config.keep_behind_snapshot = 5;
    let replica = Replica::open(config, machine.clone()).await.expect("a killed replica opens again");
    if !replica.is_initialised() {
        let member =
            Member { id: ReplicaId::new(1), peer_addr: "127.0.0.1:1".into(), client_addr: String::new() };
        replica.found(ClusterId::new([1; 16]), ReplicaId::new(1), vec![member]).await.expect("founded");
    }
    replica.watch().wait_for(|status| status.is_leader()).await.expect("it leads alone");
    replica.read_barrier().await.expect("it reads");
    let held = machine.get("counter").map_or(0, |text| text.parse::<u64>().expect("a number"));
    println!("held {held}");
    for next in held + 1.. {
        let padding = "p".repeat(usize::try_from(next % 7 * 900).expect("small"));
        replica.propose(set("counter", &next.to_string())).await.expect("the only replica leads");
        replica.propose(set("padding", &padding)).await.expect("the only replica leads");
        println!("acknowledged {next}");
    }
}

#[test]
fn nothing_acknowledged_is_missing_after_any_kill() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = std::env::current_exe().expect("this program");
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(&program)
            .args(["killed::child_writes_until_killed", "--exact", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let (lines, said) = mpsc::channel();
        let out = child.stdout.take().expect("it is piped");
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let mut more = 5 + round * 7 % 23;
        while more > 0 {
            let line = said.recv_timeout(DEADLINE).expect("the child goes on");
            if let Some(held) = line.strip_prefix("held ") {
                let held: u64 = held.parse().expect("a number");
                assert!(
                    held >= acknowledged,
                    "round {round}: {held} is held, {acknowledged} was acknowledged"
                );
            } else if let Some(number) = line.strip_prefix("acknowledged ") {
                acknowledged = number.parse().expect("a number");
                more -= 1;
            }
        }
        child.kill().expect("it runs");
        child.wait().expect("it is gone");
        reader.join().expect("the reader ends with the child");
        // What it said before it died counts as well.
        for line in said.try_iter() {
            if let Some(number) = line.strip_prefix("acknowledged ") {
                acknowledged = number.parse().expect("a number");
            }
        }
    }
    assert!(acknowledged > ROUNDS * 5);
}
