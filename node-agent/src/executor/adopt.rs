//! What a starting agent finds: every rank that may still run, and every exit that isn't acknowledged.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use scheduler_core::agent::RankId;
use scheduler_core::id::{AttemptId, AttemptNo, JobId, Rank};
use shim::files::{self, Readers};
use shim::format::{self, Exit, Phase, Record, Spec, Status};
use shim::procs::{self, Attempt};
use shim::{cgroup, sys};

use super::config::{Config, Error, failed};

/// Lists the ranks whose directories aren't acknowledged. A directory with another name isn't ours and is left alone.
pub(super) fn list(config: &Config) -> Result<Vec<RankId>, Error> {
    let attempts = config.attempts();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&attempts).map_err(failed("list", &attempts))? {
        let entry = entry.map_err(failed("list", &attempts))?;
        let Some(id) = entry.file_name().to_str().and_then(parse) else { continue };
        if !entry.path().join(format::ACK).exists() {
            found.push(id);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Reads a directory's name.
pub(super) fn parse(name: &str) -> Option<RankId> {
    let mut parts = name.split('.');
    let (job, no, rank) = (parts.next()?, parts.next()?, parts.next()?);
    let id = RankId {
        attempt: AttemptId { job: JobId::new(job.parse().ok()?), no: AttemptNo::new(no.parse().ok()?) },
        rank: Rank::new(rank.parse().ok()?),
    };
    (parts.next().is_none() && name == format!("{}.{}", id.attempt, id.rank)).then_some(id)
}

/// Settles a directory of another boot: what ran then doesn't run now, and nobody saw it end. Says whether it was one.
pub(super) fn settle_reboot(directory: &Path, boot: &str) -> bool {
    let read = |name| files::read(directory, name).ok().flatten();
    let record = read(format::RECORD).and_then(|bytes| Record::decode(&bytes).ok());
    let of_another_boot = match &record {
        Some(record) => record.boot != boot,
        // No record: the intent's time tells nothing, but a launch of this boot would have a lock file in use or an exit.
        None => false,
    };
    if !of_another_boot || directory.join(format::EXIT).exists() {
        return of_another_boot;
    }
    let noticed = read(format::PHASE).and_then(|bytes| Phase::decode(&bytes).ok());
    let exit = Exit {
        boot: boot.to_owned(),
        status: Status::Unknown("the machine restarted".to_owned()),
        launch: None,
        started_ms: None,
        ended_ms: 0,
        asked: Some(REBOOT.to_owned()),
        generation: None,
        noticed: noticed.is_some_and(|phase| phase.noticed),
        // A time of another boot's clock is none of this one's.
        saved_ms: None,
        user_ms: 0,
        system_ms: 0,
        peak_rss_kib: 0,
        writer: "agent".to_owned(),
    };
    // If this can't be written now, the exit stays missing and the next start tries again.
    let _ = files::replace(directory, format::EXIT, &exit.encode(), Readers::Owner);
    true
}

/// Settles a directory whose launch never happened: no record, no exit, nobody who may still launch it, no process. Says
/// whether it was one. Such a rank may be launched again. Its spec is taken away first, under the lock: a shim that was
/// forked before and comes late finds nothing to start.
pub(super) fn settle_unlaunched(directory: &Path) -> bool {
    let present = |name| std::fs::symlink_metadata(directory.join(name)).is_ok();
    let Ok(_lock) = lock(directory) else { return false };
    if present(format::RECORD) || present(format::EXIT) {
        return false;
    }
    let spec =
        files::read(directory, format::SPEC).ok().flatten().and_then(|bytes| Spec::decode(&bytes).ok());
    let is_populated = spec.as_ref().is_some_and(|spec| {
        let attempt = Attempt { mark: &spec.mark, shim: None, main: None, cgroup: spec.group() };
        !matches!(procs::members(attempt), Ok(members) if members.is_empty())
    });
    if is_populated {
        return false;
    }
    if let Some(group) = spec.as_ref().and_then(Spec::group) {
        cgroup::remove(group);
    }
    let gone = |name| match std::fs::remove_file(directory.join(name)) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    gone(format::SPEC) && gone(format::INTENT) && files::sync_directory(directory).is_ok()
}

/// Takes the lock that a living shim or nurse has.
///
/// # Errors
///
/// Somebody has it, or it can't be opened.
pub(super) fn lock(directory: &Path) -> std::io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(directory.join(format::LOCK))?;
    sys::lock(file.as_raw_fd())?;
    Ok(file)
}

/// What an exit says asked for it when the machine restarted.
pub(super) const REBOOT: &str = "reboot";

/// Finds processes that carry this agent's mark and belong to no directory: somebody removed their records. They are left
/// alone and reported.
pub(super) fn strays(instance: &str, known: &[RankId]) -> Result<Vec<(RankId, i32)>, Error> {
    let mut found = Vec::new();
    for process in procs::all().map_err(Error::Proc)? {
        procs::marks(process.id.pid, |mark| {
            let id = std::str::from_utf8(mark).ok().and_then(|mark| marked(instance, mark));
            if let Some(id) = id.filter(|id| !known.contains(id)) {
                found.push((id, process.id.pid));
            }
            true
        });
    }
    Ok(found)
}

/// Reads the rank out of a mark of this agent's.
fn marked(instance: &str, mark: &str) -> Option<RankId> {
    let rest = mark.strip_prefix(instance)?.strip_prefix('.')?;
    let (name, _random) = rest.rsplit_once('.')?;
    parse(name)
}

#[cfg(test)]
mod tests {
    use super::{marked, parse};

    #[test]
    fn only_plain_numbers_name_a_rank() {
        assert_eq!(
            parse("4190.3.0").map(|id| format!("{}.{}", id.attempt, id.rank)).as_deref(),
            Some("4190.3.0")
        );
        for name in ["4190.3", "4190.3.0.1", "04190.3.0", "a.b.c", "4190.3.0.tmp", "", "-1.0.0", "+1.0.0"] {
            assert_eq!(parse(name), None, "{name}");
        }
        assert!(marked("ab12", "ab12.7.1.0.ffee").is_some());
        assert!(marked("ab12", "ab13.7.1.0.ffee").is_none());
    }
}
