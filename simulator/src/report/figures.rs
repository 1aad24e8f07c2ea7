//! The figures that runs are compared by: each with its key, its unit and what it means, in one list.

use super::words;
use crate::measure::number::{count, gpu_hours, real};
use crate::measure::{Cost, Known, Measures, MostPreempted};

/// A figure of a run.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Its key: stable, for machines. The unit is last in it.
    pub key: &'static str,
    /// What people read.
    pub name: &'static str,
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// Its value in a run.
    pub value: fn(&Measures) -> Value,
    /// Which value stands for several seeds.
    pub seeds: Seeds,
}

/// Which value of a figure stands for several seeds of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// Their mean.
    Mean,
    /// The smallest: that is the worst.
    Least,
    /// The largest: that is the worst.
    Most,
}

impl Figure {
    /// Returns the value that stands for runs which only their seed tells apart. A mean of times of which one is a lower
    /// bound is one too.
    #[must_use]
    pub fn over(&self, runs: &[&Measures]) -> Value {
        let values: Vec<Value> = runs.iter().map(|run| (self.value)(run)).collect();
        let by_number = |a: &&Value, b: &&Value| a.number().total_cmp(&b.number());
        let found = match self.seeds {
            Seeds::Mean => return mean(&values),
            Seeds::Least => values.iter().min_by(by_number),
            Seeds::Most => values.iter().max_by(by_number),
        };
        found.cloned().unwrap_or(Value::Ratio(None))
    }
}

/// Returns the mean of values of one kind; where one is not known, the mean is not either.
fn mean(values: &[Value]) -> Value {
    let numbers: Vec<f64> = values.iter().map(Value::number).collect();
    let mean = numbers.iter().sum::<f64>() / real(count(&numbers).max(1));
    let known = (!mean.is_nan() && !numbers.is_empty()).then_some(mean);
    match values.first() {
        Some(Value::Ratio(_)) => Value::Ratio(known),
        Some(Value::Times(_) | Value::Count(_) | Value::Of(..) | Value::Job(_)) => Value::Times(known),
        Some(Value::GpuTime(_)) => Value::GpuTime(known.map_or(0, whole)),
        Some(Value::Time(_)) => Value::Time(known.map(|ms| {
            let is_open = |value: &Value| matches!(value, Value::Time(Some(time)) if time.is_at_least);
            Known { ms: whole(ms), is_at_least: values.iter().any(is_open) }
        })),
        None => Value::Ratio(None),
    }
}

/// Returns a whole number that is none the less written as a real one.
pub(super) fn whole(number: f64) -> u64 {
    format!("{number:.0}").parse().unwrap_or(u64::MAX)
}

/// A value of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A part of one; none where there is nothing to take a part of.
    Ratio(Option<f64>),
    /// So many times; none where nobody knows.
    Times(Option<f64>),
    /// A length of time; none of nothing.
    Time(Option<Known>),
    /// A number of things.
    Count(u64),
    /// GPU-milliseconds.
    GpuTime(u64),
    /// A job, and how often.
    Job(Option<MostPreempted>),
    /// So many of so many.
    Of(u64, u64),
}

impl Value {
    /// Returns it as a number to compare it by; not a number where it is not known.
    pub(super) fn number(&self) -> f64 {
        match self {
            Self::Ratio(ratio) | Self::Times(ratio) => ratio.unwrap_or(f64::NAN),
            Self::Time(time) => time.map_or(f64::NAN, |time| real(time.ms)),
            Self::Count(count) | Self::Of(count, _) => real(*count),
            Self::GpuTime(gpu_ms) => real(*gpu_ms),
            Self::Job(job) => job.as_ref().map_or(0.0, |job| real(job.times)),
        }
    }

    /// Returns it as people read it; `-` where nothing is known.
    #[must_use]
    pub fn shown(&self) -> String {
        let shown = match self {
            Self::Ratio(ratio) => ratio.map(words::percent),
            Self::Times(times) => times.map(|times| format!("{times:.2}")),
            Self::Time(time) => time.map(words::known),
            Self::Count(count) => Some(words::grouped(*count)),
            Self::GpuTime(gpu_ms) => Some(words::hours(*gpu_ms)),
            Self::Job(job) => job.as_ref().map(|job| format!("{} x {} ({})", job.times, job.job, job.budget)),
            Self::Of(part, of) => Some(format!("{part} of {of}")),
        };
        shown.unwrap_or_else(|| "-".to_owned())
    }

    /// Returns it for machines: ratios of 1, milliseconds, GPU-hours; a lower bound with `>` before it; empty where
    /// nothing is known.
    #[must_use]
    pub fn raw(&self) -> String {
        let raw = match self {
            Self::Ratio(ratio) | Self::Times(ratio) => ratio.map(|ratio| format!("{ratio:.6}")),
            Self::Time(time) => {
                time.map(|time| format!("{}{}", if time.is_at_least { ">" } else { "" }, time.ms))
            }
            Self::Count(count) | Self::Of(count, _) => Some(count.to_string()),
            Self::GpuTime(gpu_ms) => Some(format!("{:.3}", gpu_hours(*gpu_ms))),
            Self::Job(job) => job.as_ref().map(|job| job.times.to_string()),
        };
        raw.unwrap_or_default()
    }
}

fn wait(
    measures: &Measures,
    of: &str,
    gpus: &str,
    which: fn(&crate::measure::Waits) -> Option<Known>,
) -> Value {
    Value::Time(measures.waits_of(of, gpus).and_then(which))
}

const fn figure(
    key: &'static str,
    name: &'static str,
    meaning: &'static str,
    value: fn(&Measures) -> Value,
) -> Figure {
    Figure { key, name, meaning, value, seeds: Seeds::Mean }
}

impl Figure {
    /// Lets the smallest value stand for several seeds.
    const fn least(self) -> Self {
        Self { seeds: Seeds::Least, ..self }
    }

    /// Lets the largest value stand for several seeds.
    const fn most(self) -> Self {
        Self { seeds: Seeds::Most, ..self }
    }
}

/// All figures, in the order in which they are shown.
pub const FIGURES: &[Figure] = &[
    figure("jobs", "jobs", "Jobs submitted in the run.", |m| Value::Count(m.jobs.submitted)),
    figure("jobs_waiting", "still waiting", "Jobs that waited when the run ended.", |m| {
        Value::Count(m.jobs.waiting)
    }),
    figure("jobs_withdrawn", "withdrawn", "Jobs withdrawn before they ever started.", |m| {
        Value::Count(m.jobs.withdrawn)
    }),
    figure(
        "offered_load",
        "offered load",
        "Work of all jobs submitted / GPU time in service. Not the same as demand at a moment.",
        |m| Value::Times(m.load.offered_ratio),
    ),
    figure(
        "demand_mean",
        "demand at a moment, mean",
        "GPUs that jobs of both tiers had or waited for / GPUs in service, mean over time.",
        |m| Value::Times(m.load.demand_mean_ratio),
    ),
    figure("demand_p50", "demand at a moment, p50", "The same: half of all moments had no more.", |m| {
        Value::Times(m.load.demand_p50_ratio)
    }),
    figure("demand_max", "demand at a moment, max", "The same at the worst moment.", |m| {
        Value::Times(m.load.demand_max_ratio)
    })
    .most(),
    figure(
        "owed_mean",
        "owed delivered, mean",
        "Of what its share was worth, at most what it wanted, hour by hour: the part that a leaf got over the whole run. Mean over leaves.",
        |m| Value::Ratio(m.delivery.period.mean_ratio),
    ),
    figure(
        "owed_worst",
        "owed delivered, worst budget",
        "Of what it was owed, the part that the leaf that got least got over the whole run.",
        |m| Value::Ratio(m.delivery.period.worst_ratio),
    )
    .least(),
    figure("owed_95", "owed delivered, 95% or more", "Leaves that got at least 95% of it.", |m| {
        Value::Of(m.delivery.period.at_least_95, m.delivery.period.leaves)
    })
    .least(),
    figure(
        "owed_strict_mean",
        "owed delivered hour by hour, mean",
        "The same, but what comes in a later hour does not count.",
        |m| Value::Ratio(m.delivery.strict.mean_ratio),
    ),
    figure("owed_strict_worst", "owed delivered hour by hour, worst", "The same of the worst leaf.", |m| {
        Value::Ratio(m.delivery.strict.worst_ratio)
    })
    .least(),
    figure("occupancy", "occupancy", "GPU time with attempts, from go to end / GPU time in service.", |m| {
        Value::Ratio(m.occupancy.occupied_ratio)
    }),
    figure("useful", "useful share", "The same, less what preemptions lost.", |m| {
        Value::Ratio(m.occupancy.useful_ratio)
    }),
    figure("free_share", "free-tier share", "The free tier's part of the occupied time.", |m| {
        Value::Ratio(m.occupancy.free_ratio)
    }),
    figure("protected", "protected share", "GPU time under protection / GPU time in service.", |m| {
        Value::Ratio(m.occupancy.protected_ratio)
    }),
    figure(
        "debug_p90_ms",
        "wait p90, debug up to 8 GPUs",
        "Submission to first start of funded jobs with a minimum runtime of 15 min or less: nine of ten waited no longer.",
        |m| wait(m, "debug", "1-8", |w| w.p90),
    ),
    figure("debug_any_p90_ms", "wait p90, debug of any size", "The same of any number of GPUs.", |m| {
        wait(m, "debug", "any", |w| w.p90)
    }),
    figure("wait_p50_ms", "wait p50, funded", "Submission to first start of all funded jobs.", |m| {
        wait(m, "funded", "any", |w| w.p50)
    }),
    figure("wait_p90_ms", "wait p90, funded", "The same: nine of ten waited no longer.", |m| {
        wait(m, "funded", "any", |w| w.p90)
    }),
    figure(
        "wait_large_p50_ms",
        "wait p50, 64 GPUs and more",
        "The same of funded jobs with 64 or more GPUs.",
        |m| wait(m, "funded", "64+", |w| w.p50),
    ),
    figure(
        "wait_large_p90_ms",
        "wait p90, 64 GPUs and more",
        "Submission to first start of funded jobs with 64 or more GPUs: nine of ten waited no longer.",
        |m| wait(m, "funded", "64+", |w| w.p90),
    ),
    figure("wait_free_p90_ms", "wait p90, free tier", "The same of the free tier.", |m| {
        wait(m, "free tier", "any", |w| w.p90)
    }),
    figure(
        "head_longest_ms",
        "longest wait at the head",
        "From becoming first in order to the go, whoever was first in between.",
        |m| Value::Time(m.heads.longest),
    )
    .most(),
    figure(
        "head_bound_ms",
        "bound of a wait at the head",
        "What is promised: the cap, the start limit and two graces.",
        |m| Value::Time(Some(Known { ms: m.heads.bound_ms, is_at_least: false })),
    ),
    figure(
        "head_over",
        "heads over the bound",
        "Waits at the head that were longer than is promised.",
        |m| Value::Count(m.heads.over),
    )
    .most(),
    figure(
        "head_over_unexplained",
        "... without a reason",
        "Of these: neither an earlier date nor a node that was away. Zero is promised.",
        |m| Value::Count(m.heads.over - m.heads.over_with_reason),
    )
    .most(),
    figure(
        "idle_while_head_waits",
        "idle while a head waits",
        "GPU time with nobody while a funded job was first and could not start / GPU time in service.",
        |m| Value::Ratio(m.occupancy.idle_while_head_waits_ratio),
    ),
    figure("preemptions", "preemptions", "Attempts that gave way, of both tiers.", |m| {
        Value::Count(m.bill.total.preemptions)
    }),
    figure(
        "preemptions_per_1000_gpu_h",
        "preemptions per 1,000 GPU-h",
        "Attempts of both tiers that gave way, for each 1,000 occupied GPU-hours.",
        |m| Value::Times(m.bill.total.per_1000_gpu_h),
    ),
    figure("lost_gpu_h", "lost GPU-h", "Work since the last checkpoint plus restart, times GPUs.", |m| {
        Value::GpuTime(m.bill.total.lost_gpu_ms)
    }),
    figure("lost_funded_gpu_h", "lost GPU-h, funded", "The same, of funded attempts.", |m| {
        Value::GpuTime(cost(m, "funded").map_or(0, |cost| cost.lost_gpu_ms))
    }),
    figure("lost_free_gpu_h", "lost GPU-h, free tier", "The same, of the free tier.", |m| {
        Value::GpuTime(cost(m, "free tier").map_or(0, |cost| cost.lost_gpu_ms))
    }),
    figure("lost_funded", "lost, funded", "Lost by funded attempts / occupied by them.", |m| {
        Value::Ratio(cost(m, "funded").and_then(|cost| cost.lost_ratio))
    }),
    figure("lost_free", "lost, free tier", "Lost by the free tier / occupied by it.", |m| {
        Value::Ratio(cost(m, "free tier").and_then(|cost| cost.lost_ratio))
    }),
    figure(
        "wasted",
        "wasted preemptions",
        "The job they were for never started on what it took. Zero is the goal.",
        |m| Value::Count(m.bill.wasted),
    )
    .most(),
    figure("most_preempted", "most preempted job, funded", "How often, which, whose.", |m| {
        Value::Job(m.bill.most_funded.clone())
    })
    .most(),
    figure("most_preempted_free", "most preempted job, free tier", "The same in the free tier.", |m| {
        Value::Job(m.bill.most_free.clone())
    })
    .most(),
    figure(
        "flips",
        "flips",
        "A budget took back within four hours from another what that had taken from it; funded work only.",
        |m| Value::Count(m.bill.flips),
    ),
    figure("dates", "dates issued", "Jobs that were first, could not start and got a date.", |m| {
        Value::Count(m.dates.issued)
    }),
    figure(
        "dates_moved_by_node",
        "dates moved by nodes",
        "Moved because a node failed or was drained.",
        |m| Value::Count(m.dates.moved_by_node),
    ),
    figure("dates_moved_otherwise", "dates moved otherwise", "Zero is promised.", |m| {
        Value::Count(m.dates.moved_otherwise)
    })
    .most(),
    figure(
        "date_late_p90_ms",
        "go after the date, p90",
        "How long after its first date a job had its go.",
        |m| Value::Time(m.dates.late_p90),
    ),
    figure("date_late_max_ms", "go after the date, longest", "The same at worst.", |m| {
        Value::Time(m.dates.latest)
    })
    .most(),
    figure(
        "room_now_gpus",
        "room now, most of the time",
        "GPUs of the largest job that could have started on what was not protected, at nine moments of ten.",
        |m| Value::Count(m.rooms.mostly.now),
    )
    .least(),
    figure(
        "room_8h_gpus",
        "room in 8 h, most of the time",
        "The same, with what had no more than 8 h to go.",
        |m| Value::Count(m.rooms.mostly.in_8h),
    )
    .least(),
    figure(
        "held_twice_gpu_h",
        "held twice, GPU-h",
        "GPUs with two attempts. Anything but zero is a mistake.",
        |m| Value::GpuTime(m.classes.held_twice_gpu_ms),
    )
    .most(),
];

fn cost<'m>(measures: &'m Measures, tier: &str) -> Option<&'m Cost> {
    measures.bill.tiers.iter().find(|row| row.tier == tier).map(|row| &row.cost)
}

/// Returns the figure with a key.
#[must_use]
pub fn figure_of(key: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.key == key)
}
