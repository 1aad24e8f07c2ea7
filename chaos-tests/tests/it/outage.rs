//! All replicas are gone; work is not.

use std::time::Instant;

use anyhow::Result;
use chaos_tests::client::Client;
use chaos_tests::lab::{Lab, Replica, alive, until};

use crate::seen;

/// What rounding to milliseconds and a slewed clock may add up to, in ms.
const ROUNDING: u64 = 50;

/// Cluster time, and between which moments of this process it was read.
struct Read {
    time: u64,
    before: Instant,
    after: Instant,
}

impl Read {
    fn now(lab: &Lab, client: &Client) -> Result<Self> {
        let before = Instant::now();
        let time = lab.block_on(client.hello())?.cluster_time_at;
        Ok(Self { time, before, after: Instant::now() })
    }

    /// Returns the earliest and the latest cluster time that a later moment can be.
    fn bounds(&self, from: Instant, to: Instant) -> (u64, u64) {
        let ms = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let earliest = self.time + ms(from.duration_since(self.after));
        (earliest.saturating_sub(ROUNDING), self.time + ms(to.duration_since(self.before)) + ROUNDING)
    }
}

pub fn work_goes_on_without_any_replica(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    let flags = ["--budget", "a", "--min-runtime", "1h"];
    let jobs = (0..4).map(|_| lab.submit_gated("ana", &flags)).collect::<Result<Vec<_>>>()?;
    let processes: Vec<_> = jobs.iter().map(|(_, gate)| gate.running()).collect();
    let before: Vec<_> = jobs.iter().map(|(job, _)| seen::last(&seen::running(lab, &ana, *job))).collect();
    let standings = lab.standings();

    let read = Read::now(lab, &ana)?;
    lab.replicas.iter_mut().for_each(Replica::kill);
    let opened = Instant::now();
    jobs[0].1.open(9);
    until("it has ended", || (!alive(processes[0])).then_some(()));
    let gone = Instant::now();
    assert!(processes[1..].iter().all(|process| alive(*process)), "a job ended with the control plane");

    let parts = lab.parts.clone();
    lab.replicas.iter_mut().try_for_each(|replica| replica.start(&parts))?;
    let view = seen::ended(lab, &ana, jobs[0].0);
    seen::assert_exit(&view, 9);
    let ended_at = view.ended_at.expect("it has ended");
    let (earliest, latest) = read.bounds(opened, gone);
    assert!((earliest..=latest).contains(&ended_at), "{ended_at} is not in {earliest}..={latest}: {view:#?}");
    assert!(lab.standings()[0].index >= standings[0].index, "entries are missing");
    for ((job, _), before) in jobs.iter().zip(&before).skip(1) {
        let after = seen::last(&seen::running(lab, &ana, *job));
        assert_eq!(after.attempt, before.attempt);
        assert_eq!(after.protected_until_at, before.protected_until_at, "protection moved");
    }
    assert!(processes[1..].iter().all(|process| alive(*process)), "a job did not outlive the restart");
    for (_, gate) in &jobs[1..] {
        gate.open(0);
    }
    for (job, gate) in &jobs[1..] {
        seen::assert_exit(&seen::ended(lab, &ana, *job), 0);
        assert_eq!(gate.runs().len(), 1);
    }
    Ok(())
}
