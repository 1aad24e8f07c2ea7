//! A control plane each of whose replicas has a disk of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use xtask::{ClusterLock, not_available};

use super::shelf::{Disk, Make, Shelf, Unavailable};
use crate::lab::{Lab, Plan, send, try_until};

/// A lab whose replicas' data directories are on disks of their own. Dropping it ends the lab and takes the disks down.
#[derive(Debug)]
pub struct OnDisks {
    // Dropped in this order: a file system is taken down when nobody uses it any more.
    /// The control plane.
    pub lab: Lab,
    /// The replicas' disks, in their order.
    pub disks: Vec<Disk>,
    /// Where more can be made.
    pub shelf: Shelf,
    _lock: ClusterLock,
}

impl OnDisks {
    /// Makes a disk for each replica and starts the lab; `None`, once that is said, where there are no such disks.
    ///
    /// # Errors
    /// When the lab cannot be started.
    ///
    /// # Panics
    /// When a step does not come about.
    pub fn start(mut plan: Plan, make: Make) -> Result<Option<Self>> {
        let lock = xtask::cluster_lock();
        let shelf = Shelf::new()?;
        let mut disks = Vec::new();
        for n in 1..=plan.replicas {
            match shelf.disk(&format!("r{n}"), make) {
                Ok(disk) => disks.push(disk),
                Err(why) => {
                    not_available(&why.to_string());
                    return Ok(None);
                }
            }
        }
        plan.data = disks.iter().map(|disk| disk.at().join("data")).collect();
        let lab = Lab::start(plan)?;
        Ok(Some(Self { lab, disks, shelf, _lock: lock }))
    }

    /// Kills the processes of some replicas at once.
    pub fn kill(&mut self, who: &[usize]) {
        who.iter().for_each(|n| self.lab.replicas[*n].kill());
    }

    /// Sends a signal to the processes of some replicas.
    pub fn signal(&self, who: &[usize], signal: Signal) {
        who.iter().filter_map(|n| self.lab.replicas[*n].pid()).for_each(|pid| send(pid, signal));
    }

    /// Waits until one of some replicas has ended by itself, and returns what those said that have.
    pub fn ended(&mut self, who: &[usize], patience: Duration) -> Vec<String> {
        let look = || {
            let ended: Vec<String> = who.iter().filter_map(|n| self.lab.replicas[*n].last_words()).collect();
            (!ended.is_empty()).then_some(ended)
        };
        try_until(patience, look).unwrap_or_default()
    }

    /// Unmounts the disks of some replicas, whose processes are gone, and mounts them again.
    ///
    /// # Errors
    /// With what the system said.
    pub fn remount(&mut self, who: &[usize]) -> Result<()> {
        for n in who {
            self.disks[*n].unmount()?;
            self.disks[*n].mount()?;
        }
        Ok(())
    }

    /// Starts replicas again, and returns what those said that do not start.
    ///
    /// # Errors
    /// When a process cannot be started at all.
    pub fn try_start(&mut self, who: &[usize]) -> Result<Vec<String>> {
        let parts = self.lab.parts.clone();
        let mut refusals = Vec::new();
        for n in who {
            if let Some(tail) = self.lab.replicas[*n].try_start(&parts)? {
                let last = tail.lines().last().unwrap_or_default();
                refusals.push(format!("replica {} does not start: {last}", self.lab.replicas[*n].id));
            }
        }
        Ok(refusals)
    }

    /// Starts replicas again.
    ///
    /// # Errors
    /// When a process cannot be started.
    ///
    /// # Panics
    /// When one does not come up.
    pub fn start_again(&mut self, who: &[usize]) -> Result<()> {
        let refusals = self.try_start(who)?;
        assert!(refusals.is_empty(), "{refusals:#?}\n{}", self.lab.logs());
        Ok(())
    }

    /// Waits until all replicas have applied the same, and returns how they differ all the same.
    #[must_use]
    pub fn differences(&self, patience: Duration) -> Option<String> {
        match self.lab.try_standings(patience) {
            None => Some("the replicas do not come to the same entries".to_owned()),
            Some(standings) => {
                let is_same = standings.windows(2).all(|pair| pair[0].digest == pair[1].digest);
                (!is_same).then(|| format!("digests differ at one index: {standings:?}"))
            }
        }
    }

    /// Returns the terms in which more than one replica led.
    #[must_use]
    pub fn double_leaders(&self) -> Vec<String> {
        let leaders = self.lab.leaders();
        let doubled = leaders.iter().filter(|(_, who)| who.len() > 1);
        doubled.map(|(term, who)| format!("replicas {who:?} led in term {term}")).collect()
    }

    /// Makes a library that turns the sync calls of a program into ones that do nothing, for `LD_PRELOAD`.
    ///
    /// # Errors
    /// When there is no compiler to make it with.
    pub fn lying_sync(&self) -> Result<PathBuf, Unavailable> {
        let failed =
            |error: anyhow::Error| Unavailable(format!("no library that lies about syncs: {error:#}"));
        make_lying_sync(self.lab.folder().join("lying-sync.rs")).map_err(failed)
    }
}

/// Two calls of the C library, answered without asking the kernel. sled's own `sync_file_range` goes through: what is
/// left is sled as it comes.
const LYING_SYNC: &str = "\
#[unsafe(no_mangle)]
pub extern \"C\" fn fsync(_: i32) -> i32 { 0 }
#[unsafe(no_mangle)]
pub extern \"C\" fn fdatasync(_: i32) -> i32 { 0 }
";

fn make_lying_sync(source: PathBuf) -> Result<PathBuf> {
    fs::write(&source, LYING_SYNC).context("failed to write its source")?;
    let library = source.with_file_name("liblying_sync.so");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort", "-o"]);
    super::shelf::run(command.arg(&library).arg(&source))?;
    Ok(library)
}
