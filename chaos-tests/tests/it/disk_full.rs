//! Disks that are full, and are not any more.

use anyhow::Result;
use chaos_tests::disk::{Ballast, Disk, Make};
use chaos_tests::lab::{ADMIN, Gate, Said, alive, identity, until};

use crate::disk_lab::{Scene, plan};
use crate::seen;

/// A small disk, of which a replica keeps 6 MiB in reserve.
const DISK: Make = Make::Ext4 { mib: 96 };
/// With fewer MiB free, new jobs are refused.
const FLOOR_MIB: u64 = 16;
/// Below the floor, and the reserve is still there.
const LOW: u64 = 10 << 20;
/// Below what the reserve is for: it is given up.
const SCARCE: u64 = 3 << 20;

impl Scene {
    fn submit(&self) -> Said {
        let flags =
            ["--patience", "1s", "submit", "-o", "name", "--budget", "a", "--unallocated", "--", "true"];
        self.on.lab.bursar(&flags)
    }

    /// Starts a job that ends when it is told to.
    fn short_job(&self) -> Result<(u32, Gate)> {
        let (job, gate) = self.on.lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1h"])?;
        gate.running();
        Ok((job, gate))
    }

    /// Lets a job end, and waits until that is in the log: by a replica that may have no room for anything else.
    fn assert_end_is_taken(&self, (job, gate): &(u32, Gate)) -> Result<()> {
        gate.open(7);
        let client = self.on.lab.client(ADMIN)?;
        seen::assert_exit(&seen::ended(&self.on.lab, &client, *job), 7);
        Ok(())
    }
}

/// The others go on; it votes while its reserve lasts; it catches up when there is room.
pub fn full_follower_harms_nobody_and_catches_up() -> Result<()> {
    let Some(mut scene) = Scene::start(plan(3, FLOOR_MIB), DISK)? else { return Ok(()) };
    scene.wait_more(20);
    let (_, follower) = scene.leader_and_follower();
    let ballast = scene.on.disks[follower].fill(SCARCE)?;
    scene.wait_more(20);
    // One of the two that have a vote left is the one with the full disk.
    scene.load.pause();
    let leader = scene.on.lab.leader();
    let gone = if leader == follower { (leader + 1) % 3 } else { leader };
    scene.on.lab.replicas[gone].kill();
    scene.another_leads(gone);
    scene.on.start_again(&[gone])?;
    scene.load.go_on();
    scene.wait_more(20);
    drop(ballast);

    let ballast = scene.on.disks[follower].fill_up()?;
    scene.wait_more(50);
    drop(ballast);
    scene.assert_nothing_lost()
}

/// One that has room leads, whatever the first leader's disk: nothing need be refused.
pub fn full_leader_hands_over_to_one_that_has_room() -> Result<()> {
    let Some(scene) = Scene::start(plan(3, FLOOR_MIB), DISK)? else { return Ok(()) };
    scene.wait_more(20);
    let leader = scene.on.lab.leader();
    let low = scene.on.disks[leader].fill(LOW)?;
    let next = scene.another_leads(leader);
    scene.wait_more(30);
    let full = scene.on.disks[next].fill_up()?;
    // The first one has no room either: elected or not, it does not stay.
    let third = 3 - leader - next;
    scene.leads(third);
    scene.wait_more(30);
    drop((low, full));
    scene.assert_nothing_lost()
}

/// New jobs are refused, ends of jobs are taken, leaders are elected; when nothing at all is left everything waits.
pub fn full_disks_everywhere_take_ends_and_elect_and_recover_by_themselves() -> Result<()> {
    let Some(mut scene) = Scene::start(plan(3, FLOOR_MIB), DISK)? else { return Ok(()) };
    scene.wait_more(20);
    scene.load.pause();
    let job = scene.short_job()?;
    let low: Vec<Ballast> = scene.on.disks.iter().map(|disk| disk.fill(SCARCE)).collect::<Result<_>>()?;
    // One that nobody answered in time says nothing about room.
    let full =
        until("new jobs are refused", || Some(scene.submit()).filter(|said| said.err.contains("disk")));
    full.refused(6, &["disk"]);
    scene.assert_end_is_taken(&job)?;
    let leader = scene.on.lab.leader();
    scene.on.lab.replicas[leader].kill();
    scene.another_leads(leader);
    scene.on.start_again(&[leader])?;
    let status = scene.on.lab.bursar(&["cluster", "status"]).ok();
    assert!(status.out.contains("MiB are free"), "{status:#?}");
    drop(low);
    until("new jobs are taken again", || (scene.submit().code == 0).then_some(()));

    let job = scene.short_job()?;
    let nothing: Vec<Ballast> = scene.on.disks.iter().map(Disk::fill_up).collect::<Result<_>>()?;
    let full = scene.submit();
    assert_eq!(full.code, 6, "there is no room for a new job: {full:#?}");
    // It ends while nobody can write that down.
    job.1.open(7);
    until("its process is gone", || {
        job.1.runs().last().is_some_and(|run| identity(run.pid).is_none()).then_some(())
    });
    assert!(alive(scene.process));
    drop(nothing);
    let client = scene.on.lab.client(ADMIN)?;
    seen::assert_exit(&seen::ended(&scene.on.lab, &client, job.0), 7);
    until("new jobs are taken again", || (scene.submit().code == 0).then_some(()));
    scene.load.go_on();
    scene.wait_more(20);
    scene.assert_nothing_lost()
}
