//! Power cuts and full disks, on file systems of the test's own. Needs root; says so where it cannot run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::killed::{DIR, FILL};

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

fn child(dir: &Path, fills: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["killed::child_writes_until_killed", "--exact", "--nocapture"]).env(DIR, dir);
    if fills {
        command.env(FILL, "1");
    }
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
            Err(why) => return println!("not available: a file system of our own: {why}"),
        };
        let mut child = child(&mounted.at.join("data"), false);
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

#[test]
fn a_full_disk_stops_the_replica_and_loses_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mounted = match Mounted::memory("12M", dir.path().join("small")) {
        Ok(mounted) => mounted,
        Err(why) => return println!("not available: a file system of our own: {why}"),
    };
    let data = mounted.at.join("data");
    let mut full = child(&data, true);
    let (_, acknowledged) = listen(&mut full, u64::MAX / 2);
    let output = full.wait_with_output().expect("it has ended by itself");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(complained.contains("Check the disk"), "{complained}");
    run(Command::new("mount").args(["-o", "remount,size=64M"]).arg(&mounted.at))
        .expect("there is room again");
    let mut again = child(&data, false);
    let (held, _) = listen(&mut again, 5);
    end(again);
    assert!(acknowledged > 0 && held >= acknowledged, "{held} is held, {acknowledged} was acknowledged");
}
