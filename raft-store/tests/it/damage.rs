//! Damaged files are found out, whatever the engine makes of them.

use std::fs;
use std::path::{Path, PathBuf};

use raft_store::{Replica, open};

use crate::cluster::{Cluster, config};
use crate::register::Register;

const WRITES: u64 = 80;

/// Returns the directory of a replica that acknowledged all its writes.
async fn written() -> Cluster {
    let mut cluster = Cluster::founded(1, 1_000_000).await;
    for key in 0..WRITES {
        cluster.set(&format!("k{key}"), &"v".repeat(500)).await;
    }
    cluster.stop().await;
    cluster
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for file in fs::read_dir(from).expect("a directory") {
        let file = file.expect("an entry");
        let target = to.join(file.file_name());
        if file.file_type().expect("a type").is_dir() {
            copy(&file.path(), &target);
        } else {
            fs::copy(file.path(), target).expect("a copy");
        }
    }
}

/// Opens a damaged copy: it is refused, or nothing is missing.
async fn check(intact: &Path, what: &str, damage: impl FnOnce(&Path)) -> bool {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let copied: PathBuf = dir.path().join("copy");
    copy(intact, &copied);
    damage(&copied);
    let machine = Register::default();
    match Replica::open(config(&copied), machine.clone()).await {
        Err(open::Error::Damaged { what: found, .. }) => {
            assert!(!found.is_empty());
            true
        }
        Err(error) => panic!("{what}: {error}"),
        Ok(replica) => {
            replica.watch().wait_for(|status| status.is_leader()).await.expect("it leads alone");
            replica.read_barrier().await.expect("it reads");
            for key in 0..WRITES {
                assert!(machine.get(&format!("k{key}")).is_some(), "{what}: k{key} is lost silently");
            }
            replica.shutdown().await;
            false
        }
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 0x08;
    fs::write(path, bytes).expect("a file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_the_log_loses_nothing_silently() {
    let cluster = written().await;
    let intact = cluster.nodes[0].dir.path();
    let length = fs::read(intact.join("log/db")).expect("the log").iter().rposition(|byte| *byte != 0);
    let length = length.expect("something is written");
    let mut noticed = 0;
    for step in 1..12 {
        let at = length * step / 12;
        let refused = check(intact, &format!("a bit at {at}"), |dir| flip(&dir.join("log/db"), at)).await;
        noticed += usize::from(refused);
    }
    assert!(noticed > 6, "of 11 flipped bits only {noticed} were noticed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shortened_or_missing_file_is_noticed() {
    let cluster = written().await;
    let intact = cluster.nodes[0].dir.path();
    let shorten = |dir: &Path| {
        let file = fs::File::options().write(true).open(dir.join("log/db")).expect("the log");
        file.set_len(20_000).expect("it is shortened");
    };
    assert!(check(intact, "a shortened log", shorten).await);
    let gone = |dir: &Path| fs::remove_dir_all(dir.join("log")).expect("it was there");
    assert!(check(intact, "no log", gone).await);
    assert!(check(intact, "no mark", |dir| fs::remove_file(dir.join("mark")).expect("it was there")).await);
    assert!(check(intact, "no identity", |dir| fs::remove_file(dir.join("identity")).expect("it was")).await);
    assert!(check(intact, "a damaged identity", |dir| flip(&dir.join("identity"), 12)).await);
    assert!(
        check(intact, "a damaged mark", |dir| {
            flip(&dir.join("mark"), 30);
            flip(&dir.join("mark"), 4096 + 30);
        })
        .await
    );
    assert!(!check(intact, "one damaged slot", |dir| flip(&dir.join("mark"), 30)).await);
    assert!(!check(intact, "nothing", |_| ()).await);
}
