//! Damaged files are found out, whatever the engine makes of them.

use std::fs;
use std::path::{Path, PathBuf};

use raft_store::{Replica, open};

use crate::cluster::{Cluster, config, copy, eventually};
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

/// How many bits are flipped; more with `RAFT_STORE_FLIPS=500`, which takes minutes.
const FLIPS: &str = "RAFT_STORE_FLIPS";
const SEED: &str = "RAFT_STORE_SEED";

/// A small generator of numbers that look random (splitmix64).
fn draw(seed: &mut u64, below: usize) -> usize {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(below.max(1)).expect("small")).expect("below")
}

/// Lists the files below a directory that hold anything, and how far each is written.
fn files(dir: &Path) -> Vec<(PathBuf, usize)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if let Some(last) = fs::read(&path).expect("a file").iter().rposition(|byte| *byte != 0) {
            found.push((path, last + 1));
        }
    }
    found.sort();
    found
}

/// `RAFT_STORE_FLIPS=500 cargo test -p raft-store --test it -- random_bit --nocapture` is the long form;
/// `RAFT_STORE_SEED` repeats one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_random_bit_that_flips_anywhere_loses_nothing_silently() {
    let number =
        |name, fallback| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(fallback);
    let (flips, first): (u64, u64) = (number(FLIPS, 60), number(SEED, 1));
    let mut cluster = Cluster::founded(1, 30).await;
    for key in 0..WRITES {
        cluster.set(&format!("k{key}"), &"v".repeat(500)).await;
    }
    // Stopping brings the mark up to date, as 50 ms of quiet do.
    cluster.stop().await;
    let intact = cluster.nodes[0].dir.path();
    let files: Vec<_> = files(intact)
        .into_iter()
        .filter(|(path, _)| !path.ends_with("lock") && !path.ends_with("reserve"))
        .collect();
    let mut refused = 0;
    for seed in first..first + flips {
        let mut state = seed;
        let (path, length) = &files[draw(&mut state, files.len())];
        let bit = draw(&mut state, length * 8);
        let inside = path.strip_prefix(intact).expect("it is inside");
        let what = format!("seed {seed}: bit {bit} of {}", inside.display());
        let flipped = |dir: &Path| {
            let mut bytes = fs::read(dir.join(inside)).expect("a file");
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(dir.join(inside), bytes).expect("a file");
        };
        refused += u64::from(check(intact, &what, flipped).await);
    }
    println!("of {flips} flipped bits {refused} made the replica refuse to start, the others lost nothing");
    assert!(refused * 4 > flips, "of {flips} flipped bits only {refused} were noticed");
}

/// An old copy of one part, put in the place of the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_comes_back_old_is_noticed() {
    let mut cluster = Cluster::founded(1, 30).await;
    for key in 0..WRITES / 2 {
        cluster.set(&format!("k{key}"), &"v".repeat(500)).await;
    }
    cluster.stop().await;
    let old = tempfile::tempdir().expect("a temporary directory");
    copy(cluster.nodes[0].dir.path(), old.path());
    cluster.nodes[0].start().await;
    for key in WRITES / 2..WRITES {
        cluster.set(&format!("k{key}"), &"v".repeat(500)).await;
    }
    // Old snapshots are too old once the log is shortened behind a newer one; until then nothing is missing.
    let replica = cluster.nodes[0].replica();
    let held = replica.status().last_log;
    cluster.set("last", "v").await;
    replica.snapshot_now().await.expect("a snapshot is made");
    eventually("the log is shortened", || {
        let status = replica.status();
        (status.snapshot > held && status.purged.map(|at| at + 10) > held).then_some(())
    })
    .await;
    cluster.stop().await;
    let intact = cluster.nodes[0].dir.path();
    let put_back = |part: &'static str| {
        let old = old.path().to_owned();
        move |dir: &Path| {
            if dir.join(part).is_dir() {
                fs::remove_dir_all(dir.join(part)).expect("it was there");
                copy(&old.join(part), &dir.join(part));
            } else {
                fs::copy(old.join(part), dir.join(part)).expect("a copy");
            }
        }
    };
    assert!(check(intact, "an old log", put_back("log")).await);
    assert!(check(intact, "old snapshots", put_back("snap")).await);
    assert!(!check(intact, "an old mark", put_back("mark")).await);
}
