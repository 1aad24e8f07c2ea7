//! Bits flip, files end early, files come back old, while a replica is down. It then either holds all it held, or it does
//! not take part, and says what is wrong and what to do.
//!
//! `BURSAR_FLIPS=500 cargo test -p chaos-tests --test it -- disk_damage::flipped` is the long form, `BURSAR_SEED` its
//! first seed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chaos_tests::client::{Client, job, script};
use chaos_tests::disk::{Draw, Target, copy_tree, file_list};
use chaos_tests::lab::{ADMIN, Lab, Plan, Replica, try_until, until};
use xtask::ClusterLock;

use crate::disk_lab::number;

const FLIPS: &str = "BURSAR_FLIPS";
const SEED: &str = "BURSAR_SEED";
/// After so much quiet the high-water mark covers every record.
const QUIET: Duration = Duration::from_millis(300);
/// Entries between snapshots: the data holds some, and a log that was shortened.
const SNAPSHOT_EVERY: usize = 60;
/// How far two replicas' cluster times may be apart when they are asked one after the other, in ms.
const APART_MS: u64 = 5_000;

/// What becomes of a replica with damaged files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It says what is wrong and does not take part.
    Refused,
    /// It holds what the others hold.
    Whole,
}

/// Three replicas at rest, one of which is down with intact files.
struct Patient {
    lab: Lab,
    client: Client,
    n: usize,
    intact: PathBuf,
    /// An older copy of the same replica's files.
    older: PathBuf,
    at: (u64, u64),
    _lock: ClusterLock,
}

impl Patient {
    fn prepare() -> Result<Self> {
        let lock = xtask::cluster_lock();
        let plan = Plan {
            nodes: Vec::new(),
            server_keys: vec![
                format!("snapshot_every = {SNAPSHOT_EVERY}"),
                "free_disk_min_bytes = 1".into(),
                "free_disk_min_percent = 0".into(),
            ],
            ..Plan::usual()
        };
        let mut lab = Lab::start(plan)?;
        let client = lab.client("ana")?;
        write(&lab, &client, SNAPSHOT_EVERY)?;
        let n = (lab.leader() + 1) % 3;
        let (intact, older) = (lab.folder().join("intact"), lab.folder().join("older"));
        lab.standings();
        let _ = try_until(QUIET, || None::<()>);
        lab.replicas[n].kill();
        copy_tree(&lab.replicas[n].data, &older)?;
        let parts = lab.parts.clone();
        lab.replicas[n].start(&parts)?;
        write(&lab, &client, 2 * SNAPSHOT_EVERY + SNAPSHOT_EVERY / 2)?;
        let client = lab.client(ADMIN)?;
        let mut patient = Self { lab, client, n, intact, older, at: (0, 0), _lock: lock };
        patient.stop_and_copy()?;
        Ok(patient)
    }

    /// Takes the replica down at rest, and copies its files.
    fn stop_and_copy(&mut self) -> Result<()> {
        self.lab.standings();
        let _ = try_until(QUIET, || None::<()>);
        self.lab.replicas[self.n].kill();
        copy_tree(&self.lab.replicas[self.n].data, &self.intact)?;
        self.at = self.term_and_index()?;
        Ok(())
    }

    fn leader(&self) -> usize {
        self.lab.leader()
    }

    fn term_and_index(&self) -> Result<(u64, u64)> {
        let view = self.lab.block_on(self.client.status())?;
        Ok((view.term, view.as_of.context("it is of some index")?.index))
    }

    fn data(&self) -> &Path {
        &self.lab.replicas[self.n].data
    }

    fn replica(&mut self) -> &mut Replica {
        &mut self.lab.replicas[self.n]
    }

    /// Starts the replica on a damaged copy of its files, and takes it down again.
    fn try_out(&mut self, what: &str, damage: impl FnOnce(&Path) -> Result<()>) -> Result<Fate> {
        copy_tree(&self.intact, self.data())?;
        damage(self.data())?;
        let parts = self.lab.parts.clone();
        let fate = match self.replica().try_start(&parts)? {
            Some(tail) => {
                let is_clear = tail.contains("damaged") && tail.contains("bursar ");
                ensure!(is_clear, "{what}: it does not say what is wrong and what to do:\n{tail}");
                Fate::Refused
            }
            None => self.compare(what)?,
        };
        self.replica().kill();
        if self.term_and_index()? != self.at {
            // Something was written meanwhile, so the intact copy is an old one: begin again from where all are now.
            self.renew()?;
        }
        Ok(fate)
    }

    /// Waits until the replica holds what the leader holds; it may also find out later that it does not, and stop.
    fn compare(&mut self, what: &str) -> Result<Fate> {
        let leader = self.leader();
        let (n, client) = (self.n, &self.client);
        let mut process = self.lab.replicas[n].process.take().context("it was started")?;
        let lab = &self.lab;
        let ended = until(&format!("{what}: it holds what the leader holds"), || {
            if process.ended().is_some() {
                return Some(Some(process.log_tail()));
            }
            let [own, leads] = [n, leader].map(|n| lab.block_on(client.status_at(n)));
            let (own, leads) = (own.ok()?, leads.ok()?);
            let is_level = own.as_of.as_ref()?.index == leads.as_of.as_ref()?.index;
            is_level.then(|| {
                assert_eq!(own.digest, leads.digest, "{what}: it holds something else at the same index");
                None
            })
        });
        if let Some(tail) = ended {
            let is_clear = tail.contains("older copy") || tail.contains("damaged");
            ensure!(is_clear && tail.contains("bursar "), "{what}: it ended, and does not say why:\n{tail}");
            return Ok(Fate::Refused);
        }
        // One that lost what it knew of time shows the wall clock until the others have told it.
        until(&format!("{what}: its cluster time is the leader's"), || {
            let [own, leads] = [n, leader].map(|n| lab.block_on(client.hello_at(n)));
            let apart = own.ok()?.cluster_time_at.abs_diff(leads.ok()?.cluster_time_at);
            (apart < APART_MS).then_some(())
        });
        self.lab.replicas[n].process = Some(process);
        Ok(Fate::Whole)
    }

    /// Starts all anew from the intact copy: the others must have forgotten what the replica told them meanwhile.
    fn renew(&mut self) -> Result<()> {
        copy_tree(&self.intact, self.data())?;
        let parts = self.lab.parts.clone();
        self.lab.replicas.iter_mut().for_each(Replica::kill);
        for replica in &mut self.lab.replicas {
            replica.start(&parts)?;
        }
        self.stop_and_copy()
    }

    fn files(&self) -> Result<Vec<Target>> {
        let files = file_list(&self.intact)?;
        // It is written anew at each start.
        Ok(files.into_iter().filter(|file| file.path != Path::new("addresses")).collect())
    }

    /// Ends with everything as it was.
    fn end(mut self) -> Result<()> {
        ensure!(self.try_out("nothing", |_| Ok(()))? == Fate::Whole, "an intact replica does not start");
        let parts = self.lab.parts.clone();
        self.replica().start(&parts)?;
        self.lab.check();
        Ok(())
    }
}

fn write(lab: &Lab, client: &Client, count: usize) -> Result<()> {
    for n in 0..count {
        let name = lab.fresh(&format!("damage-{n}"));
        lab.block_on(client.submit_new(job(&name, "a", 1, 0), script("true")))?;
    }
    Ok(())
}

pub fn flipped_bit_anywhere_is_found_out_or_changes_nothing() -> Result<()> {
    let (flips, first) = (number(FLIPS, 10), number(SEED, 1));
    let mut patient = Patient::prepare()?;
    let mut refused = 0;
    for seed in first..first + flips {
        let mut draw = Draw::new(u64::try_from(seed).context("a seed")?);
        let files = patient.files()?;
        let file = &files[draw.below(files.len())];
        let bit = draw.below(file.length * 8);
        let what = format!("{SEED}={seed}: bit {bit} of {}", file.path.display());
        let fate = patient.try_out(&what, |data| file.flip(data, bit))?;
        refused += usize::from(fate == Fate::Refused);
        if flips > 50 && (seed + 1 - first).is_multiple_of(50) {
            eprintln!("{} of {flips} flips, {refused} refused", seed + 1 - first);
        }
    }
    eprintln!("of {flips} flipped bits {refused} were refused, the others changed nothing");
    ensure!(refused * 5 > flips, "inconclusive: of {flips} flips only {refused} were noticed");
    patient.end()
}

pub fn shortened_file_is_found_out_or_changes_nothing() -> Result<()> {
    let mut patient = Patient::prepare()?;
    let mut draw = Draw::new(u64::try_from(number(SEED, 1)).context("a seed")?);
    let mut refused = 0;
    for file in patient.files()? {
        for length in [0, draw.below(file.length)] {
            let what = format!("{} ends at {length}", file.path.display());
            let fate = patient.try_out(&what, |data| file.truncate(data, length))?;
            refused += usize::from(fate == Fate::Refused);
        }
        let what = format!("{} is not there", file.path.display());
        patient.try_out(&what, |data| fs::remove_file(data.join(&file.path)).context("it was there"))?;
    }
    ensure!(refused > 2, "inconclusive: only {refused} shortened files were noticed");
    patient.end()
}

pub fn file_that_comes_back_old_is_found_out_or_changes_nothing() -> Result<()> {
    let mut patient = Patient::prepare()?;
    let older = patient.older.clone();
    let mut refused = 0;
    for file in file_list(&older)?.into_iter().filter(|file| file.path != Path::new("addresses")) {
        let what = format!("{} is an old copy", file.path.display());
        let (from, path) = (older.join(&file.path), file.path);
        let fate = patient
            .try_out(&what, |data| fs::copy(from, data.join(path)).map(drop).context("it can be copied"))?;
        refused += usize::from(fate == Fate::Refused);
    }
    let all = patient.try_out("all of it is an old copy", |data| copy_tree(&older, data))?;
    ensure!(all == Fate::Refused, "an old copy of everything takes part");
    ensure!(refused > 0, "inconclusive: no old file was noticed");
    patient.end()
}
