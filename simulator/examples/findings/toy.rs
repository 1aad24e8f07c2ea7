//! The toy with a known answer, beside its formula.

use std::fmt::Write as _;
use std::thread;

use anyhow::{Context as _, Result};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use scheduler_core::unit::Span;
use simulator::toy::{Toy, Trial};

const TRIALS: u64 = 4_000;
const TOY: Toy = Toy {
    nodes: 128,
    protected: 128,
    needed: 64,
    cap: Span::from_hours(8),
    restart: Span::from_mins(10),
    save_every: Span::from_mins(30),
};

/// Published means and 90th percentiles in hours: machines protected, machines needed, mean, p90 where one is given.
const WAITS: [(u32, u32, f64, Option<f64>); 8] = [
    (64, 64, 0.0, None),
    (90, 64, 2.29, Some(2.80)),
    (115, 64, 3.52, Some(4.00)),
    (128, 64, 3.97, Some(4.41)),
    (64, 16, 0.0, None),
    (90, 16, 0.0, None),
    (115, 16, 0.21, None),
    (128, 16, 0.99, None),
];

/// Caps in hours, with 115 of 128 machines protected and 64 needed: published bill of a slice in percent, mean wait.
const CAPS: [(u64, f64, f64); 6] =
    [(1, 41.7, 0.44), (2, 20.8, 0.88), (4, 10.4, 1.76), (8, 5.2, 3.52), (16, 2.6, 7.03), (24, 1.7, 10.55)];

/// Writes both tables.
pub fn toy() -> Result<String> {
    let mut text = String::from("## A toy with a known answer\n\n");
    writeln!(
        text,
        "128 machines of 8 GPUs; some are protected, with the time left uniform from 0 to the cap, the rest may be taken at \
         once. A large job waits for the last protection that it needs: in the mean cap x (needed - takeable) / (protected + 1). \
         {TRIALS} trials each, through real jobs, a date and its claim; hours. Off: means from the formula, which the published ones are rounded from; 90th percentiles from the published ones.\n"
    )?;
    writeln!(text, "| protected, needed | mean, published | mean | off | p90, published | p90 | off |")?;
    writeln!(text, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    for (protected, needed, mean, p90) in WAITS {
        let toy = Toy { protected, needed, ..TOY };
        // Where nobody has to be waited for every trial is the same.
        let made = trials(toy, if toy.mean_ms() == 0.0 { 100 } else { TRIALS })?;
        let (found, found90) = (mean_hours(&made), p90_hours(&made));
        let shown = p90.map_or_else(|| "-".into(), |p90| format!("{p90:.2}"));
        let off90 = p90.map_or_else(|| "-".into(), |p90| off(found90, p90));
        writeln!(
            text,
            "| {protected}, {needed} | {mean:.2} | {found:.2} | {} | {shown} | {found90:.2} | {off90} |",
            off(found, toy.mean_ms() / 3.6e6)
        )?;
    }
    writeln!(
        text,
        "\nThe cap, with 115 machines protected and 64 needed; a preemption loses what was not saved (every 30 min) and a restart of 10 min: 25 min in the mean, of a slice as long as the cap.\n"
    )?;
    writeln!(
        text,
        "| cap, h | bill of a slice, published | bill | off | mean wait, published | mean wait | off |"
    )?;
    writeln!(text, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    for (cap, bill, mean_wait) in CAPS {
        let toy = Toy { protected: 115, cap: Span::from_hours(cap), ..TOY };
        let trials = trials(toy, TRIALS)?;
        let half = Span::from_millis(toy.save_every.as_millis() / 2);
        let lost = mean(trials.iter().filter_map(|trial| trial.lost_each).map(hours));
        let (found, wait) = (100.0 * lost / hours(toy.cap), mean_hours(&trials));
        writeln!(
            text,
            "| {cap} | {bill:.1} % | {found:.1} % | {} | {mean_wait:.2} | {wait:.2} | {} |",
            off(found, 100.0 * hours(toy.restart.plus(half)) / hours(toy.cap)),
            off(wait, toy.mean_ms() / 3.6e6)
        )?;
    }
    Ok(text)
}

/// Returns how far a figure is from a published one.
fn off(found: f64, published: f64) -> String {
    if published == 0.0 { "-".into() } else { format!("{:+.1} %", 100.0 * (found / published - 1.0)) }
}

fn trials(toy: Toy, count: u64) -> Result<Vec<Trial>> {
    eprintln!(
        "  {} of {} protected, {} needed, cap {:?}: {count} trials",
        toy.protected, toy.nodes, toy.needed, toy.cap
    );
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    thread::scope(|scope| {
        let part = |first: u64| {
            scope.spawn(move || -> Result<Vec<Trial>> {
                let mut all = Vec::new();
                for number in (first..count).step_by(usize::try_from(threads)?) {
                    let mut chances = ChaCha8Rng::seed_from_u64(number);
                    all.push(toy.trial(&mut || chances.random::<f64>())?);
                }
                Ok(all)
            })
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        let mut all = Vec::new();
        for part in parts {
            all.extend(part.join().ok().context("a thread of trials ended")??);
        }
        Ok(all)
    })
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn hours(span: Span) -> f64 {
    span.as_millis() as f64 / 3.6e6
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn mean(of: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = of.collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

fn mean_hours(trials: &[Trial]) -> f64 {
    mean(trials.iter().map(|trial| hours(trial.waited)))
}

fn p90_hours(trials: &[Trial]) -> f64 {
    let mut all: Vec<f64> = trials.iter().map(|trial| hours(trial.waited)).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() * 9 / 10).copied().unwrap_or_default()
}
