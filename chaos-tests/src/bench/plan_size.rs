//! Rounds of the planner at three sizes, a hundredfold apart: full clusters, jobs of 1 to 1,024 GPUs, 500 budgets.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use scheduler_core::id::Term;
use scheduler_core::plan::{Links, plan as planned};
use scheduler_core::state::State;

use super::memory::resident_mib;
use super::plan::lab;
use super::rows::{Figures, quantile};

/// A cluster: its nodes with eight GPUs each, how many jobs wait, what a round may take in ms.
struct Size {
    nodes: usize,
    waiting: usize,
    target_ms: f64,
}

const SIZES: [Size; 3] = [
    Size { nodes: 128, waiting: 10_000, target_ms: 5.0 },
    Size { nodes: 1_250, waiting: 100_000, target_ms: 50.0 },
    Size { nodes: 12_500, waiting: 1_000_000, target_ms: 1_000.0 },
];

const TEAMS: usize = 20;
const LEAVES: usize = 25;

/// What a waiting job may take, without what its nodes read.
const JOB_BYTES_MAX: f64 = 1_024.0;

/// Of so many places in a row the jobs that wait ask for these shapes.
const SHAPES: [&str; 40] = [
    "1", "1", "2", "8", "1", "4", "1", "2x8", "1", "8", "1", "2", "4x8", "1", "8", "1", "1", "4", "8x8", "2",
    "1", "8", "1", "2x8", "16x8", "1", "4", "1", "8", "32x8", "1", "2", "1", "4x8", "64x8", "1", "8", "1",
    "4", "128x8",
];

/// Nodes of what runs: of so many in a row, in gangs of these.
const GANGS: [usize; 16] = [1, 1, 2, 1, 1, 4, 1, 1, 1, 2, 1, 8, 1, 1, 16, 1];

/// What the numbers allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// Half of the teams have used more than the others by the margin: those take from these.
    Some,
    /// What may be interrupted is all of a budget that has used next to nothing. A node has just become empty.
    Nobody,
}

/// Measures rounds, every second one preempting; `rounds` of them at each size.
///
/// # Errors
/// When a plan is not what its cluster makes it.
pub(super) fn sizes(figures: &mut Figures, rounds: usize) -> Result<()> {
    memory(figures)?;
    let mut medians = Vec::new();
    for size in &SIZES {
        let of = format!("{} GPUs, {} waiting", size.nodes * 8, size.waiting);
        let takes = Cluster::new(size, Rights::Some)?;
        let rests = Cluster::new(size, Rights::Nobody)?;
        let (first, (starts, taking)) = takes.round();
        ensure!(taking > 0, "{of}: a round that may preempt does not");
        let (_, (others, none)) = rests.round();
        ensure!(
            others > 0 && none == 0,
            "{of}: a round without rights starts {others}, {none} of them taking"
        );
        let timed: Vec<(Duration, Duration)> =
            (0..rounds.div_ceil(2)).map(|_| (takes.round().0, rests.round().0)).collect();
        let (preempting, others): (Vec<_>, Vec<_>) = timed.into_iter().unzip();
        let all: Vec<Duration> = preempting.iter().chain(&others).copied().collect();
        let median = quantile(&all, 50).midpoint(quantile(&all, 51));
        figures.at_most(format!("plan round, {of}, median"), median, "ms", size.target_ms);
        figures.at_most(
            format!("of those that preempt, {of}, median"),
            quantile(&preempting, 50),
            "ms",
            size.target_ms,
        );
        figures.add(format!("of the others, {of}, median"), quantile(&others, 50), "ms");
        figures.add(format!("first round from cold, {of}"), first.as_secs_f64() * 1_000.0, "ms");
        figures.add(format!("its decisions, {of}"), count(starts)?, "count");
        figures.add(format!("of those, with victims, {of}"), count(taking)?, "count");
        medians.push((count(size.nodes * 8)?, median.max(0.000_001)));
    }
    figures.at_most("growth of a round with GPUs and jobs, exponent", exponent(&medians), "", 1.1);
    Ok(())
}

/// Returns the slope of the logarithms, by least squares.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let number: f64 = logs.iter().map(|_| 1.0).sum();
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / number;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let above: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let below: f64 = logs.iter().map(|point| (point.0 - x).powi(2)).sum();
    above / below
}

/// What a job that waits takes in state. Before anything else: later the allocator has room left over from larger states,
/// and a process that grows by nothing says nothing.
fn memory(figures: &mut Figures) -> Result<()> {
    let pid = i32::try_from(std::process::id()).context("a process number")?;
    let size = &SIZES[2];
    let before = resident_mib(pid)?;
    let empty = Cluster::new(&Size { waiting: 0, ..*size }, Rights::Nobody)?;
    let between = resident_mib(pid)?;
    let full = Cluster::new(size, Rights::Nobody)?;
    let own = (resident_mib(pid)? - between) - (between - before);
    ensure!(own > 0.0, "the memory of {} jobs was not seen: the process did not grow", size.waiting);
    let bytes = own * 1_048_576.0 / count(size.waiting)?;
    figures.at_most(format!("memory of a waiting job, of {}", size.waiting), bytes, "bytes", JOB_BYTES_MAX);
    drop((empty, full));
    Ok(())
}

fn count(number: usize) -> Result<f64> {
    Ok(f64::from(u32::try_from(number).context("a small number")?))
}

struct Cluster {
    state: State,
    links: Links,
}

impl Cluster {
    fn new(size: &Size, rights: Rights) -> Result<Self> {
        let state = lab::state(&text(size, rights)?);
        let links = Links::all_ready(&state);
        Ok(Self { state, links })
    }

    /// Returns how long a round takes, how many jobs it starts, and how many of them take somebody.
    fn round(&self) -> (Duration, (usize, usize)) {
        let begun = Instant::now();
        let made = std::hint::black_box(planned(&self.state, &self.links, lab::NOW, Term::new(1)));
        let taken = begun.elapsed();
        let taking = made.decisions.iter().filter(|start| !start.takes.is_empty()).count();
        (taken, (made.decisions.len(), taking))
    }
}

fn text(size: &Size, rights: Rights) -> Result<String> {
    let mut text = String::new();
    (0..size.nodes).try_for_each(|node| writeln!(text, "node n{node} 8 h100"))?;
    for team in 0..TEAMS {
        let share = if rights == Rights::Some { 5 } else { 3 };
        writeln!(text, "budget t{team} {share}")?;
        (0..LEAVES).try_for_each(|leaf| writeln!(text, "budget t{team}/l{leaf} 4"))?;
    }
    if rights == Rights::Nobody {
        writeln!(text, "budget calm 40")?;
    }
    runs(&mut text, size.nodes, rights)?;
    for job in 1..=size.waiting {
        let shape = SHAPES[job % SHAPES.len()];
        // Each budget has all shapes, and most jobs are as long as the one before.
        let leaf = job / SHAPES.len() % (TEAMS * LEAVES);
        let hours = 1 + job / SHAPES.len() / (TEAMS * LEAVES) % 8;
        let turn = if job % 7 == 0 { " first" } else { "" };
        let tier = if job % 11 == 0 { " free" } else { "" };
        let (team, leaf) = (leaf % TEAMS, leaf / TEAMS);
        writeln!(text, "job {job} t{team}/l{leaf} {shape} min={hours}h{turn}{tier}")?;
    }
    Ok(text)
}

/// Attempts on all nodes, a third of them past their protection.
fn runs(text: &mut String, nodes: usize, rights: Rights) -> Result<()> {
    let (mut number, mut node, mut turn) = (2_000_000, 0, 0);
    while node < nodes {
        let gang = GANGS[turn % GANGS.len()].min(nodes - node);
        turn += 1;
        if gang > 1 {
            let names: Vec<String> = (node..node + gang).map(|node| format!("n{node}")).collect();
            run(text, &mut number, &format!("{gang}x8 {} 0-7", names.join(",")), rights)?;
            node += gang;
            continue;
        }
        let mut first = 0;
        while first < 8 {
            let gpus = [1, 8, 2, 1, 4, 8, 1][(node + turn) % 7].min(8 - first);
            let last = first + gpus - 1;
            if rights == Rights::Some || node > 0 {
                run(text, &mut number, &format!("{gpus} n{node} {first}-{last}"), rights)?;
            }
            first += gpus;
        }
        node += 1;
    }
    Ok(())
}

fn run(text: &mut String, number: &mut usize, shape: &str, rights: Rights) -> Result<()> {
    *number += 1;
    let (team, leaf) = (*number % TEAMS, *number / TEAMS % LEAVES);
    let how = match (number.is_multiple_of(3), rights) {
        // Of the teams with even numbers everybody has run for long, so that their use is above the others'.
        (true, Rights::Some) if team.is_multiple_of(2) => "for=150h min=1h every=1h saved=20m",
        (false, Rights::Some) if team.is_multiple_of(2) => "for=150h min=160h",
        (true, Rights::Some | Rights::Nobody) => "for=3h min=1h every=1h saved=20m",
        (false, Rights::Some | Rights::Nobody) => "for=2h min=8h",
    };
    let budget = match (number.is_multiple_of(3), rights) {
        (true, Rights::Nobody) => String::from("calm"),
        (true, Rights::Some) | (false, Rights::Some | Rights::Nobody) => format!("t{team}/l{leaf}"),
    };
    writeln!(text, "runs {number}.1 {budget} {shape} {how}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn the_exponent_is_that_of_a_power() {
        let points = [1_024.0_f64, 10_000.0, 100_000.0].map(|x| (x, 3.0 * x.powf(0.5)));
        assert!((exponent(&points) - 0.5).abs() < 1e-9);
    }
}
