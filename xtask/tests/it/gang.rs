//! The example of a gang keeps its word: in step, stopped at one step, resumed at one step, with the same result.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use xtask::built::workspace_root;

use super::example::{SLOW, folder, has_python};

const RANKS: usize = 2;

/// One rank, and the lines it prints.
struct Rank {
    child: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Rank {
    /// Returns the first line from here on that begins with `start`, without it.
    fn until(&mut self, start: &str) -> String {
        let found = self.lines.find_map(|line| line.strip_prefix(start).map(str::to_owned));
        found.unwrap_or_else(|| panic!("no line begins with `{start}`"))
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("its own child").code()
    }
}

/// Starts all ranks of an attempt, on a port of its own.
fn start(folder: &Path, step_ms: &str) -> Vec<Rank> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.expect("loopback has a free port").port().to_string();
    let rank = |rank: usize| {
        let mut command = Command::new("python3");
        command.arg(workspace_root().join("examples/gang.py")).arg("--dir").arg(folder);
        command.args(["--steps", "200", "--save-steps", "20", "--agree-within", "600", "--step-ms", step_ms]);
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
        command.env("NNODES", RANKS.to_string()).env("NODE_RANK", rank.to_string());
        command.env("BURSAR_CHECKPOINT_FILE", folder.join(format!("told-{rank}")));
        command.env_remove("BURSAR_CHECKPOINT_SOCKET").env_remove("BURSAR_NOTICE_FILE");
        let mut child =
            command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("python3 was found");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        Rank { child, lines: Box::new(output.lines().map(|line| line.expect("the example prints text"))) }
    };
    (0..RANKS).map(rank).collect()
}

/// Runs to the end and returns where it began and its result, which all ranks agree on.
fn finish(folder: &Path) -> (String, String) {
    let mut ranks = start(folder, "0");
    let mut said: Vec<(String, String)> = Vec::new();
    for rank in &mut ranks {
        let began = rank.lines.nth(1).expect("the second line says where it begins");
        said.push((began, rank.until("result ")));
        assert_eq!(rank.code(), Some(0));
    }
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    said.swap_remove(0)
}

fn told(folder: &Path, rank: usize) -> Option<serde_json::Value> {
    let text = std::fs::read(folder.join(format!("told-{rank}"))).ok()?;
    Some(serde_json::from_slice(&text).expect("reports are JSON"))
}

#[test]
fn ranks_told_at_different_moments_save_and_leave_at_one_step() {
    if !has_python() {
        return;
    }
    let (whole, cut) = (folder("gang-whole"), folder("gang-cut"));
    let (_, expected) = finish(&whole);
    let mut ranks = start(&cut, SLOW);
    // The word of one rank alone stops nobody: they go on in step until the other has heard it too.
    for (n, rank) in ranks.iter_mut().enumerate().rev() {
        rank.until(if n == 1 { "step 20/" } else { "step 40/" });
        let sent = Command::new("kill").args(["-USR1", &rank.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
    let left: Vec<String> = ranks.iter_mut().map(|rank| rank.until("leaving at step ")).collect();
    assert_eq!(left[0], left[1], "all ranks stop at the same step");
    assert!(ranks.iter_mut().all(|rank| rank.code() == Some(128 + 10)));
    // Rank 0 reports, once, for all.
    let step: u64 = left[0].parse().expect("a step");
    assert_eq!(told(&cut, 0).expect("rank 0 reports")["step"], step);
    assert_eq!(told(&cut, 1), None);

    let (began, result) = finish(&cut);
    assert_eq!(began, format!("resumed at step {step}"));
    assert_eq!(result, expected);
    for folder in [whole, cut] {
        std::fs::remove_dir_all(folder).expect("made here");
    }
}

#[test]
fn a_rank_that_is_lost_ends_the_gang_which_resumes_where_all_have_a_checkpoint() {
    if !has_python() {
        return;
    }
    let (whole, cut) = (folder("gang-lost-whole"), folder("gang-lost"));
    let (_, expected) = finish(&whole);
    let mut ranks = start(&cut, SLOW);
    ranks[1].until("step 40/");
    ranks[1].child.kill().expect("its own child");
    assert_eq!(ranks[0].code(), Some(1), "nobody goes on alone");
    ranks[1].code();
    // A part that only one rank has is no checkpoint.
    std::fs::write(cut.join("rank-0.step-199.json"), r#"{"step": 199, "value": 1}"#).expect("writable");
    let (began, result) = finish(&cut);
    let step: u32 = began.strip_prefix("resumed at step ").expect("it resumes").parse().expect("a step");
    assert!((40..199).contains(&step), "{began}");
    assert_eq!(result, expected);
    for folder in [whole, cut] {
        std::fs::remove_dir_all(folder).expect("made here");
    }
}
