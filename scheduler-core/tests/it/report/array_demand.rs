//! Demand of arrays: an array wants what its tasks would want, had each been submitted alone, whichever of them are made.

use scheduler_core::agent::RankEvent;
use scheduler_core::array::{Indexes, JobArray};
use scheduler_core::budget::find;
use scheduler_core::command::{Command, JobWord};
use scheduler_core::id::{AttemptId, JobId, NodeId};
use scheduler_core::job::Phase;
use scheduler_core::report::hours;
use scheduler_core::spec::{Asks, Request};
use scheduler_core::unit::Span;

use crate::random::Random;
use crate::world::{BEGIN, World, name, person, request};

/// More than are ever in line at once.
const TASKS: u32 = 260;

fn array(budget: &str, tasks: &str) -> Request {
    let array = Some(Indexes::parse(tasks).expect("a range of tasks"));
    Request { budget: budget.to_owned(), asks: Asks { array, ..Asks::default() }, ..request(1) }
}

/// The GPUs that a budget has or wants now, as booked.
fn wants(world: &World, path: &str) -> u64 {
    let budget = find(&world.state, path).expect("a known budget");
    let books = world.state.books.pools().get(&name("main"));
    books.and_then(|books| books.demand_curves().get(&budget)).map_or(0, |curve| curve.rate())
}

/// The same work twice: an array, and as many jobs.
struct Twins {
    world: World,
    node: NodeId,
    array: JobId,
    jobs: Vec<JobId>,
    running: Vec<(u32, [AttemptId; 2])>,
    free: Vec<u16>,
}

impl Twins {
    fn new() -> Self {
        let mut world = World::undated();
        let node = world.node("n1", 8);
        let array = world.submit("bob", array("lang/pre", &format!("0-{}", TASKS - 1)));
        let alone = Request { budget: String::from("lang/post"), ..request(1) };
        let jobs = (0..TASKS).map(|_| world.submit("bob", alone.clone())).collect();
        Self { world, node, array, jobs, running: Vec::new(), free: vec![0, 2, 4, 6] }
    }

    /// The task at a place, and the job that stands for it.
    fn pair(&self, place: u32) -> [JobId; 2] {
        let at = usize::try_from(place).expect("few tasks");
        [JobArray::task_at(self.array, place), self.jobs[at]]
    }

    fn step(&mut self, random: &mut Random) {
        self.world.wait(Span::from_mins(1 + random.below(20)));
        match random.below(4) {
            0 => {
                let place = u32::try_from(random.below(TASKS.into())).expect("few tasks");
                let is_waiting = self.world.state.jobs.get(&self.pair(place)[1]);
                if is_waiting.is_some_and(|job| job.phase.is_waiting()) {
                    for job in self.pair(place) {
                        self.world.cancel("bob", job, "").expect("it waits");
                    }
                }
            }
            1 | 2 => self.start(),
            _ => self.end(random),
        }
    }

    fn start(&mut self) {
        let waits = |job: &JobId| self.world.state.jobs.get(job).is_some_and(|job| job.phase.is_waiting());
        let place = (0..TASKS).find(|place| self.pair(*place).iter().all(waits));
        let Some((place, slot)) = place.zip(self.free.pop()) else { return };
        let [task, job] = self.pair(place);
        let both = [(task, slot), (job, slot + 1)].map(|(job, slot)| {
            let attempt = self.world.place(job, self.node, &[slot]);
            self.world.report(self.node, attempt, RankEvent::Started);
            attempt
        });
        self.running.push((slot.into(), both));
    }

    fn end(&mut self, random: &mut Random) {
        if self.running.is_empty() {
            return;
        }
        let at = random.below(self.running.len() as u64);
        let (slot, both) = self.running.remove(usize::try_from(at).expect("few run"));
        let code = *random.pick(&[0, 1]);
        for attempt in both {
            self.world.exit(self.node, attempt, code);
            self.world.report(self.node, attempt, RankEvent::Freed);
        }
        self.free.push(u16::try_from(slot).expect("a slot"));
    }

    /// A word about the whole array, and about each job that waits, or is held.
    fn say(&mut self, word: fn(JobWord) -> Command) {
        let jobs = self.jobs.clone().into_iter().filter(|job| {
            let record = self.world.state.jobs.get(job);
            record.is_some_and(|job| matches!(job.phase, Phase::Waiting { .. } | Phase::Held { .. }))
        });
        for job in [self.array].into_iter().chain(jobs.collect::<Vec<_>>()) {
            self.world.must(person("bob"), word(JobWord { job, reason: String::new() }));
        }
    }

    fn check(&self, what: &str) {
        assert_eq!(wants(&self.world, "lang/pre"), wants(&self.world, "lang/post"), "{what}");
    }
}

#[test]
fn an_array_wants_what_as_many_jobs_would() {
    for seed in 0..3 {
        let random = &mut Random::new(seed);
        let mut twins = Twins::new();
        twins.check("at first");
        assert_eq!(wants(&twins.world, "lang/pre"), u64::from(TASKS));
        for step in 0..40 {
            twins.step(random);
            twins.check(&format!("seed {seed}, step {step}"));
        }
        let array = twins.world.state.arrays.get(&twins.array).expect("it is there");
        assert!(array.made > 256, "tasks were made as others ended: {}", array.made);
        if seed == 0 {
            twins.say(Command::Hold);
            twins.check("held");
            assert_eq!(wants(&twins.world, "lang/pre"), twins.running.len() as u64, "those that run go on");
            twins.step(random);
            twins.say(Command::Release);
            twins.check("released");
        }
        let world = &twins.world;
        let of = |path: &str| {
            let budget = find(&world.state, path).expect("a known budget");
            hours(&world.state, &name("main"), budget, (BEGIN, world.now))
        };
        for (one, other) in of("lang/pre").iter().zip(&of("lang/post")) {
            assert_eq!(one.demand, other.demand, "seed {seed}, the hour from {:?}", one.from);
        }
        assert_eq!(world.replayed().digest(), world.state.digest());
    }
}

#[test]
fn an_array_with_a_limit_wants_no_more_than_that_at_once() {
    let mut world = World::undated();
    // Nobody knows where it could run yet: it wants GPUs from the moment on at which there are some.
    let few = world.submit("bob", array("lang/pre", "0-9%4"));
    let many = world.submit("bob", array("lang/post", "0-999%300"));
    let free = Request { min_runtime: Some(Span::ZERO), ..array("lang/post", "0-999") };
    world.submit("bob", free);
    assert_eq!((wants(&world, "lang/pre"), wants(&world, "lang/post")), (0, 0));
    world.node("n1", 8);
    assert_eq!((wants(&world, "lang/pre"), wants(&world, "lang/post")), (4, 300));
    assert_eq!(wants(&world, "lang"), 304);
    for place in 0..8 {
        world.cancel("bob", JobArray::task_at(few, place), "").expect("it waits");
    }
    assert_eq!(wants(&world, "lang/pre"), 2, "two are left");
    world.cancel("bob", many, "").expect("it waits");
    assert_eq!((wants(&world, "lang/post"), wants(&world, "lang")), (0, 2));
    assert_eq!(world.replayed().digest(), world.state.digest());
}
