//! Numbers in words: lengths of time, GPU time, uses. Moments are never put in words here.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::budget;
use crate::decision::{Basis, Right, UseOf};
use crate::id::AttemptId;
use crate::lifecycle::burst::Over;
use crate::state::State;
use crate::unit::{ChargeMillis, GpuMillis, Span};

/// How many of a list are named.
const NAMED: usize = 5;

/// Returns a charge in GPU-hours with two decimals, rounded down.
pub(super) fn charged(charge: ChargeMillis) -> String {
    hundredths(charge.get() / 36_000_000)
}

/// Returns GPU time in GPU-hours with two decimals, rounded down.
pub(super) fn gpu_time(time: GpuMillis) -> String {
    hundredths(u128::from(time.get()) / 36_000)
}

fn hundredths(hundredths: u128) -> String {
    format!("{}.{:02} GPU-h", hundredths / 100, hundredths % 100)
}

/// Returns a length of time in its two largest units, rounded down: `1 h 30 min`, `9 min 50 s`, `15 s`.
pub(super) fn span(span: Span) -> String {
    let two = |large: u64, unit: &str, small: u64, part: &str| match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {part}"),
    };
    match span.as_millis() {
        ms if ms >= 3_600_000 => two(ms / 3_600_000, "h", ms / 60_000 % 60, "min"),
        ms if ms >= 60_000 => two(ms / 60_000, "min", ms / 1000 % 60, "s"),
        ms if ms >= 1000 || ms == 0 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}

/// Returns `1 GPU`, `2 GPUs`.
pub(super) fn gpus(count: u32) -> String {
    format!("{count} {}", if count == 1 { "GPU" } else { "GPUs" })
}

/// Returns parts per million in percent, with as many decimals as they have.
pub(super) fn percent(ppm: u32) -> String {
    let part = format!("{:04}", ppm % 10_000);
    match part.trim_end_matches('0') {
        "" => format!("{} %", ppm / 10_000),
        part => format!("{}.{part} %", ppm / 10_000),
    }
}

/// Returns how a budget is above its burst limit.
#[must_use]
pub fn over(state: &State, over: &Over) -> String {
    let most = over.most / 10_000;
    format!(
        "{} has {} GPUs, more than its burst limit of {}.{:02}, {} % of its share",
        budget::label(state, over.budget),
        over.gpus,
        most / 100,
        most % 100,
        state.meta.settings.burst_limit_pct
    )
}

/// Returns two uses with as many decimals as tell them apart, at most six.
pub(super) fn uses(one: &UseOf, other: &UseOf) -> (String, String) {
    let text = |used: &UseOf, digits: u32| match used.ppm() {
        None => String::from("no allocation"),
        Some(ppm) => {
            let part = ppm % 1_000_000 / 10_u64.pow(6 - digits);
            format!("{}.{part:0width$}", ppm / 1_000_000, width = usize::try_from(digits).unwrap_or(0))
        }
    };
    let with = |digits| (text(one, digits), text(other, digits));
    let apart = [2, 3].map(with).into_iter().find(|(one, other)| one != other);
    apart.unwrap_or_else(|| if one.cmp_ratio(other).is_eq() { with(2) } else { with(6) })
}

/// Returns why an attempt might be taken, with both sides' numbers as they were.
pub(super) fn right(state: &State, right: &Right) -> String {
    match right {
        Right::FreeTier => String::from("it was in the free tier, which gives way to funded jobs"),
        Right::Turn => String::from("it was past its protection, of the same budget, and with a later turn"),
        Right::Claim { date, .. } => {
            format!("it was past its protection, on a node of the date {date}, which had come")
        }
        Right::Lane { occupied, part } => format!(
            "it was past its protection, and the other is short: short jobs had {occupied} of the {} of their lane",
            gpus(*part)
        ),
        Right::Share { mine, theirs } => {
            let (my, their) = uses(mine, theirs);
            let name = |used: &UseOf| budget::label(state, used.budget);
            format!(
                "it was past its protection, and {} was at {my} of its allocation, {} at {their}{}",
                name(mine),
                name(theirs),
                parted_in(state, mine).map_or_else(String::new, |above| format!("; they part in {above}"))
            )
        }
    }
}

/// Returns the budget below which two sides part.
fn parted_in(state: &State, side: &UseOf) -> Option<String> {
    Some(budget::label(state, state.budgets.get(&side.budget)?.parent?))
}

/// Returns how a lost time is known.
pub(super) const fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Reported => "reported by the job",
        Basis::Declared => "at most the declared interval, an upper bound",
        Basis::Unknown => "unknown, so all since its start: an upper bound",
    }
}

/// Returns attempts as a list in words, `4101.2 and 4102.1`, the first few of them.
pub(super) fn attempts(of: &[AttemptId]) -> String {
    list(of.iter().map(|id| format!("{id}")).collect())
}

/// Returns a list in words, `a, b and c`, the first few of it.
pub(super) fn list(mut items: Vec<String>) -> String {
    if items.len() > NAMED + 1 {
        let more = items.len() - NAMED;
        items.truncate(NAMED);
        items.push(format!("{more} more"));
    }
    match items.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::BudgetId;
    use alloc::string::ToString;

    fn used(booked: u128, allocation: u128) -> UseOf {
        UseOf {
            budget: BudgetId::new(1),
            charged: ChargeMillis::new(booked),
            set_aside: ChargeMillis::ZERO,
            allocation: ChargeMillis::new(allocation),
        }
    }

    #[test]
    fn lengths_are_told_in_two_units_at_most() {
        let told = [0, 999, 1000, 15_999, 60_000, 590_123, 3_600_000, 5_430_000, 604_800_000]
            .map(|ms| span(Span::from_millis(ms)));
        let expected = ["0 s", "999 ms", "1 s", "15 s", "1 min", "9 min 50 s", "1 h", "1 h 30 min", "168 h"];
        assert_eq!(told, expected);
    }

    #[test]
    fn two_uses_have_the_decimals_that_tell_them_apart() {
        let pair = |a, b| uses(&used(a, 1_000_000), &used(b, 1_000_000));
        let text = |one: &str, other: &str| (one.to_string(), other.to_string());
        assert_eq!(pair(770_000, 1_060_000), text("0.77", "1.06"));
        assert_eq!(pair(771_000, 775_999), text("0.771", "0.775"));
        assert_eq!(pair(771_001, 771_002), text("0.771001", "0.771002"));
        assert_eq!(pair(5, 5), text("0.00", "0.00"));
        assert_eq!(uses(&used(1, 0), &used(1, 2)), text("no allocation", "0.50"));
    }

    #[test]
    fn lists_are_cut() {
        let items = |n: u32| (1..=n).map(|at| at.to_string()).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 6].map(|n| list(items(n))), ["", "1", "1 and 2", "1, 2, 3, 4, 5 and 6"]);
        assert_eq!(list(items(9)), "1, 2, 3, 4, 5 and 4 more");
    }

    #[test]
    fn gpu_time_is_told_in_hours() {
        assert_eq!(gpu_time(GpuMillis::new(590_000 * 128)), "20.97 GPU-h");
        assert_eq!(charged(ChargeMillis::new(3_600_000_000)), "1.00 GPU-h");
        assert_eq!([100_000, 125_000, 1].map(percent), ["10 %", "12.5 %", "0.0001 %"]);
        assert_eq!((gpus(1), gpus(8)), ("1 GPU".to_string(), "8 GPUs".to_string()));
    }
}
