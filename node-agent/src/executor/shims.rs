//! Copies of the shim: one a version, kept as long as anybody may run it. An upgrade replaces the installed file only.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::config::{Config, Error, failed};

/// File name of a copy.
const NAME: &str = "bursar-shim";

/// Returns the copy of the installed shim, made now if this version has none.
pub(super) fn keep(config: &Config) -> Result<PathBuf, Error> {
    let content = std::fs::read(&config.shim).map_err(failed("read the shim", &config.shim))?;
    let hash = blake3::hash(&content).to_hex();
    let directory = config.data.join("shims").join(&hash.as_str()[..16]);
    let copy = directory.join(NAME);
    if copy.exists() {
        return Ok(copy);
    }
    write(&directory, &copy, &content).map_err(failed("keep a copy of the shim in", &directory))?;
    Ok(copy)
}

fn write(directory: &Path, copy: &Path, content: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let temporary = directory.join(format!("{NAME}.{}.tmp", std::process::id()));
    std::fs::write(&temporary, content)?;
    // Readable for everyone: the part that reads logs runs as the job's account.
    std::fs::set_permissions(&temporary, Permissions::from_mode(0o755))?;
    std::fs::File::open(&temporary)?.sync_all()?;
    std::fs::rename(temporary, copy)?;
    shim::files::sync_directory(directory)
}
