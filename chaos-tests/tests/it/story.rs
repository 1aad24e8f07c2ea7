//! What laws about preemption tell and look at.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use chaos_tests::client::{Client, Failed, job};
use chaos_tests::lab::{DEADLINE, Lab, try_until, until};
use chaos_tests::work::Work;
use proto::v1::{AttemptView, JobRequest, JobView, PreemptionCost, Shape};

/// Protection that no law outlasts.
pub const LONG: u64 = 3_600_000;
/// Protection that is over at once.
pub const SHORT: u64 = 300;

/// Budgets that nobody was ever charged to. Protection of an hour is far more than a window is worth, so whoever has
/// such a job is over its share.
#[derive(Debug)]
pub struct Arena {
    /// The user of [`Arena::a`] and [`Arena::c`].
    pub ana: Client,
    /// The user of [`Arena::x`] and [`Arena::y`].
    pub bob: Client,
    /// A quarter: a leaf.
    pub a: String,
    /// Another quarter, which has no owner of its own.
    pub c: String,
    /// A half of the other half.
    pub x: String,
    /// The other half of it.
    pub y: String,
}

impl Arena {
    /// Makes the budgets.
    pub fn open(lab: &Lab) -> Result<Self> {
        let (a, b, c) = (lab.fresh("a"), lab.fresh("b"), lab.fresh("c"));
        let tree = format!(
            "name: lab\nowner: ops\nchildren:\n  - {{ name: {a}, share: 25, owner: ana, members: [ana] }}\n  \
             - {{ name: {c}, share: 25, members: [ana] }}\n  \
             - name: {b}\n    share: 50\n    owner: bob\n    children:\n      \
             - {{ name: x, share: 50, members: [bob] }}\n      - {{ name: y, share: 50, members: [bob] }}\n"
        );
        let file = lab.write(&format!("{a}.yaml"), &tree)?;
        lab.bursar(&["budget", "apply", "-f", &file, "--reason", "a law begins", "--yes"]).ok();
        let (x, y) = (format!("{b}/x"), format!("{b}/y"));
        Ok(Self { ana: lab.client("ana")?, bob: lab.client("bob")?, a, c, x, y })
    }
}

/// Returns a resumable job of some GPUs on one node; `min_runtime_ms` 0 is the free tier.
pub fn resumable(budget: &str, gpus: u32, min_runtime_ms: u64) -> JobRequest {
    let request = job("job", budget, gpus, min_runtime_ms);
    JobRequest { resumable: Some(true), ..request }
}

/// Returns a resumable job over some nodes.
pub fn gang(budget: &str, nodes: u32, gpus: u32, min_runtime_ms: u64) -> JobRequest {
    let shape = Shape { nodes, gpus_per_node: gpus, ..Shape::default() };
    JobRequest { shape: Some(shape), ..resumable(budget, gpus, min_runtime_ms) }
}

/// Waits until a job is as `is_so` says, and returns it.
pub fn when(
    lab: &Lab,
    client: &Client,
    job: u32,
    what: &str,
    mut is_so: impl FnMut(&JobView) -> bool,
) -> JobView {
    let mut last = None;
    let found = try_until(DEADLINE, || {
        let view = lab.block_on(client.show(job)).ok()?;
        let is_found = is_so(&view);
        last = Some(view.clone());
        is_found.then_some(view)
    });
    found.unwrap_or_else(|| {
        let why = lab.block_on(client.explain(&job.to_string())).map(|e| (e.sentence, e.reasons));
        let plan = lab.block_on(client.status()).map(|status| (status.last_plan, status.as_of));
        panic!("still not: job {job} {what}: {last:#?}\n{why:#?}\n{plan:?}")
    })
}

/// Waits until an attempt of a job has started, and returns it.
pub fn started(lab: &Lab, client: &Client, job: u32, attempt: u32) -> AttemptView {
    let view = when(lab, client, job, &format!("runs attempt {attempt}"), |view| {
        find(view, attempt).is_some_and(|attempt| attempt.started_at.is_some())
    });
    find(&view, attempt).expect("it was just there")
}

/// Waits until an attempt of a job has started and its process listens, and returns it. The control plane knows of a
/// process before that has come to its first line; until then nothing reaches it.
pub fn listens(lab: &Lab, client: &Client, (job, work): (u32, &Work), attempt: u32) -> AttemptView {
    let view = started(lab, client, job, attempt);
    until(&format!("{job}.{attempt} listens"), || work.said_by(attempt, "start").pop());
    view
}

/// Waits until an attempt of a job has ended, and returns it.
pub fn ended(lab: &Lab, client: &Client, job: u32, attempt: u32) -> AttemptView {
    let view = when(lab, client, job, &format!("has no attempt {attempt} any more"), |view| {
        find(view, attempt).is_some_and(|attempt| attempt.ended_at.is_some())
    });
    find(&view, attempt).expect("it was just there")
}

/// Waits until a job is in a state, and returns it.
pub fn stands(lab: &Lab, client: &Client, job: u32, state: &str) -> JobView {
    when(lab, client, job, &format!("is {state}"), |view| view.state == state)
}

/// Returns an attempt.
pub fn find(view: &JobView, attempt: u32) -> Option<AttemptView> {
    view.attempts.iter().find(|known| known.attempt == attempt).cloned()
}

/// Checks the cost of a preempted attempt by its own times: GPUs x (age + restart), the age by its basis, to the
/// millisecond. Who may take by its share and had to wait for the end of a protection has a date by then, and claims.
pub fn assert_cost(attempt: &AttemptView, cause: &str) -> PreemptionCost {
    let cost = attempt.cost.clone().unwrap_or_else(|| panic!("it has no cost: {attempt:#?}"));
    let ended = attempt.ended_at.expect("it has ended");
    let go = attempt.go_at.expect("it ran");
    let is_meant = cost.cause == cause || cause == "share" && cost.cause == "claim";
    assert!(is_meant && cost.gpus == attempt.gpus, "{cause}: {attempt:#?}");
    assert_eq!((Some(cost.noticed_at), cost.ended_at), (attempt.stop_at, ended), "{attempt:#?}");
    assert_eq!(cost.saved_at, attempt.saved_at, "{attempt:#?}");
    let age = match (cost.basis.as_str(), attempt.saved_at) {
        // One that saves and leaves at once may do so in one millisecond, and each moment is rounded for itself.
        ("reported", Some(saved)) => ended.saturating_sub(saved),
        // It saved in an earlier attempt only; or it does not resume, and loses everything.
        ("reported", None) | ("unknown", _) => ended - go,
        _ => panic!("its basis does not fit: {attempt:#?}"),
    };
    assert_eq!(cost.age_ms, age, "{attempt:#?}");
    assert_eq!(cost.lost_gpu_ms, u64::from(cost.gpus) * (age + cost.restart_ms), "{attempt:#?}");
    cost
}

/// Checks what an attempt was charged: its GPUs from go to its end, less what was cut.
pub fn assert_charged(attempt: &AttemptView, cut_ms: u64) {
    let (go, ended) = (attempt.go_at.expect("it ran"), attempt.ended_at.expect("it has ended"));
    let time = (ended - go).saturating_sub(cut_ms);
    let charge = u128::from(attempt.gpus) * 1_000 * u128::from(time);
    assert_eq!(attempt.charged_milli_gpu_ms, charge.to_string(), "cut {cut_ms}: {attempt:#?}");
}

/// Returns the fields of a file that a rank's shim wrote.
pub fn shim_file(lab: &Lab, attempt: &AttemptView, job: u32, rank: u32, name: &str) -> Result<Fields> {
    let node = usize::try_from(rank).ok().and_then(|rank| attempt.nodes.get(rank));
    let node = node.with_context(|| format!("no rank {rank}: {attempt:#?}"))?;
    let agent = lab.agents.iter().find(|agent| agent.name == *node).context("no such node")?;
    let file = agent.data.join("attempts").join(format!("{job}.{}.{rank}", attempt.attempt)).join(name);
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
    let field = |field: &str| field.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(Fields(text.split('\0').filter_map(field).collect()))
}

/// The fields of such a file.
#[derive(Debug)]
pub struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Returns a number.
    pub fn number(&self, key: &str) -> u64 {
        let text = self.0.get(key).unwrap_or_else(|| panic!("no {key}: {self:?}"));
        text.parse().unwrap_or_else(|error| panic!("{key}: {error}: {self:?}"))
    }
}

/// Checks that something was refused with a code, and why in words.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Failed>, code: u32, words: &[&str]) {
    let failed = answer.expect_err("it has to be refused");
    let has_all = words.iter().all(|word| failed.what.contains(word));
    assert!(failed.code == code && has_all, "expected B{code} with {words:?}: {failed:?}");
}
