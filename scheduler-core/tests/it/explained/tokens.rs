//! Whatever a job's phase, stop or hold, it is explained; and every kind of reason is met somewhere.

use std::collections::BTreeSet;

use scheduler_core::array::{Indexes, JobArray, Task};
use scheduler_core::decision::{Basis, Price, Right, UseOf};
use scheduler_core::explain::{Stage, Token, attempt, job};
use scheduler_core::id::{AttemptId, AttemptNo, BudgetId, DecisionId, JobId, LogIndex, NodeId, Rank, Slot};
use scheduler_core::job::{AttemptEnd, End, Ended, Exit, HeldBy, PastAttempt, Phase, Stop, StopCause, Taken};
use scheduler_core::node::{Contact, Cordon, Drain, Urgency};
use scheduler_core::plan::Links;
use scheduler_core::state::{SafeMode, State, Stray};
use scheduler_core::unit::{ChargeMillis, MilliGpus, Span};

use crate::lab::{NOW, name, state};
use crate::report::capacity::{attempt as run_of, live, node};

const ONE: JobId = JobId::new(1);

fn taken(right: Right) -> StopCause {
    let price = Price {
        rate: MilliGpus::new(8_000),
        lost: Span::from_mins(3),
        restart: Span::from_mins(5),
        preemptions: 2,
        saved_at: Some(NOW),
        basis: Basis::Declared,
    };
    let by = AttemptId { job: JobId::new(2), no: AttemptNo::new(1) };
    let decision = DecisionId { index: LogIndex::new(9), n: 0 };
    StopCause::Preempt(Taken { by, decision, right, price, considered: 4 })
}

fn stops() -> Vec<StopCause> {
    let side = |id| UseOf {
        budget: BudgetId::new(id),
        charged: ChargeMillis::new(id.into()),
        set_aside: ChargeMillis::ZERO,
        allocation: ChargeMillis::new(10),
    };
    let (who, reason) = (name("ada"), String::from("so"));
    vec![
        StopCause::Cancel { who: who.clone(), reason: String::new() },
        StopCause::Unwanted,
        taken(Right::FreeTier),
        taken(Right::Turn),
        taken(Right::Claim { date: DecisionId { index: LogIndex::new(4), n: 1 }, at: NOW }),
        taken(Right::Lane { occupied: 1, part: 2 }),
        taken(Right::Share { mine: side(1), theirs: side(2) }),
        StopCause::Drain { who: who.clone(), reason: reason.clone(), cuts: Span::ZERO },
        StopCause::Drain { who: who.clone(), reason: reason.clone(), cuts: Span::from_mins(9) },
        StopCause::Requeue { who: who.clone(), reason: reason.clone() },
        StopCause::Requeue { who: name("ann"), reason: String::new() },
        StopCause::Rank { rank: Rank::new(0) },
    ]
}

fn ends() -> Vec<(AttemptEnd, Option<Exit>)> {
    let code = |code| Some(Exit::Code(code));
    vec![
        (AttemptEnd::Exited, code(0)),
        (AttemptEnd::Exited, code(3)),
        (AttemptEnd::Exited, Some(Exit::Signal(9))),
        (AttemptEnd::TimeLimit, Some(Exit::Unknown)),
        (AttemptEnd::Stopped, code(143)),
        (AttemptEnd::Preempted, code(0)),
        (AttemptEnd::LaunchFailedNode("no space".to_owned()), None),
        (AttemptEnd::LaunchFailedJob("no such program".to_owned()), code(127)),
        (AttemptEnd::NodeLost, None),
    ]
}

fn held() -> Vec<HeldBy> {
    vec![
        HeldBy::Person { who: name("ann"), reason: String::new() },
        HeldBy::Person { who: name("ada"), reason: "wait for the data".to_owned() },
        HeldBy::FailedLaunches { reason: "no space".to_owned() },
        HeldBy::Backoff { until: NOW.plus(Span::from_mins(4)) },
        HeldBy::Barren { preemptions: 3 },
        HeldBy::Begin { until: NOW.plus(Span::from_mins(4)) },
        HeldBy::Dependency { never: None },
        HeldBy::Dependency { never: Some(JobId::new(90)) },
    ]
}

/// Explains jobs and attempts, and keeps which tokens were met.
#[derive(Default)]
struct Met(BTreeSet<Token>);

impl Met {
    fn job(&mut self, lab: &State, id: JobId, stage: Stage) {
        let found = job(lab, &Links::all_ready(lab), id, NOW).expect("state has it");
        assert_eq!(found.stage, stage, "{found:?}");
        self.keep(&found);
        if let Phase::Live(no) = lab.jobs.get(&id).expect("it is there").phase {
            let again = attempt(lab, &Links::all_ready(lab), AttemptId { job: id, no }, NOW);
            assert_eq!(again, Some(found));
        }
    }

    fn attempt(&mut self, lab: &State, id: AttemptId) {
        let found = attempt(lab, &Links::all_ready(lab), id, NOW).expect("state has it");
        assert_eq!((found.stage, found.attempt), (Stage::Ended, Some(id)));
        self.keep(&found);
    }

    fn keep(&mut self, found: &scheduler_core::explain::Explanation) {
        assert!(!found.reasons.is_empty() && !found.sentence.is_empty(), "{found:?}");
        for reason in &found.reasons {
            assert!(!reason.sentence.trim().is_empty(), "{found:?}");
            assert!(found.sentence.contains(&found.reasons[0].sentence), "{found:?}");
            self.0.insert(reason.token);
        }
        for group in &found.facts {
            let is_told = |fact: &scheduler_core::explain::Fact| !fact.what.is_empty();
            assert!(group.facts.iter().all(is_told), "{group:?}");
        }
    }
}

/// Job 1 runs since 2 h, protected for one of them; 2 waits.
fn lab() -> State {
    state(
        "node n1 8 h100
         node n2 8 h100
         budget a 50
         budget b 50
         runs 1.1 a 8 n1 0-7 for=2h min=1h
         runs 90.1 b 8 n2 0-7 for=1h min=3h
         job 2 b 8",
    )
}

fn lives_in_every_way(met: &mut Met) {
    met.job(&lab(), ONE, Stage::Running);
    met.job(&state("node n1 1 h100\nbudget a 100\nruns 1.1 a 1 n1 0 for=1h min=2h"), ONE, Stage::Running);
    met.job(&state("node n1 1 h100\nbudget a 100\nruns 1.1 a 1 n1 0 for=1h free"), ONE, Stage::Running);
    for contact in [Contact::Unreachable { since: NOW }, Contact::Ready] {
        let mut lab = lab();
        node(&mut lab, "n1").contact = contact;
        node(&mut lab, "n1").drain = Some(Drain {
            who: name("ada"),
            reason: "new cables".to_owned(),
            ordered_at: NOW,
            begins_at: NOW,
            is_active: true,
            urgency: Urgency::Normal,
        });
        met.job(&lab, ONE, Stage::Running);
    }
    for cause in stops() {
        for first_end in ends() {
            let mut lab = lab();
            let attempt = live(&mut lab, 1);
            attempt.stop = Some(Stop { at: NOW, cause: cause.clone(), grace: Span::from_secs(30) });
            let (how, exit) = first_end;
            attempt.first_end = Some(Ended { at: NOW, cause: how, exit });
            met.job(&lab, ONE, Stage::Stopping);
        }
    }
}

fn starts_in_every_way(met: &mut Met) {
    let mut lab = lab();
    live(&mut lab, 1).started_at = None;
    met.job(&lab, ONE, Stage::Starting);
    let attempt = live(&mut lab, 1);
    attempt.go_at = None;
    let mut other = attempt.placements[0].clone();
    other.rank = Rank::new(1);
    other.node = NodeId::new(2);
    attempt.placements.push(other);
    met.job(&lab, ONE, Stage::Starting);
}

fn waits_in_every_way(met: &mut Met) {
    let all = [
        "node n1 1 h100\nbudget a 100\njob 1 a 1",
        "node n1 1 h100\nbudget a 100\nruns 9.1 a 1 n1 0 for=1h min=2h\njob 1 a 1",
        "node n1 1 h100\nbudget a 100\nruns 9.1 a 1 n1 0 for=1h min=2h\njob 1 a 1 free",
        "node n1 1 h100\nbudget a 100\nruns 9.1 a 1 n1 0 for=5h min=2h first\njob 1 a 1 first",
        "node n1 2 h100\nnode n2 2 h100\nbudget a 100\nruns 8.1 a 1 n1 0 for=1h min=2h\nruns 9.1 a 1 n2 0 for=1h min=2h\njob 1 a 2",
        "node n1 1 h100 gone\nbudget a 100\njob 1 a 1",
        "budget a 100\njob 1 a 1",
    ];
    for lines in all {
        met.job(&state(lines), ONE, Stage::Waiting);
    }
    let mut dated = state(
        "node n1 2 h100\nbudget a 100\nruns 9.1 a 1 n1 0 for=1h min=2h\njob 1 a 1 min=4h\njob 2 a 2 first",
    );
    crate::dates::issue(&mut dated);
    met.job(&dated, ONE, Stage::Waiting);
    met.job(&dated, JobId::new(2), Stage::Waiting);
    let mut burst = state(
        "node n1 4 h100\nbudget a 20\nbudget b 80\nruns 9.1 a 2 n1 0-1 for=1h min=2h\njob 1 a 4\njob 2 b 4",
    );
    burst.meta.settings.burst_limit_pct = 200;
    met.job(&burst, ONE, Stage::Waiting);
    let mut lane = state("node n1 4 h100\nbudget a 100\nruns 9.1 a 2 n1 0-1 for=1h min=2h\njob 1 a 1");
    lane.meta.settings.short_lane_ppm = 500_000;
    met.job(&lane, ONE, Stage::Waiting);
    let mut safe = state(all[0]);
    safe.meta.safe_mode =
        Some(SafeMode { since: NOW, index: LogIndex::new(4), what: "a law was broken".to_owned() });
    met.job(&safe, ONE, Stage::Waiting);
    // Its GPU is with a process that nobody placed.
    let mut stray = state(all[0]);
    node(&mut stray, "n1").gpus[0].holder = Some(run_of(77));
    let record = Stray { since: NOW, slots: vec![Slot::new(0)] };
    stray.strays.insert((NodeId::new(1), run_of(77), Rank::new(0)), record);
    met.job(&stray, ONE, Stage::Waiting);
}

/// Job 1 runs as the first task of an array whose number is 0.
fn arrays_in_every_way(met: &mut Met) {
    let whole = JobId::new(0);
    let mut lab = lab();
    let indexes = Indexes::parse("4-9%1").expect("a range");
    let task = lab.jobs.get_mut(&ONE).expect("it is there");
    task.array = Some(Task { of: whole, index: 4 });
    let mut array = JobArray::new(task.clone(), indexes);
    (array.job.phase, array.made, array.live) = (Phase::Waiting { since: NOW }, 1, 1);
    lab.arrays.insert(whole, array.clone());
    let found = job(&lab, &Links::all_ready(&lab), whole, NOW).expect("state has it");
    assert_eq!((found.stage, found.job), (Stage::Running, whole));
    assert!(found.sentence.contains("0[4-9%1]") && found.sentence.contains("5 wait"), "{}", found.sentence);
    met.keep(&found);
    let task = job(&lab, &Links::all_ready(&lab), ONE, NOW).expect("state has it");
    assert!(task.sentence.starts_with("0[4] job-1 is running"), "{}", task.sentence);
    for by in held() {
        array.job.phase = Phase::Held { since: NOW, by };
        lab.arrays.insert(whole, array.clone());
        met.keep(&job(&lab, &Links::all_ready(&lab), whole, NOW).expect("state has it"));
    }
}

fn past_in_every_way(met: &mut Met) {
    for cause in stops().into_iter().map(Some).chain([None]) {
        for (how, exit) in ends() {
            let mut lab = lab();
            let stop = cause.clone().map(|cause| Stop { at: NOW, cause, grace: Span::from_secs(30) });
            let past = PastAttempt {
                no: AttemptNo::new(1),
                nodes: [1, 2].map(NodeId::new).to_vec(),
                gpus: 16,
                decision: DecisionId { index: LogIndex::new(3), n: 0 },
                placed_at: NOW,
                go_at: Some(NOW),
                started_at: Some(NOW),
                saved_at: None,
                stop,
                ended: Ended { at: NOW, cause: how, exit },
                charged: ChargeMillis::ZERO,
            };
            lab.jobs.get_mut(&JobId::new(2)).expect("it is there").past.push(past);
            met.attempt(&lab, AttemptId { job: JobId::new(2), no: AttemptNo::new(1) });
            met.job(&lab, JobId::new(2), Stage::Waiting);
        }
    }
    // Ended, and one of its GPUs cannot be cleared.
    let mut lab = lab();
    let told = Stop { at: NOW, cause: taken(Right::Turn), grace: Span::from_secs(30) };
    let attempt = live(&mut lab, 1);
    attempt.stop = Some(told);
    attempt.ended = Some(Ended { at: NOW, cause: AttemptEnd::Preempted, exit: Some(Exit::Unknown) });
    lab.jobs.get_mut(&ONE).expect("it is there").phase =
        Phase::Ended { at: NOW, end: End::Preempted, exit: Some(Exit::Unknown) };
    node(&mut lab, "n1").cordon =
        Some(Cordon { who: None, reason: "process 4711 hangs in the driver".to_owned(), since: NOW });
    met.job(&lab, ONE, Stage::Ended);
    met.attempt(&lab, run_of(1));
    let found = job(&lab, &Links::all_ready(&lab), ONE, NOW).expect("state has it");
    let fenced = found.facts.last().expect("it has facts");
    assert_eq!(fenced.title, "its ended runs that still have GPUs");
    assert_eq!(fenced.facts[0].what, "1.1 on n1");
    assert_eq!(fenced.facts[0].value, "8 GPUs, fenced: process 4711 hangs in the driver");
}

#[test]
fn every_phase_stop_and_hold_is_explained_and_every_token_is_met() {
    let mut met = Met::default();
    for by in held() {
        let mut lab = lab();
        lab.jobs.get_mut(&JobId::new(2)).expect("it is there").phase = Phase::Held { since: NOW, by };
        met.job(&lab, JobId::new(2), Stage::Held);
    }
    let all = [
        End::Completed,
        End::Failed,
        End::Preempted,
        End::TimedOut,
        End::Cancelled,
        End::Lost,
        End::Superseded,
    ];
    for end in all {
        for exit in [None, Some(Exit::Code(1)), Some(Exit::Signal(9)), Some(Exit::Unknown)] {
            let mut lab = lab();
            lab.jobs.get_mut(&JobId::new(2)).expect("it is there").phase =
                Phase::Ended { at: NOW, end, exit };
            met.job(&lab, JobId::new(2), Stage::Ended);
        }
    }
    arrays_in_every_way(&mut met);
    lives_in_every_way(&mut met);
    starts_in_every_way(&mut met);
    waits_in_every_way(&mut met);
    past_in_every_way(&mut met);
    let missed: Vec<&str> =
        Token::ALL.iter().filter(|token| !met.0.contains(token)).map(|token| token.as_str()).collect();
    assert_eq!(missed, <[&str; 0]>::default());
}
