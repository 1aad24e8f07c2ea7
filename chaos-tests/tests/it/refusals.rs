//! What cannot be is refused with its code, says why, and leaves nothing behind.

use std::io::Read as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use chaos_tests::lab::{Lab, Said};

/// Exit codes (UX 2.3).
const DONE: i32 = 0;
const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const NOT_ALLOWED: i32 = 5;

/// A submission of `true` with flags.
fn submit(lab: &Lab, user: &str, flags: &[&str]) -> Said {
    let flags: Vec<&str> =
        ["submit"].into_iter().chain(flags.iter().copied()).chain(["--", "true"]).collect();
    lab.bursar_as(user, &flags)
}

/// Returns the newest job's number: older ones leave state meanwhile.
fn newest(lab: &Lab) -> Result<Option<u32>> {
    Ok(lab.block_on(lab.client("ana")?.jobs())?.iter().map(|job| job.job).max())
}

/// One submission that cannot be: flags, exit code, and what stderr has to say.
type Case = (&'static [&'static str], i32, &'static [&'static str]);

const BAD_SUBMISSIONS: &[Case] = &[
    (&["--budget", "a", "--min-runtime", "9h"], REFUSED, &["B1202", "8h"]),
    (&["--budget", "a", "--min-runtime", "2h", "--time-limit", "30m"], REFUSED, &["B1203", "fix"]),
    (&["--budget", "a"], REFUSED, &["B1204", "--unallocated"]),
    (&["--budget", "a", "--min-runtime", "1h", "--gpus", "5"], REFUSED, &["B1205"]),
    (&["--budget", "a", "--min-runtime", "1h", "--gpu-type", "potato"], REFUSED, &["B1205"]),
    (&["--budget", "a", "--min-runtime", "1h", "--gpus-per-node", "4", "--nodes", "3"], REFUSED, &["B1205"]),
    (&["--budget", "a", "--min-runtime", "1h", "--gpus", "0"], REFUSED, &["B1201"]),
    (&["--budget", "a", "--min-runtime", "1h", "--grace", "11m"], REFUSED, &["B1201"]),
    (&["--budget", "a", "--min-runtime", "1h", "--requeue-code", "300"], REFUSED, &["B1201"]),
    (&["--budget", "nothing/here", "--min-runtime", "1h"], REFUSED, &["B1301", "nothing/here"]),
    (&["--budget", "b", "--min-runtime", "1h"], REFUSED, &["B1302"]),
    (&["--budget", "b/x", "--min-runtime", "1h"], NOT_ALLOWED, &["B1401"]),
    (&["--budget", "a", "--min-runtime", "1h", "--name", "a\u{7}b"], REFUSED, &["B1201"]),
    (&["--budget", "a", "--min-runtime", "1h", "--name", "a\nb"], REFUSED, &["B1201"]),
    (&["--budget", "a", "--min-runtime", "1h", "--working-dir", "/a\u{1b}[2J"], REFUSED, &["B1201"]),
    (&["--budget", "a", "--min-runtime", "1h", "--env", "BURSAR_JOB_ID=1"], REFUSED, &["B1201"]),
    (&["--budget", "a", "--min-runtime", "1h", "--cluster", "elsewhere"], REFUSED, &["B1205"]),
];

pub fn bad_submission_is_refused_with_its_code_and_nothing_is_queued(lab: &mut Lab) -> Result<()> {
    // It stays there, to compare with.
    lab.submit_gated("ana", &["--budget", "a", "--unallocated"])?;
    let before = newest(lab)?;
    for (flags, code, words) in BAD_SUBMISSIONS {
        let said = submit(lab, "ana", flags);
        said.refused(*code, words);
        assert_eq!(said.out, "", "a refusal is no data: {said:#?}");
        assert!(!said.err.contains('\u{1b}') && !said.err.contains('\u{7}'), "{said:#?}");
    }
    let name = "x".repeat(129);
    submit(lab, "ana", &["--budget", "a", "--min-runtime", "1h", "--name", &name])
        .refused(REFUSED, &["B1201"]);
    let large = format!("LARGE={}", "x".repeat(66_000));
    submit(lab, "ana", &["--budget", "a", "--min-runtime", "1h", "--env", &large])
        .refused(REFUSED, &["B1201", "64 KiB"]);

    let file = |text: &str| lab.write("job.yaml", text);
    let unknown = file("budget: a\ncontract: { min_runtme: 1h }\ncommand: [\"true\"]\n")?;
    lab.bursar_as("ana", &["submit", &unknown])
        .refused(REFUSED, &["B1012", "min_runtme", "min_runtime", "nothing was submitted"]);
    let twice = file("budget: a\nbudget: a\nunallocated: true\ncommand: [\"true\"]\n")?;
    lab.bursar_as("ana", &["submit", &twice]).refused(REFUSED, &["B1012"]);
    let none = file("")?;
    lab.bursar_as("ana", &["submit", &none]).refused(REFUSED, &["B1012"]);
    let script = format!("#!/bin/sh\n# {}\n", "x".repeat(50_000));
    let script = lab.write("job.sh", &script)?;
    lab.bursar_as("ana", &["submit", &script, "--budget", "a", "--unallocated"])
        .refused(REFUSED, &["B1201", "48 KiB"]);
    assert_eq!(newest(lab)?, before, "something was queued");
    Ok(())
}

const BAD_ARGUMENTS: &[Case] = &[
    (&["--budget", "a", "--min-runtime", "-1h"], USAGE, &["B1002", "-1h"]),
    (&["--budget", "a", "--min-runtime", "1e99"], USAGE, &["B1002", "1e99"]),
    (&["--budget", "a", "--min-runtime", "99999999999999999999h"], USAGE, &["B1002"]),
    (&["--budget", "a", "--min-runtime", ""], USAGE, &["B1002"]),
    (&["--budget", "a", "--min-runtime", "1h", "--time-limit", "11y"], USAGE, &["B1002"]),
    (&["--budget", "a", "--min-runtime", "1h", "--memory", "-5"], USAGE, &["B1003"]),
    (&["--budget", "a", "--min-runtime", "1h", "--gpus", "-1"], USAGE, &["-1"]),
    (&["--budget", "a", "--min-runtime", "1h", "--gpus", "4294967296"], USAGE, &["--gpus"]),
    (&["--budget", "a", "--min-runtime", "1h", "--unallocated"], USAGE, &["--unallocated"]),
    (&["--budget", "a", "--min-runtime", "1h", "--priority", "10"], USAGE, &["B1005", "--turn"]),
    (&["--budget", "a", "--min-runtime", "1h", "--env", "NAME"], USAGE, &["--env NAME=VALUE"]),
    (&["--budget", "a", "--min-runtime", "1h", "--frobnicate"], USAGE, &["--frobnicate"]),
];

pub fn bad_argument_never_reaches_a_replica(lab: &mut Lab) -> Result<()> {
    lab.submit_gated("ana", &["--budget", "a", "--unallocated"])?;
    let before = newest(lab)?;
    for (flags, code, words) in BAD_ARGUMENTS {
        submit(lab, "ana", flags).refused(*code, words);
    }
    lab.bursar_as("ana", &["submit", "--budget", "a", "--min-runtime", "1h"])
        .refused(USAGE, &["nothing to run"]);
    assert_eq!(newest(lab)?, before, "something was queued");
    Ok(())
}

pub fn bad_tree_is_refused_and_the_old_one_stays(lab: &mut Lab) -> Result<()> {
    let before = lab.bursar(&["budget", "tree", "-o", "json"]).json()["revision"].clone();
    let cases: &[(&str, &[&str])] = &[
        ("- { name: a, share: 60 }\n  - { name: b, share: 40.5 }", &["B1305", "100.5"]),
        ("- { name: a, share: 30 }\n  - { name: a, share: 30 }", &["B1306"]),
        ("- { name: A B, share: 30 }", &["B1201", "A B"]),
        ("- { name: a, share: 101 }", &["B1"]),
        ("- { name: a, share: -1 }", &["B1012"]),
        ("- { name: a, share: 1e99 }", &["B1012"]),
        ("- { name: a }", &["B1012", "share"]),
        ("- { name: a, share: 10, shade: 3 }", &["B1012", "shade"]),
    ];
    for (children, words) in cases {
        let file = lab.write("bad.yaml", &format!("name: lab\nowner: ops\nchildren:\n  {children}\n"))?;
        let said = lab.bursar(&["budget", "apply", "-f", &file, "--reason", "to see", "--yes"]);
        said.refused(REFUSED, words);
    }
    let after = lab.bursar(&["budget", "tree", "-o", "json"]).json()["revision"].clone();
    assert_eq!(before, after, "the tree was changed");
    Ok(())
}

pub fn nobody_acts_for_somebody_else(lab: &mut Lab) -> Result<()> {
    let (job, gate) =
        lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1h", "--env", "SECRET=hush"])?;
    gate.running();
    let number = job.to_string();
    lab.bursar_as("bob", &["job", "cancel", &number]).refused(NOT_ALLOWED, &["B1401"]);
    lab.bursar_as("bob", &["logs", &number]).refused(NOT_ALLOWED, &["B1401"]);
    let shown = lab.bursar_as("bob", &["job", "show", &number, "-o", "json"]).ok();
    assert!(!shown.out.contains("at the gate") && !shown.out.contains("hush"), "{shown:#?}");
    let own = lab.bursar_as("ana", &["job", "show", &number, "-o", "json"]).ok();
    assert!(own.out.contains("SECRET") && !own.out.contains("hush"), "names, never values: {own:#?}");

    let tree = lab
        .write("grab.yaml", "name: lab\nowner: ops\nchildren:\n  - { name: a, share: 100, owner: ana }\n")?;
    lab.bursar_as("ana", &["budget", "apply", "-f", &tree, "--reason", "more", "--yes"])
        .refused(NOT_ALLOWED, &["B1401"]);
    lab.bursar_as("ana", &["principal", "add", "eve", "--account", "root"]).refused(NOT_ALLOWED, &["B1401"]);
    lab.bursar_as("ana", &["node", "token", "node-99"]).refused(NOT_ALLOWED, &["B1401"]);

    std::fs::write(lab.token_file("wrong"), "0123456789abcdef\n").context("failed to write a token")?;
    submit(lab, "wrong", &["--budget", "a", "--unallocated"]).refused(NOT_ALLOWED, &["B1406"]);
    let mut nobody = lab.command("nobody");
    nobody.args(["queue"]).env_remove("BURSAR_TOKEN_FILE");
    lab.run(&mut nobody, "nobody")?.refused(NOT_ALLOWED, &["B1104", "BURSAR_TOKEN"]);
    gate.open(0);
    Ok(())
}

pub fn output_into_a_closed_pipe_is_no_failure(lab: &mut Lab) -> Result<()> {
    for args in [
        &["queue"][..],
        &["job", "list", "--state", "ended", "-o", "json"],
        &["help"],
        &["submit", "--schema"],
    ] {
        let mut command = lab.command("ana");
        command.args(args).env("XDG_CONFIG_HOME", lab.folder());
        let (code, err) = with_a_closed_pipe(command)?;
        assert!(code == Some(DONE) && err.is_empty(), "{args:?}: {code:?}, {err}");
    }
    Ok(())
}

/// Runs a command whose reader has left; returns how it ended, and what it said of that.
pub fn with_a_closed_pipe(mut command: Command) -> Result<(Option<i32>, String)> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("failed to start bursar")?;
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().context("stderr is a pipe")?.read_to_string(&mut err)?;
    Ok((child.wait().context("bursar does not end")?.code(), err))
}
