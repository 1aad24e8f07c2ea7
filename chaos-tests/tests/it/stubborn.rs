//! Processes that do not want to end.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use chaos_tests::lab::{ADMIN, Lab, identity, until};
use xtask::not_available;

use crate::story::{self, Arena, LONG, resumable};

pub fn job_that_ignores_its_end_signal_is_ended_when_the_grace_of_a_cancel_is_over(
    lab: &mut Lab,
) -> Result<()> {
    let arena = Arena::open(lab)?;
    let (job, work) = lab.submit_work(&arena.ana, resumable(&arena.a, 1, LONG), &["term=ignore"])?;
    story::started(lab, &arena.ana, job, 1);
    until("it listens", || work.said("beat").pop());
    lab.block_on(arena.ana.cancel_softly(job))?;
    let view = story::stands(lab, &arena.ana, job, "ended");
    let exit = view.exit.clone().context("no exit")?;
    assert_eq!((view.end.as_deref(), exit.kind.as_str(), exit.value), (Some("cancelled"), "signal", 9));
    // Not told to save: a cancel has no notice.
    assert_eq!((work.said("notice").len(), work.said("term").len()), (0, 1), "{:#?}", work.lines());
    let attempt = view.attempts[0].clone();
    let exit = story::shim_file(lab, &attempt, job, 0, "exit")?;
    let phase = story::shim_file(lab, &attempt, job, 0, "phase")?;
    assert!(exit.number("ended_ms") >= phase.number("stop_seen_ms") + 2_000, "{exit:?} {phase:?}");
    story::assert_charged(&attempt, 0);
    Ok(())
}

pub fn gpus_of_a_job_that_left_a_process_behind_go_on_when_that_is_gone(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let (job, work) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &["child"])?;
    let (other, _) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &[])?;
    story::started(lab, &arena.ana, job, 1);
    story::started(lab, &arena.ana, other, 1);
    let child: i32 = until("it has a child", || work.said("child").pop()).rest.parse()?;
    until("the child is there", || work.said("start").into_iter().find(|line| line.pid == child));
    let (next, next_work) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &[])?;
    work.end(0);
    let view = story::stands(lab, &arena.ana, job, "ended");
    assert_eq!(view.end.as_deref(), Some("completed"), "{view:#?}");
    story::started(lab, &arena.ana, next, 1);
    assert!(identity(child).is_none(), "the child is on somebody else's GPUs");
    let starts = until("the next one has written", || next_work.said("start").pop());
    let last = work.lines().iter().map(|line| line.at).max().context("it wrote")?;
    assert!(starts.at >= last, "the next one began while the child was there");
    assert_eq!(starts.gpus(), work.said("start")[0].gpus());
    Ok(())
}

/// A group of the kernel's first freezer: what is frozen in it takes no signal, not even a kill, as a process that hangs
/// in a driver.
struct Freezer(PathBuf);

impl Freezer {
    fn make(lab: &Lab) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup/freezer");
        let name = lab.folder().file_name()?.to_str()?;
        let group = root.join(name);
        match fs::create_dir(&group).and_then(|()| fs::read_to_string(group.join("freezer.state"))) {
            Ok(_) => Some(Self(group)),
            Err(error) => {
                not_available(&format!("no process can be made unkillable: {}: {error}", group.display()));
                None
            }
        }
    }

    fn freeze(&self, pid: i32) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).context("failed to move a process")?;
        fs::write(self.0.join("freezer.state"), "FROZEN").context("failed to freeze")
    }

    fn thaw(&self) -> Result<()> {
        fs::write(self.0.join("freezer.state"), "THAWED").context("failed to thaw")
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // What is in it must be able to end, whatever else failed.
        let _ = self.thaw();
        let gone = chaos_tests::lab::try_until(chaos_tests::lab::DEADLINE, || fs::remove_dir(&self.0).ok());
        if gone.is_none() {
            eprintln!("failed to remove {}", self.0.display());
        }
    }
}

pub fn process_that_cannot_be_ended_keeps_its_gpus_and_closes_its_node(lab: &mut Lab) -> Result<()> {
    let arena = Arena::open(lab)?;
    let Some(freezer) = Freezer::make(lab) else { return Ok(()) };
    let admin = lab.client(ADMIN)?;
    let (job, work) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &[])?;
    let attempt = story::started(lab, &arena.ana, job, 1);
    let name = attempt.nodes[0].clone();
    let pid = until("it writes", || work.said("start").pop()).pid;
    let process = identity(pid).context("it runs")?;
    freezer.freeze(pid)?;
    lab.block_on(arena.ana.cancel_softly(job))?;
    let view = story::stands(lab, &arena.ana, job, "ended");
    assert_eq!(view.end.as_deref(), Some("cancelled"), "{view:#?}");
    assert_eq!(view.exit.as_ref().map(|exit| exit.kind.as_str()), Some("unknown"), "{view:#?}");
    // It is there, and so its GPUs are nobody's.
    assert_eq!(identity(pid), Some(process), "it was not frozen");
    let node = lab.block_on(admin.node(&name))?;
    assert_eq!((node.state.as_str(), node.cordoned_by.clone()), ("cordoned", None), "{node:#?}");
    let reason = node.cordon_reason.clone().unwrap_or_default();
    assert!(reason.contains(&pid.to_string()), "{node:#?}");
    assert!(node.gpu_list.iter().all(|gpu| gpu.state == format!("{job}.1")), "{node:#?}");
    let (next, next_work) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &[])?;
    let elsewhere = story::started(lab, &arena.ana, next, 1);
    assert_ne!(elsewhere.nodes[0], name, "{elsewhere:#?}");
    let (last, last_work) = lab.submit_work(&arena.ana, resumable(&arena.a, 4, LONG), &[])?;
    // An operator may open the node again; the GPUs are not free for that.
    lab.block_on(admin.uncordon(&name))?;
    // It waits in line, or on the promise of these very GPUs.
    let view = lab.block_on(arena.ana.show(last))?;
    assert!(matches!(view.state.as_str(), "waiting" | "starting"), "{view:#?}");
    assert!(view.attempts.iter().all(|attempt| attempt.go_at.is_none()), "{view:#?}");
    assert!(last_work.said("start").is_empty());
    freezer.thaw()?;
    story::started(lab, &arena.ana, last, 1);
    assert!(identity(pid).is_none_or(|now| now != process), "its GPUs went on while it was there");
    until("the next one has written", || next_work.said("start").pop());
    assert_eq!(next_work.said("start").len(), 1);
    Ok(())
}
