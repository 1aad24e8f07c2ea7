//! A disk as it is, and not as one wishes: writes stay in a page cache until a barrier, a power cut keeps any of
//! them whole, in part or not at all, and the device errs. For tests; everything random follows from a seed.
//!
//! ```text
//! write ─► cache ─┬─► sync ─► device           power cut: of what was written after the last sync, any sector
//! read  ◄─ cache  └─► faults: error, full,     of 512 bytes is there or not
//!                     lost, torn, misdirected
//! ```
//!
//! All that happens is noted in a journal, from which the disk can be had as it was after any operation.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::disk::InPlace;

/// The unit that a device writes whole or not at all.
const SECTOR: usize = 512;

/// What the disk does wrong from now on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// The sync after so many good ones fails; like real ones, the next would succeed.
    pub(crate) sync_fails_after: Option<u64>,
    /// The write after so many good ones fails.
    pub(crate) write_fails_after: Option<u64>,
    /// Every read fails.
    pub(crate) reads_fail: bool,
    /// All files together may hold so many bytes.
    pub(crate) capacity: Option<usize>,
    /// Every sync takes so long.
    pub(crate) latency: Duration,
}

/// What a power cut leaves of the writes since the last sync.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    /// None of them.
    Nothing,
    /// All of them.
    All,
    /// Of each sector of each write, by this seed, the new content or the old.
    Some(u64),
}

/// How a device errs about what it was told to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// A write that was acknowledged never happened.
    Lost,
    /// Only its first half happened.
    Torn,
    /// It happened a sector or more from where it should.
    Misdirected,
}

/// One operation in the journal.
#[derive(Debug, Clone)]
enum Op {
    Write { file: String, at: usize, bytes: Vec<u8> },
    Cut { file: String, length: usize },
    Sync { file: String },
    Note(u64),
}

#[derive(Debug, Clone, Default)]
struct Content {
    cache: Vec<u8>,
    device: Vec<u8>,
    /// Since the last sync, in order.
    waiting: Vec<Op>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Content>,
    faults: Faults,
    writes: u64,
    syncs: u64,
    journal: Vec<Op>,
}

/// The disk. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    state: Arc<Mutex<State>>,
}

/// One of its files.
#[derive(Debug, Clone)]
pub(crate) struct DiskFile {
    disk: Disk,
    name: String,
}

/// A small generator of numbers that look random (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    /// Returns a number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).expect("small"))
            .expect("below the bound")
    }
}

impl Disk {
    /// Opens a file, or makes an empty one.
    pub(crate) fn file(&self, name: &str) -> DiskFile {
        self.lock().files.entry(name.to_owned()).or_default();
        DiskFile { disk: self.clone(), name: name.to_owned() }
    }

    /// Does wrong from now on, counting from now.
    pub(crate) fn fail(&self, faults: Faults) {
        let mut state = self.lock();
        (state.faults, state.writes, state.syncs) = (faults, 0, 0);
    }

    /// Puts a number into the journal: what the test knew at this point.
    pub(crate) fn note(&self, number: u64) {
        self.lock().journal.push(Op::Note(number));
    }

    /// Returns how many operations there were.
    pub(crate) fn operations(&self) -> usize {
        self.lock().journal.len()
    }

    /// Returns the disk after a power cut now.
    pub(crate) fn cut(&self, keep: Keep) -> Self {
        self.cut_after(self.operations(), keep).0
    }

    /// Returns the disk after a power cut that came after so many operations, and the last number noted by then.
    pub(crate) fn cut_after(&self, operations: usize, keep: Keep) -> (Self, Option<u64>) {
        let mut after = State::default();
        let mut noted = None;
        for op in &self.lock().journal[..operations] {
            match op {
                Op::Note(number) => noted = Some(*number),
                op => after.replay(op),
            }
        }
        let mut seed = match keep {
            Keep::Some(seed) => Seeded(seed),
            Keep::Nothing | Keep::All => Seeded(0),
        };
        for content in after.files.values_mut() {
            for op in std::mem::take(&mut content.waiting) {
                content.survive(&op, keep, &mut seed);
            }
            content.cache.clone_from(&content.device);
        }
        // What is there now is all that was ever written.
        let start = after.files.iter().map(|(file, content)| Op::Write {
            file: file.clone(),
            at: 0,
            bytes: content.device.clone(),
        });
        after.journal = start.collect();
        after.journal.extend(after.files.keys().map(|file| Op::Sync { file: file.clone() }));
        (Self { state: Arc::new(Mutex::new(after)) }, noted)
    }

    /// Returns the disk with one write to `file`, chosen by the seed among all that were synced, gone wrong; and
    /// where. `None` if nothing was synced.
    pub(crate) fn with_wrong(&self, file: &str, wrong: Wrong, seed: u64) -> Option<(Self, String)> {
        let mut seed = Seeded(seed);
        let journal = self.lock().journal.clone();
        let last_sync = journal.iter().rposition(|op| matches!(op, Op::Sync { file: of } if of == file))?;
        let writes: Vec<_> = journal[..last_sync]
            .iter()
            .enumerate()
            .filter(|(_, op)| matches!(op, Op::Write { file: of, .. } if of == file))
            .map(|(position, _)| position)
            .collect();
        let chosen = *writes.get(seed.below(writes.len().max(1)))?;
        let mut said = String::new();
        let mut after = State::default();
        for (position, op) in journal.into_iter().enumerate() {
            match op {
                Op::Write { file, at, bytes } if position == chosen => {
                    said = format!("{} bytes at {at} of {file}: {wrong:?}", bytes.len());
                    let op = match wrong {
                        Wrong::Lost => Op::Write { file, at, bytes: Vec::new() },
                        Wrong::Torn => {
                            let half = bytes.len() / 2;
                            Op::Write { file, at, bytes: bytes[..half].to_vec() }
                        }
                        Wrong::Misdirected => {
                            let away = SECTOR * (1 + seed.below(64));
                            let at = if at >= away && seed.below(2) == 0 { at - away } else { at + away };
                            Op::Write { file, at, bytes }
                        }
                    };
                    after.replay(&op);
                }
                Op::Note(_) => {}
                op => after.replay(&op),
            }
        }
        for content in after.files.values_mut() {
            content.waiting.clear();
            content.cache.clone_from(&content.device);
        }
        Some((Self { state: Arc::new(Mutex::new(after)) }, said))
    }

    /// Returns the disk with one bit of what the device holds of `file` flipped.
    pub(crate) fn with_flip(&self, file: &str, bit: usize) -> Self {
        let flipped = self.cut(Keep::All);
        if let Some(content) = flipped.lock().files.get_mut(file) {
            content.device[bit / 8] ^= 1 << (bit % 8);
            content.cache.clone_from(&content.device);
        }
        flipped
    }

    /// Returns the disk with one file as it was after so many operations: somebody put back an old copy.
    pub(crate) fn with_stale(&self, file: &str, operations: usize) -> Self {
        let fresh = self.cut(Keep::All);
        let old = self.cut_after(operations, Keep::All).0;
        let content = old.lock().files.get(file).cloned().unwrap_or_default();
        fresh.lock().files.insert(file.to_owned(), content);
        fresh
    }

    /// Returns how many bytes a file has.
    pub(crate) fn length(&self, file: &str) -> usize {
        self.lock().files.get(file).map_or(0, |content| content.cache.len())
    }

    /// Returns how many bytes may still be written.
    pub(crate) fn room(&self) -> u64 {
        let state = self.lock();
        let room = state.faults.capacity.map(|most| most.saturating_sub(state.used()));
        room.map_or(u64::MAX, |room| u64::try_from(room).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the lock")
    }
}

impl State {
    fn used(&self) -> usize {
        self.files.values().map(|content| content.cache.len()).sum()
    }

    fn replay(&mut self, op: &Op) {
        match op {
            Op::Write { file, .. } | Op::Cut { file, .. } => {
                let content = self.files.entry(file.clone()).or_default();
                apply(&mut content.cache, op);
                content.waiting.push(op.clone());
            }
            Op::Sync { file } => {
                let content = self.files.entry(file.clone()).or_default();
                content.device.clone_from(&content.cache);
                content.waiting.clear();
            }
            Op::Note(_) => {}
        }
    }

    fn log(&mut self, op: Op) {
        self.replay(&op);
        self.journal.push(op);
    }
}

impl Content {
    fn survive(&mut self, op: &Op, keep: Keep, seed: &mut Seeded) {
        match (keep, op) {
            (Keep::Nothing, _) | (_, Op::Sync { .. } | Op::Note(_)) => {}
            (Keep::All, op) => apply(&mut self.device, op),
            (Keep::Some(_), Op::Cut { .. }) => {
                if seed.below(2) == 0 {
                    apply(&mut self.device, op);
                }
            }
            (Keep::Some(_), Op::Write { file, at, bytes }) => {
                let mut done = 0;
                while done < bytes.len() {
                    let from = at + done;
                    let length = (SECTOR - from % SECTOR).min(bytes.len() - done);
                    if seed.below(3) > 0 {
                        let piece = bytes[done..done + length].to_vec();
                        apply(&mut self.device, &Op::Write { file: file.clone(), at: from, bytes: piece });
                    }
                    done += length;
                }
            }
        }
    }
}

fn apply(content: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write { at, bytes, .. } if bytes.is_empty() => debug_assert!(*at < usize::MAX),
        Op::Write { at, bytes, .. } => {
            if content.len() < at + bytes.len() {
                content.resize(at + bytes.len(), 0);
            }
            content[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        Op::Cut { length, .. } => content.truncate(*length),
        Op::Sync { .. } | Op::Note(_) => {}
    }
}

impl DiskFile {
    /// Returns all that the file holds.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let state = self.disk.lock();
        if state.faults.reads_fail {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(state.files.get(&self.name).map(|content| content.cache.clone()).unwrap_or_default())
    }

    /// Shortens the file.
    pub(crate) fn shorten(&self, length: usize) {
        self.disk.lock().log(Op::Cut { file: self.name.clone(), length });
    }

    /// Returns the disk.
    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }
}

impl InPlace for DiskFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).expect("small");
        let content = self.read()?;
        let found = content.get(at..at + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).expect("small");
        let mut state = self.disk.lock();
        state.writes += 1;
        if state.faults.write_fails_after.is_some_and(|good| state.writes == good + 1) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let length = state.files.get(&self.name).map_or(0, |content| content.cache.len());
        let grows = (at + bytes.len()).saturating_sub(length);
        if state.faults.capacity.is_some_and(|most| state.used() + grows > most) {
            return Err(io::Error::from_raw_os_error(28));
        }
        state.log(Op::Write { file: self.name.clone(), at, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let latency = self.disk.lock().faults.latency;
        thread::sleep(latency);
        let mut state = self.disk.lock();
        state.syncs += 1;
        if state.faults.sync_fails_after.is_some_and(|good| state.syncs == good + 1) {
            // The pages count as clean from now on, though the device never got them.
            if let Some(content) = state.files.get_mut(&self.name) {
                content.waiting.clear();
            }
            return Err(io::Error::from_raw_os_error(5));
        }
        state.log(Op::Sync { file: self.name.clone() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Disk {
        let disk = Disk::default();
        let file = disk.file("a");
        file.write_at(&[1; 2 * SECTOR], 0).expect("a good disk");
        file.sync().expect("a good disk");
        disk.note(7);
        file.write_at(&[2; 2 * SECTOR], 0).expect("a good disk");
        disk
    }

    fn content(disk: &Disk) -> Vec<u8> {
        disk.file("a").read().expect("a good disk")
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_any_sector_of_the_rest() {
        let disk = written();
        assert_eq!(content(&disk), [2; 2 * SECTOR]);
        assert_eq!(content(&disk.cut(Keep::Nothing)), [1; 2 * SECTOR]);
        assert_eq!(content(&disk.cut(Keep::All)), [2; 2 * SECTOR]);
        let halves =
            |seed| content(&disk.cut(Keep::Some(seed))).chunks(SECTOR).map(|it| it[0]).collect::<Vec<_>>();
        let seen: std::collections::BTreeSet<_> = (0..64).map(halves).collect();
        assert_eq!(seen.len(), 4, "each sector is old or new: {seen:?}");
        assert_eq!(halves(3), halves(3), "a seed decides");
    }

    #[test]
    fn the_disk_can_be_had_as_it_was_at_any_time() {
        let disk = written();
        assert_eq!(disk.cut_after(1, Keep::Nothing).1, None);
        assert!(content(&disk.cut_after(1, Keep::Nothing).0).is_empty());
        let (after, noted) = disk.cut_after(3, Keep::Nothing);
        assert_eq!((content(&after), noted), (vec![1; 2 * SECTOR], Some(7)));
    }

    #[test]
    fn a_failed_sync_is_followed_by_one_that_lies() {
        let disk = written();
        disk.fail(Faults { sync_fails_after: Some(0), ..Faults::default() });
        assert!(disk.file("a").sync().is_err());
        assert_eq!(disk.lock().files["a"].device, [1; 2 * SECTOR]);
    }

    #[test]
    fn a_full_disk_takes_nothing_more() {
        let disk = written();
        disk.fail(Faults { capacity: Some(3 * SECTOR), ..Faults::default() });
        let file = disk.file("b");
        assert_eq!(disk.room(), 512);
        let full = file.write_at(&[0; SECTOR + 1], 0).expect_err("there is no room");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        file.write_at(&[0; SECTOR], 0).expect("there is room");
    }
}
