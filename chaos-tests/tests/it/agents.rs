//! Agents and shims come and go; jobs stay.

use std::path::Path;

use anyhow::{Context as _, Result};
use chaos_tests::lab::{Gate, Lab, alive, kill, parent, until};

use crate::seen;

/// What happens to both agents.
#[derive(Debug, Clone, Copy)]
enum End {
    Killed,
    Asked,
}

pub fn restarted_agent_adopts_every_process_and_starts_nothing_twice(lab: &mut Lab) -> Result<()> {
    for end in [End::Killed, End::Asked] {
        restart(lab, end)?;
        lab.settle()?;
    }
    Ok(())
}

fn restart(lab: &mut Lab, end: End) -> Result<()> {
    let ana = lab.client("ana")?;
    let flags = ["--budget", "a", "--min-runtime", "1h"];
    let jobs = (0..6).map(|_| lab.submit_gated("ana", &flags)).collect::<Result<Vec<_>>>()?;
    let processes: Vec<_> = jobs.iter().map(|(_, gate)| gate.running()).collect();
    let before: Vec<_> = jobs.iter().map(|(job, _)| seen::last(&seen::running(lab, &ana, *job))).collect();

    for agent in &mut lab.agents {
        match end {
            End::Killed => agent.kill(),
            End::Asked => agent.stop(),
        }
    }
    assert!(processes.iter().all(|process| alive(*process)), "{end:?}: a job ended with its agent");
    // One ends while nobody looks.
    jobs[0].1.open(3);
    until("it has ended", || (!alive(processes[0])).then_some(()));
    let parts = lab.parts.clone();
    lab.agents.iter_mut().try_for_each(|agent| agent.start(&parts))?;

    seen::assert_exit(&seen::ended(lab, &ana, jobs[0].0), 3);
    assert!(processes[1..].iter().all(|process| alive(*process)), "{end:?}: a job did not outlive its agent");
    lab.wait_nodes();
    for ((job, _), before) in jobs.iter().zip(&before).skip(1) {
        let after = seen::last(&seen::running(lab, &ana, *job));
        assert_eq!(after.attempt, before.attempt, "{end:?}: started twice");
        assert_eq!(after.protected_until_at, before.protected_until_at, "{end:?}");
        assert_eq!(after.started_at, before.started_at, "{end:?}");
    }
    for (code, (job, gate)) in (0..).zip(&jobs).skip(1) {
        gate.open(code);
        seen::assert_exit(&seen::ended(lab, &ana, *job), u32::from(code));
    }
    assert!(jobs.iter().all(|(_, gate)| gate.runs().len() == 1), "{end:?}: started twice");
    Ok(())
}

pub fn shim_s_death_costs_no_job_and_its_end_is_seen(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1h"])?;
    let process = gate.running();
    seen::running(lab, &ana, job);
    let shim = shim_of(&gate)?;
    kill(shim);
    until("the shim is gone", || (parent(process.pid) != Some(shim)).then_some(()));
    assert!(alive(process), "a job ended with its shim");
    let state = lab.block_on(ana.show(job))?.state;
    assert_eq!(state, "running", "a shim's death is no end of a job");
    gate.open(5);
    let view = seen::ended(lab, &ana, job);
    let exit = view.exit.clone().context("it ended without an exit")?;
    // Whoever became its parent may know the code; if nobody does, that is said and nothing is made up.
    let is_told = (exit.kind == "code" && exit.value == 5) || exit.kind == "unknown";
    assert!(is_told, "{view:#?}");
    assert_eq!(gate.runs().len(), 1);
    Ok(())
}

fn shim_of(gate: &Gate) -> Result<i32> {
    let shim = parent(gate.running().pid).context("the job has no parent")?;
    let program = std::fs::read_link(format!("/proc/{shim}/exe")).context("the shim has no program")?;
    assert_eq!(program.file_name(), Path::new("bursar-shim").file_name(), "the job's parent is no shim");
    Ok(shim)
}
