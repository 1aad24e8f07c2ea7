//! What users of other schedulers suffered from (PEERS 3), as short histories with the outcome that is right here. Where
//! a lesson's own remedy is not ours, the pain is tested, with our outcome.

use scheduler_core::decision::Right;
use scheduler_core::id::{AttemptId, AttemptNo};
use scheduler_core::spec::Tier;
use scheduler_core::unit::Span;

use crate::story::{Story, check};
use crate::world::name;

/// Two budgets of half each, one node of four GPUs, and a window of a day: the margin is 4.8 GPU-hours.
const HALVES: &str = "window 24h
    budget a 50
    budget b 50
    node n1 4\n";

fn halves(text: &str) -> Story {
    check(&format!("{HALVES}{text}"))
}

/// Charged and set aside, of a budget that is funded.
fn booked(story: &Story, path: &str) -> (u128, u128) {
    let state = &story.world.state;
    let id = scheduler_core::budget::find(state, path).expect("a known budget");
    let window = state.meta.settings.window;
    let used = state.books.use_of(id, &name("main"), Tier::Funded, &state.budgets, window, story.world.now);
    (used.charged.get(), used.set_aside.get())
}

/// GPUs that a budget occupies now.
fn occupies(story: &Story, path: &str) -> u64 {
    let state = &story.world.state;
    let id = scheduler_core::budget::find(state, path).expect("a known budget");
    let mine = state.attempts.values().filter(|attempt| attempt.budget == id && attempt.ended.is_none());
    mine.map(|attempt| attempt.rate.get() / 1_000).sum()
}

#[test]
fn lesson_1_who_gave_way_does_not_come_back_before_the_one_it_gave_way_to() {
    halves(
        "submit free a 4 free
         run 10m
         submit funded b 4 min=60m
         run 20m
         funded runs
         free waits
         takes 1
         quiet 30h
         free gave-way 1 times
         free started 1 times",
    );
}

#[test]
fn lesson_2_two_budgets_do_not_take_from_each_other_in_turns() {
    // b had all of it for a day. Whoever takes has its protection, and the margin besides.
    let story = halves(
        "submit one b 4 min=60m
         run 24h
         submit two a 4 min=60m
         run 10m
         two runs
         one waits
         takes 1
         run 24h",
    );
    // 4.8 GPU-hours of margin each way on four GPUs: at least an hour and a fifth apart, once even.
    assert!(story.taken().len() <= 12, "{}", story.taken().len());
}

#[test]
fn lesson_3_natural_turnover_is_used_before_anybody_is_taken() {
    halves(
        "submit long b 2 min=10m
         run 10h
         submit short b 2 min=10m lasts=10m
         run 5m
         cancel short
         submit new a 2 min=60m
         run 1m
         new runs
         long runs
         takes 0",
    );
}

#[test]
fn lesson_4_the_smallest_sufficient_set_gives_way() {
    halves(
        "submit one b 1 min=10m
         submit two b 1 min=10m
         submit three b 2 min=10m
         run 10h
         submit new a 1 min=60m
         run 5m
         takes 1
         three runs",
    );
}

#[test]
fn lesson_5_nobody_is_moved_to_make_room_that_nobody_has_a_right_to() {
    // One GPU is idle on each node, and the job wants two of one. Both others are older ones of its own budget.
    let parted = "budget a 50
         budget b 50
         node n1 2
         node n2 2
         submit left a 1 min=10m
         submit gone a 1 min=10m
         submit right a 1 min=10m
         run 1m
         cancel gone
         run 1m
         submit whole a 2 min=10m\n";
    check(&format!("window 24h\ndates off\n{parted}quiet 30h\nwhole waits\ntakes 0"));
    // Its date is what takes, by a right of its own and not before the cap.
    let story =
        check(&format!("window 24h\n{parted}run 1m\nwhole has-date\nquiet 7h\nrun 70m\nwhole runs\ntakes 1"));
    let rights: Vec<Right> =
        story.starts.iter().flat_map(|start| &start.takes).map(|take| take.right).collect();
    assert!(matches!(rights[..], [Right::Claim { .. }]), "{rights:?}");
    assert_eq!(story.world.state.bills.values().count(), 1, "and it has its price");
}

#[test]
fn lesson_6_what_was_set_aside_is_settled_to_the_last_unit_on_every_path() {
    // Over after a minute, cancelled in its first minute, cancelled while it waits, failed launches: eight hours each.
    let story = halves(
        "node n2 4
         submit over a 4 min=8h lasts=1m
         submit broken a 4 min=8h fails-on=n1
         run 5m
         submit cancelled a 1 min=8h
         submit waits a 4 min=8h
         run 30s
         cancel cancelled
         cancel waits
         run 5m
         cancel broken
         run 5m
         over ended completed
         cancelled ended cancelled
         waits ended cancelled",
    );
    let (charged, set_aside) = booked(&story, "a");
    assert_eq!(set_aside, 0, "nothing is left of 100 GPU-hours");
    assert!(charged > 0 && occupies(&story, "a") == 0);
    // Who was honest goes first again: b has used nothing, a a little more than nothing.
    assert_eq!(booked(&story, "b"), (0, 0));
}

#[test]
fn lesson_7_a_second_of_one_gpu_counts_in_a_window_of_a_week() {
    let story = check(
        "window 7d
         budget a 50
         budget b 50
         node n1 4
         submit one a 1 min=1m lasts=1s
         run 1m
         submit two a 1 min=1m lasts=1s
         run 1m
         submit three a 1 min=1m lasts=1s
         run 1m",
    );
    assert_eq!(booked(&story, "a"), (3 * 1_000 * 1_000, 0), "three seconds of a thousand milli-GPUs");
}

#[test]
fn lesson_8_use_after_a_restart_is_use_before_it() {
    // Whatever moment a replica stops at, what its log makes is what it had.
    let story = halves(
        "submit one b 2 min=60m lasts=3h saves=30m
         replay
         run 1h
         replay
         submit two a 4 min=60m
         replay
         run 9h
         elect
         replay
         run 10m
         replay
         cancel two
         replay
         run 1m",
    );
    let log = story.world.log.len();
    assert!(log > 20, "enough happened: {log}");
    assert!(booked(&story, "b").0 > 0);
}

#[test]
fn lesson_9_what_runs_is_charged_whatever_its_queue_does() {
    let story = halves(
        "submit mine a 1 min=60m
         submit theirs b 1 min=60m
         run 1m
         submit more a 4 min=60m
         hold more
         run 2h
         cordon n1
         run 2h
         lose n1
         run 2h
         mine runs
         theirs runs",
    );
    assert_eq!(booked(&story, "a"), booked(&story, "b"));
    assert_eq!(booked(&story, "a").0, (6 * 3_600 + 60) * 1_000 * 1_000);
}

#[test]
fn lesson_10_a_gang_is_counted_once_as_a_victim() {
    check(
        "window 24h
         budget a 50
         budget b 50
         node n1 2
         node n2 2
         node n3 2
         submit gang a 3x2 free
         run 10m
         submit one b 1 min=60m
         run 10m
         one runs
         takes 1
         gang gave-way 1 times",
    );
}

/// Two nodes full of a budget's work, each for longer than the cap.
const FULL: &str = "window 24h
    budget a 50
    budget b 50
    node n1 4
    node n2 4
    submit one b 4 min=8h lasts=30h
    submit two b 4 min=8h lasts=30h
    run 1m\n";

#[test]
fn lesson_11_a_stream_of_small_jobs_does_not_keep_a_large_one_waiting() {
    // There is never a moment at which none of them is protected.
    let small: String = (0..300)
        .map(|n| 25 + n * 7 % 11)
        .enumerate()
        .map(|(n, mins)| format!("submit s{n} b 1 min={mins}m lasts={mins}m in=main\n"))
        .collect();
    let story = |dates: &str, then: &str| {
        check(&format!(
            "window 24h
             {dates}
             budget a 50
             budget b 50
             node n1 4
             node n2 4
             node w1 2 in=west
             {small}
             run 10m
             submit gang a 2x4 min=60m lasts=60m in=main
             submit other a 2 min=60m lasts=60m in=west
             run 1m
             # Nobody else's cluster is kept waiting for it.
             other runs
             {then}"
        ))
    };
    story("", "gang has-date\nrun 8h\nrun 30m\ngang started 1 times");
    story("dates off", "run 8h\nrun 30m\ngang waits");
}

#[test]
fn lesson_14_full_nodes_are_candidates_and_the_large_job_has_a_date_and_a_reason() {
    let story = check(&format!(
        "{FULL}
         submit gang a 2x4 min=60m
         run 1m
         gang has-date
         gang waits"
    ));
    let links = scheduler_core::plan::Links::all_ready(&story.world.state);
    let rows = scheduler_core::queue::rows(&story.world.state, &links, story.world.now);
    let shown: Vec<_> = rows.iter().filter(|row| row.job == story.id("gang")).collect();
    let shown: Vec<_> = shown.iter().map(|row| (row.reason.token.as_str(), row.reason.until)).collect();
    let date = story.world.state.dates.values().next().map(|date| date.promise.at);
    assert_eq!(shown, [("waiting.protection", date)], "it is shown, with why it waits and until when");
    let mut story = story;
    story.tell("run 8h\nrun 30m\ngang runs");
}

#[test]
fn lesson_12_a_gang_that_lost_a_node_is_whole_again_before_fresh_jobs_of_its_budget() {
    check(
        "window 24h
         budget a 100
         node n1 4
         node n2 4
         submit gang a 2x4 min=60m
         run 2h
         gang runs
         submit fresh a 4 min=60m lasts=60m
         submit other a 4 min=60m lasts=60m
         submit third a 4 min=60m lasts=60m
         reboot n2
         run 10m
         gang waits
         run 2h
         gang runs
         gang started 2 times
         third waits",
    );
}

#[test]
fn lesson_13_whoever_reports_its_checkpoints_is_dearer_to_take_than_who_is_silent() {
    halves(
        "submit open b 2 min=10m every=1h saves=1h
         submit silent b 2 min=10m
         run 10h
         run 55m
         submit new a 2 min=60m
         run 5m
         silent waits
         open runs",
    );
}

#[test]
fn lesson_15_a_budget_under_its_share_gets_all_of_it_by_a_right_that_is_recorded() {
    let story = halves(
        "submit b1 b 1 min=30m
         submit b2 b 1 min=30m
         submit b3 b 1 min=30m
         submit b4 b 1 min=30m
         run 24h
         submit a1 a 1 min=30m
         submit a2 a 1 min=30m
         submit a3 a 1 min=30m
         submit a4 a 1 min=30m
         run 30h",
    );
    for take in story.starts.iter().flat_map(|start| &start.takes) {
        match take.right {
            Right::Share { mine, theirs } => {
                assert!(mine.is_below_by(&theirs, 100_000), "with the numbers as they were");
            }
            Right::Claim { at, .. } => assert!(at <= story.world.now, "its date had come"),
            other => panic!("by its share or its date, not {other:?}"),
        }
    }
    // A day after its return a has had half of the window, within the margin and a protection.
    let (a, b) = (booked(&story, "a").0, booked(&story, "b").0);
    assert!(a * 100 >= (a + b) * 38, "{a} of {}", a + b);
}

#[test]
fn lesson_16_a_cut_share_has_a_defined_end() {
    // The order changes at once; what was promised is kept, and no longer.
    halves(
        "submit old a 4 min=8h
         run 2h
         share a 5 less for a
         submit new b 4 min=60m
         run 5h
         old runs
         takes 0
         run 70m
         new runs
         old waits
         takes 1",
    );
}

#[test]
fn lesson_17_a_budget_that_has_used_its_share_up_still_runs_on_what_is_idle() {
    halves(
        "submit all a 4 min=60m lasts=20h
         run 21h
         all ended completed
         use a 166
         submit test a 1 min=2m lasts=2m
         submit free a 1 free lasts=2m
         run 5m
         test ended completed
         free ended completed",
    );
}

#[test]
fn lesson_23_a_drained_job_waits_and_runs_once_when_its_node_is_back() {
    halves(
        "submit batch a 4 min=10m saves=10m
         run 1h
         drain n1
         run 20m
         batch waits
         quiet 5h
         undrain n1
         run 5m
         batch runs
         batch started 2 times",
    );
}

#[test]
fn also_seen_whoever_left_has_nothing_set_aside() {
    let story = halves(
        "submit gone a 4 min=8h
         run 1h
         cancel gone
         run 5m
         gone ended cancelled
         submit moved a 4 min=8h
         run 1h
         drain-now n1
         run 5m
         moved waits",
    );
    assert_eq!(booked(&story, "a").1, 0, "neither of who was cancelled nor of who was told to go");
}

#[test]
fn also_seen_a_job_does_not_go_back_to_the_node_that_fails_it() {
    check(
        "budget a 100
         node n1 4
         node n2 4
         submit job a 4 min=60m fails-on=n1
         run 30m
         job runs
         job started 2 times",
    );
}

#[test]
fn also_seen_the_reason_of_a_preemption_stays_as_it_was() {
    let mut story = Story::new();
    story.tell(HALVES);
    story.tell("submit old b 4 min=60m\nrun 10h\nsubmit new a 4 min=60m\nrun 5m\nold waits");
    let reason = |story: &Story| {
        let job = scheduler_core::explain::job(
            &story.world.state,
            &scheduler_core::plan::Links::all_ready(&story.world.state),
            story.id("new"),
            story.world.now,
        );
        job.and_then(|job| job.decided).map(|decided| decided.sentence)
    };
    let before = reason(&story);
    assert!(before.is_some());
    story.tell("share a 5\nrun 1m");
    assert_eq!(reason(&story), before);
}

#[test]
fn also_seen_a_notice_ends_when_it_was_to_end_however_many_leaders_there_were() {
    halves(
        "submit old b 4 min=60m grace=120s
         run 10h
         submit new a 4 min=60m
         run 1s by=1s
         old leaves
         run 50s by=10s
         elect
         run 50s by=10s
         elect
         old leaves
         run 20s by=1s
         old waits
         new runs",
    );
}

#[test]
fn also_seen_a_node_that_is_back_is_used_at_once() {
    halves(
        "cordon n1
         submit job a 4 min=60m
         run 1h
         job waits
         uncordon n1
         run 1s
         job runs
         cancel job
         run 5m
         lose n1
         submit next a 4 min=60m
         run 1h
         next waits
         back n1
         run 1s
         next runs",
    );
}

#[test]
fn also_seen_a_gang_takes_what_it_needs_on_all_its_nodes_in_one_decision() {
    let story = check(
        "window 24h
         budget a 50
         budget b 50
         node n1 4
         node n2 4
         submit one b 4 min=60m
         submit two b 4 min=60m
         run 10h
         submit gang a 2x4 min=60m
         run 5m
         gang runs
         takes 2",
    );
    let taking = story.starts.iter().filter(|start| !start.takes.is_empty());
    assert_eq!(taking.map(|start| start.takes.len()).collect::<Vec<_>>(), [2]);
}

#[test]
fn also_seen_who_gave_way_comes_back_by_itself_under_its_number_or_has_ended_as_preempted() {
    let story = halves(
        "submit returns b 2 min=60m lasts=12h saves=30m quick
         submit never b 2 min=60m once
         run 10h
         submit new a 4 min=60m lasts=2h
         run 5m
         returns waits
         never ended preempted
         run 12h
         new ended completed
         returns ended completed
         returns started 2 times",
    );
    let returns = story.world.state.jobs.get(&story.id("returns"));
    assert!(returns.is_none_or(|job| job.next_attempt == AttemptNo::new(3)), "the same number, another run");
}

#[test]
fn also_seen_a_gpu_whose_process_cannot_be_ended_is_given_to_nobody() {
    let story = check(
        "window 24h
         budget a 50
         budget b 50
         node n1 4
         node n2 4
         submit hangs b 4 min=60m stubborn
         submit fills b 4 min=60m stubborn
         run 10h
         submit new a 4 min=60m
         run 1h
         new waits
         quiet 3h",
    );
    let state = &story.world.state;
    let cordoned = state.nodes.values().filter(|node| node.cordon.is_some()).count();
    assert!(cordoned >= 1, "its node is closed until somebody looks");
    for node in state.nodes.values().filter(|node| node.cordon.is_some()) {
        assert!(node.gpus.iter().all(|gpu| gpu.next.is_none()));
    }
}

#[test]
fn also_seen_only_one_leader_decides() {
    let mut story = Story::new();
    story.tell(HALVES);
    story.tell("elect\nsubmit job a 4 min=60m");
    let state = &story.world.state;
    let links = scheduler_core::plan::Links::all_ready(state);
    let old = scheduler_core::plan::plan(state, &links, story.world.now, crate::world::TERM);
    let adopt = scheduler_core::command::Command::Adopt(old);
    assert_eq!(story.world.refused(crate::world::REPLICA, adopt), scheduler_core::command::Code::WrongTerm);
    story.tell("run 1m\njob runs\nrun 1h");
    let first = AttemptId { job: story.id("job"), no: AttemptNo::new(1) };
    assert!(story.world.attempt(first).go_at.is_some());
    assert!(story.world.now.since(crate::world::BEGIN) >= Span::from_hours(1));
}
