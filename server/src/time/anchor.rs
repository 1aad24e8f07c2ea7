//! The line in a file of its own, for the next process on the same boot.
//!
//! It need not survive the machine: after a boot it is worth nothing, whatever it says. What the kernel was given is
//! there after any end of the process, so nothing is synced; a rename makes it whole or absent.

use std::fs;
use std::io;
use std::path::Path;
use std::str::SplitWhitespace;

use scheduler_core::cluster_time::{BootTime, Line, Slew, Source};
use scheduler_core::unit::{Span, Timestamp};

const FORMAT: &str = "2";

/// Reads the line of this boot; another boot's, or a damaged one, is none.
///
/// # Errors
/// When there is a file that cannot be read.
pub fn read(file: &Path, boot: &str) -> io::Result<Option<(Line, Source)>> {
    match fs::read(file) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok().and_then(|text| parse(&text, boot))),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Replaces the file.
///
/// # Errors
/// When it cannot be written; the old one is still there then.
pub fn write(file: &Path, boot: &str, line: Line, source: Source) -> io::Result<()> {
    let fresh = file.with_extension("new");
    fs::write(&fresh, format(boot, line, source))?;
    fs::rename(&fresh, file)
}

fn format(boot: &str, line: Line, source: Source) -> String {
    let slew = line.slew();
    let words = [line.cluster().as_millis(), line.boot().as_millis(), slew.until.as_millis()];
    let [cluster, at, until] = words;
    let text = format!("{FORMAT} {boot} {cluster} {at} {} {until} {}", slew.ppm, word(source));
    let check = blake3::hash(text.as_bytes()).to_hex();
    format!("{text} {}\n", &check[..16])
}

fn parse(text: &str, boot: &str) -> Option<(Line, Source)> {
    let (content, check) = text.trim_end().rsplit_once(' ')?;
    if blake3::hash(content.as_bytes()).to_hex()[..16] != *check {
        return None;
    }
    let mut words = content.split_whitespace();
    if words.next() != Some(FORMAT) || words.next() != Some(boot) {
        return None;
    }
    let cluster = Timestamp::from_millis(number(&mut words)?);
    let at = BootTime::from_millis(number(&mut words)?);
    let ppm = words.next()?.parse().ok()?;
    let until = BootTime::from_millis(number(&mut words)?);
    let source = source(&mut words)?;
    Some((Line::through(at, cluster).slewed(at, Slew { ppm, until }), source))
}

fn number(words: &mut SplitWhitespace<'_>) -> Option<u64> {
    words.next()?.parse().ok()
}

fn word(source: Source) -> String {
    match source {
        Source::Founding => "founding".to_owned(),
        Source::Kept => "kept".to_owned(),
        Source::Replicas(count) => format!("replicas {count}"),
        Source::Agents(count) => format!("agents {count}"),
        Source::WallClock { after } => format!("wall-clock {}", after.as_millis()),
        Source::LastEntry { after, before } => {
            format!("last-entry {} {}", after.as_millis(), before.as_millis())
        }
    }
}

fn source(words: &mut SplitWhitespace<'_>) -> Option<Source> {
    let kind = words.next()?;
    let mut count = || usize::try_from(number(words)?).ok();
    Some(match kind {
        "founding" => Source::Founding,
        "kept" => Source::Kept,
        "replicas" => Source::Replicas(count()?),
        "agents" => Source::Agents(count()?),
        "wall-clock" => Source::WallClock { after: Span::from_millis(number(words)?) },
        "last-entry" => Source::LastEntry {
            after: Span::from_millis(number(words)?),
            before: Span::from_millis(number(words)?),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let at = BootTime::from_millis(9);
        let slew = Slew { ppm: -700, until: BootTime::from_millis(30_009) };
        Line::through(at, Timestamp::from_millis(1_795_972_127_000)).slewed(at, slew)
    }

    #[test]
    fn line_comes_back_exactly_with_where_it_is_from() {
        let span = Span::from_hours;
        let sources = [
            Source::Founding,
            Source::Kept,
            Source::Replicas(2),
            Source::Agents(1_000),
            Source::WallClock { after: span(3) },
            Source::LastEntry { after: span(0), before: span(24) },
        ];
        for source in sources {
            assert_eq!(parse(&format("a-b", line(), source), "a-b"), Some((line(), source)));
        }
    }

    #[test]
    fn line_of_another_boot_or_a_damaged_one_is_none() {
        let text = format("a-b", line(), Source::Kept);
        assert_eq!(parse(&text, "c-d"), None);
        for cut in 0..text.len() - 1 {
            assert_eq!(parse(&text[..cut], "a-b"), None, "cut at {cut}");
        }
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(parse(&String::from_utf8(bytes).unwrap(), "a-b"), None, "flipped at {at}");
        }
    }
}
