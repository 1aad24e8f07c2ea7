//! `bursar dev tour`: a control plane of its own, taken through its promises step by step, by the very commands that
//! people use. Each step says what it saw; one that fails makes the whole fail.

mod bad;
mod bursar;
mod drains;
mod failures;
mod gangs;
mod members;
mod order;
mod report;
mod taking;
mod work;

use std::path::PathBuf;

use super::args::{Args, Tour};
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

pub use bursar::Guide;
pub use taking::until_running;

use report::Report;

/// The step that always comes: the end.
const LAST: &str = "l";

/// A step: its letter, what it shows, and how.
type Step = (&'static str, &'static str, fn(&mut Guide, &mut Report) -> Result<(), String>);

const STEPS: [Step; 13] = [
    (
        "a",
        "a submission becomes a process, with its log, its exit code and its exact charge",
        work::submission,
    ),
    ("b", "the leader is killed while jobs run and submissions go on", failures::leader),
    ("c", "all replicas are killed and started; a job ends meanwhile", failures::replicas),
    ("d", "agents are killed, asked to end, and started; a shim is killed", failures::agents),
    ("e", "starts follow use between budgets 60 : 40; the free tier gets what is idle", order::budgets),
    ("f", "one request id is one job, on any replica", work::request_ids),
    ("g", "bad submissions and trees are refused with what to do", bad::submissions),
    ("h", "bad programs, tokens and readers end as they should", bad::surroundings),
    ("i", "a budget behind its share takes GPUs back; what gives way saves, and goes on", taking::back),
    ("j", "a job over two nodes starts on both or on none", gangs::whole),
    ("k", "a drained node is empty when that was promised", drains::node),
    ("r", "leadership moves on a word; who can be spared, and what is wrong, is said", members::words),
    (LAST, "the end leaves nothing behind", end),
];

/// Runs the tour.
///
/// # Errors
/// When a step fails, or the cluster does not come up.
pub fn run(shell: &Shell, args: &Args, tour: &Tour) -> Result<Exit, Failure> {
    let mut guide = Guide::start(args, tour.rounds)?;
    let mut report = Report::new(shell);
    for (letter, title, step) in STEPS {
        let is_wanted = tour.only.is_empty() || tour.only.iter().any(|only| only == letter) || letter == LAST;
        if !is_wanted {
            continue;
        }
        report.step(letter, title)?;
        if let Err(why) = step(&mut guide, &mut report) {
            report.check(false, &why);
        }
    }
    let failed = report.failed();
    if failed == 0 {
        shell.print("\nall as it should be\n")?;
        return Ok(Exit::Done);
    }
    Err(Failure::new(codes::DEV_FAILED, format!("{failed} of what the tour looks at is not as it should be"))
        .fix("the lines that begin with FAILED say what was seen"))
}

/// Ends the cluster, and looks for what is left of it.
fn end(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    let folder: PathBuf = guide.folder();
    let processes = guide.processes();
    let (code, said) = guide.end()?;
    report.check(code == Some(0), &format!("dev ends by itself after a TERM{said}"));
    let left = processes.iter().filter(|process| super::processes::is_alive(**process)).count();
    report.check(left == 0, &format!("{left} of {} processes are left", processes.len()));
    report.check(!folder.exists(), "its folder is gone");
    let contexts = guide.run(&["context", "list", "-o", "name"]);
    report.check(contexts.out.trim().is_empty(), "its context is gone");
    Ok(())
}
