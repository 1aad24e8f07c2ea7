//! `bursar checkpoint`: what a job says of its progress, from inside it. Needs no network.

use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use serde::Serialize;

use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::{Shell, json};

/// The socket of the node's agent for datagrams.
const SOCKET: &str = "BURSAR_CHECKPOINT_SOCKET";
/// The file that is replaced instead.
const FILE: &str = "BURSAR_CHECKPOINT_FILE";
/// How long a datagram may take: its reader is on the same machine.
const SEND_WITHIN: Duration = Duration::from_secs(2);

/// Arguments of `checkpoint`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples, inside a job:\n  \
    bursar checkpoint --step 1200 --path /data/ckpt/1200     once it is on the disk\n  \
    bursar checkpoint --resumed --step 1200                  after it was loaded\n\n\
    A checkpoint that is newer than a notice says that nothing more has to be waited for. What a preemption costs is\n\
    counted from the last one that was reported, to the next attempt's first sign of progress.")]
pub struct Args {
    /// The step that is saved, or was gone on from
    #[arg(long, value_name = "N", required_unless_present = "resumed")]
    pub step: Option<u64>,
    /// Where it is
    #[arg(long, value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// How large it is
    #[arg(long, value_name = "BYTES")]
    pub bytes: Option<u64>,
    /// Say that it goes on from a checkpoint, instead of having made one
    #[arg(long, conflicts_with_all = ["path", "bytes"])]
    pub resumed: bool,
}

/// What is reported.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<bool>,
}

/// Runs the command.
///
/// # Errors
/// When it is not inside a job, or the agent cannot be told.
pub fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let named = |name: &str| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let (socket, file) = (named(SOCKET), named(FILE));
    if socket.is_none() && file.is_none() {
        return Err(Failure::new(codes::NOT_IN_JOB, "not inside a job")
            .why(format!("the environment names neither {SOCKET} nor {FILE}"))
            .fix("call it from the job's own command or script"));
    }
    // The job may be told from another folder than the one it is looked for in.
    let path = args.path.as_deref().map(std::path::absolute).transpose();
    let path = path.map_err(|error| {
        Failure::new(codes::FILE, "cannot tell the working directory").why(error.to_string())
    })?;
    let report = Report { step: args.step, path, bytes: args.bytes, resumed: args.resumed.then_some(true) };
    tell(&json(&report, false)?, socket.as_deref(), file.as_deref())?;
    let step = args.step.map_or(String::new(), |step| format!(" at step {step}"));
    shell.say(&format!("reported: {}{step}", if args.resumed { "resumed" } else { "saved" }));
    Ok(Exit::Done)
}

/// Sends the report, or replaces the file where there is no socket or nobody reads it.
fn tell(report: &str, socket: Option<&Path>, file: Option<&Path>) -> Result<(), Failure> {
    let sent = socket.map(|socket| send(report, socket));
    match (sent, file) {
        (Some(Ok(())), _) => Ok(()),
        (_, Some(file)) => replace(report, file).map_err(|error| failed(file, &error)),
        (Some(Err(error)), None) => Err(failed(socket.unwrap_or(Path::new("")), &error)),
        (None, None) => Ok(()),
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(codes::FILE, format!("cannot report to {}", path.display()))
        .why(error.to_string())
        .fix("the job goes on without it; only the price of a preemption is then known less well")
}

fn send(report: &str, socket: &Path) -> io::Result<()> {
    let from = UnixDatagram::unbound()?;
    from.set_write_timeout(Some(SEND_WITHIN))?;
    from.send_to(report.as_bytes(), socket).map(|_| ())
}

/// Replaces the file whole: its reader may look at any moment.
fn replace(report: &str, file: &Path) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(format!(".new.{}", std::process::id()));
    let mut out = fs::File::create(&new)?;
    out.write_all(report.as_bytes())?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::tell;

    #[test]
    fn a_report_goes_to_the_socket_and_to_the_file_if_nobody_reads_that() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (socket, file) = (folder.path().join("s"), folder.path().join("f"));
        let reader = UnixDatagram::bind(&socket).expect("bound");
        tell("{}", Some(&socket), Some(&file)).expect("sent");
        let mut bytes = [0; 8];
        assert_eq!(reader.recv(&mut bytes).expect("there"), 2);
        assert!(!file.exists());
        drop(reader);
        tell("{\"step\":1}", Some(&socket), Some(&file)).expect("written");
        assert_eq!(std::fs::read_to_string(&file).expect("there"), "{\"step\":1}");
        let failure = tell("{}", Some(&socket), None).expect_err("nobody is told");
        assert_eq!(failure.code, crate::codes::FILE);
    }
}
