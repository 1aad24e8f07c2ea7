//! Laws over random lives: trees, gangs, drains, lost nodes, edits, leaders, and jobs that end, save, hang and leave, over
//! days of virtual time, with agents that do what they are told. Each law is a test of its own name; all of them live the
//! same lives.
//!
//! `BURSAR_LIVES=1000..3000` names seeds to live instead.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;

use scheduler_core::decision::Plan;
use scheduler_core::id::AttemptId;
use scheduler_core::invariants;
use scheduler_core::job::{Stop, StopCause};
use scheduler_core::plan::{Links, plan};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use crate::random::Random;
use crate::reference::Naive;
use crate::reference::laws::check_laws;
use crate::story::{Story, is_planted};

/// Lives of CI.
const LIVES: Range<u64> = 0..24;
/// Lives in which a law was broken once.
const KEPT: &[u64] = &[3038];
const LINES: u64 = 30;
/// What a GPU counts in a pool of several clusters, in thousandths.
const WEIGHTS: &[&str] = &["", "h100:2000", "h100:350", "h100:1500"];
const SEEDS: &str = "BURSAR_LIVES";

const LIVING: &str = "a life goes on";
const AGREES: &str = "every decision is the one that the rules make";
const NEEDED: &str = "whoever gives way is needed";
const IDLE: &str = "no idle GPU is left that a waiting job could use";
const TILE: &str = "the classes tile time";
const PROTECTED: &str = "nobody who is protected gives way";
const INVARIANTS: &str = "every invariant holds";
const TWICE: &str = crate::story::TWICE;
const TURNS: &str = "nobody goes back and forth";
const REPLAY: &str = "the log alone makes the same state";
const ASIDE: &str = "what was set aside returns exactly";

fn seeds() -> Vec<u64> {
    let instead = std::env::var(SEEDS).ok().map(|text| {
        let (from, to) = text.split_once("..").expect("BURSAR_LIVES=1000..3000");
        from.parse().expect("a seed")..to.parse::<u64>().expect("a seed")
    });
    instead.map_or_else(|| KEPT.iter().copied().chain(LIVES).collect(), Iterator::collect)
}

/// A law was broken in a life.
struct Broken {
    law: &'static str,
    seed: u64,
    what: String,
}

/// What all lives together showed.
#[derive(Default)]
struct Lived {
    broken: Vec<Broken>,
    starts: usize,
    taken: usize,
    gangs: usize,
}

/// All of them are lived once, whoever asks first.
static LIVED: OnceLock<Lived> = OnceLock::new();

/// Checks that a law was kept in every life.
fn law(law: &'static str) -> &'static Lived {
    let lived = LIVED.get_or_init(|| all(law));
    let broken: Vec<String> =
        lived.broken.iter().filter(|broken| broken.law == law || broken.law == LIVING).map(shown).collect();
    assert!(broken.is_empty(), "{law}:\n{}", broken.join("\n"));
    lived
}

fn shown(broken: &Broken) -> String {
    let Broken { law, seed, what } = broken;
    format!("{law}, to be kept in KEPT: {seed}; again: {SEEDS}={seed}..{}\n{what}", seed + 1)
}

fn all(law: &'static str) -> Lived {
    let seeds = seeds();
    let (one, other) = seeds.split_at(seeds.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| some(other, law));
        let mut lived = some(one, law);
        let other = other.join().expect("a life that breaks is noted");
        lived.broken.extend(other.broken);
        lived.starts += other.starts;
        lived.taken += other.taken;
        lived.gangs += other.gangs;
        lived
    })
}

fn some(seeds: &[u64], law: &'static str) -> Lived {
    let mut lived = Lived::default();
    for seed in seeds.iter().copied() {
        // A planted mistake is found: one life is enough to see it.
        if is_planted() && lived.broken.iter().any(|broken| broken.law == law) {
            break;
        }
        let mut story = Story::new();
        let whole = caught(|| live(&mut story, &mut Random::new(seed)));
        let found = std::mem::take(&mut story.broken);
        lived.broken.extend(found.into_iter().map(|(law, what)| Broken { law, seed, what }));
        lived.broken.extend(whole.err().map(|what| Broken { law: LIVING, seed, what }));
        lived.starts += story.starts.len();
        lived.taken += story.taken().len();
        lived.gangs += story.starts.iter().filter(|start| start.on.len() > 1).count();
    }
    lived
}

/// Runs what may break; returns what it says then.
fn caught(what: impl FnOnce()) -> Result<(), String> {
    let said = |panic: Box<dyn std::any::Any + Send>| match panic.downcast::<String>() {
        Ok(said) => *said,
        Err(other) => {
            other.downcast::<&str>().map_or_else(|_| String::from("it broke"), |said| (*said).to_owned())
        }
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(what)).map_err(said)
}

/// Checks a law; each is noted once a life.
fn check(story: &mut Story, law: &'static str, check: impl FnOnce(&Story)) {
    if story.broken.iter().any(|(other, _)| *other == law) {
        return;
    }
    if let Err(what) = caught(|| check(story)) {
        story.broken.push((law, what));
    }
}

/// Looks at a plan before it is adopted.
pub fn seen(state: &State, now: Timestamp, plan: &Plan, broken: &mut Vec<(&'static str, String)>) {
    let mut check = |law: &'static str, check: &dyn Fn()| {
        if broken.iter().all(|(other, _)| *other != law)
            && let Err(what) = caught(check)
        {
            broken.push((law, what));
        }
    };
    check(AGREES, &|| drop(Naive::agrees(state, now, plan, "")));
    check(NEEDED, &|| check_laws(state, now, plan, ""));
}

/// Looks at what is so after something happened.
fn looks(story: &mut Story) {
    check(story, IDLE, no_idle_gpu);
    check(story, TILE, classes_tile);
    check(story, PROTECTED, protected);
    check(story, INVARIANTS, |story| {
        invariants::check_all(&story.world.state).unwrap_or_else(|broken| panic!("{broken}"));
    });
}

fn live(story: &mut Story, random: &mut Random) {
    story.seen = Some(seen);
    let mut tops = Vec::new();
    let mut leaves = Vec::new();
    let settings = *random.pick(&["window 24h", "window 48h", "window 24h\nmargin 5"]);
    story.tell(settings);
    let has_dates = random.one_in(2);
    if !has_dates {
        story.tell("dates off");
    }
    for top in 0..2 + random.below(2) {
        let share = 10 + random.below(23);
        story.tell(&format!("budget t{top} {share}"));
        tops.push(format!("t{top}"));
        match random.below(3) {
            0 => leaves.push(format!("t{top}")),
            _ => {
                for (leaf, share) in [(0, 20 + random.below(40)), (1, random.below(40))] {
                    story.tell(&format!("budget t{top}/l{leaf} {share}"));
                    leaves.push(format!("t{top}/l{leaf}"));
                }
            }
        }
    }
    let nodes = 2 + random.below(3);
    // Some have a pool of two clusters, and GPUs that do not count one.
    let clusters: &[&str] = if random.one_in(3) { &["main", "east"] } else { &["main"] };
    if clusters.len() > 1 {
        story.tell(&format!("pool main main,east {}", random.pick(WEIGHTS)));
    }
    for node in 0..nodes {
        let cluster = random.pick(clusters);
        story.tell(&format!("node n{node} {} in={cluster}", random.pick(&[2, 4, 4])));
    }
    let mut jobs = 0;
    for _ in 0..LINES {
        let node = random.below(nodes);
        match random.below(20) {
            0..9 => {
                for _ in 0..1 + random.below(3) {
                    submit(story, random, &format!("j{jobs}"), (&leaves, clusters));
                    jobs += 1;
                }
            }
            9..13 => story.tell(&format!("run {}m", 5 + random.below(60))),
            13 => story.tell(&format!("run {}h", 1 + random.below(9))),
            14 if jobs > 0 => {
                let job = format!("j{}", random.below(jobs));
                if !story.stands(&job).starts_with("ended") {
                    story.tell(&format!("cancel {job}"));
                }
            }
            15 => {
                let verb = random.pick(&["drain", "drain-now", "drain"]);
                story.tell(&format!("{verb} n{node}\nrun {}m\nundrain n{node}", random.below(90)));
            }
            16 => story.tell(&format!("lose n{node}\nrun {}m\nback n{node}", 1 + random.below(90))),
            17 => story.tell(&format!("reboot n{node}")),
            18 => story.tell(&format!("share {} {}", random.pick(&tops), 5 + random.below(28))),
            _ if clusters.len() > 1 && random.one_in(2) => {
                story.tell(&format!("pool main main,east {}", random.pick(WEIGHTS)));
            }
            _ => story.tell("elect"),
        }
        looks(story);
    }
    story.tell("run 3h");
    looks(story);
    check(story, TURNS, turns);
    check(story, REPLAY, Story::replay);
    finish(story);
    check(story, ASIDE, nothing_is_set_aside);
}

/// Everybody leaves.
fn finish(story: &mut Story) {
    let jobs: Vec<String> = story.jobs.keys().cloned().collect();
    for job in jobs {
        if !story.stands(&job).starts_with("ended") {
            story.tell(&format!("cancel {job}"));
        }
    }
    story.tell("run 30m");
}

fn submit(story: &mut Story, random: &mut Random, of: &str, (leaves, clusters): (&[String], &[&str])) {
    let shape = random.pick(&["1", "1", "2", "3", "4", "2x1", "2x2", "2x4", "3x2"]);
    let tier = match random.below(5) {
        0 => String::from("free"),
        _ => format!("min={}m", random.pick(&[1, 10, 30, 60, 240, 480])),
    };
    let turn = random.pick(&["", "", "first", "last"]);
    let once = random.pick(&["", "", "", "once"]);
    let saves = random.pick(&["", "", "every=30m saves=30m", "saves=20m", "every=1h"]);
    let lasts = random.pick(&["", "lasts=5m", "lasts=40m", "lasts=3h", "lasts=12h"]);
    let leaves_how = random.pick(&["", "", "", "quick", "quick", "stubborn"]);
    let leaf = random.pick(leaves);
    let cores = random.pick(&["", "", "", "cpus=4", "cpus=12", "cpus=24"]);
    let memory = random.pick(&["", "", "", "", "memory=100", "memory=200"]);
    let cluster = match random.below(4) {
        0 if clusters.len() > 1 => format!("in={}", random.pick(clusters)),
        _ => String::new(),
    };
    let how = format!("{turn} {once} {saves} {lasts} {leaves_how} {cluster}");
    let line = format!("submit {of} {leaf} {shape} {tier} {how} {cores} {memory}");
    // A shape that nothing could hold, or protection without allocation, is refused: another one then.
    if !story.try_submit(&line) {
        let line = format!("submit {of} {leaf} 1 free {lasts}");
        assert!(story.try_submit(&line), "one GPU of the free tier is never refused");
    }
}

fn no_idle_gpu(story: &Story) {
    let (state, now) = (&story.world.state, story.world.now);
    if state.meta.time < now || state.line.is_empty() {
        return;
    }
    let last = plan(state, &Links::all_ready(state), now, story.world.term);
    drop(Naive::agrees(state, now, &last, ""));
}

fn classes_tile(story: &Story) {
    let state = &story.world.state;
    let now = state.meta.time;
    for (name, pool) in state.books.pools().iter() {
        let classes: Vec<_> = pool.by_class(now).map(|(_, tally)| tally).collect();
        let time: u64 = classes.iter().map(|tally| tally.time.get()).sum();
        let gpus: u32 = classes.iter().map(|tally| tally.count.get()).sum();
        let all = pool.installed(now);
        assert_eq!((time, gpus), (all.time.get(), all.count.get()), "in {name}");
    }
}

fn protected(story: &Story) {
    for (id, attempt) in story.world.state.attempts.iter() {
        let Some(stop) = &attempt.stop else { continue };
        let promised = attempt.started_at.map(|at| at.plus(attempt.protection));
        let was_protected = attempt.tier == Tier::Funded
            && !attempt.protection.is_zero()
            && promised.is_none_or(|until| stop.at < until);
        let by_person = match &stop.cause {
            StopCause::Cancel { .. } | StopCause::Requeue { .. } | StopCause::Rank { .. } => true,
            StopCause::Drain { cuts, .. } => !cuts.is_zero() || attempt.started_at.is_none(),
            StopCause::Preempt(_) | StopCause::Unwanted => false,
        };
        assert!(!was_protected || by_person, "{id} was protected: {stop:?}");
    }
}

/// Whoever took somebody has its whole protection before it gives way to another.
fn turns(story: &Story) {
    for (id, attempt) in story.world.state.attempts.iter() {
        turn(story, *id, attempt.started_at, attempt.stop.as_ref(), attempt.protection);
    }
    // A node that failed, or a process that cannot be ended, may cost a gang its start, and all who left for it.
    let wasted = story.world.state.bills.values().filter(|bill| bill.is_wasted == Some(true));
    let takers: BTreeSet<AttemptId> = wasted.filter_map(|bill| bill.taken_for).collect();
    let stubborn = story.manners.values().filter(|manner| manner.is_stubborn).count();
    let broken = story.breaks() + stubborn;
    assert!(takers.len() <= broken, "{takers:?} took for nothing, {broken} times something broke");
}

fn turn(story: &Story, id: AttemptId, started: Option<Timestamp>, stop: Option<&Stop>, protection: Span) {
    let is_it = |start: &&scheduler_core::decision::Start| start.job == id.job && start.attempt == id.no;
    let took = story.starts.iter().find(is_it).is_some_and(|start| !start.takes.is_empty());
    let Some(stop) = stop.filter(|stop| took && matches!(stop.cause, StopCause::Preempt(_))) else { return };
    let until = started.expect("who gives way to another has started").plus(protection);
    assert!(until <= stop.at, "{id} took somebody, and gave way before its time");
}

fn nothing_is_set_aside(story: &Story) {
    let (state, now) = (&story.world.state, story.world.state.meta.time);
    for (name, pool) in state.books.pools().iter() {
        for ((budget, tier), account) in pool.accounts().iter() {
            let left = (account.set_aside(now).get(), account.rate().get());
            assert_eq!(left, (0, 0), "in {name}, budget {budget} {tier:?}");
        }
    }
}

#[test]
fn every_decision_is_the_one_that_the_rules_make() {
    let lived = law(AGREES);
    let is_enough = std::env::var_os(SEEDS).is_some() || lived.starts > 300 && lived.gangs > 30;
    assert!(is_enough, "{} start, {} gangs", lived.starts, lived.gangs);
}

#[test]
fn whoever_gives_way_is_needed_and_somebody_starts_for_it_in_the_same_plan() {
    let lived = law(NEEDED);
    assert!(std::env::var_os(SEEDS).is_some() || lived.taken > 50, "somebody gives way: {}", lived.taken);
}

#[test]
fn no_idle_gpu_is_left_that_a_waiting_job_could_use_at_any_moment() {
    law(IDLE);
}

#[test]
fn the_classes_tile_time_over_restarts_late_reports_refunds_and_edits() {
    law(TILE);
}

#[test]
fn nobody_who_is_protected_gives_way_but_to_an_operator() {
    law(PROTECTED);
}

#[test]
fn every_invariant_holds_at_every_moment() {
    law(INVARIANTS);
}

#[test]
fn planning_twice_changes_nothing() {
    law(TWICE);
}

#[test]
fn nobody_goes_back_and_forth() {
    law(TURNS);
}

#[test]
fn the_log_alone_makes_the_same_state() {
    law(REPLAY);
}

#[test]
fn what_was_set_aside_returns_exactly() {
    law(ASIDE);
}
