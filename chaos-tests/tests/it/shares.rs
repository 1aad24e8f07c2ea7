//! Who is next.

use anyhow::Result;
use chaos_tests::lab::{Gate, Lab, until};

use crate::seen;

type Jobs = Vec<(u32, Gate)>;

/// Protection so long that what earlier laws were charged weighs nothing against it.
const LONG: &str = "8h";

/// Occupies all eight GPUs with two jobs that nobody may take.
fn block(lab: &Lab) -> Result<Jobs> {
    let block = || lab.submit_gated("ana", &["--budget", "a", "--gpus", "4", "--min-runtime", LONG]);
    let jobs = vec![block()?, block()?];
    for (_, gate) in &jobs {
        gate.running();
    }
    Ok(jobs)
}

fn submit(lab: &Lab, user: &str, budget: &str, count: usize) -> Result<Jobs> {
    (0..count).map(|_| lab.submit_gated(user, &["--budget", budget, "--min-runtime", LONG])).collect()
}

fn started(jobs: &Jobs) -> usize {
    jobs.iter().filter(|(_, gate)| gate.has_run()).count()
}

pub fn running_gpus_follow_the_shares_while_both_want_more(lab: &mut Lab) -> Result<()> {
    let blockers = block(lab)?;
    let (a, b) = (submit(lab, "ana", "a", 8)?, submit(lab, "bob", "b/x", 8)?);
    blockers.iter().for_each(|(_, gate)| gate.open(0));
    until("all GPUs are taken", || (started(&a) + started(&b) == 8).then_some(()));
    // 60 to 40 of eight GPUs, in whole ones, the next always to the lower use.
    assert_eq!((started(&a), started(&b)), (5, 3), "{:#?}", lab.bursar(&["queue"]));
    // Whoever's GPU comes free, it goes back to the side that is now behind.
    for (step, jobs) in [&a, &b, &a].into_iter().enumerate() {
        jobs[step / 2].1.open(0);
        until("the next one starts", || (started(&a) + started(&b) == 9 + step).then_some(()));
    }
    assert_eq!((started(&a), started(&b)), (7, 4), "{:#?}", lab.bursar(&["queue"]));
    Ok(())
}

pub fn burst_waits_behind_a_budget_with_less_use(lab: &mut Lab) -> Result<()> {
    let bob = lab.client("bob")?;
    let burst = submit(lab, "bob", "b/x", 12)?;
    until("the burst has taken everything", || (started(&burst) == 8).then_some(()));
    burst.iter().take(8).for_each(|(job, _)| drop(seen::running(lab, &bob, *job)));
    let (late, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", LONG])?;
    let queue = lab.bursar(&["queue", "-o", "json"]).json();
    assert_eq!(queue["rows"][0]["job"], late, "{queue:#}");
    lab.bursar(&["queue"]).ok();
    let reason = lab.bursar(&["explain", &late.to_string(), "-o", "json"]).json();
    assert!(reason["reason"].as_str().is_some_and(|token| token.starts_with("waiting.")), "{reason:#}");
    burst[0].1.open(0);
    gate.running();
    assert_eq!(started(&burst), 8);
    Ok(())
}

pub fn free_tier_starts_only_on_what_funded_work_leaves_idle(lab: &mut Lab) -> Result<()> {
    let blockers = block(lab)?;
    let (_, free) = lab.submit_gated("bob", &["--budget", "b/y", "--gpus", "4", "--unallocated"])?;
    let (_, funded) = lab.submit_gated("ana", &["--budget", "a", "--gpus", "4", "--min-runtime", LONG])?;
    blockers[0].1.open(0);
    funded.running();
    assert!(!free.has_run(), "the free tier went before funded work");
    blockers[1].1.open(0);
    free.running();
    Ok(())
}
