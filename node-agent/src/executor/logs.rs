//! Reading what a job wrote, as its account.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shim::format::{self, Spec};
use shim::reader;

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output; with an `output` file, both.
    Stdout,
    /// Standard error; with an `output` file, nothing of its own.
    Stderr,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// The bytes from the offset asked for; fewer than asked for at the end of what is there.
    pub bytes: Vec<u8>,
    /// True if the process has ended and nothing follows.
    pub is_end: bool,
}

/// Why there is nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The attempt isn't known here, or its directory was collected.
    #[error("this node has no records of that attempt")]
    NoAttempt,
    /// The file can't be read as the job's account.
    #[error("the log can't be read as the job's account")]
    NotReadable,
    /// Reading failed.
    #[error("failed to read the log: {0}")]
    Failed(String),
}

/// Reads a part of a stream. The reader is a process that drops to the account before it opens anything.
pub(super) fn read(
    copy: &Path,
    directory: &Path,
    stream: Stream,
    offset: u64,
    length: u64,
) -> Result<LogPart, LogError> {
    // Looked at before the bytes: what is written between the two is read by the next call.
    let ended = directory.join(format::EXIT).exists();
    let spec = shim::files::read(directory, format::SPEC).ok().flatten().ok_or(LogError::NoAttempt)?;
    let spec = Spec::decode(&spec).map_err(|_| LogError::NoAttempt)?;
    let path = match (&spec.output, stream) {
        (Some(output), Stream::Stdout) => PathBuf::from(OsString::from_vec(output.clone())),
        (Some(_), Stream::Stderr) => return Ok(LogPart { bytes: Vec::new(), is_end: ended }),
        (None, Stream::Stdout) => directory.join(format::JOB).join(format::STDOUT),
        (None, Stream::Stderr) => directory.join(format::JOB).join(format::STDERR),
    };
    let length = length.min(reader::PART_MAX);
    let bytes = match run_reader(copy, &spec, &path, offset, length) {
        Ok(bytes) => bytes,
        // Not opened yet, or never: the launch failed before.
        Err(code) if code == reader::NOT_FOUND => Vec::new(),
        Err(code) if code == reader::FAILED => return Err(LogError::NotReadable),
        Err(code) => return Err(LogError::Failed(format!("the reader ended with {code}"))),
    };
    let is_end = ended && u64::try_from(bytes.len()).unwrap_or(u64::MAX) < length;
    Ok(LogPart { bytes, is_end })
}

fn run_reader(copy: &Path, spec: &Spec, path: &Path, offset: u64, length: u64) -> Result<Vec<u8>, i32> {
    let mut command = Command::new(copy);
    command.arg("--read");
    match &spec.account {
        Some(account) => {
            let groups: Vec<String> = account.groups.iter().map(ToString::to_string).collect();
            command.args([account.uid.to_string(), account.gid.to_string(), groups.join(",")]);
        }
        None => {
            command.args(["-", "-", ""]);
        }
    }
    command.arg(path).arg(offset.to_string()).arg(length.to_string()).env_clear().current_dir("/");
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().map_err(|_| -1)?;
    match output.status.code() {
        Some(0) => Ok(output.stdout),
        code => Err(code.unwrap_or(-1)),
    }
}
