//! Each invariant finds what it is for: a state is damaged by hand, and the law that was broken is named.

use scheduler_core::agent::RankEvent;
use scheduler_core::bill::{Bill, BillCause, Restart};
use scheduler_core::command::Entry;
use scheduler_core::decision::{Basis, Right};
use scheduler_core::id::{AttemptNo, JobId, NodeId, Revision, Slot, SpecHash};
use scheduler_core::invariants::{Broken, check_all, check_step};
use scheduler_core::job::{
    AttemptEnd, End, Ended, Exit, HeldBy, JobResult, PastAttempt, Phase, Stop, StopCause, Taken,
};
use scheduler_core::ledger::{Class, Run};
use scheduler_core::node::{Drain, Urgency};
use scheduler_core::state::{State, Timer};
use scheduler_core::unit::{ChargeMillis, GpuCount, Span, Timestamp};

use crate::world::{World, attempt, mark, name, person, price, request, submission};

/// Job 1 runs on GPUs 0 and 1 of node 1 and is protected; job 2 waits; job 3 has ended. GPUs 2 and 3 are idle.
fn world() -> World {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let (running, _, over) =
        (world.submit("bob", request(2)), world.submit("bob", request(1)), world.submit("bob", request(1)));
    let first = world.place(running, node, &[0, 1]);
    world.wait(Span::from_secs(1)).report(node, first, RankEvent::Started);
    let last = world.place(over, node, &[2]);
    world.wait(Span::from_secs(9)).exit(node, last, 0);
    world.report(node, last, RankEvent::Freed);
    let request_mark = Some(mark(1, world.now, 1));
    let entry = Entry {
        time: world.now,
        actor: person("bob"),
        via: None,
        request: request_mark,
        command: submission(request(1)),
    };
    world.entry(entry).expect("it is accepted");
    world
}

/// Damages the state and compares the laws that are found broken: by the whole check, and by the cheap one.
fn check(damage: impl FnOnce(&mut State), whole: &str, cheap: &str) {
    let before = world().state;
    let mut state = before.clone();
    damage(&mut state);
    let law = |found: Result<(), Broken>| found.err().map_or("", |broken| broken.law);
    assert_eq!((law(check_all(&state)), law(check_step(&before, &state))), (whole, cheap));
}

const GPU: &str = "a GPU is with one attempt, which has it in its placement";
const JOB: &str = "a live job has its attempt, and no other has";
const MOMENTS: &str = "the points of an attempt are in order";
const CHARGE: &str = "a job was charged what its attempts were";
const STOPS: &str = "what is protected is stopped by a person's word alone";
const TREE: &str = "a budget's account is the sum of those below";
const INDEXES: &str = "the line, the timers and the ended jobs follow from state";

const NODE: NodeId = NodeId::new(1);

#[test]
fn nothing_is_broken_in_a_good_state() {
    check(|_| {}, "", "");
}

#[test]
fn a_gpu_without_its_holder_or_with_a_wrong_one() {
    let holder = |slot: usize, who| {
        move |state: &mut State| state.nodes.get_mut(&NODE).unwrap().gpus[slot].holder = who
    };
    check(holder(0, None), GPU, GPU);
    check(holder(3, Some(attempt(JobId::new(1), 1))), GPU, GPU);
    check(holder(3, Some(attempt(JobId::new(7), 1))), GPU, GPU);
    let twice = |state: &mut State| {
        let attempt = state.attempts.get_mut(&attempt(JobId::new(1), 1)).unwrap();
        attempt.placements[0].slots.push(Slot::new(1));
    };
    check(twice, GPU, GPU);
}

#[test]
fn a_phase_that_the_attempts_do_not_bear_out() {
    let phase = |job: u32, phase: Phase| {
        move |state: &mut State| state.jobs.get_mut(&JobId::new(job)).unwrap().phase = phase
    };
    check(phase(1, Phase::Waiting { since: Timestamp::ZERO }), JOB, JOB);
    check(phase(2, Phase::Live(AttemptNo::new(1))), JOB, JOB);
    check(phase(3, Phase::Live(AttemptNo::new(1))), JOB, JOB);
    check(
        phase(
            3,
            Phase::Held { since: Timestamp::ZERO, by: HeldBy::FailedLaunches { reason: String::new() } },
        ),
        "counts are what they count",
        "an end is final",
    );
    let end = Phase::Ended { at: Timestamp::ZERO, end: End::Failed, exit: None };
    check(phase(3, end), "", "an end is final");
}

#[test]
fn moments_out_of_order() {
    let early = |state: &mut State| {
        state.attempts.get_mut(&attempt(JobId::new(1), 1)).unwrap().started_at = Some(Timestamp::ZERO);
    };
    check(early, MOMENTS, MOMENTS);
}

#[test]
fn a_charge_that_no_attempt_had() {
    let charge =
        |state: &mut State| state.jobs.get_mut(&JobId::new(3)).unwrap().charged = ChargeMillis::new(1);
    check(charge, CHARGE, CHARGE);
}

#[test]
fn a_stop_that_nobody_asked_for() {
    let stop = |state: &mut State| {
        let stop = Stop { at: state.meta.time, cause: StopCause::Unwanted, grace: Span::ZERO };
        state.attempts.get_mut(&attempt(JobId::new(1), 1)).unwrap().stop = Some(stop);
    };
    check(stop, STOPS, STOPS);
    let stopped = |state: &mut State| {
        let at = state.meta.time;
        state.jobs.get_mut(&JobId::new(1)).unwrap().phase = Phase::Waiting { since: at };
        let ended = Ended { at, cause: AttemptEnd::Stopped, exit: None };
        state.jobs.get_mut(&JobId::new(1)).unwrap().charged = ChargeMillis::new(2_000 * 10_000);
        let attempt = state.attempts.get_mut(&attempt(JobId::new(1), 1)).unwrap();
        attempt.placements[0].exited = Some((at, Exit::Unknown));
        (attempt.first_end, attempt.ended) = (Some(ended.clone()), Some(ended));
    };
    check(stopped, STOPS, STOPS);
}

#[test]
fn books_that_say_something_else() {
    let now = |state: &State| state.meta.time;
    let main = || name("main");
    check(
        |state| {
            let at = now(state);
            state.books.reclass(&main(), GpuCount::new(1), Class::Idle, Class::Unavailable, at);
        },
        "GPUs are booked to the class that they are in",
        "",
    );
    let run = |state: &mut State, path_from: usize| {
        let at = now(state);
        let job = state.attempts.get(&attempt(JobId::new(1), 1)).unwrap().clone();
        let path = scheduler_core::budget::path(state, job.budget);
        state.books.ended(&Run::of(&job, &path[path_from..]), at, at);
    };
    check(|state| run(state, 0), "charge runs for what is between go and end", "");
    check(|state| run(state, 2), "charge runs for what is between go and end", TREE);
    check(
        |state| {
            let at = now(state);
            state.books.gpus_added(&main(), GpuCount::new(1), Class::Idle, at);
        },
        "GPUs are booked to the class that they are in",
        "",
    );
}

#[test]
fn indexes_that_forgot_something() {
    check(
        |state| {
            let first = *state.line.keys().next().unwrap();
            state.line.remove(&first);
        },
        INDEXES,
        "",
    );
    check(
        |state| {
            let protection =
                *state.timers.keys().find(|(_, t)| matches!(t, Timer::ProtectionOver(_))).unwrap();
            state.timers.remove(&protection);
        },
        INDEXES,
        "",
    );
    check(
        |state| {
            let over = *state.ended.keys().next().unwrap();
            state.ended.remove(&over);
        },
        INDEXES,
        "",
    );
}

#[test]
fn counts_launches_and_requests() {
    check(|state| state.meta.live_jobs = 1, "counts are what they count", "");
    check(|state| state.meta.tree = Revision::new(0), "", "time and counters never go back");
    check(
        |state| {
            let hash = state.jobs.get(&JobId::new(1)).unwrap().launch;
            state.launches.get_mut(&hash).unwrap().jobs = 9;
        },
        "what nodes read is kept for the jobs that need it",
        "",
    );
    check(
        |state| state.jobs.get_mut(&JobId::new(2)).unwrap().launch = SpecHash::new([9; 32]),
        "what nodes read is kept for the jobs that need it",
        "",
    );
    check(
        |state| {
            let id = *state.requests.keys().next().unwrap();
            state.requests.get_mut(&id).unwrap().at = Timestamp::ZERO;
        },
        INDEXES,
        "",
    );
}

#[test]
fn results_and_bounds() {
    let results = "how a job ended is known in one place, for its time";
    let result = |at| JobResult { at, end: End::Completed, exit: None };
    check(
        |state| {
            let at = state.meta.time;
            state.results.insert(JobId::new(1), result(at));
            state.results_by_end.insert((at, JobId::new(1)), ());
        },
        results,
        "",
    );
    check(
        |state| {
            state.meta.next_job = JobId::new(10);
            state.results.insert(JobId::new(9), result(state.meta.time));
        },
        results,
        "",
    );
    check(
        |state| {
            state.meta.next_job = JobId::new(10);
            state.results.insert(JobId::new(9), result(Timestamp::ZERO));
            state.results_by_end.insert((Timestamp::ZERO, JobId::new(9)), ());
        },
        results,
        "",
    );
    check(|state| state.meta.spec_bytes = 1, "counts are what they count", "");
    let bounds = "every table keeps its bound";
    check(|state| state.meta.settings.live_jobs_max = 0, bounds, bounds);
    check(|state| state.meta.settings.requests_max = 0, bounds, bounds);
    check(|state| state.meta.settings.specs_mib_max = 0, bounds, "");
}

const PREEMPTED: &str = "who is protected gives way to nobody";
const DRAINS: &str = "who stays on a node that is drained is protected";
const BILLS: &str = "bills are of the window, and open while they may be settled";

/// What names attempt 1.1 as giving way to another.
fn preempted(state: &State) -> Stop {
    let first = attempt(JobId::new(1), 1);
    let taken = Taken {
        by: attempt(JobId::new(2), 1),
        decision: state.attempts.get(&first).expect("it runs").decision,
        right: Right::FreeTier,
        price: price(),
        considered: 1,
    };
    Stop { at: state.meta.time, cause: StopCause::Preempt(taken), grace: Span::ZERO }
}

#[test]
fn a_preemption_of_what_is_protected() {
    let stop = |state: &mut State| {
        let stop = preempted(state);
        state.attempts.get_mut(&attempt(JobId::new(1), 1)).unwrap().stop = Some(stop);
    };
    check(stop, STOPS, PREEMPTED);
    // Also if it is gone from the table by then, as what had no go is.
    let vanished = |state: &mut State| {
        let stop = preempted(state);
        let id = attempt(JobId::new(1), 1);
        let gone = state.attempts.remove(&id).unwrap();
        let job = state.jobs.get_mut(&id.job).unwrap();
        job.past.push(PastAttempt {
            no: id.no,
            nodes: Vec::new(),
            gpus: 2,
            decision: gone.decision,
            placed_at: gone.placed_at,
            go_at: None,
            started_at: None,
            saved_at: None,
            ended: Ended { at: stop.at, cause: AttemptEnd::Preempted, exit: None },
            stop: Some(stop),
            charged: ChargeMillis::ZERO,
        });
    };
    check(vanished, GPU, PREEMPTED);
}

#[test]
fn a_gpu_that_is_promised_to_nobody_who_waits_for_it() {
    let next = |who| move |state: &mut State| state.nodes.get_mut(&NODE).unwrap().gpus[0].next = Some(who);
    check(next(attempt(JobId::new(1), 1)), GPU, GPU);
    check(next(attempt(JobId::new(2), 1)), GPU, GPU);
}

#[test]
fn an_attempt_without_go_that_stops_or_has_ranks() {
    let no_go = |state: &mut State| {
        let attempt = state.attempts.get_mut(&attempt(JobId::new(1), 1)).unwrap();
        (attempt.go_at, attempt.started_at, attempt.placements[0].started_at) = (None, None, None);
        attempt.placements[0].exited = Some((attempt.placed_at, Exit::Code(0)));
    };
    check(no_go, JOB, JOB);
}

#[test]
fn an_end_that_no_rank_bears_out() {
    let ended = |state: &mut State| {
        let at = state.meta.time;
        let attempt = state.attempts.get_mut(&attempt(JobId::new(1), 1)).unwrap();
        attempt.placements[0].exited = Some((at, Exit::Code(0)));
    };
    check(ended, JOB, JOB);
    let freed = |state: &mut State| {
        let at = state.meta.time;
        let attempt = state.attempts.get_mut(&attempt(JobId::new(1), 1)).unwrap();
        attempt.placements[0].freed_at = Some(at);
    };
    check(freed, JOB, JOB);
}

#[test]
fn a_drained_node_on_which_somebody_stays() {
    let drain = |state: &mut State| {
        let at = state.meta.time;
        state.books.reclass(&name("main"), GpuCount::new(2), Class::Idle, Class::Unavailable, at);
        let reason = String::from("a fan");
        let (who, urgency) = (name("ada"), Urgency::Now);
        let drain = Drain { who, reason, ordered_at: at, begins_at: at, is_active: true, urgency };
        state.nodes.get_mut(&NODE).unwrap().drain = Some(drain);
    };
    check(drain, DRAINS, "");
    let forgotten = |state: &mut State| {
        let at = state.meta.time;
        let begins_at = at.plus(Span::from_hours(1));
        let reason = String::from("a fan");
        let (who, urgency) = (name("ada"), Urgency::Normal);
        let drain = Drain { who, reason, ordered_at: at, begins_at, is_active: false, urgency };
        state.nodes.get_mut(&NODE).unwrap().drain = Some(drain);
    };
    check(forgotten, INDEXES, "");
}

#[test]
fn a_bill_that_stays_open() {
    let bill = |state: &mut State| {
        let id = attempt(JobId::new(3), 1);
        let bill = Bill {
            budget: state.jobs.get(&id.job).unwrap().budget,
            user: name("bob"),
            pool: name("main"),
            tier: scheduler_core::spec::Tier::Funded,
            gpus: 1,
            cause: BillCause::Drain,
            noticed_at: state.meta.time,
            saved_at: None,
            age: Span::from_secs(1),
            basis: Basis::Unknown,
            restart: Restart::None,
            taken_for: None,
            decision: None,
            is_wasted: None,
        };
        state.bills.insert((state.meta.time, id), bill);
    };
    check(bill, BILLS, "");
}
