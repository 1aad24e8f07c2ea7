//! Who leads, who can be spared, and what is wrong.

use std::time::Duration;

use super::bursar::{Guide, SOON};
use super::report::Report;
use crate::clock::Deadline;

/// Leadership moves on a word; `ok-to-stop` and `doctor` say what can be.
pub fn words(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    guide.until_whole()?;
    let job =
        guide.started("tour-r", "exec sleep 600", &["--budget", "science/agents", "--min-runtime", "10m"])?;
    for _ in 0..2 {
        let said = guide.run(&["cluster", "transfer-leader"]).well()?;
        report.check(true, &format!("transfer-leader: {}", said.out.trim()));
    }
    let alive = super::super::processes::is_alive(job.1);
    report.check(alive, "the job's process is the same");
    let deadline = Deadline::after(SOON);
    let one = loop {
        let said = guide.run(&["cluster", "ok-to-stop", "r1"]);
        if said.code == Some(0) || deadline.is_over() {
            break said;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    report
        .check(one.code == Some(0), &format!("ok-to-stop r1: exit code {} ({})", one.exit(), one.out.trim()));
    let two = guide.run(&["cluster", "ok-to-stop", "r1", "r2"]);
    let first = two.out.lines().next().unwrap_or_default();
    report.check(two.code == Some(9), &format!("ok-to-stop r1 r2: exit code {} ({first})", two.exit()));
    let deadline = Deadline::after(SOON);
    let doctor = loop {
        let said = guide.run(&["doctor"]);
        if said.code == Some(0) || deadline.is_over() {
            break said;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    report.check(doctor.code == Some(0), &format!("doctor: exit code {}", doctor.exit()));
    guide.run(&["job", "cancel", "--now", &job.0.to_string()]).well().map(|_| ())
}
