//! Commands end as their page says, and nobody listens but replicas.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result};
use chaos_tests::lab::{Lab, children, parent};

use crate::seen;

/// Exit codes (UX 2.3).
const OTHER: i32 = 1;
const NOT_FOUND: i32 = 4;
const NOT_ALLOWED: i32 = 5;
const TIMED_OUT: i32 = 8;
const CHANGES: i32 = 10;

pub fn exit_codes_are_those_of_the_page(lab: &mut Lab) -> Result<()> {
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--gpus", "4", "--min-runtime", "1h"])?;
    let (blocker, other) = lab.submit_gated("ana", &["--budget", "a", "--gpus", "4", "--unallocated"])?;
    gate.running();
    other.running();
    // A job that waits was accepted.
    let (waits, _) = lab.submit_gated("ana", &["--budget", "a", "--gpus", "1", "--unallocated"])?;
    let number = job.to_string();
    lab.bursar_as("ana", &["job", "wait", &number, "--timeout", "100ms"]).refused(TIMED_OUT, &["B1107"]);
    for unknown in [&["job", "show", "4000000"][..], &["node", "show", "nowhere"], &["explain", "4000000"]] {
        lab.bursar(unknown).refused(NOT_FOUND, &["B1402"]);
    }
    lab.bursar(&["submit", "absent.yaml"]).refused(OTHER, &["B1011", "nothing was submitted"]);
    let tree = "name: lab\nowner: ops\nchildren:\n  - { name: a, share: 60, owner: ana, members: [ana] }\n  \
                - name: b\n    share: 40\n    owner: bob\n    children:\n      \
                - { name: x, share: 50, members: [bob] }\n      - { name: y, share: SHARE, members: [bob] }\n";
    let same = lab.write("same.yaml", &tree.replace("SHARE", "50"))?;
    lab.bursar(&["budget", "plan", "--exit-code", "-f", &same]).ok();
    let other_tree = lab.write("other.yaml", &tree.replace("SHARE", "49"))?;
    let planned = lab.bursar(&["budget", "plan", "--exit-code", "-f", &other_tree]);
    assert_eq!(planned.code, CHANGES, "{planned:#?}");
    lab.bursar(&["budget", "plan", "-f", &other_tree]).ok();
    lab.bursar_as("ana", &["job", "cancel", &waits.to_string(), &blocker.to_string()]).ok();
    gate.open(9);
    let waited = lab.bursar_as("ana", &["job", "wait", &number]);
    assert_eq!(waited.code, 9, "{waited:#?}");
    let run = ["run", "--budget", "a", "--unallocated", "--", "/bin/sh", "-c", "exit 11"];
    let ran = lab.bursar_as("ana", &run);
    assert_eq!(ran.code, 11, "{ran:#?}");
    Ok(())
}

pub fn every_reading_command_has_json_that_names_its_schema(lab: &mut Lab) -> Result<()> {
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--unallocated"])?;
    gate.running();
    let (number, node) = (job.to_string(), lab.agents[0].name.clone());
    for (args, schema) in [
        (&["queue"][..], "queue/v1"),
        (&["job", "list"], "job-list/v1"),
        (&["job", "show", &number], "job/v1"),
        (&["explain", &number], "explanation/v1"),
        (&["budget", "tree"], "budget-tree/v1"),
        (&["budget", "show", "a"], "budget/v1"),
        (&["budget", "usage"], "budget-usage/v1"),
        (&["budget", "history"], "budget-history/v1"),
        (&["budget", "grant", "list"], "budget-grants/v1"),
        (&["waits"], "waits/v1"),
        (&["node", "list"], "node-list/v1"),
        (&["node", "show", &node], "node/v1"),
        (&["cluster", "status"], "cluster/v1"),
        (&["cluster", "time"], "cluster-time/v1"),
        (&["principal", "list"], "principal-list/v1"),
        (&["whoami"], "whoami/v1"),
        (&["version"], "version/v1"),
    ] {
        let said = lab.bursar(&[args, &["-o", "json"]].concat()).json();
        assert_eq!(said["schema"], schema, "{args:?}: {said:#}");
    }
    let events = lab.bursar(&["events", "--job", &number, "-o", "jsonl"]).ok();
    assert!(events.out.lines().count() >= 2, "{events:#?}");
    for line in events.out.lines() {
        let event: serde_json::Value = serde_json::from_str(line)?;
        assert_eq!(event["schema"], "event/v1", "{event:#}");
    }
    gate.open(0);
    Ok(())
}

pub fn revoked_token_opens_nothing_and_a_join_token_only_its_node(lab: &mut Lab) -> Result<()> {
    let file = lab.token_file("dora");
    let shown = file.to_str().context("a path that is no text")?;
    let account = chaos_tests::lab::own_account();
    lab.bursar(&["principal", "add", "dora", "--account", &account, "--token-file", shown]).ok();
    assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    lab.bursar(&["principal", "add", "dora", "--account", &account]).refused(7, &["B1403"]);
    let me = lab.bursar_as("dora", &["whoami", "-o", "json"]).json();
    assert_eq!(me["name"], "dora", "{me:#}");
    let list = lab.bursar(&["principal", "list", "-o", "name"]).ok();
    assert!(list.out.lines().any(|line| line == "dora"), "{list:#?}");
    let token = fs::read_to_string(&file)?;
    assert!(!list.out.contains(token.trim()), "tokens are never shown again");
    lab.bursar(&["principal", "revoke", "dora", "--yes"]).ok();
    lab.bursar_as("dora", &["whoami"]).refused(NOT_ALLOWED, &["B1406"]);

    let file = lab.folder().join("node-90.join");
    let shown = file.to_str().context("a path that is no text")?;
    lab.bursar(&["node", "token", "node-90", "--file", shown]).ok();
    assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    // It is no principal's token.
    let mut stranger = lab.command("nobody");
    stranger.args(["queue"]).env("BURSAR_TOKEN_FILE", shown);
    lab.run(&mut stranger, "nobody")?.refused(NOT_ALLOWED, &["B1406"]);
    Ok(())
}

/// Sockets that listen on this machine: their inode and whether their address is loopback.
fn listeners() -> Result<Vec<(String, bool)>> {
    let mut found = Vec::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // A machine without IPv6 has no second file.
        let text = fs::read_to_string(file).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(state), Some(inode)) = (fields.get(1), fields.get(3), fields.get(9))
            else {
                continue;
            };
            let is_loopback = local.starts_with("0100007F:")
                || local.starts_with("00000000000000000000000001000000:")
                || local.starts_with("0000000000000000FFFF00000100007F:");
            if *state == "0A" {
                found.push(((*inode).to_owned(), is_loopback));
            }
        }
    }
    anyhow::ensure!(!found.is_empty(), "the kernel shows no listeners");
    Ok(found)
}

fn sockets(pid: i32) -> BTreeSet<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

pub fn replicas_listen_on_loopback_and_agents_and_shims_nowhere(lab: &mut Lab) -> Result<()> {
    let (_, gate) = lab.submit_gated("ana", &["--budget", "a", "--unallocated"])?;
    let shim = parent(gate.running().pid).context("a job has a shim")?;
    let listeners = listeners()?;
    for replica in &lab.replicas {
        let own = sockets(replica.pid().context("it runs")?);
        let mine: Vec<_> = listeners.iter().filter(|(inode, _)| own.contains(inode)).collect();
        assert!(mine.len() >= 2, "one for clients, one for peers: {mine:?}");
        assert!(mine.iter().all(|(_, is_loopback)| *is_loopback), "{mine:?}");
    }
    let agents = lab.agents.iter().filter_map(chaos_tests::lab::Agent::pid);
    let below = agents.clone().flat_map(children);
    for pid in agents.chain(below).chain([shim]) {
        let own = sockets(pid);
        let open: Vec<_> = listeners.iter().filter(|(inode, _)| own.contains(inode)).collect();
        assert!(open.is_empty(), "process {pid} listens: {open:?}");
    }
    gate.open(0);
    Ok(())
}

pub fn following_into_a_closed_pipe_ends_by_itself(lab: &mut Lab) -> Result<()> {
    let line = "while :; do echo more; sleep 0.05; done";
    let flags = ["submit", "-o", "name", "--budget", "a", "--unallocated", "--", "/bin/sh", "-c", line];
    let job = lab.bursar_as("ana", &flags).number();
    seen::running(lab, &lab.client("ana")?, job);
    let number = job.to_string();
    let run = ["run", "-q", "--budget", "a", "--unallocated", "--", "/bin/sh", "-c", line];
    for args in [&["logs", "-f", &number][..], &["events", "-f", "--after", "0"], &run] {
        let mut command = lab.command("ana");
        command.args(args).env("XDG_CONFIG_HOME", lab.folder());
        let (code, err) = crate::refusals::with_a_closed_pipe(command)?;
        assert!(code == Some(0) && err.is_empty(), "{args:?}: {code:?}, {err}");
    }
    Ok(())
}
