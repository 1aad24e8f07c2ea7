//! A disk that is full, and is not any more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use chaos_tests::lab::{Lab, Plan, until};
use xtask::not_available;

/// A file system in memory of a few MiB, gone when dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: PathBuf) -> Result<Option<Self>> {
        fs::create_dir_all(&at).with_context(|| format!("failed to make {}", at.display()))?;
        let said = Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m", "none"]).arg(&at).output();
        match said {
            Ok(said) if said.status.success() => Ok(Some(Self(at))),
            Ok(said) => {
                not_available(&format!(
                    "no small file system: {}",
                    String::from_utf8_lossy(&said.stderr).trim()
                ));
                Ok(None)
            }
            Err(error) => {
                not_available(&format!("no small file system: mount: {error}"));
                Ok(None)
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

pub fn full_disk_refuses_new_jobs_and_recovers_by_itself(_: &mut Lab) -> Result<()> {
    let folder = tempfile::tempdir().context("no folder")?;
    let Some(small) = Small::mount(folder.path().join("disk"))? else { return Ok(()) };
    let mut plan = Plan::small();
    plan.server_keys =
        ["free_disk_min_bytes = 16777216", "free_disk_min_percent = 0"].map(String::from).to_vec();
    plan.data = vec![small.0.join("r1")];
    let lab = Lab::found_in(plan, &folder.path().join("lab"))?;
    let tree = lab.write("tree.yaml", "name: lab\nowner: ops\nchildren:\n  - { name: a, share: 60 }\n")?;
    lab.bursar(&["budget", "apply", "-f", &tree, "--reason", "the first one", "--yes"]).ok();
    let submit = || {
        let flags =
            ["--patience", "1s", "submit", "-o", "name", "--budget", "a", "--unallocated", "--", "true"];
        lab.bursar(&flags)
    };
    let first = submit().number();

    let ballast = small.0.join("ballast");
    fill(&ballast, 12 << 20)?;
    // One that nobody answered in time says nothing about room.
    let full = until("new jobs are refused", || Some(submit()).filter(|said| said.err.contains("disk")));
    assert_eq!(full.code, 6, "{full:#?}");
    let status = lab.bursar(&["cluster", "status", "-o", "json"]).json();
    assert!(status["alarms"].to_string().contains("MiB are free"), "{status:#}");
    // What is not new work goes on.
    lab.bursar(&["job", "cancel", &first.to_string()]).ok();

    fs::remove_file(&ballast).context("failed to make room")?;
    let second = until("new jobs are taken again", || Some(submit()).filter(|said| said.code == 0)).number();
    assert!(second > first);
    drop(lab);
    Ok(())
}

/// Fills a file system until only so much is left.
fn fill(file: &Path, left: u64) -> Result<()> {
    let folder = file.parent().context("a file is in a folder")?;
    let seen = rustix::fs::statvfs(folder).context("failed to see the free space")?;
    let free = seen.f_bavail.saturating_mul(seen.f_frsize);
    let length = usize::try_from(free.saturating_sub(left)).context("a small file system")?;
    fs::write(file, vec![0; length]).with_context(|| format!("failed to fill {}", folder.display()))
}
