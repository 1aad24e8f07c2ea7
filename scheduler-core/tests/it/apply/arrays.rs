//! Arrays: one record for many tasks, each of which runs once to its end, never too many at a time.

use std::collections::BTreeMap;

use scheduler_core::agent::{RankEvent, assignments};
use scheduler_core::array::{Indexes, JobArray};
use scheduler_core::command::{Code, Command, JobWord};
use scheduler_core::explain;
use scheduler_core::id::{AttemptId, JobId, Term};
use scheduler_core::job::{End, HeldBy, Phase};
use scheduler_core::lifecycle::{array, forget};
use scheduler_core::plan::{Links, plan};
use scheduler_core::queue;
use scheduler_core::settings::Settings;
use scheduler_core::spec::{After, Asks, Request, Wants};
use scheduler_core::unit::Span;

use crate::world::{REPLICA, World, person, request, submission};

fn of(tasks: &str) -> Request {
    let array = Some(Indexes::parse(tasks).expect("a range of tasks"));
    Request { asks: Asks { array, ..Asks::default() }, ..request(1) }
}

fn whole(world: &World, id: JobId) -> &JobArray {
    world.state.arrays.get(&id).expect("the array is in state")
}

fn word(job: JobId) -> JobWord {
    JobWord { job, reason: String::new() }
}

/// Plans, and starts what is planned; returns which tasks started.
fn plan_and_start(world: &mut World) -> Vec<JobId> {
    let planned = plan(&world.state, &Links::all_ready(&world.state), world.now, Term::new(1));
    let started: Vec<_> =
        planned.decisions.iter().map(|start| (start.job, start.attempt, start.on[0].0)).collect();
    if started.is_empty() {
        return Vec::new();
    }
    world.must(REPLICA, Command::Adopt(planned));
    for (job, no, node) in &started {
        world.report(*node, AttemptId { job: *job, no: *no }, RankEvent::Started);
    }
    started.into_iter().map(|(job, ..)| job).collect()
}

/// Ends the live attempt of a task with that code, and proves its GPU empty.
fn end(world: &mut World, job: JobId, code: u8) {
    let (id, attempt) = world.state.attempts.iter().find(|(id, _)| id.job == job).expect("it runs");
    let (id, node) = (*id, attempt.placements[0].node);
    world.exit(node, id, code);
    world.report(node, id, RankEvent::Freed);
}

fn is_replayed(world: &World) {
    assert_eq!(world.replayed().digest(), world.state.digest());
}

#[test]
fn every_index_runs_once_and_never_more_than_the_limit_at_a_time() {
    let mut world = World::new();
    world.node("n1", 8);
    let id = world.submit("bob", of("10-28:3%4"));
    assert_eq!(world.state.meta.next_job, JobId::new(id.get() + 8), "its own number and one for each task");
    let mut ran: BTreeMap<u32, u32> = BTreeMap::new();
    while !whole(&world, id).job.phase.is_ended() {
        let live = array::live(&world.state, id);
        assert!(live.len() <= 4 && (live.len() == 4 || whole(&world, id).rest() == 0));
        let started = plan_and_start(&mut world);
        for job in &started {
            *ran.entry(world.job(*job).array.expect("a task").index).or_default() += 1;
        }
        let running = *world.state.attempts.keys().next().expect("one runs at least");
        world.wait(Span::from_mins(1));
        end(&mut world, running.job, 0);
    }
    let each: Vec<(u32, u32)> = ran.into_iter().collect();
    assert_eq!(each, [10, 13, 16, 19, 22, 25, 28].map(|index| (index, 1)));
    assert_eq!(forget::result(&world.state, id).map(|(end, _)| end), Some(End::Completed));
    assert_eq!((world.state.meta.live_jobs, world.state.launches.len()), (0, 1));
    is_replayed(&world);
    world.wait(Span::from_hours(2)).submit("bob", request(1));
    assert!(world.state.arrays.is_empty() && world.state.meta.array_tasks == 0);
    assert!(
        world.state.results.contains(&id) && world.state.results.len() == 1,
        "one result, not one a task"
    );
    is_replayed(&world);
}

#[test]
fn a_task_is_told_its_place_and_is_retried_by_itself() {
    let mut world = World::new();
    let node = world.node("n1", 8);
    let id = world.submit("bob", Request { retries: 1, ..of("5,9,2%2") });
    let (first, second) = (JobArray::task_at(id, 0), JobArray::task_at(id, 1));
    assert_eq!(plan_and_start(&mut world), [first, second]);
    let told = assignments(&world.state, node)[1].array.expect("it is a task");
    assert_eq!((told.of, told.index, told.count, told.min, told.max), (id, 9, 3, 2, 9));
    assert_eq!(explain::shown(&world.state, second), format!("{id}[9]"));
    end(&mut world, second, 3);
    assert_eq!((world.job(second).retries_used, whole(&world, id).live), (1, 2), "it is tried again");
    assert_eq!(plan_and_start(&mut world), [second]);
    end(&mut world, second, 3);
    assert_eq!(whole(&world, id).ends, BTreeMap::from([(End::Failed, 1)]));
    let third = JobArray::task_at(id, 2);
    assert_eq!(plan_and_start(&mut world), [third], "the next in its place");
    end(&mut world, first, 0);
    end(&mut world, third, 0);
    assert_eq!(whole(&world, id).end(), End::Failed);
    assert_eq!(whole(&world, id).bad.iter().collect::<Vec<_>>(), [1]);
    is_replayed(&world);
}

#[test]
fn a_million_tasks_are_one_record_and_256_in_line() {
    let mut world = World::new();
    world.node("n1", 8);
    let id = world.submit("bob", of("0-999999"));
    assert_eq!((world.state.jobs.len(), world.state.line.len(), world.state.arrays.len()), (256, 256, 1));
    assert_eq!(world.state.meta.live_jobs, 257);
    plan_and_start(&mut world);
    end(&mut world, JobArray::task_at(id, 3), 0);
    assert_eq!((whole(&world, id).made, whole(&world, id).live), (257, 256));
    assert!(world.cancel("bob", id, "").is_ok());
    let running = world.state.attempts.len();
    assert_eq!(usize::try_from(whole(&world, id).live), Ok(running), "only what runs is still there");
    is_replayed(&world);
}

#[test]
fn a_cancelled_array_makes_no_more_and_ends_with_what_runs() {
    let mut world = World::new();
    world.node("n1", 1);
    let id = world.submit("bob", of("0-9%3"));
    let waiting = world.submit("bob", after(id, None, Wants::Success));
    let [first] = plan_and_start(&mut world)[..] else { panic!("one GPU, one task") };
    assert!(world.cancel("mallory", id, "").is_err());
    assert!(world.cancel("bob", JobArray::task_at(id, 8), "").is_ok(), "a task whose turn has not come");
    assert_eq!(held_by(&world, waiting), Some(HeldBy::Dependency { never: Some(id) }));
    assert!(world.cancel("bob", id, "").is_ok());
    assert_eq!((whole(&world, id).live, whole(&world, id).ends.get(&End::Cancelled)), (1, Some(&9)));
    end(&mut world, first, 0);
    assert_eq!(forget::result(&world.state, id).map(|(end, _)| end), Some(End::Cancelled));
    assert!(world.cancel("bob", id, "").is_err(), "it has ended");
    is_replayed(&world);
}

#[test]
fn a_held_array_makes_no_tasks_and_goes_on_where_it_stood() {
    let mut world = World::new();
    world.node("n1", 1);
    let id = world.submit("bob", of("0-9%3"));
    let [first] = plan_and_start(&mut world)[..] else { panic!("one GPU, one task") };
    world.must(person("bob"), Command::Hold(word(id)));
    assert!(world.state.line.is_empty());
    end(&mut world, first, 0);
    assert_eq!(whole(&world, id).live, 2, "nobody took its place");
    let why =
        explain::job(&world.state, &Links::all_ready(&world.state), id, world.now).expect("it is there");
    assert_eq!(why.stage, explain::Stage::Held);
    assert_eq!(world.refused(person("bob"), Command::Hold(word(JobArray::task_at(id, 7)))), Code::Stale);
    world.must(person("bob"), Command::Release(word(id)));
    assert_eq!((whole(&world, id).live, world.state.line.len()), (3, 3));
    assert_eq!(world.refused(person("bob"), Command::Release(word(id))), Code::Stale);
    // One task alone.
    let task = JobArray::task_at(id, 1);
    world.must(person("bob"), Command::Hold(word(task)));
    assert_eq!(world.state.line.len(), 2);
    assert_eq!(plan_and_start(&mut world), [JobArray::task_at(id, 2)]);
    world.must(person("bob"), Command::Requeue(word(id)));
    assert!(world.state.attempts.values().all(|attempt| attempt.stop.is_some()));
    assert_eq!(world.refused(person("bob"), Command::Requeue(word(id))), Code::Stale);
    is_replayed(&world);
}

fn after(job: JobId, task: Option<u32>, wants: Wants) -> Request {
    Request { asks: Asks { after: vec![After { job, task, wants }], ..Asks::default() }, ..request(1) }
}

fn held_by(world: &World, job: JobId) -> Option<HeldBy> {
    match world.phase(job) {
        Phase::Held { by, .. } => Some(by.clone()),
        Phase::Waiting { .. } | Phase::Live(_) | Phase::Ended { .. } => None,
    }
}

#[test]
fn others_wait_for_all_tasks_or_for_one_and_an_array_waits_too() {
    let mut world = World::new();
    world.node("n1", 8);
    let id = world.submit("bob", of("0-2%1"));
    let all = world.submit("bob", after(id, None, Wants::Success));
    let one = world.submit("bob", after(id, Some(1), Wants::Success));
    let mut asked = after(id, None, Wants::End);
    asked.asks.array = Some(Indexes::parse("0-1").expect("a range"));
    let next = world.submit("bob", asked);
    assert_eq!(world.refused(person("bob"), submission(after(id, Some(3), Wants::End))), Code::BadSpec);
    assert_eq!(world.refused(person("bob"), submission(after(all, Some(0), Wants::End))), Code::BadSpec);
    assert!(array::live(&world.state, next).is_empty(), "it makes nothing as long as it waits");
    for (place, code) in [(0, 0), (1, 0), (2, 7)] {
        let waits = Some(HeldBy::Dependency { never: None });
        assert_eq!(held_by(&world, all), waits);
        assert_eq!(held_by(&world, one).is_none(), place == 2, "it waits for the second task");
        plan_and_start(&mut world);
        end(&mut world, JobArray::task_at(id, place), code);
    }
    assert_eq!(held_by(&world, all), Some(HeldBy::Dependency { never: Some(id) }));
    assert_eq!(array::live(&world.state, next).len(), 2);
    is_replayed(&world);
}

#[test]
fn an_array_has_one_row_in_the_queue() {
    let mut world = World::new();
    world.node("n1", 2);
    let alone = world.submit("bob", request(1));
    let id = world.submit("bob", of("0-9%4"));
    let rows = |world: &World| {
        let rows = queue::folded(&world.state, &Links::all_ready(&world.state), world.now);
        rows.iter().map(|row| (row.job, row.place)).collect::<Vec<_>>()
    };
    assert_eq!(rows(&world), [(alone, Some(1)), (id, Some(2))]);
    plan_and_start(&mut world);
    assert_eq!(rows(&world), [(id, Some(1))]);
    let sums = explain::sums(&world.state, id, whole(&world, id), world.now);
    assert_eq!(sums.stages, BTreeMap::from([(explain::Stage::Waiting, 9), (explain::Stage::Running, 1)]));
    let why =
        explain::job(&world.state, &Links::all_ready(&world.state), id, world.now).expect("it is there");
    assert!(why.sentence.contains("1 of its 10 tasks"), "{}", why.sentence);
}

#[test]
fn arrays_are_bounded() {
    let settings = Settings { live_jobs_max: 10, array_tasks_max: 30, ..Settings::default() };
    let mut world = World::with(settings);
    assert_eq!(world.refused(person("bob"), submission(of("0-19"))), Code::Full, "20 tasks and the array");
    let id = world.submit("bob", of("0-19%4"));
    assert_eq!(world.refused(person("bob"), submission(of("0-10%2"))), Code::Full, "31 tasks");
    world.submit("bob", of("0-9%4"));
    assert_eq!(world.refused(person("bob"), submission(request(1))), Code::Full);
    assert!(world.cancel("bob", id, "").is_ok());
    world.submit("bob", request(1));
    is_replayed(&world);
}

#[test]
fn tasks_leave_state_one_by_one_and_the_array_knows_how_they_ended() {
    let settings = Settings { allow_simulated: true, keep_ended: Span::from_mins(1), ..Settings::default() };
    let mut world = World::with(settings);
    world.node("n1", 1);
    let id = world.submit("bob", of("0-2%1"));
    for (place, code) in [(0, 0), (1, 1)] {
        plan_and_start(&mut world);
        end(&mut world, JobArray::task_at(id, place), code);
        world.wait(Span::from_mins(2)).submit("bob", request(1));
    }
    let ended =
        |world: &World, place| forget::result(&world.state, JobArray::task_at(id, place)).map(|(end, _)| end);
    assert_eq!(world.state.jobs.get(&JobArray::task_at(id, 1)), None);
    assert_eq!([0, 1, 2].map(|place| ended(&world, place)), [Some(End::Completed), Some(End::Failed), None]);
    let job = world.submit("bob", after(id, Some(0), Wants::Success));
    assert_eq!(held_by(&world, job), None, "a task that left completed");
    assert!(world.state.results.is_empty());
    is_replayed(&world);
}
