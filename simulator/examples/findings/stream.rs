//! Ten gigabytes of accounting, which are nowhere: how much memory an import takes of them.
//!
//! Made in a process of its own, since memory once taken is not given back.

use std::fmt::Write as _;
use std::io::{Cursor, Read, Write as _};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use simulator::import::{Options, read};

/// So much is read, unpacked.
const BYTES: u64 = 10_000_000_000;

/// The argument by which this program is the process that reads.
pub const ARGUMENT: &str = "--read-ten-gigabytes";

const HEADER: &str = "JobIDRaw|JobID|User|Account|State|Submit|ElapsedRaw|TimelimitRaw|NNodes|AllocTRES\n";

/// Of a busy site's year: jobs without GPUs, steps, a row that is cut off, and in each block one job with GPUs.
fn block(number: u64) -> String {
    let mut rows = String::new();
    for row in 0..4_000_u64 {
        let id = number * 4_000 + row;
        match row % 10 {
            0 => rows.push_str(&format!(
                "{id}.batch|{id}.batch|||COMPLETED|1780000000|60||1|cpu=4,mem=16G,node=1\n"
            )),
            _ => rows.push_str(&format!(
                "{id}|{id}|u{}|physics|COMPLETED|1780000000|3600|60|1|billing=4,cpu=4,mem=16G,node=1\n",
                row % 97
            )),
        }
    }
    rows.push_str(&format!(
        "{0}|{0}|u1|vision|COMPLETED|1780000000|3600|60|2|billing=8,cpu=64,gres/gpu=16,mem=512G,node=2\n",
        number * 4_000 + 3_999
    ));
    rows.push_str("17|17|u1|vis\n");
    rows
}

/// The part of the page.
pub fn stream() -> Result<String> {
    let output =
        Command::new(std::env::current_exe()?).arg(ARGUMENT).output().context("failed to start it")?;
    ensure!(output.status.success(), "it failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(format!("## Ten gigabytes\n\n{}", String::from_utf8(output.stdout)?))
}

/// What the other process does: reads packed accounting and says what came of it.
pub fn child() -> Result<()> {
    let packed = |text: &str| -> Result<Vec<u8>> {
        let mut into = GzEncoder::new(Vec::new(), Compression::fast());
        into.write_all(text.as_bytes())?;
        Ok(into.finish()?)
    };
    let header = packed(HEADER)?;
    // Unpacked, all blocks are as long as the first but for the digits of their numbers.
    let one = block(100);
    let times = BYTES / u64::try_from(one.len())?;
    let again = packed(&one)?;
    let blocks = (0..times).map(move |_| Cursor::new(again.clone()));
    let trace = read(
        "year.sacct.gz",
        Cursor::new(header).chain(Chained(Box::new(blocks), None)),
        &Options::default(),
    )?;
    let peak = std::fs::read_to_string("/proc/self/status")?;
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the most memory")?;
    let mib = peak.trim().trim_end_matches(" kB").parse::<u64>()? / 1024;
    let mut text = String::new();
    writeln!(
        text,
        "10 GB of `sacct` output, packed as .gz, from a pipe: {} rows in {mib} MiB of memory at the most. Jobs that it held: \
         {} (the GPU jobs in it bear one number, so they are one that was requeued). Left out:\n",
        trace.import.rows,
        trace.jobs.len(),
    )?;
    for (why, rows) in &trace.import.reasons {
        let shown = trace.import.skipped.iter().find(|skipped| skipped.reason.starts_with(why.as_str()));
        let line = shown.map_or_else(String::new, |skipped| format!(", first at line {}", skipped.line));
        writeln!(text, "- {rows} rows: {why}{line}")?;
    }
    print!("{text}");
    Ok(())
}

/// Sources one after the other.
struct Chained(Box<dyn Iterator<Item = Cursor<Vec<u8>>>>, Option<Cursor<Vec<u8>>>);

impl Read for Chained {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some(current) = &mut self.1 {
                let read = current.read(buffer)?;
                if read > 0 {
                    return Ok(read);
                }
            }
            self.1 = self.0.next();
            if self.1.is_none() {
                return Ok(0);
            }
        }
    }
}
