//! Results.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use xtask::commands::Row;

/// Rows as they come.
#[derive(Debug, Default)]
pub struct Figures(Vec<Row>);

impl Figures {
    /// Adds a figure that has no target.
    pub fn add(&mut self, figure: impl Into<String>, value: f64, unit: &str) {
        self.push(figure.into(), value, unit, Value::Null, None);
    }

    /// Adds a figure that must not be above its target.
    pub fn at_most(&mut self, figure: impl Into<String>, value: f64, unit: &str, target: f64) {
        self.push(figure.into(), value, unit, target.into(), Some(value <= target));
    }

    /// Adds a figure that must not be below its target.
    pub fn at_least(&mut self, figure: impl Into<String>, value: f64, unit: &str, target: f64) {
        self.push(figure.into(), value, unit, target.into(), Some(value >= target));
    }

    fn push(&mut self, figure: String, value: f64, unit: &str, target: Value, holds: Option<bool>) {
        let row = Row { figure, value, unit: unit.to_owned(), target, holds };
        eprintln!("{}: {:.2} {}", row.figure, row.value, row.unit);
        self.0.push(row);
    }

    /// Writes them where `cargo xtask bench` reads them.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(&self.0).context("failed to encode the rows")?;
        std::fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
    }

    /// Returns the rows as a table for people.
    pub fn table(&self) -> String {
        xtask::commands::table(&self.0)
    }
}

/// Returns the smallest of `times` that at least `percent` of a hundred are not above, in ms; 0 of none.
pub fn quantile(times: &[Duration], percent: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
}

/// Returns the middle one of some values, the lower of two; 0 of none.
pub fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// Returns how many a second.
pub fn rate(count: usize, span: Duration) -> f64 {
    let count = u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
    if span.is_zero() { 0.0 } else { count / span.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{middle, quantile, rate};

    #[test]
    fn quantile_is_one_of_the_values_and_the_last_one_at_hundred() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!([50, 99, 100].map(|percent| quantile(&times, percent)), [100.0, 198.0, 200.0]);
        assert_eq!(quantile(&times[..1], 99), 200.0);
        assert_eq!(quantile(&[], 50), 0.0);
    }

    #[test]
    fn middle_is_one_of_the_values() {
        assert_eq!(middle(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(middle(&[4.0, 3.0, 1.0, 2.0]), 2.0);
        assert_eq!(middle(&[]), 0.0);
    }

    #[test]
    fn rate_of_no_time_is_zero() {
        assert_eq!(rate(10, Duration::from_secs(4)), 2.5);
        assert_eq!(rate(10, Duration::ZERO), 0.0);
    }
}
