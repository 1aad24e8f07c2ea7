//! A state that lives by its entries, watched from outside.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, ensure};
use scheduler_core::apply::apply;
use scheduler_core::budget::ROOT;
use scheduler_core::command::{Answer, Command, Entry, RequestMark};
use scheduler_core::id::{BodyHash, LogIndex, RequestId, Term};
use scheduler_core::invariants;
use scheduler_core::principal::Actor;
use scheduler_core::report::footprint;
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use super::random::Random;
use crate::world::{BEGIN, TERM, name};

/// The most that each table held, and bytes.
#[derive(Debug, Default, Clone)]
pub struct Peaks {
    /// Records by table.
    pub records: BTreeMap<&'static str, usize>,
    /// Estimated bytes of the whole state.
    pub bytes: usize,
    /// Bytes of a snapshot.
    pub snapshot: usize,
}

/// The state, and what is known of it without it.
pub(super) struct Machine {
    pub(super) state: State,
    pub(super) now: Timestamp,
    pub(super) random: Random,
    pub(super) index: u64,
    /// What jobs were charged that have left.
    forgotten: u128,
    /// The snapshot before, and the entries since.
    before: Vec<u8>,
    since: Vec<(u64, Term, Entry)>,
    keeps_entries: bool,
    pub(super) peaks: Peaks,
    /// Entries that came with a request id lately: some come again.
    pub(super) marked: Vec<Entry>,
    pub(super) refused: u64,
}

/// How many marked entries may come again.
const MARKED_MAX: usize = 64;

impl Machine {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: State::default(),
            now: BEGIN,
            random: Random::new(seed),
            index: 0,
            forgotten: 0,
            before: Vec::new(),
            since: Vec::new(),
            keeps_entries: false,
            peaks: Peaks::default(),
            marked: Vec::new(),
            refused: 0,
        }
    }

    pub(super) fn apply(&mut self, actor: Actor, command: Command) -> Answer {
        self.entry(Entry { time: self.now, actor, request: None, via: None, command })
    }

    /// What a client sends: with a name for the write, under which it may come again.
    pub(super) fn ask(&mut self, actor: Actor, command: Command) -> Answer {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.random.next().to_le_bytes());
        let body = BodyHash::new([7; 32]);
        let mark = RequestMark { id: RequestId::new(id), made_at: self.now, body };
        let entry = Entry { time: self.now, actor, request: Some(mark), via: None, command };
        let at = usize::try_from(self.index).unwrap_or(0) % MARKED_MAX;
        match self.marked.get_mut(at) {
            Some(place) => *place = entry.clone(),
            None => self.marked.push(entry.clone()),
        }
        self.entry(entry)
    }

    pub(super) fn entry(&mut self, entry: Entry) -> Answer {
        self.index += 1;
        let before = self.state.clone();
        let answer = apply(&mut self.state, LogIndex::new(self.index), TERM, &entry);
        // Jobs leave in the order of this index.
        let left = before.ended.keys().take_while(|(_, job)| !self.state.jobs.contains(job));
        let paid = left.filter_map(|(_, job)| before.jobs.get(job)).map(|job| job.charged.get());
        self.forgotten += paid.sum::<u128>();
        self.refused += u64::from(answer.is_err());
        if self.keeps_entries {
            self.since.push((self.index, TERM, entry));
        }
        answer
    }

    /// Checks everything, and goes on from a snapshot. `keeps` says whether the entries until the next time are applied
    /// again then.
    pub(super) fn check(&mut self, keeps: bool) -> Result<()> {
        invariants::check_all(&self.state)
            .map_err(|broken| anyhow!("after entry {}: {broken}", self.index))?;
        ensure!(self.state.meta.safe_mode.is_none(), "safe mode: {:?}", self.state.meta.safe_mode);
        self.check_charge()?;
        self.measure();
        let digest = self.state.digest();
        if self.keeps_entries {
            let mut again =
                proto::snapshot::read(&mut self.before.as_slice()).context("the older snapshot")?;
            for (index, term, entry) in self.since.drain(..) {
                // What it answers was answered before.
                let _ = apply(&mut again, LogIndex::new(index), term, &entry);
            }
            ensure!(
                again.digest() == digest,
                "entries applied again up to {} make another state",
                self.index
            );
        }
        let mut bytes = Vec::new();
        proto::snapshot::write(&self.state, &mut bytes).context("writing a snapshot")?;
        let restored = proto::snapshot::read(&mut bytes.as_slice()).context("reading a snapshot")?;
        ensure!(restored.digest() == digest, "the snapshot at {} is another state", self.index);
        self.state = restored;
        self.peaks.snapshot = self.peaks.snapshot.max(bytes.len());
        self.before = if keeps { bytes } else { Vec::new() };
        self.keeps_entries = keeps;
        Ok(())
    }

    /// The root's account is exactly what all jobs were charged, plus what runs now.
    fn check_charge(&self) -> Result<()> {
        let now = self.state.meta.time;
        let ended: u128 = self.state.jobs.values().map(|job| job.charged.get()).sum();
        let live = self.state.attempts.values().filter(|a| a.ended.is_none() && a.tier == Tier::Funded);
        let running: u128 = live
            .filter_map(|a| Some(u128::from(a.rate.get()) * u128::from(now.since(a.go_at?).as_millis())))
            .sum();
        let pool = self.state.books.pool(&name("main"));
        let account = pool.and_then(|pool| pool.account(ROOT, Tier::Funded));
        let charged = account.map_or(0, |account| account.charged_ever(now).get());
        let (forgotten, sum) = (self.forgotten, self.forgotten + ended + running);
        ensure!(charged == sum, "charged {charged}, jobs paid {sum}, {forgotten} of them are gone");
        Ok(())
    }

    fn measure(&mut self) {
        let parts = footprint(&self.state);
        let bytes = parts.iter().map(|part| part.bytes).sum();
        self.peaks.bytes = self.peaks.bytes.max(bytes);
        for part in parts {
            let peak = self.peaks.records.entry(part.table).or_default();
            *peak = (*peak).max(part.records);
        }
    }
}
