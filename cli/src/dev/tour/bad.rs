//! What is refused, and how it is said.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use super::super::raise::LAB;
use super::bursar::{Guide, Said};
use super::report::Report;

/// A bad call: what it is, its arguments, the exit code and the words that are expected.
type Bad<'a> = (&'a str, &'a [&'a str], i32, &'a str);

/// Submissions and trees that are refused.
pub fn submissions(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    files(guide)?;
    let ok = ["submit", "--budget", "science/agents"];
    let bad: &[Bad] = &[
        ("a minimum above the cap", &["--min-runtime", "9h"], 3, "error[B1202]"),
        (
            "a minimum above the time limit",
            &["--min-runtime", "1h", "--time-limit", "30m"],
            3,
            "error[B1203]",
        ),
        ("a shape that no node can hold", &["--min-runtime", "1m", "--gpus", "99"], 3, "error[B1205]"),
        ("`-1h`", &["--min-runtime", "-1h"], 2, "negative"),
        ("`1e99`", &["--min-runtime", "1e99"], 2, "not a length of time"),
        (
            "control characters in a name",
            &["--min-runtime", "1m", "--name", "a\u{1b}[2J\nb"],
            3,
            "error[B1201]",
        ),
        ("--priority", &["--min-runtime", "1m", "--priority", "high"], 2, "--turn"),
    ];
    for (what, flags, code, says) in bad {
        let args: Vec<&str> = ok.iter().chain(*flags).copied().chain(["--", "/bin/true"]).collect();
        check(report, what, &guide.run(&args), *code, says);
    }
    let bad: &[Bad] = &[
        ("no tier", &["submit", "--budget", "language/posttrain", "--", "x"], 3, "error[B1204]"),
        (
            "an unknown budget",
            &["submit", "--budget", "no/such", "--min-runtime", "1m", "--", "x"],
            3,
            "error[B1301]",
        ),
        (
            "an inner budget",
            &["submit", "--budget", "science", "--min-runtime", "1m", "--", "x"],
            3,
            "error[B1302]",
        ),
        ("an unknown field", &["submit", "field.yaml"], 3, "did you mean `min_runtime`?"),
        ("a submission over 64 KiB", &["submit", "large.yaml"], 3, "error[B1201]"),
        ("a file that is not there", &["submit", "absent.yaml"], 1, "error[B1011]"),
        ("a tree over 100 %", &["budget", "plan", "-f", "over.yaml"], 3, "error[B1305]"),
        ("a name that stands twice", &["budget", "plan", "-f", "twice.yaml"], 3, "error[B1306]: two budgets"),
        (
            "a change without a yes",
            &["budget", "apply", "-f", "other.yaml", "--reason", "r"],
            2,
            "error[B1004]",
        ),
        ("a job that is not there", &["job", "show", "4000000"], 4, "error[B1402]"),
        ("a development cluster beside this one", &["dev"], 7, "error[B1110]"),
    ];
    for (what, args, code, says) in bad {
        check(report, what, &guide.run(args), *code, says);
    }
    let said =
        guide.run_as("ana", &["submit", "--budget", "language/posttrain", "--min-runtime", "1m", "--", "x"]);
    check(report, "somebody else's budget", &said, 5, "error[B1401]");
    let job = guide.submit(&[
        "--budget",
        "science/agents",
        "--min-runtime",
        "1m",
        "--gpus",
        "1",
        "--",
        "/bin/sleep",
        "600",
    ])?;
    let said = guide.run_as("tom", &["job", "cancel", &job.to_string()]);
    check(report, "somebody else's job", &said, 5, "error[B1401]");
    guide.run(&["job", "cancel", "--now", &job.to_string()]).well()?;
    Ok(())
}

fn files(guide: &Guide) -> Result<(), String> {
    guide.write("field.yaml", "budget: science/agents\ncommand: [x]\ncontract:\n  min_runtme: 1h\n")?;
    let large = "x".repeat(70 << 10);
    guide.write(
        "large.yaml",
        &format!("budget: science/agents\ncommand: [x, {large}]\ncontract: {{ min_runtime: 1m }}\n"),
    )?;
    guide.write(
        "over.yaml",
        "name: lab\nowner: ceo\nchildren:\n  - { name: a, share: 60 }\n  - { name: b, share: 50 }\n",
    )?;
    guide.write(
        "twice.yaml",
        "name: lab\nowner: ceo\nchildren:\n  - { name: a, share: 10 }\n  - { name: a, share: 20 }\n",
    )?;
    guide.write("other.yaml", "name: lab\nowner: ceo\nchildren:\n  - { name: science, share: 100, children: [{ name: agents, share: 100 }] }\n")?;
    guide.write("plain.txt", "not a program\n")
}

fn check(report: &mut Report, what: &str, said: &Said, code: i32, says: &str) {
    let is_ok = said.code == Some(code) && said.err.contains(says) && !said.err.contains('\u{1b}');
    let first = said.err.lines().next().unwrap_or_default();
    report.check(
        is_ok,
        &format!("{what}: exit code {} ({first})", said.code.map_or("none".into(), |code| code.to_string())),
    );
}

/// Programs that cannot run, tokens that open nothing, readers that leave.
pub fn surroundings(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    let plain = guide.work().join("plain.txt");
    guide.write("plain.txt", "not a program\n")?;
    let ends = [
        ("a program that is not executable", 126, vec![plain.to_str().unwrap_or_default()]),
        ("a program that is not there", 127, vec!["/no/such/program"]),
    ];
    for (what, code, program) in ends {
        let args: Vec<&str> = ["run", "--budget", "science/agents", "--min-runtime", "1m", "--"]
            .into_iter()
            .chain(program)
            .collect();
        let said = guide.run(&args);
        report.check(
            said.code == Some(code),
            &format!("{what}: exit code {}, {code} is expected", said.exit()),
        );
    }
    let args = [
        "run",
        "--budget",
        "science/agents",
        "--min-runtime",
        "1m",
        "--working-dir",
        "/no/such/folder",
        "--",
        "/bin/true",
    ];
    let said = guide.run(&args);
    report.check(
        said.code == Some(127),
        &format!("a folder that is not there: exit code {}, 127 is expected", said.exit()),
    );
    let said = guide.run(&["run", "--budget", "science/agents", "--min-runtime", "-1h", "--", "/bin/true"]);
    check(report, "a failure of `run` itself", &said, 125, "negative");
    let address = guide.addresses()?.join(",");
    let nowhere = guide.work().to_str().unwrap_or_default();
    let said = guide.run_with(&["--server", &address, "queue"], &[("XDG_CONFIG_HOME", nowhere)]);
    check(report, "no token", &said, 5, "error[B1104]");
    let said = guide.run_with(&["queue"], &[("BURSAR_TOKEN", "wrong")]);
    check(report, "a wrong token", &said, 5, "error[B1406]");
    no_account(guide, report)?;
    garbage(guide, report)?;
    reader_left(guide, report)
}

/// An account that no node has is the nodes' fault: tried again, and the cause is told.
fn no_account(guide: &Guide, report: &mut Report) -> Result<(), String> {
    let token = guide.work().join("stranger.token");
    let token = token.to_str().unwrap_or_default();
    let add = ["principal", "add", "stranger", "--account", "no-such-account", "--token-file", token];
    guide.run(&add).well()?;
    guide.write("lab.yaml", LAB)?;
    guide.write("stranger.yaml", &LAB.replacen("owner: ceo\n", "owner: ceo\nmembers: [stranger]\n", 1))?;
    let apply = |file: &str| {
        guide.run(&["budget", "apply", "-f", file, "--reason", "a stranger comes and goes", "--yes"]).well()
    };
    apply("stranger.yaml")?;
    let submit = ["-o", "name", "submit", "--budget", "science/agents", "--unallocated", "--", "/bin/true"];
    let job = guide.run_with(&submit, &[("BURSAR_TOKEN_FILE", token)]).well()?.out;
    let job: u64 = job.trim().parse().map_err(|_| format!("no number: {job}"))?;
    let told = guide.until("a node to say that it has no such account", || {
        let attempts = guide.job(job).ok()?["attempts"].as_array()?.clone();
        attempts.iter().find_map(|attempt| Some(attempt["detail"].as_str()?.to_owned()))
    })?;
    let state = guide.job(job)?["state"].clone();
    let says = format!("an account that no node has: the job is {state}, its launch failed: {told}");
    report.check(told.contains("no account no-such-account") && state != "ended", &says);
    guide.run(&["job", "cancel", &job.to_string(), "--reason", "no node can start it"]).well()?;
    apply("lab.yaml").map(|_| ())
}

/// Bytes that are no call harm nobody.
fn garbage(guide: &Guide, report: &mut Report) -> Result<(), String> {
    let starts = || -> Result<Vec<u32>, String> {
        Ok(guide.state()?.replicas.iter().map(|replica| replica.starts).collect())
    };
    let before = starts()?;
    for address in guide.addresses()? {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 70_000]] {
            let mut stream = TcpStream::connect(&address).map_err(|error| error.to_string())?;
            // The replica may close at any byte of it.
            let _ = stream.write_all(bytes);
        }
    }
    let said = guide.run(&["queue"]);
    let says = format!("garbage on every port: calls are answered, exit code {}", said.exit());
    report.check(said.code == Some(0) && starts()? == before, &says);
    Ok(())
}

/// A reader that closes its pipe ends the command quietly.
fn reader_left(guide: &Guide, report: &mut Report) -> Result<(), String> {
    let mut command = guide.command(&["help", "codes"])?;
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    drop(child.stdout.take());
    let mut err = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut err).map_err(|error| error.to_string())?;
    }
    let code = child.wait().map_err(|error| error.to_string())?.code();
    report.check(
        code == Some(0) && err.is_empty(),
        &format!("a reader that left: the command ends quietly, said {err:?}"),
    );
    Ok(())
}
