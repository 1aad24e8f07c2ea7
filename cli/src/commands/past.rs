//! Questions about the past: moments as they are typed, answers that come in several pages.

use proto::v1::Reach;

use crate::client::Client;
use crate::codes;
use crate::failure::Failure;
use crate::shell::Shell;

/// Reads a moment that is past, as a flag gives it; `now` is the control plane's.
fn moment(shell: &Shell, flag: &str, text: &str, now: u64) -> Result<u64, Failure> {
    let at = shell.look.zone.earlier(text, now);
    at.map_err(|what| Failure::new(codes::MOMENT, format!("{flag}: {what}")))
}

/// A time that is asked for: from a moment on, and before another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    /// From.
    pub since_at: Option<u64>,
    /// Before.
    pub until_at: Option<u64>,
}

/// Reads the flags `--since` and `--until`.
///
/// # Errors
/// When one is no moment, the time is none, or no replica says what time it is.
pub async fn time(
    shell: &Shell,
    client: &Client,
    since: Option<&str>,
    until: Option<&str>,
) -> Result<Time, Failure> {
    if since.is_none() && until.is_none() {
        return Ok(Time::default());
    }
    let now = client.hello().await?.cluster_time_at;
    let time = Time {
        since_at: since.map(|text| moment(shell, "--since", text, now)).transpose()?,
        until_at: until.map(|text| moment(shell, "--until", text, now)).transpose()?,
    };
    match (time.since_at, time.until_at) {
        (Some(since), Some(until)) if since >= until => {
            Err(Failure::new(codes::MOMENT, "--until is not after --since")
                .fix("both are moments of the past"))
        }
        _ => Ok(time),
    }
}

/// Adds what a further page says of how far it reaches: it goes further back, and what it misses is missing beside.
pub fn reach(all: &mut Option<Reach>, page: Option<Reach>) {
    match (all.as_mut(), page) {
        (Some(all), Some(page)) => {
            all.complete_from_at = page.complete_from_at;
            all.kept_from_at = page.kept_from_at;
            for missing in page.missing {
                if !all.missing.contains(&missing) {
                    all.missing.push(missing);
                }
            }
        }
        (None, page) => *all = page,
        (Some(_), None) => {}
    }
}

#[cfg(test)]
mod tests {
    use proto::v1::{Missing, Reach};

    use super::reach;

    #[test]
    fn pages_add_up_to_one_answer() {
        let missing = |first_index| Missing { first_index, last_index: first_index, ..Missing::default() };
        let page = |complete_from_at, holes: &[u64]| {
            let missing = holes.iter().copied().map(missing).collect();
            Some(Reach { complete_from_at, kept_from_at: None, missing })
        };
        let mut all = None;
        reach(&mut all, page(90, &[7]));
        reach(&mut all, page(50, &[7, 3]));
        reach(&mut all, None);
        assert_eq!(all, page(50, &[7, 3]));
    }
}
