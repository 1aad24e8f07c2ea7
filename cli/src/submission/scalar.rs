//! Values of files that are checked where they stand.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use proto::v1::AfterJob;
use scheduler_core::array::Indexes;

use crate::form::{duration, size};

/// A length of time; `0` needs no unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Duration(pub u64);

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

/// A number of percent with up to four decimals, in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub u32);

/// A signal, by its name or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(pub u32);

/// A job that must have ended, `4190`, or completed, `4190:ok`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After(pub AfterJob);

/// The tasks of an array: `0-9%4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array(pub String);

/// A word, or a list of words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMore {
    /// A word.
    One(String),
    /// A list.
    More(Vec<String>),
}

impl OneOrMore {
    /// Returns the words.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::One(word) => vec![word.clone()],
            Self::More(words) => words.clone(),
        }
    }
}

/// Reads the tasks of an array.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn array(text: &str) -> Result<String, String> {
    Indexes::parse(text).map(|indexes| indexes.to_string()).map_err(|error| error.to_string())
}

/// Reads a job that must have ended.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn after(text: &str) -> Result<AfterJob, String> {
    let (job, ok) = match text.trim().split_once(':') {
        None => (text.trim(), false),
        Some((job, "ok")) => (job, true),
        Some((_, "any")) => {
            return Err(format!("`{text}`: without a word behind it, a job may have ended in any way"));
        }
        Some((_, word)) => return Err(format!("`{text}`: the only word behind a job is `ok`, not `{word}`")),
    };
    let wrong = || {
        format!("`{text}` is not a job: write its number, like 4190, or 4190:ok if it must have completed")
    };
    let (job, task) = match job.split_once('[') {
        Some((job, task)) => (job, Some(task.strip_suffix(']').ok_or_else(wrong)?)),
        None => (job, None),
    };
    let number = |digits: &str| digits.parse::<u32>().map_err(|_| wrong());
    Ok(AfterJob { job: number(job)?, ok, task: task.map(number).transpose()? })
}

/// The signals that may be named.
const SIGNALS: &[(&str, u32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("CONT", 18),
    ("WINCH", 28),
];

/// Reads a signal.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn signal(text: &str) -> Result<u32, String> {
    let upper = text.to_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        return Ok(*number);
    }
    let number = text.parse::<u32>().ok().filter(|n| (1..=64).contains(n) && *n != 9 && *n != 19);
    number.ok_or_else(|| {
        let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is not a signal that a job can catch: {}, or a number", names.join(", "))
    })
}

/// Returns a signal's name, `SIGTERM`, or its number.
pub fn signal_name(number: u32) -> String {
    match SIGNALS.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => format!("SIG{name}"),
        None if number == 9 => "SIGKILL".into(),
        None => format!("signal {number}"),
    }
}

/// Reads percent exactly: up to four decimals.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn percent(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let number = text.strip_suffix('%').map_or(text, str::trim_end);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(decimals) || number.ends_with('.') {
        return Err(format!(
            "`{text}` is not a share: write percent of the budget above, like `20` or `12.5`"
        ));
    }
    if decimals.len() > 4 {
        return Err(format!("`{text}` has more than four decimals"));
    }
    let ppm = format!("{whole}{decimals:0<4}").parse::<u32>().ok().filter(|ppm| *ppm <= 1_000_000);
    ppm.ok_or_else(|| format!("`{text}` is more than the whole: a share is at most 100"))
}

/// Reads a scalar of any kind as the text that stands there, then by `parse`.
struct Scalar<F, T> {
    expected: &'static str,
    parse: F,
    value: std::marker::PhantomData<T>,
}

impl<T, F: Fn(&str) -> Result<T, String>> Visitor<'_> for Scalar<F, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

fn scalar<'de, D: Deserializer<'de>, T>(
    from: D,
    expected: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    from.deserialize_str(Scalar { expected, parse, value: std::marker::PhantomData })
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        scalar(from, "a length of time like `4h`", |text| {
            duration::parse(text).map(|span| Self(span.as_millis()))
        })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        scalar(from, "an amount of memory like `64GiB`", |text| size::parse(text).map(Self))
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        scalar(from, "percent like `20` or `12.5`", |text| percent(text).map(Self))
    }
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        scalar(from, "a job like `4190` or `4190:ok`", |text| after(text).map(Self))
    }
}

impl<'de> Deserialize<'de> for Array {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        scalar(from, "tasks like `0-9%4`", |text| array(text).map(Self))
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        scalar(from, "a signal like `TERM`", |text| signal(text).map(Self))
    }
}

#[cfg(test)]
mod tests {
    use super::{after, percent, signal, signal_name};

    #[test]
    fn shares_are_exact() {
        assert_eq!(percent("20"), Ok(200_000));
        assert_eq!(percent("12.5"), Ok(125_000));
        assert_eq!(percent("0.0001"), Ok(1));
        assert_eq!(percent("100 %"), Ok(1_000_000));
        for bad in ["100.0001", "-1", "1e2", "12.", ".5", "0.00001", "", "101", "99999999999"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn jobs_to_wait_for_are_numbers_with_an_ok() {
        assert_eq!(after("4190").map(|a| (a.job, a.ok)), Ok((4190, false)));
        assert_eq!(after("4190:ok").map(|a| (a.job, a.ok)), Ok((4190, true)));
        assert_eq!(after("4190[7]:ok").map(|a| (a.job, a.task, a.ok)), Ok((4190, Some(7), true)));
        for bad in ["4190[", "4190[x]", "", "x", "4190:", "4190:failed", "4190:any", "-1", "4190 4191"] {
            assert!(after(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(signal("SIGTERM"), Ok(15));
        assert_eq!(signal("usr1"), Ok(10));
        assert_eq!(signal("34"), Ok(34));
        for bad in ["KILL", "9", "0", "65", "-1", "TREM"] {
            assert!(signal(bad).is_err(), "{bad}");
        }
        assert_eq!(signal_name(15), "SIGTERM");
    }
}
