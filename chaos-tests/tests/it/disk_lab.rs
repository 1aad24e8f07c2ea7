//! What the laws about disks share.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chaos_tests::disk::{Load, Make, OnDisks};
use chaos_tests::lab::{ADMIN, DEADLINE, Gate, Identity, Lab, Plan, alive, until};
use chaos_tests::work::whole_lines;

/// After a fault everything is back in this time, far longer than it takes.
pub const PATIENCE: Duration = DEADLINE;

/// Reads a number of the environment.
pub fn number(name: &str, fallback: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(fallback)
}

/// Returns what a lab on small disks is to be: replicas refuse new work when fewer than so many MiB are free.
pub fn plan(replicas: usize, floor_mib: u64) -> Plan {
    let keys =
        [format!("free_disk_min_bytes = {}", (floor_mib << 20).max(1)), "free_disk_min_percent = 0".into()];
    Plan { replicas, nodes: vec![4], server_keys: keys.to_vec(), ..Plan::usual() }
}

/// A control plane on disks, people who write to it, and a job that no fault may touch.
pub struct Scene {
    // Dropped in this order.
    pub load: Load,
    pub gate: Gate,
    pub process: Identity,
    pub journal: String,
    pub on: OnDisks,
}

impl Scene {
    /// Starts all of it; `None` where there are no such disks.
    pub fn start(plan: Plan, make: Make) -> Result<Option<Self>> {
        let Some(on) = OnDisks::start(plan, make)? else { return Ok(None) };
        let (gate, process) = long_job(&on.lab)?;
        let journal = on.lab.write("runs.journal", "")?;
        let load = Load::start(&on.lab, &journal)?;
        Ok(Some(Self { load, gate, process, journal, on }))
    }

    /// Returns the leader's place, and a follower's.
    pub fn leader_and_follower(&self) -> (usize, usize) {
        let leader = self.on.lab.leader();
        (leader, (leader + 1) % self.on.lab.replicas.len())
    }

    /// Waits until so many more calls are acknowledged.
    #[track_caller]
    pub fn wait_more(&self, more: usize) {
        assert!(self.load.wait_more(more, PATIENCE), "writes do not go on\n{}", self.on.lab.logs());
    }

    /// Lets the writers rest, and checks that what they were told is so, on all replicas alike.
    #[track_caller]
    pub fn assert_nothing_lost(&self) -> Result<()> {
        self.load.pause();
        assert_eq!(self.load.losses(&self.on.lab)?, [] as [String; 0]);
        assert_eq!(self.on.differences(PATIENCE), None);
        assert_eq!(self.on.double_leaders(), [] as [String; 0]);
        assert!(alive(self.process), "the fault of a disk ended a job");
        assert_eq!(self.gate.runs().len(), 1);
        let runs = std::fs::read_to_string(&self.journal).context("the journal is ours and stays")?;
        let runs: Vec<&str> = whole_lines(&runs).collect();
        assert_eq!(runs.len(), runs.iter().collect::<BTreeSet<_>>().len(), "an attempt ran twice");
        self.load.go_on();
        Ok(())
    }

    /// Waits until a replica leads.
    pub fn leads(&self, n: usize) {
        let client = self.on.lab.client(ADMIN).expect("the admin's context is there");
        until(&format!("replica {} leads", n + 1), || {
            let hello = self.on.lab.block_on(client.hello_at(n)).ok()?;
            (hello.role == "leader").then_some(())
        });
    }

    /// Waits until another replica than `old` leads, as some of the others sees it.
    pub fn another_leads(&self, old: usize) -> usize {
        let client = self.on.lab.client(ADMIN).expect("the admin's context is there");
        let replicas = &self.on.lab.replicas;
        until("another replica leads", || {
            (0..replicas.len()).filter(|n| *n != old && replicas[*n].process.is_some()).find(|n| {
                let hello = self.on.lab.block_on(client.hello_at(*n));
                hello.is_ok_and(|hello| hello.role == "leader")
            })
        })
    }
}

/// Starts a job on three GPUs of the four: one is left for what ends by itself.
pub fn long_job(lab: &Lab) -> Result<(Gate, Identity)> {
    let flags = ["--budget", "a", "--gpus", "3", "--min-runtime", "8h"];
    let (_, gate) = lab.submit_gated("ana", &flags)?;
    let process = gate.running();
    Ok((gate, process))
}
