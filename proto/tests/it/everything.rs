//! A state with one of everything that a snapshot can hold. No history leads to it: it only has to come back as it is.

use scheduler_core::array::{Indexes, JobArray, Task};
use scheduler_core::bill::{Bill, BillCause, Restart};
use scheduler_core::budget::{Became, Edited, Ended as GrantEnded, Grant, ROOT, TimedEdit, Trees};
use scheduler_core::date::{Date, Move};
use scheduler_core::decision::{Basis, Record};
use scheduler_core::id::{
    AttemptId, AttemptNo, DecisionId, EditId, Generation, GrantId, JobId, Label, LogIndex, NodeId, Rank,
    Revision, Slot, Term,
};
use scheduler_core::job::{
    Attempt, AttemptEnd, Before, End, Ended, Exit, HeldBy, JobResult, Met, Need, PastAttempt, Phase,
    Placement, Progress, Stop, StopCause, Taken,
};
use scheduler_core::ledger::{Class, Weighed};
use scheduler_core::node::{Cordon, Drain, Urgency};
use scheduler_core::pool::Pool;
use scheduler_core::spec::{Tier, Wants};
use scheduler_core::state::{State, Timer};
use scheduler_core::unit::{ChargeMillis, GpuCount, Share, Span, Timestamp, Weight};

use crate::history::history;
use crate::sample::{name, price, promise, rights, settings, taking, tree, troubles};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn decision(n: u16) -> DecisionId {
    DecisionId { index: LogIndex::new(77), n }
}

/// Returns the state of the history with everything else put in.
pub fn everything() -> State {
    let mut state = history().state;
    state.meta.settings = settings();
    nodes(&mut state);
    pools(&mut state);
    attempts(&mut state);
    jobs(&mut state);
    arrays(&mut state);
    bills(&mut state);
    results(&mut state);
    grants(&mut state);
    edits(&mut state);
    dates(&mut state);
    let record = |start| Record { at: at(5), made_at: LogIndex::new(76), term: Term::new(2), start };
    state.decisions.insert(decision(0), record(taking(None)));
    let timers = [
        Timer::StartBy(AttemptId { job: JobId::new(500), no: AttemptNo::new(1) }),
        Timer::Release(JobId::new(500)),
        Timer::Drain(NodeId::new(1)),
        Timer::Grant(GrantId::new(4)),
        Timer::Edit(EditId::new(2)),
    ];
    for timer in timers {
        state.timers.insert((at(9_000), timer), ());
    }
    state
}

fn dates(state: &mut State) {
    let moves = troubles().map(|trouble| Move { at: at(81), from: at(82), to: at(83), trouble });
    for (job, moves) in [(500, moves.to_vec()), (501, Vec::new())] {
        let moved = u32::try_from(moves.len()).unwrap();
        let date = Date { issued_at: at(80), decision: decision(4), promise: promise(), moved, moves };
        state.dates.insert((JobId::new(job), name("main")), date);
    }
}

fn pools(state: &mut State) {
    let weight = Weight::from_milli(350).unwrap();
    let weights = vec![(Label::new("A100").unwrap(), weight), (Label::new("h100").unwrap(), Weight::ONE)];
    state.pools.insert(name("big"), Pool { clusters: [name("east"), name("main")].into(), weights });
    state.pools.insert(name("main"), Pool::default());
    let node = state.nodes.get_mut(&NodeId::new(1)).unwrap();
    (node.cluster, node.gpus[0].weight) = (name("east"), weight);
    let gpus = |weight| Weighed { count: GpuCount::new(2), weight };
    state.books.gpus_added(&name("main"), gpus(weight), Class::Unavailable, at(70));
    state.books.reweigh(&name("main"), (gpus(weight), Weight::MAX), Class::Unavailable, at(80));
}

fn nodes(state: &mut State) {
    let first = state.nodes.get(&NodeId::new(1)).unwrap().clone();
    let drain = |urgency, is_active| Drain {
        who: name("ceo"),
        reason: "new firmware".into(),
        ordered_at: at(1),
        begins_at: at(2),
        is_active,
        urgency,
    };
    let cordon = |who| Cordon { who, reason: "fan is loud".into(), since: at(3) };
    let changes = [
        (Some(cordon(Some(name("ceo")))), None),
        (Some(cordon(None)), None),
        (None, Some(drain(Urgency::Normal, true))),
        (None, Some(drain(Urgency::Deadline(at(9)), false))),
        (Some(cordon(None)), Some(drain(Urgency::Now, true))),
    ];
    for (n, (cordon, drain)) in (2..).zip(changes) {
        let mut node = first.clone();
        node.name = name(&format!("node-{n:02}"));
        node.next_port = 20_007;
        node.topology = vec![name("block-1"), name("rack-2")];
        (node.cordon, node.drain) = (cordon, drain);
        node.facts.as_mut().unwrap().address = Some(Label::new("10.0.0.7").unwrap());
        node.gpus[0].next = Some(AttemptId { job: JobId::new(500), no: AttemptNo::new(2) });
        state.nodes.insert(NodeId::new(n), node);
    }
}

fn grants(state: &mut State) {
    let leaf = *state.budgets.keys().last().unwrap();
    let ended = |by| Some(GrantEnded { by, reason: "it is over".into() });
    let kinds = [(None, None), (Some(ROOT), ended(Some(name("ceo")))), (None, ended(None))];
    for (n, (from, ended)) in (4..).zip(kinds) {
        let grant = Grant {
            to: leaf,
            from,
            share: Share::from_ppm(125_000).unwrap(),
            begins_at: at(20),
            until: at(30),
            reason: "a deadline".into(),
            by: name("ceo"),
            made_at: at(10),
            ended,
        };
        for (budget, slice) in grant.slices(GrantId::new(n)) {
            state.budgets.get_mut(&budget).unwrap().slices.push(slice);
        }
        state.grants.insert(GrantId::new(n), grant);
    }
    state.meta.next_grant = GrantId::new(7);
}

fn edits(state: &mut State) {
    let trees = || Some(Box::new(Trees { base: tree(), want: tree() }));
    let change =
        Edited { budget: "lab/a".into(), kind: "share".into(), before: "10%".into(), after: "20%".into() };
    let applied = Became::Applied { revision: Revision::new(9), changes: vec![change] };
    let kinds = [
        (trees(), None),
        (None, Some(applied)),
        (None, Some(Became::Dropped { why: "it was changed since".into() })),
    ];
    for (n, (trees, became)) in (2..).zip(kinds) {
        let (by, reason) = (name("ceo"), "a new term".into());
        let edit = TimedEdit { at: at(50), trees, by, made_at: at(40), reason, became };
        state.edits.insert(EditId::new(n), edit);
    }
    state.meta.next_edit = EditId::new(5);
}

fn stops() -> Vec<Stop> {
    let stop = |cause| Stop { at: at(10), cause, grace: Span::from_millis(11) };
    let taken = |right, basis, saved_at| Taken {
        by: AttemptId { job: JobId::new(500), no: AttemptNo::new(7) },
        decision: decision(1),
        right,
        price: price(basis, saved_at),
        considered: 5,
    };
    let bases = [
        (Basis::Reported, Some(at(8))),
        (Basis::Declared, None),
        (Basis::Unknown, None),
        (Basis::Unknown, None),
        (Basis::Unknown, None),
    ];
    let taken = rights().into_iter().zip(bases).map(|(right, (basis, saved))| taken(right, basis, saved));
    let who = || (name("ceo"), "so".to_owned());
    let (drainer, canceller, requeuer) = (who(), who(), who());
    taken
        .map(|taken| stop(StopCause::Preempt(taken)))
        .chain([
            stop(StopCause::Drain { who: drainer.0, reason: drainer.1, cuts: Span::from_millis(12) }),
            stop(StopCause::Requeue { who: requeuer.0, reason: requeuer.1 }),
            stop(StopCause::Rank { rank: Rank::new(3) }),
            stop(StopCause::Cancel { who: canceller.0, reason: canceller.1 }),
            stop(StopCause::Unwanted),
        ])
        .collect()
}

fn ends() -> Vec<Ended> {
    let causes = [
        (AttemptEnd::Exited, Some(Exit::Code(3))),
        (AttemptEnd::TimeLimit, Some(Exit::Signal(9))),
        (AttemptEnd::Stopped, Some(Exit::Unknown)),
        (AttemptEnd::Preempted, Some(Exit::Code(0))),
        (AttemptEnd::LaunchFailedNode("no such account".into()), None),
        (AttemptEnd::LaunchFailedJob("no such file".into()), None),
        (AttemptEnd::NodeLost, None),
    ];
    causes.into_iter().map(|(cause, exit)| Ended { at: at(20), cause, exit }).collect()
}

/// A gang for each stop and each end, in several stages.
fn attempts(state: &mut State) {
    let (_, sample) = state.attempts.iter().next().unwrap();
    let sample: Attempt = sample.clone();
    let placement = |rank, moment: Option<Timestamp>, exited| Placement {
        rank: Rank::new(rank),
        node: NodeId::new(u32::from(rank) + 1),
        slots: vec![Slot::new(0), Slot::new(3)],
        generation: Generation::new(4),
        ready_at: moment,
        started_at: moment.map(|at| at.plus(Span::from_millis(1))),
        exited,
        freed_at: moment.map(|at| at.plus(Span::from_millis(2))),
    };
    let both = stops().into_iter().map(Some).zip(ends().into_iter().map(Some).chain([None]));
    for (no, (stop, first_end)) in (1..).zip(both) {
        let attempt = Attempt {
            placements: vec![
                placement(0, None, None),
                placement(1, Some(at(6)), Some((at(7), Exit::Code(1)))),
            ],
            latest_go: at(13),
            start_by: at(14),
            port: Some(20_001),
            saved_at: Some(at(15)),
            signed_at: Some(at(16)),
            stop,
            ended: first_end.clone().filter(|_| no % 2 == 0),
            first_end,
            ..sample.clone()
        };
        state.attempts.insert(AttemptId { job: JobId::new(500), no: AttemptNo::new(no) }, attempt);
    }
}

fn jobs(state: &mut State) {
    let (_, sample) = state.jobs.iter().next().unwrap();
    let sample = sample.clone();
    let held = [
        HeldBy::Person { who: name("ceo"), reason: "later".into() },
        HeldBy::FailedLaunches { reason: "no such account".into() },
        HeldBy::Backoff { until: at(60_000) },
        HeldBy::Barren { preemptions: 3 },
        HeldBy::Begin { until: at(61_000) },
        HeldBy::Dependency { never: None },
        HeldBy::Dependency { never: Some(JobId::new(400)) },
    ];
    for (n, by) in (500..).zip(held) {
        let mut job = sample.clone();
        job.phase = Phase::Held { since: at(30), by };
        job.progress = Progress {
            saved: Some((AttemptNo::new(2), at(31))),
            intervals: vec![Span::from_millis(32), Span::from_millis(33)],
            restarts: vec![Span::from_millis(34)],
            preemptions: 35,
            barren: 36,
        };
        job.past = past();
        job.terms.exclude = [NodeId::new(2), NodeId::new(7)].into();
        let need = |job, wants, met| Need { job: JobId::new(job), wants, met };
        job.before = Before {
            begin: Some(at(61_000)),
            needs: vec![
                need(300, Wants::End, Met::Yes),
                need(301, Wants::Success, Met::Never),
                need(302, Wants::Success, Met::Open),
            ],
        };
        state.dependents.insert((JobId::new(302), JobId::new(n)), ());
        state.jobs.insert(JobId::new(n), job);
    }
}

fn arrays(state: &mut State) {
    let (_, sample) = state.jobs.iter().next().unwrap();
    let mut job = sample.clone();
    job.phase = Phase::Held { since: at(30), by: HeldBy::Dependency { never: None } };
    job.before.needs = vec![Need { job: JobId::new(310), wants: Wants::Success, met: Met::Open }];
    state.dependents.insert((JobId::new(310), JobId::new(700)), ());
    let mut array = JobArray::new(job, Indexes::parse("0-99:3,200-299%4").unwrap());
    (array.made, array.live) = (9, 2);
    array.ends = [(End::Completed, 3), (End::Failed, 2), (End::Cancelled, 3)].into();
    let _ = [1, 5, 70, 71, 130].map(|place| array.bad.insert(place));
    let _ = [70, 71, 130].map(|place| array.skipped.insert(place));
    state.arrays.insert(JobId::new(700), array);
    let (_, sample) = state.jobs.iter().next().unwrap();
    let mut task = sample.clone();
    task.array = Some(Task { of: JobId::new(700), index: 24 });
    state.jobs.insert(JobId::new(709), task);
    state.meta.array_tasks = 134;
}

fn past() -> Vec<PastAttempt> {
    let stops = stops().into_iter().map(Some).chain([None]);
    let past = |(no, (ended, stop))| PastAttempt {
        no: AttemptNo::new(no),
        nodes: vec![NodeId::new(1), NodeId::new(2)],
        gpus: 16,
        decision: decision(2),
        placed_at: at(1),
        go_at: Some(at(2)),
        started_at: Some(at(3)),
        saved_at: Some(at(4)),
        stop,
        ended,
        charged: ChargeMillis::new(1 << 65),
    };
    (1..).zip(ends().into_iter().zip(stops)).map(past).collect()
}

fn results(state: &mut State) {
    let ends = [
        (End::Completed, Some(Exit::Code(0))),
        (End::Failed, Some(Exit::Signal(9))),
        (End::Preempted, Some(Exit::Unknown)),
        (End::TimedOut, None),
        (End::Cancelled, None),
        (End::Lost, None),
        (End::Superseded, None),
    ];
    for (n, (end, exit)) in (0..).zip(ends) {
        // The later number ended first.
        let (id, at) = (JobId::new(300 + n), at(90 - u64::from(n)));
        state.results.insert(id, JobResult { at, end, exit });
        state.results_by_end.insert((at, id), ());
    }
}

fn bills(state: &mut State) {
    let causes = [
        BillCause::Share,
        BillCause::Turn,
        BillCause::FreeTier,
        BillCause::Drain,
        BillCause::Operator,
        BillCause::Claim,
        BillCause::Lane,
    ];
    let restarts =
        [Restart::Expected(Span::from_millis(40)), Restart::Measured(Span::from_millis(41)), Restart::None];
    let wasted = [None, Some(true), Some(false)];
    for (no, cause) in (1..).zip(causes) {
        let n = usize::from(no % 3);
        let bill = Bill {
            budget: state.budgets.keys().next().copied().unwrap(),
            user: name("ada"),
            pool: name("main"),
            tier: if no == 3 { Tier::Free } else { Tier::Funded },
            gpus: 8,
            cause,
            noticed_at: at(42),
            saved_at: (n == 0).then(|| at(43)),
            age: Span::from_millis(44),
            basis: [Basis::Reported, Basis::Declared, Basis::Unknown][n],
            restart: restarts[n],
            taken_for: (n != 0).then_some(AttemptId { job: JobId::new(501), no: AttemptNo::new(1) }),
            decision: (n != 0).then(|| decision(3)),
            is_wasted: wasted[n],
        };
        state.bills.insert((at(50), AttemptId { job: JobId::new(500), no: AttemptNo::new(no) }), bill);
    }
}
