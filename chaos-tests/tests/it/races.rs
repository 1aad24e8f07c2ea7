//! A preemption meets something else at the same moment.

use anyhow::{Context as _, Result};
use chaos_tests::lab::{Lab, identity, until};
use chaos_tests::work::Work;
use proto::v1::{AttemptView, JobRequest};

use crate::story::{self, Arena, LONG, SHORT, resumable};

/// A grace that leaves room on a slow machine, between notice, end signal and kill; and no node is silent for as long.
const ROOMY: u64 = 6_000;

fn roomy(request: JobRequest) -> JobRequest {
    JobRequest { grace_ms: Some(ROOMY), ..request }
}

/// A job that can be taken, and one that is to take it once [`Race::go`] is called.
struct Race {
    arena: Arena,
    victim: u32,
    work: Work,
}

impl Race {
    fn open(lab: &Lab, request: impl FnOnce(JobRequest) -> JobRequest, words: &[&str]) -> Result<Self> {
        let arena = Arena::open(lab)?;
        let request = request(resumable(&arena.x, 4, SHORT));
        let (victim, work) = lab.submit_work(&arena.bob, request, words)?;
        let (other, _) = lab.submit_work(&arena.bob, resumable(&arena.y, 4, LONG), &[])?;
        story::started(lab, &arena.bob, victim, 1);
        story::started(lab, &arena.bob, other, 1);
        // The process may come to its first line later than the control plane hears of it.
        until("the victim's process has written", || work.said("start").pop());
        Ok(Self { arena, victim, work })
    }

    fn go(&self, lab: &Lab) -> Result<(u32, Work)> {
        lab.submit_work(&self.arena.ana, resumable(&self.arena.a, 4, LONG), &[])
    }

    /// Waits until the victim was told to give way.
    fn told(&self, lab: &Lab) -> AttemptView {
        let view = story::when(lab, &self.arena.bob, self.victim, "is told to give way", |view| {
            view.attempts.first().is_some_and(|attempt| attempt.stop_at.is_some())
        });
        view.attempts[0].clone()
    }

    /// Checks that the taker has started, once, after the victim was gone.
    fn assert_taken_once(&self, lab: &Lab, taker: u32, taker_work: &Work) -> Result<AttemptView> {
        let attempt = story::started(lab, &self.arena.ana, taker, 1);
        let starts = until("the taker's process has written", || {
            Some(taker_work.said("start")).filter(|starts| !starts.is_empty())
        });
        assert_eq!(starts.len(), 1, "{starts:#?}");
        let last = self.work.lines().into_iter().filter(|line| line.attempt == 1).map(|line| line.at).max();
        assert!(last.context("it ran")? <= starts[0].at, "the taker began before the victim was gone");
        Ok(attempt)
    }
}

pub fn victim_that_ends_by_itself_ends_as_it_exits_or_as_preempted_never_both(lab: &mut Lab) -> Result<()> {
    let race = Race::open(lab, roomy, &["notice=ignore"])?;
    let (taker, taker_work) = race.go(lab)?;
    // Around the moment of the notice: the one comes by the log, the other by a file.
    race.work.end(0);
    let first = story::ended(lab, &race.arena.bob, race.victim, 1);
    race.assert_taken_once(lab, taker, &taker_work)?;
    let exit = story::shim_file(lab, &first, race.victim, 0, "exit")?;
    let is_noticed = exit.number("noticed") == 1;
    let code = first.exit.clone().context("no exit")?;
    assert_eq!((code.kind.as_str(), code.value), ("code", 0), "{first:#?}");
    assert_eq!(first.end.as_deref(), Some(if is_noticed { "preempted" } else { "exited" }), "{first:#?}");
    if is_noticed {
        // It waits again, and completes when it runs again.
        story::assert_cost(&first, "share");
        taker_work.end(0);
    } else {
        assert_eq!(first.cost, None, "{first:#?}");
    }
    let view = story::stands(lab, &race.arena.bob, race.victim, "ended");
    let attempts = if is_noticed { 2 } else { 1 };
    assert_eq!((view.end.as_deref(), view.attempts.len()), (Some("completed"), attempts), "{view:#?}");
    Ok(())
}

pub fn victim_that_is_cancelled_ends_as_cancelled_and_does_not_come_back(lab: &mut Lab) -> Result<()> {
    let long = |request| JobRequest { grace_ms: Some(60_000), ..request };
    let race = Race::open(lab, long, &["notice=ignore"])?;
    let (taker, taker_work) = race.go(lab)?;
    let told = race.told(lab);
    assert_eq!(told.stop_grace_ms, Some(60_000), "{told:#?}");
    assert_eq!(lab.block_on(race.arena.bob.cancel_softly(race.victim))?, "stopping");
    // The earlier kill of the two holds, and a minute's grace is cut to the two seconds of a cancel.
    let view = story::stands(lab, &race.arena.bob, race.victim, "ended");
    assert_eq!((view.end.as_deref(), view.attempts.len()), (Some("cancelled"), 1), "{view:#?}");
    let first = view.attempts[0].clone();
    let (told, ended) = (told.stop_at.context("told")?, first.ended_at.context("ended")?);
    assert!(ended < told + 60_000, "{view:#?}");
    assert_eq!(first.cost, None, "a cancelled job has no price: {view:#?}");
    let taker = race.assert_taken_once(lab, taker, &taker_work)?;
    assert!(taker.go_at.context("go")? >= ended, "{taker:#?}");
    Ok(())
}

pub fn agent_that_dies_while_its_job_gives_way_takes_nothing_and_loses_nothing(lab: &mut Lab) -> Result<()> {
    let race = Race::open(lab, roomy, &["save=100", "notice=ignore", "term=ignore"])?;
    let (taker, taker_work) = race.go(lab)?;
    let told = race.told(lab);
    until("the victim has its notice", || race.work.said("notice").pop());
    let node = lab.agents.iter().position(|agent| agent.name == told.node).context("no such node")?;
    lab.agents[node].kill();
    // The grace runs without the agent, and without it nobody says that the GPUs are empty.
    let pid = race.work.said("start")[0].pid;
    until("the victim is gone", || identity(pid).is_none().then_some(()));
    let view = lab.block_on(race.arena.ana.show(taker))?;
    assert_eq!(view.attempts[0].go_at, None, "{view:#?}");
    assert!(taker_work.said("start").is_empty());
    let parts = lab.parts.clone();
    lab.agents[node].start(&parts)?;
    race.assert_taken_once(lab, taker, &taker_work)?;
    let first = story::ended(lab, &race.arena.bob, race.victim, 1);
    assert_eq!(first.end.as_deref(), Some("preempted"), "{first:#?}");
    let saved = race.work.said_by(1, "saved").len();
    assert!(saved > 0);
    let cost = story::assert_cost(&first, "share");
    assert_eq!(cost.basis, "reported", "what it saved came through its agent's death: {first:#?}");
    Ok(())
}

/// The moments at which a leader dies.
#[derive(Debug, Clone, Copy)]
enum Step {
    Notice,
    Grace,
    Freed,
    Go,
}

pub fn leader_s_death_at_any_step_of_a_preemption_changes_nothing(lab: &mut Lab) -> Result<()> {
    for step in [Step::Notice, Step::Grace, Step::Freed, Step::Go] {
        let words = ["save=100", "notice=ignore", "term=ignore"];
        let race = Race::open(lab, roomy, &words)?;
        let pid = race.work.said("start")[0].pid;
        let leader = lab.leader();
        let (taker, taker_work) = race.go(lab)?;
        let told = race.told(lab);
        match step {
            Step::Notice => {}
            Step::Grace => drop(until("it has its end signal", || race.work.said("term").pop())),
            Step::Freed => until("it is gone", || identity(pid).is_none().then_some(())),
            Step::Go => {
                story::when(lab, &race.arena.ana, taker, "has its go", |view| {
                    view.attempts.first().is_some_and(|attempt| attempt.go_at.is_some())
                });
            }
        }
        lab.replicas[leader].kill();
        let taken = race.assert_taken_once(lab, taker, &taker_work)?;
        let first = story::ended(lab, &race.arena.bob, race.victim, 1);
        assert_eq!(first.end.as_deref(), Some("preempted"), "{step:?}: {first:#?}");
        assert_eq!((first.stop_at, &first.taken_for), (told.stop_at, &told.taken_for), "{step:?}");
        assert_eq!(Some(taken.placed_at), told.stop_at, "{step:?}: it was decided twice");
        story::assert_cost(&first, "share");
        story::assert_charged(&first, 0);
        let view = story::stands(lab, &race.arena.bob, race.victim, "waiting");
        assert_eq!(view.attempts.len(), 1, "{step:?}: {view:#?}");
        let parts = lab.parts.clone();
        lab.replicas[leader].start(&parts)?;
        lab.settle()?;
    }
    Ok(())
}
