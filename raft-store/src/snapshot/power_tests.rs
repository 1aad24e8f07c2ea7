//! Real power cuts under snapshots: what was named is there, whatever came and went before it. Needs root; says so where
//! it cannot run.
//!
//! `RAFT_STORE_CUTS=50 cargo test -p raft-store --lib -- snapshot::power_tests --nocapture` cuts more often.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::tests::{add, content, read};
use super::*;
use crate::ground::not_available;
use crate::log::power_tests::{CUTS, DIR, Image};

const RATE: u64 = 1 << 30;

fn open(dir: &Path) -> SnapshotStore {
    SnapshotStore::open(dir, RATE, Arc::default()).unwrap_or_else(|error| panic!("it opens: {error:?}"))
}

fn newest(store: &SnapshotStore) -> Option<u64> {
    store.newest().and_then(|newest| newest.description().last).map(|last| last.index)
}

fn what(index: u64) -> Vec<u8> {
    let length = 30_000 + index * 137_777 % 700_000;
    content(u8::try_from(index % 251).expect("below 251"), usize::try_from(length).expect("small"))
}

/// Not a test of its own: the child of the one below, which names snapshots until it is ended.
#[test]
fn child_names_snapshots() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = open(Path::new(&dir));
    for index in newest(&store).map_or(0, |newest| newest + 1).. {
        add(&store, index, &what(index));
        println!("named {index}");
    }
}

fn child(dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["snapshot::power_tests::child_names_snapshots", "--exact", "--nocapture"]).env(DIR, dir);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the child starts")
}

/// Lets a child name `more` snapshots, cuts the power, and returns the last one that it had named.
fn cut_after(image: &Image, more: usize) -> Result<u64, String> {
    let mut child = child(&image.at.join("data"));
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let named = lines.filter_map(|line| line.strip_prefix("named ")?.parse().ok()).take(more).last();
    let cut = image.cut_power();
    let _ = child.kill();
    child.wait().map_err(|cause| cause.to_string())?;
    cut.and_then(|()| named.ok_or_else(|| "the child named nothing".to_owned()))
}

#[test]
fn no_power_cut_takes_a_snapshot_that_was_named() {
    let cuts = std::env::var(CUTS).ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, at) = (dir.path().join("disk"), dir.path().join("at"));
    let made = Image::make(&file, "96M").and_then(|()| Image::mount(&file, &at)).map(drop);
    if let Err(why) = made {
        return not_available(&format!("power cuts: {why}"));
    }
    for cut in 0..cuts {
        let image = Image::mount(&file, &at).expect("it was mounted before");
        let named = cut_after(&image, 1 + cut * 5 % 9).expect("the power is cut");
        drop(image);
        let image = Image::mount(&file, &at).expect("it was mounted before");
        let store = open(&image.at.join("data"));
        let found = newest(&store);
        assert!(found >= Some(named), "cut {cut}: snapshot {named} was named, the newest is {found:?}");
        let handle = store.newest().expect("there is one");
        assert_eq!(read(&handle).expect("it can be read"), what(found.expect("there is one")));
        drop(handle);
        drop(store);
        drop(image);
    }
}
