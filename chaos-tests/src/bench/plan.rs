//! Rounds of the planner, and the queue that people look at, on full clusters with long lines.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use scheduler_core::id::Term;
use scheduler_core::plan::{Links, plan as planned};
use scheduler_core::queue;
use scheduler_core::state::State;

use super::plan_size::sizes;
use super::rows::{Figures, quantile};

/// The laboratory of the planner's own tests.
#[allow(dead_code, missing_docs, unreachable_pub)]
#[path = "../../../scheduler-core/tests/it/lab.rs"]
pub(super) mod lab;

/// A cluster: its nodes with eight GPUs each, how many jobs wait, what a round may take in ms.
const SIZE: (usize, usize, f64) = (128, 10_000, 5.0);

/// Whom the waiting jobs may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// Everybody is protected.
    Protected,
    /// Nobody is, but nobody waits who has a right.
    None,
    /// Within a budget, whoever has a later turn.
    Turns,
    /// Whoever runs for long, half of them.
    Half,
    /// Everybody: all of it is the free tier's.
    Free,
}

impl Rights {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Protected, "all protected"),
        (Self::None, "all interruptible, no right"),
        (Self::Turns, "all interruptible, rights by turn"),
        (Self::Half, "half may be taken"),
        (Self::Free, "all may be taken"),
    ];

    fn run(self, number: usize) -> &'static str {
        match self {
            Self::Protected => "for=1h min=2h",
            // Too short for anybody's use to be above another's by the margin.
            Self::None | Self::Turns => "for=2h min=1h",
            Self::Half if number.is_multiple_of(2) => "for=60h min=1h",
            Self::Half => "for=1h min=2h",
            Self::Free => "for=2h free",
        }
    }
}

/// Measures rounds and queues; `rounds` of each.
///
/// # Errors
/// When a plan is not what its scenario makes it.
pub fn plan(figures: &mut Figures, rounds: usize) -> Result<()> {
    sizes(figures, rounds)?;
    let (nodes, jobs, target) = SIZE;
    for (rights, words) in Rights::ALL {
        let state = cluster(nodes, jobs, rights)?;
        let links = Links::all_ready(&state);
        let round = || planned(&state, &links, lab::NOW, Term::new(1)).decisions.len();
        let decisions = round();
        let starts = !matches!(rights, Rights::Protected | Rights::None);
        ensure!((decisions > 0) == starts, "{words}: {decisions} jobs start");
        let figure = format!("plan round, {nodes} nodes, {jobs} waiting, {words}, p50");
        figures.at_most(figure, median(rounds, round), "ms", target);
        figures.add(format!("its decisions, {nodes} nodes, {words}"), decisions_of(decisions)?, "count");
        let rows = || queue::rows(&state, &links, lab::NOW).len();
        let figure = format!("queue with {jobs} rows, {nodes} nodes, {words}, p50");
        figures.at_most(figure, median(rounds.div_ceil(4), rows), "ms", 100.0);
    }
    Ok(())
}

fn decisions_of(count: usize) -> Result<f64> {
    Ok(f64::from(u32::try_from(count).context("few decisions")?))
}

fn median(rounds: usize, round: impl Fn() -> usize) -> f64 {
    let timed = |_| {
        let begun = Instant::now();
        std::hint::black_box(round());
        begun.elapsed()
    };
    quantile(&(0..rounds).map(timed).collect::<Vec<Duration>>(), 50)
}

/// Returns a full cluster of ten teams of ten leaves, all with jobs that wait.
fn cluster(nodes: usize, jobs: usize, rights: Rights) -> Result<State> {
    let mut text = String::new();
    (0..nodes).try_for_each(|node| writeln!(text, "node n{node} 8 h100"))?;
    for team in 0..10 {
        writeln!(text, "budget t{team} 10")?;
        (0..10).try_for_each(|leaf| writeln!(text, "budget t{team}/l{leaf} 10"))?;
    }
    runs(&mut text, nodes, rights)?;
    for job in 1..=jobs {
        let shape = ["1", "2", "4", "8", "2x8", "4x8"][job % 6];
        let turn = if rights == Rights::None { "" } else { ["", " first", " last"][job % 3] };
        let (team, leaf, hours) = (job % 10, job / 10 % 10, 1 + job % 8);
        writeln!(text, "job {job} t{team}/l{leaf} {shape} min={hours}h{turn}")?;
    }
    Ok(lab::state(&text))
}

/// Attempts of one to four GPUs on all of the nodes.
fn runs(text: &mut String, nodes: usize, rights: Rights) -> Result<()> {
    let mut number = 1_000_000;
    for node in 0..nodes {
        let mut first = 0;
        while first < 8 {
            let gpus = [1, 2, 4, 1][(node + first) % 4].min(8 - first);
            let (team, leaf) = (number % 10, number / 10 % 10);
            let (last, run) = (first + gpus - 1, rights.run(number));
            writeln!(text, "runs {number}.1 t{team}/l{leaf} {gpus} n{node} {first}-{last} {run}")?;
            number += 1;
            first += gpus;
        }
    }
    Ok(())
}
