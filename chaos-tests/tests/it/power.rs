//! The power goes while people write: of one replica, of some, of all at once.
//!
//! A few cuts each by default; the campaign is `BURSAR_CUTS=50 cargo test -p chaos-tests --test it -- power::power`, and
//! `BURSAR_SEED` repeats one with other draws.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chaos_tests::disk::{Draw, Load, Make, OnDisks, newest_mark};
use chaos_tests::lab::{Gate, Identity, alive, try_at_once, until};
use rustix::process::Signal;
use xtask::not_available;

use crate::disk_lab::{PATIENCE, long_job, number, plan};

/// How many cuts a law makes.
const CUTS: &str = "BURSAR_CUTS";
const FEW: usize = 3;
/// So many times more are made where no cut so far took what was not synced, or came while a call was on its way; and
/// where syncs do nothing, as long as nothing is seen of that.
const AT_MOST: usize = 10;
/// A replica's mark is waited for so long: it changes with each batch, and its sync comes within 50 ms of that.
const BATCH: Duration = Duration::from_secs(5);
/// So long the others are waited for that may find out a replica.
const TOLD_LATE: Duration = Duration::from_secs(10);
/// Which replicas lose power when.
const SEED: &str = "BURSAR_SEED";
/// So many MiB hold a replica's data, which grows all through a campaign.
const MIB: u64 = 512;

/// Whether the replicas' syncs reach their disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syncs {
    Kept,
    /// Those of the first so many replicas do nothing.
    Ignored(usize),
}

/// Entries between two snapshots.
const SNAPSHOT_EVERY: u64 = 200;

/// What is done to which control plane.
struct Campaign {
    name: &'static str,
    replicas: usize,
    victims: usize,
    cuts: usize,
    syncs: Syncs,
}

/// What came of it.
#[derive(Debug, Default)]
struct Seen {
    cuts: usize,
    /// Cuts that came while calls were on their way.
    with_calls: usize,
    calls: usize,
    /// Cuts after which a mark was older than the file system had shown it.
    with_bytes: usize,
    leaders: usize,
    acknowledged: usize,
    unanswered: usize,
    refusals: Vec<String>,
    losses: Vec<String>,
}

impl Seen {
    /// Whether no cut so far was hard: cuts of what is at rest show nothing.
    fn proves_little(&self) -> bool {
        self.with_bytes == 0 || self.with_calls == 0
    }
}

pub fn power_cut_of_one_of_three_replicas_loses_nothing_acknowledged() -> Result<()> {
    honest("one of three", 3, 1)
}

pub fn power_cut_of_two_of_five_replicas_loses_nothing_acknowledged() -> Result<()> {
    honest("two of five", 5, 2)
}

pub fn power_cut_of_all_three_replicas_loses_nothing_acknowledged() -> Result<()> {
    honest("all three", 3, 3)
}

fn honest(name: &'static str, replicas: usize, victims: usize) -> Result<()> {
    let campaign = Campaign { name, replicas, victims, cuts: number(CUTS, FEW), syncs: Syncs::Kept };
    let Some(seen) = campaign.run()? else { return Ok(()) };
    ensure!(seen.with_bytes > 0, "inconclusive: no cut took anything that was not synced: {seen:#?}");
    ensure!(seen.with_calls > 0, "inconclusive: no cut came while a call was on its way: {seen:#?}");
    Ok(())
}

/// The negative control: were the laws above blind, this one would fail.
pub fn without_syncs_the_same_power_cuts_are_seen_to_lose_what_was_acknowledged() -> Result<()> {
    let campaign =
        Campaign { name: "no syncs", replicas: 3, victims: 3, cuts: FEW, syncs: Syncs::Ignored(3) };
    let Some(seen) = campaign.run()? else { return Ok(()) };
    assert!(!seen.losses.is_empty(), "power cuts that lose nothing without syncs prove nothing: {seen:#?}");
    Ok(())
}

/// One disk that lies: what its replica forgot is known to the others, who do not let it vote.
pub fn replica_whose_disk_lies_is_found_out_by_the_others_and_costs_nothing() -> Result<()> {
    let campaign =
        Campaign { name: "one disk lies", replicas: 3, victims: 1, cuts: 1, syncs: Syncs::Ignored(1) };
    let Some(seen) = campaign.run()? else { return Ok(()) };
    assert_eq!(seen.losses, [] as [String; 0]);
    assert_eq!(seen.refusals.len(), 1, "{seen:#?}");
    Ok(())
}

impl Campaign {
    /// Cuts and looks; `None` where it cannot run. Ends at the first loss.
    fn run(&self) -> Result<Option<Seen>> {
        let make = Make::Ext4 { mib: MIB };
        let mut plan = plan(self.replicas, 0);
        // Snapshots are written and the log is shortened all along, under cuts too.
        plan.server_keys.push(format!("snapshot_every = {SNAPSHOT_EVERY}"));
        let Some(mut on) = OnDisks::start(plan, make)? else { return Ok(None) };
        let (gate, process) = long_job(&on.lab)?;
        if let Syncs::Ignored(count) = self.syncs
            && !self.ignore_syncs(&mut on, count)?
        {
            return Ok(None);
        }
        let journal = on.lab.write("runs.journal", "")?;
        let load = Load::start(&on.lab, &journal)?;
        let seed = number(SEED, 1);
        eprintln!("{}: {} cuts, {SEED}={seed}", self.name, self.cuts);
        let mut draw = Draw::new(u64::try_from(seed).context("a seed")?);
        let mut seen = Seen::default();
        let begun = Instant::now();
        while self.goes_on(&seen) {
            self.one_cut(&mut on, &load, process, &mut draw, &mut seen)?;
            if seen.cuts.is_multiple_of(10) {
                eprintln!("{}: {} cuts, {} s", self.name, seen.cuts, begun.elapsed().as_secs());
            }
        }
        self.summarise(&on, &load, &mut seen);
        drop(load);
        if self.syncs == Syncs::Kept {
            // Here, where the lab still is: it keeps its folder when a law fails.
            assert_eq!(seen.losses, [] as [String; 0]);
            assert_eq!(seen.refusals, [] as [String; 0]);
        }
        if seen.losses.is_empty() && seen.refusals.is_empty() {
            end(&mut on, &journal, &gate, process)?;
        }
        Ok(Some(seen))
    }

    /// Whether there is another cut: until all are made, and then as long as they prove little.
    fn goes_on(&self, seen: &Seen) -> bool {
        let is_open = match self.syncs {
            Syncs::Kept => seen.proves_little(),
            Syncs::Ignored(_) => true,
        };
        let cuts = if is_open { self.cuts * AT_MOST } else { self.cuts };
        seen.losses.is_empty() && seen.refusals.is_empty() && seen.cuts < cuts
    }

    /// Has the syncs of some replicas do nothing from now on; what is there already stays. `false` where that cannot be.
    fn ignore_syncs(&self, on: &mut OnDisks, count: usize) -> Result<bool> {
        let library = match on.lying_sync() {
            Ok(library) => library,
            Err(why) => {
                not_available(&why.to_string());
                return Ok(false);
            }
        };
        let liars: Vec<usize> = (0..count).collect();
        for n in &liars {
            on.lab.replicas[*n].stop();
            on.disks[*n].sync()?;
            on.lab.replicas[*n].environment = vec![("LD_PRELOAD".to_owned(), library.clone().into())];
        }
        on.start_again(&liars)?;
        on.lab.wait_nodes();
        Ok(true)
    }

    fn victims(&self, on: &OnDisks, draw: &mut Draw) -> Vec<usize> {
        match self.syncs {
            Syncs::Ignored(count) => (0..count).collect(),
            Syncs::Kept if self.victims == self.replicas => (0..self.replicas).collect(),
            // Every other time the leader is among them: to lose it is the harder part.
            Syncs::Kept if draw.below(2) == 0 => {
                let leader = on.lab.leader();
                let others = draw.some_of(self.victims - 1, self.replicas - 1);
                let others = others.into_iter().map(|n| if n >= leader { n + 1 } else { n });
                std::iter::once(leader).chain(others).collect()
            }
            Syncs::Kept => draw.some_of(self.victims, self.replicas),
        }
    }

    fn one_cut(
        &self,
        on: &mut OnDisks,
        load: &Load,
        process: Identity,
        draw: &mut Draw,
        seen: &mut Seen,
    ) -> Result<()> {
        let victims = self.victims(on, draw);
        let data: Vec<PathBuf> = victims.iter().map(|n| on.lab.replicas[*n].data.clone()).collect();
        load.go_on();
        if !load.wait_more(5 + draw.below(40), PATIENCE) {
            seen.losses.push("nothing is acknowledged any more".to_owned());
            return Ok(());
        }
        // Every other time at the worst moment: a batch is durable, and what says so is not.
        let is_worst = draw.below(2) == 0;
        if is_worst {
            let before = newest_mark(&data[0]);
            try_at_once(BATCH, || (newest_mark(&data[0]) > before).then_some(()));
            // It stays so until the power is gone, however long this machine takes for that.
            on.signal(&victims, Signal::STOP);
        }
        let shown: Vec<_> = data.iter().map(|data| newest_mark(data)).collect();
        let calls = load.in_flight();
        for n in &victims {
            on.disks[*n].cut_power()?;
        }
        if is_worst {
            on.signal(&victims, Signal::CONT);
        }
        on.kill(&victims);
        seen.cuts += 1;
        seen.calls += calls;
        seen.with_calls += usize::from(calls > 0);
        on.remount(&victims)?;
        let kept = data.iter().map(|data| newest_mark(data));
        seen.with_bytes += usize::from(kept.zip(&shown).any(|(kept, shown)| kept < *shown));
        if self.victims * 2 < self.replicas && !load.wait_more(3, PATIENCE) {
            seen.losses.push("the others do not go on without the victims".to_owned());
        }
        seen.refusals.extend(on.try_start(&victims)?);
        if let Syncs::Ignored(count) = self.syncs
            && count < self.replicas
            && seen.refusals.is_empty()
        {
            // The others may come to tell it only when it listens already.
            seen.refusals.extend(on.ended(&victims, TOLD_LATE));
        }
        if seen.refusals.len() * 2 >= self.replicas {
            seen.losses.push("what is left is no majority".to_owned());
            return Ok(());
        }
        load.pause();
        self.compare(on, load, seen);
        if !alive(process) {
            seen.losses.push("a job ended with the power of a replica".to_owned());
        }
        Ok(())
    }

    /// Compares what was acknowledged with what is there, and the replicas with each other.
    fn compare(&self, on: &OnDisks, load: &Load, seen: &mut Seen) {
        match load.losses(&on.lab) {
            Ok(losses) => seen.losses.extend(losses),
            Err(error) => seen.losses.push(format!("nothing can be read any more: {error:#}")),
        }
        if seen.refusals.is_empty() {
            seen.losses.extend(on.differences(PATIENCE));
        }
        seen.losses.extend(on.double_leaders());
    }

    fn summarise(&self, on: &OnDisks, load: &Load, seen: &mut Seen) {
        let told = load.told();
        (seen.acknowledged, seen.unanswered) = (told.acknowledged(), told.unanswered);
        seen.leaders = on.lab.leaders().len();
        let (submitted, cancelled) = (told.submitted.len(), told.cancelled.len());
        eprintln!(
            "{}: {} power cuts, {} with bytes that were not synced, {} with calls on their way ({} calls); {} \
             acknowledged ({submitted} submissions, {cancelled} cancels, {} edits of the budgets), {} calls \
             unanswered; {} terms led, {} refusals to start, {} losses",
            self.name,
            seen.cuts,
            seen.with_bytes,
            seen.with_calls,
            seen.calls,
            seen.acknowledged,
            told.edits,
            seen.unanswered,
            seen.leaders,
            seen.refusals.len(),
            seen.losses.len(),
        );
        for what in seen.refusals.iter().chain(&seen.losses).take(5) {
            eprintln!("{}: {what}", self.name);
        }
    }
}

/// Lets everything end, and checks what has to hold at rest: ledger, classes, and that no attempt ran twice.
fn end(on: &mut OnDisks, journal: &str, gate: &Gate, process: Identity) -> Result<()> {
    assert!(alive(process));
    assert_eq!(gate.runs().len(), 1);
    on.lab.settle()?;
    let runs = fs::read_to_string(journal).context("the journal is ours and stays")?;
    let mut times = BTreeMap::<&str, usize>::new();
    runs.lines().for_each(|run| *times.entry(run).or_default() += 1);
    assert!(times.values().all(|times| *times == 1), "an attempt ran twice: {times:?}");
    let jobs: BTreeSet<&str> = times.keys().filter_map(|run| run.split(' ').next()).collect();
    assert_eq!(jobs.len(), times.len(), "a job that ended well ran again");
    until("the ledger is at rest", || on.lab.try_standings(PATIENCE));
    on.lab.check();
    Ok(())
}
