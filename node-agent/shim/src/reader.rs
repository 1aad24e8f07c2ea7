//! Reading a job's file as the job's account: what the account couldn't read itself, nobody gets through us.

use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;

use crate::format::Account;

/// The largest part that one call returns, in bytes.
pub const PART_MAX: u64 = 4 << 20;

/// Exit code for "there is no such file".
pub const NOT_FOUND: i32 = 3;
/// Exit code for everything else that fails.
pub const FAILED: i32 = 4;

/// Runs `--read UID GID GROUPS PATH OFFSET LENGTH` (GROUPS separated by commas, `-` for UID keeps the account). Returns the
/// exit code.
pub fn run(arguments: &[OsString]) -> i32 {
    match read(arguments) {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        Err(_) => FAILED,
    }
}

fn read(arguments: &[OsString]) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let [uid, gid, groups, path, offset, length] = arguments else { return Err(invalid()) };
    let number =
        |text: &OsString| text.to_str().and_then(|text| text.parse::<u64>().ok()).ok_or_else(invalid);
    if uid != "-" {
        let small =
            |text: &OsString| number(text).and_then(|value| u32::try_from(value).map_err(|_| invalid()));
        let groups = groups.to_str().ok_or_else(invalid)?;
        let list = groups.split(',').filter(|group| !group.is_empty());
        let groups =
            list.map(|group| group.parse().map_err(|_| invalid())).collect::<io::Result<Vec<u32>>>()?;
        crate::child::drop_to(&Account { uid: small(uid)?, gid: small(gid)?, groups })?;
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    file.seek(SeekFrom::Start(number(offset)?))?;
    let mut part = file.take(number(length)?.min(PART_MAX));
    io::copy(&mut part, &mut io::stdout().lock())?;
    io::stdout().flush()
}
