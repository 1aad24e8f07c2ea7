//! Disks that fail: they cannot write, cannot be read, or let nobody write any more.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;

use anyhow::{Context as _, Result};
use chaos_tests::disk::{Ballast, Make};

use crate::disk_lab::{Scene, plan};

/// A replica whose process ends by itself says so once, and is ended by its own word, not by somebody's signal.
#[track_caller]
fn assert_stopped_itself(scene: &mut Scene, n: usize, from: usize) {
    let replica = &mut scene.on.lab.replicas[n];
    let mut process = replica.process.take().expect("it was running");
    let status = process.wait_end();
    const SIGABRT: i32 = 6;
    assert_eq!(status.signal(), Some(SIGABRT), "{status:?}: {}", process.log_tail());
    let log = replica.log();
    let said: Vec<&str> = log[from..].lines().filter(|line| line.contains("bursar: failed to")).collect();
    assert_eq!(said.len(), 1, "it stops at the first failure, and says which:\n{}", process.log_tail());
    assert!(log.contains("Check the disk"), "{}", process.log_tail());
}

/// The first sync that fails ends the replica: after it nobody knows what the disk holds, and a second one that succeeds
/// proves nothing.
pub fn disk_that_cannot_write_back_stops_its_replica_at_the_first_failure() -> Result<()> {
    let make = Make::Overcommitted { mib: 96, real_mib: 40 };
    let Some(mut scene) = Scene::start(plan(3, 0), make)? else { return Ok(()) };
    scene.wait_more(20);
    let (leader, follower) = scene.leader_and_follower();
    for victim in [follower, leader] {
        let from = scene.on.lab.replicas[victim].log().len();
        let below = scene.on.disks[victim].below().context("it is overcommitted")?.to_owned();
        let ballast = Ballast::put(&below, 0)?;
        assert_stopped_itself(&mut scene, victim, from);
        scene.wait_more(20);
        drop(ballast);
        scene.on.disks[victim].unmount()?;
        scene.on.disks[victim].mend()?;
        scene.on.disks[victim].mount()?;
        let refusals = scene.on.try_start(&[victim])?;
        if !refusals.is_empty() {
            // A file system that lost what it had confirmed may leave a replica that has to be rebuilt: it says so.
            assert!(refusals[0].contains("damaged") && refusals[0].contains("bursar "), "{refusals:?}");
            eprintln!("after its repair {}", refusals[0]);
            scene.load.pause();
            assert_eq!(scene.load.losses(&scene.on.lab)?, [] as [String; 0]);
            return Ok(());
        }
        scene.assert_nothing_lost()?;
    }
    Ok(())
}

/// ext4 that found an error of its own takes nothing any more.
pub fn disk_that_turns_read_only_stops_its_replica_and_it_comes_back_when_it_is_mounted_again() -> Result<()>
{
    let Some(mut scene) = Scene::start(plan(3, 0), Make::Ext4 { mib: 96 })? else { return Ok(()) };
    scene.wait_more(20);
    let (leader, follower) = scene.leader_and_follower();
    for victim in [follower, leader] {
        let from = scene.on.lab.replicas[victim].log().len();
        scene.on.disks[victim].fail_to_read_only()?;
        assert_stopped_itself(&mut scene, victim, from);
        scene.wait_more(20);
        scene.on.disks[victim].unmount()?;
        scene.on.disks[victim].mend()?;
        scene.on.disks[victim].mount()?;
        scene.on.start_again(&[victim])?;
        scene.assert_nothing_lost()?;
    }
    Ok(())
}

/// A part of the device is gone: a replica that cannot read what it had never takes part with what is left.
pub fn disk_that_cannot_be_read_lets_its_replica_not_take_part() -> Result<()> {
    let Some(mut scene) = Scene::start(plan(3, 0), Make::Unjournaled { mib: 64 })? else { return Ok(()) };
    scene.wait_more(60);
    let (leader, follower) = scene.leader_and_follower();
    for victim in [follower, leader] {
        scene.on.lab.replicas[victim].kill();
        scene.wait_more(5);
        let disk = &mut scene.on.disks[victim];
        disk.unmount()?;
        let intact = disk.image().with_extension("intact");
        fs::copy(disk.image(), &intact).context("failed to copy an image")?;
        disk.mount()?;
        disk.lose_from_the_middle_of(&scene.on.lab.replicas[victim].data.join("log/db"))?;
        let refusals = scene.on.try_start(&[victim])?;
        assert_eq!(
            refusals.len(),
            1,
            "a replica that cannot read its log takes part\n{}",
            scene.on.lab.logs()
        );
        eprintln!("{}", refusals[0]);
        scene.wait_more(5);
        let disk = &mut scene.on.disks[victim];
        disk.unmount()?;
        fs::copy(&intact, disk.image()).context("failed to bring an image back")?;
        disk.mount()?;
        scene.on.start_again(&[victim])?;
        scene.assert_nothing_lost()?;
    }
    Ok(())
}
