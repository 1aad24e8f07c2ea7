//! What the disk alone can do.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::rows::rate;

/// About the size of a submission in the log.
const RECORD: [u8; 512] = [7; 512];

/// Returns how many appends a second one writer makes durable in `folder`, one `fdatasync` each.
///
/// # Errors
/// When the file cannot be written.
pub fn appends_a_second(folder: &Path, span: Duration) -> Result<f64> {
    let path = folder.join("plain-appends");
    let mut file = File::create(&path).context("failed to make a file")?;
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < span {
        file.write_all(&RECORD).context("failed to append")?;
        file.sync_data().context("failed to sync")?;
        count += 1;
    }
    let rate = rate(count, begun.elapsed());
    std::fs::remove_file(&path).context("failed to remove a file")?;
    Ok(rate)
}
