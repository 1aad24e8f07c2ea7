//! Settings by name, as a founding, a command and a scenario give them.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::ops::RangeInclusive;

use super::Settings;
use crate::unit::Span;

/// The shortest time that a setting can be.
const LEAST_MS: u64 = 50;

/// Why a setting cannot be that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is none of this name.
    #[error("there is no setting `{0}`")]
    Unknown(String),
    /// A count out of its bounds.
    #[error("`{key}` is {least} to {most}, not {value}")]
    Count {
        /// Which.
        key: String,
        /// The least it can be.
        least: u32,
        /// The most it can be.
        most: u32,
        /// What was asked.
        value: u64,
    },
    /// Neither on nor off.
    #[error("`{0}` is 0 or 1, not {1}")]
    Flag(String, u64),
    /// A time out of its bounds.
    #[error("`{0}` is {LEAST_MS} ms to ten years, not {1} ms")]
    Time(String, u64),
}

/// Sets one figure: milliseconds, or a count where it is one.
///
/// # Errors
/// When there is no such setting, or it cannot be that.
pub fn set(settings: &mut Settings, key: &str, value: u64) -> Result<(), Error> {
    if let Some((count, bounds)) = count(settings, key) {
        let (least, most) = (*bounds.start(), *bounds.end());
        *count = u32::try_from(value)
            .ok()
            .filter(|value| bounds.contains(value))
            .ok_or_else(|| Error::Count { key: key.to_owned(), least, most, value })?;
        return Ok(());
    }
    if let Some(flag) = flag(settings, key) {
        *flag = match value {
            0 => false,
            1 => true,
            _ => return Err(Error::Flag(key.to_owned(), value)),
        };
        return Ok(());
    }
    let Some(span) = span(settings, key) else {
        return Err(Error::Unknown(key.to_owned()));
    };
    if value < LEAST_MS || Span::from_millis(value) > Span::MAX {
        return Err(Error::Time(key.to_owned(), value));
    }
    *span = Span::from_millis(value);
    Ok(())
}

/// What kind of value a setting has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A length of time, given in milliseconds.
    Time,
    /// A number.
    Count,
    /// On, 1, or off, 0.
    Flag,
}

impl Kind {
    /// Returns the kind of a setting; none if there is no such one.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        let mut settings = Settings::default();
        if count(&mut settings, key).is_some() {
            Some(Self::Count)
        } else if flag(&mut settings, key).is_some() {
            Some(Self::Flag)
        } else {
            span(&mut settings, key).map(|_| Self::Time)
        }
    }
}

/// Returns what is either on, 1, or off, 0.
fn flag<'a>(settings: &'a mut Settings, key: &str) -> Option<&'a mut bool> {
    match key {
        "dates" => Some(&mut settings.dates),
        "short_later" => Some(&mut settings.short_later),
        _ => None,
    }
}

/// Returns a plain number and what it can be.
fn count<'a>(settings: &'a mut Settings, key: &str) -> Option<(&'a mut u32, RangeInclusive<u32>)> {
    match key {
        "keep_ended_max" => Some((&mut settings.keep_ended_max, 0..=u32::MAX)),
        "live_jobs_max" => Some((&mut settings.live_jobs_max, 0..=u32::MAX)),
        "keep_results_max" => Some((&mut settings.keep_results_max, 0..=u32::MAX)),
        "specs_mib_max" => Some((&mut settings.specs_mib_max, 1..=u32::MAX)),
        "requests_max" => Some((&mut settings.requests_max, 100..=u32::MAX)),
        "decisions_max" => Some((&mut settings.decisions_max, 0..=u32::MAX)),
        "bills_max" => Some((&mut settings.bills_max, 0..=u32::MAX)),
        "dependencies_max" => Some((&mut settings.dependencies_max, 0..=u32::MAX)),
        "array_tasks_max" => Some((&mut settings.array_tasks_max, 0..=u32::MAX)),
        "curve_points_max" => Some((&mut settings.curve_points_max, 1_000..=u32::MAX)),
        "margin_ppm" => Some((&mut settings.margin_ppm, 0..=1_000_000)),
        "barren_max" => Some((&mut settings.barren_max, 1..=100)),
        "short_lane_ppm" => Some((&mut settings.short_lane_ppm, 0..=1_000_000)),
        "burst_limit_pct" => Some((&mut settings.burst_limit_pct, 0..=10_000)),
        "more_dates_ppm" => Some((&mut settings.more_dates_ppm, 0..=1_000_000)),
        _ => None,
    }
}

fn span<'a>(settings: &'a mut Settings, key: &str) -> Option<&'a mut Span> {
    Some(match key {
        "window" => &mut settings.window,
        "cap" => &mut settings.cap,
        "start_limit" => &mut settings.start_limit,
        "grace" => &mut settings.grace,
        "free_grace" => &mut settings.free_grace,
        "grace_max" => &mut settings.grace_max,
        "cancel_grace" => &mut settings.cancel_grace,
        "rank_grace" => &mut settings.rank_grace,
        "restart_guess" => &mut settings.restart_guess,
        "free_backoff" => &mut settings.free_backoff,
        "free_backoff_max" => &mut settings.free_backoff_max,
        "recheck" => &mut settings.recheck,
        "debounce" => &mut settings.debounce,
        "date_margin" => &mut settings.date_margin,
        "beat" => &mut settings.beat,
        "silent_after" => &mut settings.silent_after,
        "unreachable_after" => &mut settings.unreachable_after,
        "launch_backoff" => &mut settings.launch_backoff,
        "launch_backoff_max" => &mut settings.launch_backoff_max,
        "request_memory" => &mut settings.request_memory,
        "request_skew" => &mut settings.request_skew,
        "keep_ended" => &mut settings.keep_ended,
        "keep_results" => &mut settings.keep_results,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_by_name_within_bounds() {
        let mut settings = Settings::default();
        set(&mut settings, "beat", 50).unwrap();
        assert_eq!(settings.beat, Span::from_millis(50));
        set(&mut settings, "keep_ended_max", 7).unwrap();
        assert_eq!(settings.keep_ended_max, 7);
        for (key, value) in
            [("margin_ppm", 0), ("margin_ppm", 1_000_000), ("barren_max", 1), ("barren_max", 100)]
        {
            set(&mut settings, key, value).unwrap();
        }
        for key in ["rank_grace", "restart_guess", "free_backoff", "free_backoff_max", "recheck"] {
            set(&mut settings, key, 60).unwrap();
        }
        set(&mut settings, "dates", 0).unwrap();
        set(&mut settings, "short_later", 1).unwrap();
        assert!(!settings.dates && settings.short_later);
        let refused = [
            ("beat", 49),
            ("beat", u64::MAX),
            ("bet", 100),
            ("keep_ended_max", 1 << 40),
            ("margin_ppm", 1_000_001),
            ("barren_max", 0),
            ("barren_max", 101),
            ("recheck", 49),
            ("dates", 2),
            ("more_dates_ppm", 1_000_001),
            ("burst_limit_pct", 10_001),
            ("short_lane_ppm", 1_000_001),
        ];
        for (key, value) in refused {
            assert!(set(&mut settings, key, value).is_err(), "{key} {value}");
        }
    }
}
