//! People who write all the time, and what they were told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use proto::v1::{self, TreeNode};
use tokio::task::JoinHandle;

use crate::client::{Client, Failed, job, script};
use crate::lab::{ADMIN, Lab, try_at_once, until};

/// Between two writes of one writer.
const PACE: Duration = Duration::from_millis(15);
/// After so many calls that nobody waited for, writers go on more slowly, with this between two.
const AHEAD: usize = 2_000;
const SLOWLY: Duration = Duration::from_millis(200);
/// How often one looks whether a pause is over.
const LOOK: Duration = Duration::from_millis(10);
/// GPUs that a job asks for which is to wait for ever: more than are idle.
const TOO_MANY: u32 = 2;
/// The budget whose share is edited, in parts per million: from the first value upwards.
const EDITED: (&str, u32) = ("y", 100_000);
/// So many values follow each other.
const EDITS: u32 = 400_000;

/// What the writers were told.
#[derive(Debug, Default, Clone)]
pub struct Told {
    /// Jobs that were acknowledged, by name.
    pub submitted: BTreeMap<String, u32>,
    /// Jobs of which it is not known whether they are there.
    pub unknown: BTreeSet<String>,
    /// Jobs whose cancel was acknowledged.
    pub cancelled: BTreeSet<u32>,
    /// The newest acknowledged edit: the tree's revision, and the share it gave.
    pub edited: Option<(u64, u32)>,
    /// Calls that were refused for good.
    pub refused: Vec<String>,
    /// Calls that were refused since a disk is full: nothing was done.
    pub put_off: usize,
    /// Calls that no replica answered in time.
    pub unanswered: usize,
    /// How many edits were acknowledged.
    pub edits: usize,
}

impl Told {
    /// Returns how many calls were acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.submitted.len() + self.cancelled.len() + self.edits
    }
}

/// Writers of a lab: three submit, one cancels what was submitted, one edits a budget. They end when this is dropped.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    prefix: String,
    told: Mutex<Told>,
    acknowledged: AtomicUsize,
    /// How many had been acknowledged when more were last waited for.
    waited: AtomicUsize,
    in_flight: AtomicUsize,
    is_paused: AtomicBool,
}

/// A call on its way.
struct Call<'a>(&'a Shared);

impl<'a> Call<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.in_flight.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Load {
    /// Starts them. Jobs that run write a line each into `journal`.
    ///
    /// # Errors
    /// When a client cannot be made.
    pub fn start(lab: &Lab, journal: &str) -> Result<Self> {
        let shared = Arc::new(Shared {
            prefix: lab.fresh("kept"),
            told: Mutex::default(),
            acknowledged: AtomicUsize::new(0),
            waited: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            is_paused: AtomicBool::new(false),
        });
        let handle = lab.handle();
        let mut tasks = Vec::new();
        for n in 0..3 {
            let (shared, client) = (Arc::clone(&shared), lab.client("ana")?.from_replica(n));
            let line = format!("echo \"$BURSAR_JOB_ID $BURSAR_ATTEMPT\" >> {journal}");
            tasks.push(handle.spawn(async move { shared.submit(&client, n, &line).await }));
        }
        let (cancelling, canceller) = (Arc::clone(&shared), lab.client("ana")?.from_replica(1));
        tasks.push(handle.spawn(async move { cancelling.cancel(&canceller).await }));
        let (editing, editor) = (Arc::clone(&shared), lab.client(ADMIN)?.from_replica(2));
        tasks.push(handle.spawn(async move { editing.edit(&editor).await }));
        Ok(Self { shared, tasks })
    }

    /// Returns what they were told so far.
    #[must_use]
    pub fn told(&self) -> Told {
        self.shared.told().clone()
    }

    /// Returns how many calls are on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    /// Returns at once when so many more calls are acknowledged; whether they were in `patience`.
    #[must_use]
    pub fn wait_more(&self, more: usize, patience: Duration) -> bool {
        let acknowledged = self.shared.acknowledged.load(Ordering::SeqCst);
        self.shared.waited.store(acknowledged, Ordering::SeqCst);
        let wanted = acknowledged + more;
        let look = || (self.shared.acknowledged.load(Ordering::SeqCst) >= wanted).then_some(());
        try_at_once(patience, look).is_some()
    }

    /// Has them begin no further call, and waits until every call has ended in some way.
    ///
    /// # Panics
    /// When a call does not end.
    pub fn pause(&self) {
        self.shared.is_paused.store(true, Ordering::SeqCst);
        until("every call has ended in some way", || (self.in_flight() == 0).then_some(()));
    }

    /// Lets them go on.
    pub fn go_on(&self) {
        self.shared.is_paused.store(false, Ordering::SeqCst);
    }

    /// Compares what they were told with what is there, and returns what is missing or too much. They must have been
    /// paused.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn losses(&self, lab: &Lab) -> Result<Vec<String>> {
        let told = self.told();
        let client = lab.client(ADMIN)?;
        let jobs = lab.block_on(client.jobs())?;
        let mut losses = Vec::new();
        let mut seen = BTreeMap::<&str, Vec<&v1::JobView>>::new();
        for job in jobs.iter().filter(|job| job.name.starts_with(&self.shared.prefix)) {
            seen.entry(&job.name).or_default().push(job);
        }
        for (name, number) in &told.submitted {
            match seen.get(name.as_str()).map(Vec::as_slice) {
                Some([one]) if one.job == *number => {}
                None => losses.push(format!("{name}, acknowledged as job {number}, is not there")),
                Some(found) => {
                    let found: Vec<u32> = found.iter().map(|job| job.job).collect();
                    losses.push(format!("{name}, acknowledged as job {number}, is there as {found:?}"));
                }
            }
        }
        for (name, found) in &seen {
            let is_known = told.submitted.contains_key(*name);
            if !is_known && (found.len() > 1 || !told.unknown.contains(*name)) {
                losses.push(format!("{name} is there {} times, and nobody was told", found.len()));
            }
        }
        for number in &told.cancelled {
            let job = jobs.iter().find(|job| job.job == *number);
            if job.is_none_or(|job| job.end.as_deref() != Some("cancelled")) {
                losses.push(format!("job {number} was cancelled, and is {:?}", job.map(|job| &job.state)));
            }
        }
        losses.extend(edit_lost(&told, &lab.block_on(client.budgets())?));
        losses.extend(told.refused.iter().map(|what| format!("refused for good: {what}")));
        Ok(losses)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Returns what is wrong with the tree, compared with the newest edit that was acknowledged. One edit may follow it of
/// which nobody was told.
fn edit_lost(told: &Told, tree: &v1::BudgetTreeView) -> Option<String> {
    let (revision, share) = told.edited?;
    let found = tree.tree.as_ref().and_then(edited).map(|budget| budget.share_ppm);
    let is_there = tree.revision == revision && found == Some(share);
    let is_followed = tree.revision == revision + 1 && told.unanswered > 0;
    (!is_there && !is_followed).then(|| {
        format!("revision {revision} gave {share}; the tree is at revision {} with {found:?}", tree.revision)
    })
}

fn edited(tree: &TreeNode) -> Option<&TreeNode> {
    if tree.name == EDITED.0 { Some(tree) } else { tree.children.iter().find_map(edited) }
}

fn edited_mut(tree: &mut TreeNode) -> Option<&mut TreeNode> {
    if tree.name == EDITED.0 { Some(tree) } else { tree.children.iter_mut().find_map(edited_mut) }
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn turn(&self) {
        // What takes long, on a slow machine, is not to leave it more and more to do.
        let ahead =
            self.acknowledged.load(Ordering::SeqCst).saturating_sub(self.waited.load(Ordering::SeqCst));
        tokio::time::sleep(if ahead > AHEAD { SLOWLY } else { PACE }).await;
        while self.is_paused.load(Ordering::SeqCst) {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn acknowledge(&self, note: impl FnOnce(&mut Told)) {
        note(&mut self.told());
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes a call that was not acknowledged; a refusal is told when it is never right.
    fn fail(&self, what: &str, failed: &Failed) {
        /// No room on the leader's disk.
        const FULL: u32 = 1601;
        let mut told = self.told();
        match failed.code {
            0 => told.unanswered += 1,
            FULL => {
                told.unknown.remove(what);
                told.put_off += 1;
            }
            _ => told.refused.push(format!("{what}: {failed}")),
        }
    }

    /// Every fourth job runs and ends by itself, the others wait.
    async fn submit(&self, client: &Client, n: usize, line: &str) {
        for count in 0_usize.. {
            self.turn().await;
            let name = format!("{}-{n}-{count}", self.prefix);
            let gpus = if count.is_multiple_of(4) { 1 } else { TOO_MANY };
            let call = Call::begin(self);
            self.told().unknown.insert(name.clone());
            match client.submit_new(job(&name, "a", gpus, 0), script(line)).await {
                Ok(number) => self.acknowledge(|told| {
                    told.unknown.remove(&name);
                    told.submitted.insert(name, number);
                }),
                Err(failed) => self.fail(&name, &failed),
            }
            drop(call);
        }
    }

    /// Cancels the newest job that waits for ever, again and again.
    async fn cancel(&self, client: &Client) {
        loop {
            self.turn().await;
            let call = Call::begin(self);
            let next = {
                let told = self.told();
                let waits = |(name, _): &(&String, &u32)| {
                    let count: usize = name.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                    !count.is_multiple_of(4)
                };
                told.submitted
                    .iter()
                    .filter(waits)
                    .map(|(_, job)| *job)
                    .filter(|job| !told.cancelled.contains(job))
                    .max()
            };
            if let Some(job) = next {
                match client.cancel(job, "a test").await {
                    Ok(()) => self.acknowledge(|told| {
                        told.cancelled.insert(job);
                    }),
                    Err(failed) => self.fail(&format!("cancel of {job}"), &failed),
                }
            }
            drop(call);
        }
    }

    /// Gives one budget another share, again and again.
    async fn edit(&self, client: &Client) {
        for count in 0.. {
            self.turn().await;
            let call = Call::begin(self);
            match edit_once(client, EDITED.1 + count % EDITS).await {
                Ok(edit) => self.acknowledge(|told| {
                    told.edited = Some(edit);
                    told.edits += 1;
                }),
                Err(failed) => self.fail("edit", &failed),
            }
            drop(call);
        }
    }
}

async fn edit_once(client: &Client, share: u32) -> Result<(u64, u32), Failed> {
    let no_tree = || Failed { code: 0, what: "the tree has no such budget".to_owned() };
    let mut seen = client.budgets().await?;
    let tree = seen.tree.as_mut().and_then(edited_mut).ok_or_else(no_tree)?;
    tree.share_ppm = share;
    let request = v1::BudgetApplyRequest {
        mark: Some(client.mark().await?),
        tree: seen.tree,
        revision: seen.revision,
        reason: "a test".to_owned(),
        at: None,
    };
    Ok((client.apply_budgets(&request).await?.revision, share))
}
