//! The replicated state alone: how fast entries take effect, what a frozen view costs, snapshots, memory.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use scheduler_core::apply::apply;
use scheduler_core::command::{Answer, Blob, Command, Entry, IssueJoinToken, Outcome, Saved, Submit};
use scheduler_core::id::{AttemptId, LogIndex, NodeId, SpecHash};
use scheduler_core::plan::{Links, plan};
use scheduler_core::principal::Actor;
use scheduler_core::report::footprint;
use scheduler_core::settings::Settings;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use super::memory::resident_mib;
use super::rows::{Figures, quantile, rate};

use crate::world::{BEGIN, REPLICA, TERM, facts, found, join, name, person, principal, request, token, tree};

const NODES: u32 = 128;
const GPUS: u32 = 8;
const WAITING: usize = 100_000;
/// Bytes of what a node reads of one job, each its own: arguments and environment of a usual job.
const SPEC: usize = 1_024;
/// The most facts that a leader puts in one entry.
const BATCH: usize = 512;

/// Measures everything; `rounds` of what is measured one by one.
///
/// # Errors
/// When something is refused that should not be, or a snapshot does not come back.
pub fn state(figures: &mut Figures, rounds: usize) -> Result<()> {
    let mut bench = Bench { state: State::default(), now: BEGIN, index: 0 };
    bench.found()?;
    let own = i32::try_from(std::process::id()).context("a process id")?;
    let before = resident_mib(own)?;
    let begun = Instant::now();
    bench.submit(WAITING)?;
    figures.add("submissions applied", rate(WAITING, begun.elapsed()), "1/s");
    let waiting = resident_mib(own)? - before;
    figures.at_most(
        format!("resident, state with {WAITING} waiting jobs, {SPEC} bytes of spec each"),
        waiting,
        "MiB",
        400.0,
    );
    let bytes: usize = footprint(&bench.state).iter().map(|part| part.bytes).sum();
    figures.add("the same, bytes of its records", mib(bytes), "MiB");
    bench.run()?;
    let running = bench.state.attempts.len();
    ensure!(running == usize::try_from(NODES * GPUS).unwrap_or(0), "{running} attempts run");
    clones(figures, &bench.state, rounds);
    bench.statuses(figures, rounds)?;
    bench.snapshots(figures)
}

struct Bench {
    state: State,
    now: Timestamp,
    index: u64,
}

impl Bench {
    fn apply(&mut self, actor: Actor, command: Command) -> Answer {
        self.entry(&Entry { time: self.now, actor, request: None, via: None, command })
    }

    fn entry(&mut self, entry: &Entry) -> Answer {
        self.index += 1;
        apply(&mut self.state, LogIndex::new(self.index), TERM, entry)
    }

    fn found(&mut self) -> Result<()> {
        let settings = Settings { allow_simulated: true, ..Settings::default() };
        self.apply(REPLICA, Command::Found(found(settings)))?;
        for who in ["bob", "eve"] {
            self.apply(person("ada"), Command::AddPrincipal(principal(who)))?;
        }
        let (root, base) = (tree(), self.state.meta.tree);
        let reason = String::from("the first tree");
        let budgets = scheduler_core::command::ApplyBudgets { root, base, reason, at: None };
        self.apply(person("ada"), Command::ApplyBudgets(budgets))?;
        for n in 0..NODES {
            let text = format!("n{n}");
            let permission = IssueJoinToken {
                name: name(&text),
                pool: name("main"),
                token: token(&text),
                expires_at: self.now.plus(Span::from_hours(1)),
                topology: Vec::new(),
            };
            self.apply(person("ada"), Command::IssueJoinToken(permission))?;
            let Outcome::Joined { node } = self.apply(REPLICA, Command::Join(join(&text)))? else {
                anyhow::bail!("a join is answered with the node's number");
            };
            let facts = facts(&text, "boot-1", GPUS);
            self.apply(Actor::Agent(node), Command::NodeFacts { node, facts })?;
        }
        Ok(())
    }

    /// Jobs of one GPU, each with a spec of its own.
    fn submit(&mut self, count: usize) -> Result<()> {
        for n in 0..count {
            let mut asked = request(1);
            asked.budget = String::from(["lang/post", "lang/pre"][n % 2]);
            let mut bytes = vec![7_u8; SPEC];
            bytes[..8].copy_from_slice(&self.index.to_le_bytes());
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&self.index.to_le_bytes());
            let launch = Blob { hash: SpecHash::new(hash), bytes: bytes.into() };
            self.now = self.now.plus(Span::from_millis(1));
            self.apply(person("bob"), Command::Submit(Submit { request: asked, launch }))?;
        }
        Ok(())
    }

    /// Fills the cluster: every GPU has a started attempt.
    fn run(&mut self) -> Result<()> {
        loop {
            let plan = plan(&self.state, &Links::all_ready(&self.state), self.now, TERM);
            if plan.decisions.is_empty() {
                break;
            }
            self.apply(REPLICA, Command::Adopt(plan))?;
        }
        let started = self.reports(scheduler_core::agent::RankEvent::Started);
        for (actor, command) in started {
            self.apply(actor, command)?;
        }
        Ok(())
    }

    fn running(&self) -> Vec<(NodeId, AttemptId)> {
        self.state.attempts.iter().map(|(id, attempt)| (attempt.placements[0].node, *id)).collect()
    }

    fn reports(&self, event: scheduler_core::agent::RankEvent) -> Vec<(Actor, Command)> {
        let report = |(node, attempt)| {
            let rank = scheduler_core::id::Rank::new(0);
            let report = scheduler_core::agent::Report { attempt, rank, at: self.now, event: event.clone() };
            (Actor::Agent(node), Command::Reports { node, reports: vec![report] })
        };
        self.running().into_iter().map(report).collect()
    }

    /// What agents say all the time: checkpoints, one an entry, and as leaders put them together.
    fn statuses(&mut self, figures: &mut Figures, rounds: usize) -> Result<()> {
        let running = self.running();
        let saved = |at: Timestamp, (node, attempt): (NodeId, AttemptId)| {
            let saves = vec![Saved { attempt, saved_at: Some(at), signed_at: None }];
            (Actor::Agent(node), Command::Saves { node, saves })
        };
        let mut single: Vec<Entry> = Vec::new();
        for _ in 0..rounds {
            for one in &running {
                self.now = self.now.plus(Span::from_millis(1));
                let (actor, command) = saved(self.now, *one);
                single.push(Entry { time: self.now, actor, request: None, via: None, command });
            }
        }
        let begun = Instant::now();
        for entry in &single {
            self.entry(entry)?;
        }
        // Leaders put them together in the log.
        figures.add("status entries applied, one fact each", rate(single.len(), begun.elapsed()), "1/s");
        let mut batches: Vec<Entry> = Vec::new();
        for _ in 0..rounds {
            for part in running.chunks(BATCH) {
                self.now = self.now.plus(Span::from_millis(50));
                let items = part.iter().map(|one| saved(self.now, *one)).collect();
                let command = Command::Batch(items);
                batches.push(Entry { time: self.now, actor: REPLICA, request: None, via: None, command });
            }
        }
        let begun = Instant::now();
        for entry in &batches {
            self.entry(entry)?;
        }
        let facts = rounds * running.len();
        let figure = format!("status facts applied, {BATCH} an entry");
        figures.at_least(figure, rate(facts, begun.elapsed()), "1/s", 200_000.0);
        Ok(())
    }

    /// A snapshot while entries go on, and back.
    fn snapshots(&mut self, figures: &mut Figures) -> Result<()> {
        let quiet = self.longest(&AtomicBool::new(true))?;
        let begun = Instant::now();
        let frozen = self.state.clone();
        let froze = begun.elapsed();
        let digest = frozen.digest();
        let is_over = AtomicBool::new(false);
        let (busy, written) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let begun = Instant::now();
                let mut bytes = Vec::new();
                let written = proto::snapshot::write(&frozen, &mut bytes);
                is_over.store(true, Ordering::Relaxed);
                written.map(|()| (bytes, begun.elapsed()))
            });
            let busy = self.longest(&is_over);
            (busy, writer.join())
        });
        let busy = busy?;
        let (bytes, took) =
            written.map_err(|_| anyhow::anyhow!("the writer panicked"))?.context("writing")?;
        figures.at_most("freeze for a snapshot", ms(froze), "ms", 5.0);
        figures.at_most("longest entry while a snapshot is written", ms(busy[0]), "ms", 5.0);
        figures.add("the same, p99.9", quantile_of(&busy, 999), "ms");
        figures.add("longest entry without one", ms(quiet[0]), "ms");
        figures.add("snapshot", mib(bytes.len()), "MiB");
        figures.at_most("snapshot written, entries going on", took.as_secs_f64(), "s", 3.0);
        let begun = Instant::now();
        let restored = proto::snapshot::read(&mut bytes.as_slice()).context("reading")?;
        figures.at_most("snapshot read and checked", begun.elapsed().as_secs_f64(), "s", 3.0);
        ensure!(restored.digest() == digest, "the snapshot is another state");
        let begun = Instant::now();
        proto::snapshot::write(&restored, &mut Nowhere).context("writing again")?;
        figures.add("snapshot written, nothing else going on", begun.elapsed().as_secs_f64(), "s");
        Ok(())
    }

    /// Applies entries until told that it is over, at least for a while; returns how long each took, longest first.
    fn longest(&mut self, is_over: &AtomicBool) -> Result<Vec<Duration>> {
        let running = self.running();
        let mut times = Vec::new();
        for one in running.iter().cycle() {
            if times.len() > 20_000 && is_over.load(Ordering::Relaxed) {
                break;
            }
            self.now = self.now.plus(Span::from_millis(1));
            let saves = vec![Saved { attempt: one.1, saved_at: Some(self.now), signed_at: None }];
            let command = Command::Saves { node: one.0, saves };
            let entry =
                Entry { time: self.now, actor: Actor::Agent(one.0), request: None, via: None, command };
            let begun = Instant::now();
            self.entry(&entry)?;
            times.push(begun.elapsed());
        }
        times.sort_unstable_by(|a, b| b.cmp(a));
        Ok(times)
    }
}

fn clones(figures: &mut Figures, state: &State, rounds: usize) {
    let once = |_| {
        let begun = Instant::now();
        let clone = std::hint::black_box(state.clone());
        let took = begun.elapsed();
        drop(clone);
        took
    };
    let times: Vec<Duration> = (0..rounds.max(100)).map(once).collect();
    let figure = format!("clone of a state with {WAITING} jobs, p50");
    figures.at_most(figure, quantile(&times, 50) * 1_000.0, "us", 100.0);
}

struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the time that so many of a thousand are not above; `times` are longest first.
fn quantile_of(times: &[Duration], per_mille: usize) -> f64 {
    let rank = times.len() * (1_000 - per_mille) / 1_000;
    times.get(rank).map_or(0.0, |time| ms(*time))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn mib(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1_024.0
}
