//! A small cluster in virtual time around dates: jobs come, run, save nothing, stop late or at once, or never by
//! themselves; the plan is made whenever a leader would make it, and every law is checked after each.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::agent::{EndedBy, RankEvent, Report};
use scheduler_core::apply::next_change;
use scheduler_core::budget::TreeNode;
use scheduler_core::command::{
    ApplyBudgets, Cancel, Command, DrainNode, JobWord, NodeWord, Outcome, SetPool,
};
use scheduler_core::date::{Date, How, What};
use scheduler_core::decision::{Plan, Right, Take};
use scheduler_core::explain::place_within;
use scheduler_core::id::{AttemptId, DecisionId, JobId, Name, NodeId};
use scheduler_core::job::Exit;
use scheduler_core::node::{Contact, Urgency};
use scheduler_core::plan::{Links, plan};
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::spec::{ContractDefaults, Request, Tier, Turn};
use scheduler_core::unit::{Bytes, GpuCount, Share, Span, Timestamp, Weight};

use crate::random::Random;
use crate::world::{REPLICA, TERM, World, label, name, person, request};

/// The longest grace of any job here.
pub const GRACE: Span = Span::from_secs(120);
/// GPUs are proven empty within this after their last process.
const CLEARED: Span = Span::from_secs(2);
/// More plans than this at one moment are a loop.
const ROUNDS_MAX: u32 = 40;

pub struct Court {
    pub world: World,
    pub random: Random,
    pub nodes: Vec<NodeId>,
    pub leaves: Vec<String>,
    pub what: String,
    /// Whether nodes fail, are cordoned and drained.
    pub is_rough: bool,
    due: BTreeMap<(Timestamp, u64), Due>,
    count: u64,
    handled: BTreeSet<(AttemptId, u8)>,
    dates: BTreeMap<(JobId, Name, DecisionId), Seen>,
    firsts: BTreeMap<JobId, Bound>,
    pub tally: Tally,
}

/// What happened, to see that enough did.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub dates: u32,
    pub claims: u32,
    pub moves: u32,
    pub drops: u32,
    pub starts: u32,
    pub firsts: u32,
    pub backfills: u32,
    pub chained: u32,
    pub by_lane: u32,
}

#[derive(Debug, Clone)]
struct Seen {
    at: Timestamp,
    until: Timestamp,
    moved: u32,
    nodes: Vec<NodeId>,
}

#[derive(Debug, Clone, Copy)]
struct Bound {
    since: Timestamp,
    go_by: Timestamp,
}

#[derive(Debug, Clone, Copy)]
enum Due {
    Say(AttemptId, Event),
    Arrival,
    Person,
    Back(NodeId),
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Ready,
    Started,
    Ends,
    Leaves,
    Freed,
}

fn settings(recheck: Span) -> Settings {
    Settings { allow_simulated: true, recheck, ..Settings::default() }
}

impl Court {
    pub fn new(seed: u64, is_rough: bool, short_lane_ppm: u32) -> Self {
        let mut random = Random::new(seed);
        let settings = Settings { short_lane_ppm, ..settings(Span::from_mins(15)) };
        let mut world = World::with(settings);
        let leaves = tree(&mut world, &mut random);
        let gpus = *random.pick(&[2, 4, 8]);
        let count = 1 + random.below(4);
        // Some pools have two clusters.
        let clusters: &[&str] = if random.one_in(3) { &["main", "east"] } else { &["main"] };
        if clusters.len() > 1 {
            let weights = match random.below(2) {
                0 => vec![(label("h100"), Weight::from_milli(1_500).expect("a weight"))],
                _ => Vec::new(),
            };
            let clusters = clusters.iter().map(|cluster| name(cluster)).collect();
            world.must(person("ada"), Command::SetPool(SetPool { pool: name("main"), clusters, weights }));
        }
        let cluster = |at: u64| clusters[usize::from(at % 2 == 1 && clusters.len() > 1)];
        let nodes = (0..count).map(|at| world.node_in(cluster(at), &format!("n{at}"), gpus)).collect();
        let what = format!("seed {seed}, {count} nodes of {gpus} GPUs in {clusters:?}");
        let mut court = Self {
            world,
            random,
            nodes,
            leaves,
            what,
            is_rough,
            due: BTreeMap::new(),
            count: 0,
            handled: BTreeSet::new(),
            dates: BTreeMap::new(),
            firsts: BTreeMap::new(),
            tally: Tally::default(),
        };
        court.later(Span::ZERO, Due::Arrival);
        court.later(Span::from_mins(30), Due::Person);
        court
    }

    fn later(&mut self, span: Span, due: Due) {
        self.count += 1;
        self.due.insert((self.world.now.plus(span), self.count), due);
    }

    /// Lets time pass until then.
    pub fn until(&mut self, end: Timestamp) {
        loop {
            let now = self.world.now;
            let next = self.due.keys().next().map(|(at, _)| *at);
            let next = [next, self.next_look()].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.world.now = at.max(now);
            self.world.must(REPLICA, Command::Batch(Vec::new()));
            while let Some(key) = self.due.keys().next().copied().filter(|(at, _)| *at <= self.world.now) {
                let due = self.due.remove(&key).expect("it was just there");
                self.happen(due);
            }
            self.plan();
        }
        self.world.now = end;
    }

    /// When a leader would plan by time alone.
    fn next_look(&self) -> Option<Timestamp> {
        let (state, now) = (&self.world.state, self.world.now);
        if state.line.is_empty() {
            return next_change(state).filter(|at| now < *at);
        }
        let ends = state.attempts.values().filter_map(|attempt| attempt.protected_until());
        let dates = state.dates.values().map(|date| date.promise.at);
        let recheck = now.plus(state.meta.settings.recheck);
        let later = ends.chain(dates).chain(next_change(state)).filter(|at| now < *at);
        later.chain([recheck]).min()
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Say(id, event) => self.say(id, event),
            Due::Arrival => self.arrival(),
            Due::Person => self.person(),
            Due::Back(node) => self.back(node),
        }
    }

    fn say(&mut self, id: AttemptId, event: Event) {
        let Some(attempt) = self.world.state.attempts.get(&id).cloned() else { return };
        let event = match event {
            Event::Ready => RankEvent::Ready,
            Event::Started if attempt.stop.is_some() => return,
            Event::Started => RankEvent::Started,
            Event::Ends if attempt.stop.is_some() => return,
            Event::Ends => exited(EndedBy::Itself),
            Event::Leaves => exited(EndedBy::Notice),
            Event::Freed => RankEvent::Freed,
        };
        for placement in &attempt.placements {
            let (rank, at) = (placement.rank, self.world.now);
            let reports = vec![Report { attempt: id, rank, at, event: event.clone() }];
            let node = placement.node;
            self.world.must(Actor::Agent(node), Command::Reports { node, reports });
        }
    }

    fn arrival(&mut self) {
        let waiting = self.world.state.line.len();
        for _ in 0..=self.random.below(3) {
            if waiting < 14 {
                self.submit();
            }
        }
        let most = *self.random.pick(&[600, 3_600, 10_000]);
        let later = Span::from_secs(self.random.below(most));
        self.later(later, Due::Arrival);
    }

    fn submit(&mut self) {
        let gpus = self.world.state.nodes.values().next().expect("there is a node").gpus.len();
        let gpus = u64::try_from(gpus).expect("few GPUs");
        // A gang is in one cluster, the one with the most nodes at most.
        let of_first = |node: &&scheduler_core::node::Node| node.cluster == name("main");
        let nodes = self.world.state.nodes.values().filter(of_first).count();
        let has_more = nodes < self.nodes.len();
        let nodes = u64::try_from(nodes).expect("few nodes");
        let mut asked = request(u32::try_from(1 + self.random.below(gpus)).expect("few GPUs"));
        if nodes > 1 && self.random.one_in(3) {
            asked.shape.nodes = u32::try_from(2 + self.random.below(nodes - 1)).expect("few nodes");
            asked.shape.gpus_per_node =
                GpuCount::new(u32::try_from(*self.random.pick(&[gpus, gpus, 1])).expect("few"));
        }
        if has_more && asked.shape.nodes == 1 && self.random.one_in(4) {
            let cluster = *self.random.pick(&["main", "east"]);
            asked.cluster = Some(name(cluster));
        }
        let mins = *self.random.pick(&[0, 1, 10, 60, 240, 480, 480]);
        // Up to all of a node, whatever the job's GPUs.
        let most = u32::try_from(gpus).expect("few GPUs");
        let mut part = |gpus: u64| self.random.one_in(5).then(|| 1 + self.random.below(gpus));
        asked.shape.cpus = part(8 * u64::from(most)).map(|cores| u32::try_from(cores).expect("few cores"));
        asked.shape.memory = part(64 * u64::from(most)).map(|gib| Bytes::new(gib << 30));
        asked.budget.clone_from(self.random.pick(&self.leaves));
        asked.min_runtime = Some(Span::from_mins(mins));
        if self.world.state.meta.settings.short_lane_ppm > 0 && self.random.one_in(2) {
            asked.min_runtime = Some(Span::from_mins(1 + mins % 15));
            asked.time_limit = Some(Span::from_mins(30));
        }
        asked.resumable = Some(!self.random.one_in(5));
        asked.grace = Some(Span::from_secs(self.random.below(121)));
        asked.turn = *self.random.pick(&[None, None, None, Some(Turn::First), Some(Turn::Last)]);
        self.world.submit("ada", Request { retries: 1, ..asked });
    }

    fn person(&mut self) {
        let waiting: Vec<JobId> = self.world.state.line.keys().map(|place| place.job).collect();
        match self.random.below(if self.is_rough { 8 } else { 2 }) {
            0 if !waiting.is_empty() => {
                let job = *self.random.pick(&waiting);
                let word = match self.random.below(2) {
                    0 => Command::Cancel(Cancel { job, is_now: false, reason: why() }),
                    _ => Command::Hold(JobWord { job, reason: why() }),
                };
                let _ = self.world.apply(person("ada"), word);
            }
            0 | 1 => {}
            _ => self.fault(),
        }
        let later = Span::from_mins(20 + self.random.below(400));
        self.later(later, Due::Person);
    }

    fn fault(&mut self) {
        let node = *self.random.pick(&self.nodes);
        let word = NodeWord { node, reason: why() };
        match self.random.below(4) {
            0 => drop(self.world.apply(person("ada"), Command::Cordon(word))),
            1 => drop(self.world.apply(REPLICA, Command::NodeUnreachable { node })),
            _ => {
                let later = Span::from_mins(self.random.below(600));
                let begins_at = self.random.one_in(2).then(|| self.world.now.plus(later));
                let order = DrainNode { node, urgency: Urgency::Normal, begins_at, reason: why() };
                drop(self.world.apply(person("ada"), Command::Drain(order)));
            }
        }
        let later = Span::from_mins(10 + self.random.below(900));
        self.later(later, Due::Back(node));
    }

    fn back(&mut self, node: NodeId) {
        let word = || NodeWord { node, reason: why() };
        let record = self.world.state.nodes.get(&node).expect("it is known").clone();
        if record.cordon.is_some() {
            drop(self.world.apply(person("ada"), Command::Uncordon(word())));
        }
        if record.drain.is_some() {
            drop(self.world.apply(person("ada"), Command::Undrain(word())));
        }
        if let Contact::Unreachable { .. } = record.contact {
            drop(self.world.apply(REPLICA, Command::NodeBack { node }));
        }
    }

    /// Plans until nothing comes of it; what the machines do about it is to come.
    fn plan(&mut self) {
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "{}: plans without end", self.what);
            self.react();
            let links = Links::all_ready(&self.world.state);
            let made = plan(&self.world.state, &links, self.world.now, TERM);
            if made.is_empty() {
                break;
            }
            self.adopt(&made);
        }
        self.check();
    }

    fn adopt(&mut self, made: &Plan) {
        for start in &made.decisions {
            let dated = self.world.state.dates.keys().any(|(job, _)| *job == start.job);
            self.note_backfill(start);
            self.tally.starts += 1;
            self.tally.claims += u32::from(dated && !start.takes.is_empty());
            let by_lane = |take: &Take| matches!(take.right, Right::Lane { .. });
            self.tally.by_lane += u32::from(start.takes.iter().any(by_lane));
        }
        match self.world.must(REPLICA, Command::Adopt(made.clone())) {
            Outcome::Adopted { dropped, .. } => {
                assert!(dropped.is_empty(), "{}: nothing intervened: {dropped:?} of {made:?}", self.what);
            }
            other => panic!("a plan is answered with what was adopted, not {other:?}"),
        }
    }

    fn note_backfill(&mut self, start: &scheduler_core::decision::Start) {
        let is_on = |(job, date): (&JobId, &Date)| {
            *job != start.job
                && start.on.iter().any(|(node, slots)| {
                    let reserved = date.promise.slots_on(*node).unwrap_or_default();
                    slots.iter().any(|slot| reserved.contains(slot))
                })
        };
        let dates = self.world.state.dates.iter();
        self.tally.backfills += u32::from(dates.map(|((job, _), date)| (job, date)).any(is_on));
    }

    /// The machines do what they were told, sooner or later.
    fn react(&mut self) {
        let attempts: Vec<AttemptId> = self.world.state.attempts.keys().copied().collect();
        for id in attempts {
            let attempt = self.world.state.attempts.get(&id).expect("it was just listed").clone();
            let holds = |node: NodeId, slots: &[scheduler_core::id::Slot]| {
                let gpus = &self.world.state.nodes.get(&node).expect("a known node").gpus;
                slots.iter().all(|slot| gpus[usize::from(slot.get())].holder == Some(id))
            };
            let has_all = attempt.placements.iter().all(|p| holds(p.node, &p.slots));
            let now = self.world.now;
            if attempt.ended.is_some() {
                let soon = Span::from_secs(self.random.below(2));
                self.once(id, 4, soon, Event::Freed);
            } else if let Some(stop) = &attempt.stop {
                let grace = stop.killed_at().since(now).as_millis();
                let soon = if self.random.one_in(2) { grace } else { self.random.below(grace + 1) };
                self.once(id, 3, Span::from_millis(soon), Event::Leaves);
            } else if attempt.go_at.is_none() && has_all && attempt.placements.len() > 1 {
                self.once(id, 0, Span::ZERO, Event::Ready);
            } else if attempt.go_at.is_some() && attempt.started_at.is_none() {
                let left = attempt.start_by.since(now).as_millis();
                let soon = *self.random.pick(&[0, 0, left, left / 2]);
                self.once(id, 1, Span::from_millis(soon), Event::Started);
            } else if attempt.started_at.is_some() {
                let lasts = *self.random.pick(&[60, 600, 7_200, 30_000, 90_000, 1_000_000]);
                let limit = self.world.job(id.job).terms.time_limit.unwrap_or(Span::MAX);
                let lasts = Span::from_secs(self.random.below(lasts)).min(limit);
                self.once(id, 2, lasts, Event::Ends);
            }
        }
    }

    fn once(&mut self, id: AttemptId, phase: u8, later: Span, event: Event) {
        if self.handled.insert((id, phase)) {
            self.later(later, Due::Say(id, event));
        }
    }

    fn check(&mut self) {
        self.check_dates();
        self.check_starts();
        self.check_first();
    }

    /// A date is never later than it was, but for a node.
    fn check_dates(&mut self) {
        let state = &self.world.state;
        let mut seen = BTreeMap::new();
        for ((job, pool), date) in state.dates.iter() {
            let key = (*job, pool.clone(), date.decision);
            let promise = &date.promise;
            match self.dates.get(&key) {
                None => {
                    self.tally.dates += 1;
                    let settings = &state.meta.settings;
                    let earlier = self.before(*job, date);
                    let from = earlier.map_or(date.issued_at, |until| until.max(date.issued_at));
                    let most = from.plus(settings.cap).plus(settings.start_limit).plus(GRACE);
                    assert!(
                        promise.at <= most || self.is_rough,
                        "{}: {job} has the date {date:?}",
                        self.what
                    );
                    self.tally.chained += u32::from(
                        date.issued_at.plus(settings.cap.plus(settings.start_limit).plus(GRACE)) < promise.at,
                    );
                }
                Some(was) => {
                    let is_later = was.at < promise.at;
                    assert!(!is_later || was.moved < date.moved, "{}: {job} moved for nothing", self.what);
                    if was.moved < date.moved {
                        assert!(self.is_rough, "{}: {job} moved and no node failed", self.what);
                        let trouble = date.moves.last().expect("it moved").trouble;
                        let is_own =
                            was.nodes.contains(&trouble.node) || trouble.what == What::HolderUnreachable;
                        assert!(is_own, "{}: {job} moved by another's node", self.what);
                        self.tally.moves += 1;
                    }
                }
            }
            let nodes = promise.on.iter().map(|(node, _)| *node).collect();
            seen.insert(key, Seen { at: promise.at, until: promise.until, moved: date.moved, nodes });
        }
        for ((job, pool, decision), was) in &self.dates {
            let is_there = seen.contains_key(&(*job, pool.clone(), *decision));
            let waits = state.jobs.get(job).is_some_and(|job| job.phase.is_waiting());
            if !is_there && waits {
                let started = state.jobs.get(job).expect("it waits").next_attempt.get() > 1;
                assert!(self.is_rough || started, "{}: the date {was:?} of {job} is gone", self.what);
                self.tally.drops += 1;
            }
            // It starts at its date at the latest, give or take what those take who leave for it.
            let is_late = is_there && waits && was.at < self.world.now;
            assert!(
                !is_late || self.is_rough,
                "{}: {job} waits at {:?} with the date {was:?}",
                self.what,
                self.world.now
            );
        }
        self.dates = seen;
    }

    /// When the jobs of earlier dates on the same nodes are past their protection: they may have GPUs that it needs, or
    /// the cores and memory there.
    fn before(&self, job: JobId, date: &Date) -> Option<Timestamp> {
        let of_others = self.world.state.dates.iter().filter(|((of, _), _)| *of != job);
        let now = of_others.map(|(_, other)| other).filter(|other| other.decision < date.decision);
        let now =
            now.map(|other| (other.promise.until, other.promise.on.iter().map(|(node, _)| *node).collect()));
        let then = self.dates.values().map(|seen| (seen.until, seen.nodes.clone()));
        let is_near = |(_, nodes): &(Timestamp, Vec<NodeId>)| {
            nodes.iter().any(|node| date.promise.slots_on(*node).is_some())
        };
        // Those whose jobs started since too.
        let awaited = date.promise.awaits.iter().filter(|one| one.how == How::EarlierDate);
        let awaited = awaited.map(|one| one.free_at);
        now.chain(then).filter(is_near).map(|(until, _)| until).chain(awaited).max()
    }

    /// Whoever was first goes within the bound.
    fn check_starts(&mut self) {
        let (state, now) = (&self.world.state, self.world.now);
        let mut over = Vec::new();
        for (job, bound) in &self.firsts {
            let Some(record) = state.jobs.get(job) else { continue };
            let attempt = match record.phase {
                scheduler_core::job::Phase::Live(no) => state.attempts.get(&AttemptId { job: *job, no }),
                _ => None,
            };
            let went = attempt.and_then(|attempt| attempt.go_at);
            let is_waiting = record.phase.is_waiting() || attempt.is_some() && went.is_none();
            let at = went.unwrap_or(now);
            if (went.is_some() || is_waiting) && !self.is_rough {
                let waited = at.since(bound.since);
                assert!(
                    at <= bound.go_by,
                    "{}: {job} was first for {waited}, since {bound:?}: {record:?}, {attempt:?}, {:?}",
                    self.what,
                    self.dates
                );
            }
            if went.is_some() || !is_waiting {
                over.push(*job);
            }
        }
        for job in over {
            self.firsts.remove(&job);
        }
    }

    /// Whoever is first in order and waits has a date, within the bound.
    fn check_first(&mut self) {
        let (state, now) = (&self.world.state, self.world.now);
        let funded = state.line.keys().filter(|place| place.tier == Tier::Funded);
        let first = funded.map(|place| place.job).find(|job| place_within(state, *job, now, 0).is_some());
        let Some(first) = first else { return };
        let pool = name("main");
        let date = state.dates.get(&(first, pool));
        let shape = &self.world.job(first).terms.shape;
        assert!(
            date.is_some() || self.is_rough,
            "{}: {first}, {shape:?}, is first at {now:?} and has no date: {:?}",
            self.what,
            state.dates
        );
        let Some(date) = date else { return };
        // What a claim takes leaves within its grace.
        let go_by = date.promise.at.max(now).plus(GRACE).plus(CLEARED);
        self.tally.firsts += u32::from(!self.firsts.contains_key(&first));
        self.firsts.entry(first).or_insert(Bound { since: now, go_by });
    }
}

fn why() -> String {
    String::from("it has to be")
}

fn exited(by: EndedBy) -> RankEvent {
    RankEvent::Exited { exit: Exit::Code(0), by, saved_at: None }
}

/// A random tree of up to six leaves.
fn tree(world: &mut World, random: &mut Random) -> Vec<String> {
    let node = |text: String, percent: u64| TreeNode {
        name: name(&text),
        share: Share::from_ppm(u32::try_from(percent).expect("small") * 10_000).expect("at most the whole"),
        owner: None,
        members: [name("bob"), name("ada")].into(),
        defaults: ContractDefaults::default(),
        pools: Default::default(),
        children: Vec::new(),
    };
    let (mut leaves, mut tops) = (Vec::new(), Vec::new());
    for at in 0..1 + random.below(3) {
        let share = *random.pick(&[2, 10, 30]);
        let mut top = node(format!("t{at}"), share);
        for leaf in 0..random.below(3) {
            let share = *random.pick(&[5, 20, 45]);
            top.children.push(node(format!("l{leaf}"), share));
            leaves.push(format!("t{at}/l{leaf}"));
        }
        if top.children.is_empty() {
            leaves.push(format!("t{at}"));
        }
        tops.push(top);
    }
    let root = TreeNode { owner: Some(name("ada")), children: tops, ..node(String::from("lab"), 100) };
    let edit = ApplyBudgets { root, base: world.state.meta.tree, at: None, reason: why() };
    world.must(person("ada"), Command::ApplyBudgets(edit));
    leaves
}
