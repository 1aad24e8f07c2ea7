//! Processes that are not what they say, or not alone.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;

use anyhow::{Context as _, Result};
use chaos_tests::lab::{ADMIN, Agent, Lab, Plan, alive, costs_no_election, until};
use serde_json::Value;
use xtask::not_available;

use crate::seen;

pub fn second_process_on_a_data_directory_ends_and_the_first_goes_on(lab: &mut Lab) -> Result<()> {
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1h"])?;
    let process = gate.running();
    let mut agent = lab.agents[0].spawn(&lab.parts)?;
    assert_eq!(agent.wait_end().code(), Some(1), "{}", agent.log_tail());
    assert!(agent.log_tail().contains("another agent is using the data directory"), "{}", agent.log_tail());

    // With a free port, so that the address is not what it fails on.
    let twin = lab.folder().join("twin.toml");
    let keys = format!(
        "data = '{}'\npeer_secret_file = '{}'\nlisten = '127.0.0.1:0'\npeer_listen = '127.0.0.1:0'\n",
        lab.replicas[1].data.display(),
        lab.folder().join("peer-secret").display()
    );
    fs::write(&twin, keys).context("failed to write a configuration")?;
    let said = lab.bursar(&["server", "-c", twin.to_str().context("a path that is no text")?]);
    said.refused(1, &["B1120", "use"]);

    assert!(alive(process));
    assert!(lab.replicas.iter_mut().all(|r| r.process.as_mut().is_some_and(|p| p.ended().is_none())));
    lab.wait_nodes();
    gate.open(0);
    seen::assert_exit(&seen::ended(lab, &lab.client("ana")?, job), 0);
    Ok(())
}

/// Copies an agent's data directory, with its identity changed.
fn copy(lab: &Lab, from: usize, name: &str, change: impl FnOnce(&mut Value)) -> Result<Agent> {
    let mut agent = Agent::prepare(lab.folder(), 90, 4, &lab.servers())?;
    agent.data = lab.folder().join(name);
    let journal = agent.data.join("journal");
    fs::create_dir_all(&journal).context("failed to make a data directory")?;
    let file = Path::new("journal/identity.json");
    let text = fs::read(lab.agents[from].data.join(file)).context("failed to read an identity")?;
    let mut identity: Value = serde_json::from_slice(&text).context("an identity is no JSON")?;
    change(&mut identity);
    fs::write(agent.data.join(file), identity.to_string()).context("failed to write an identity")?;
    Ok(agent)
}

pub fn agent_that_claims_another_node_is_refused(lab: &mut Lab) -> Result<()> {
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--min-runtime", "1h"])?;
    let process = gate.running();
    let first: Value = serde_json::from_slice(&fs::read(lab.agents[0].data.join("journal/identity.json"))?)?;
    let claim = first["joined"]["node"].clone();
    let impostor = copy(lab, 1, "impostor", |identity| identity["joined"]["node"] = claim)?;
    let running = impostor.spawn(&lab.parts)?;
    until("the impostor is refused", || running.log_tail().contains("the credential is node").then_some(()));
    drop(running);
    until("operators are told", || {
        let status = lab.bursar(&["cluster", "status", "-o", "json"]).json();
        status["alarms"].to_string().contains("spoke for node").then_some(())
    });
    // Nobody's work was touched, and both nodes are still what they were.
    assert!(alive(process));
    lab.wait_nodes();
    gate.open(4);
    seen::assert_exit(&seen::ended(lab, &lab.client("ana")?, job), 4);
    Ok(())
}

pub fn garbage_on_a_port_harms_nobody(lab: &mut Lab) -> Result<()> {
    let addresses = || lab.replicas.iter().flat_map(|replica| [&replica.client, &replica.peer]);
    let is_seen = costs_no_election(lab, |_| {
        for address in addresses() {
            for garbage in
                [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 70_000], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0"]
            {
                let mut stream = TcpStream::connect(address).context("failed to connect")?;
                // The replica may close at any byte of it.
                let _ = stream.write_all(garbage);
            }
        }
        lab.leader();
        Ok(())
    })?;
    if !is_seen {
        not_available("no needless election: this machine let replicas wait too long");
    }
    assert!(lab.replicas.iter_mut().all(|r| r.process.as_mut().is_some_and(|p| p.ended().is_none())));
    let (job, gate) = lab.submit_gated("ana", &["--budget", "a", "--unallocated"])?;
    gate.open(0);
    seen::ended(lab, &lab.client("ana")?, job);
    Ok(())
}

pub fn process_of_another_control_plane_is_refused(lab: &mut Lab) -> Result<()> {
    let other = Lab::found(Plan::small())?;
    // An agent of this one at the other one's door.
    let lost = copy(lab, 0, "lost", |_| {})?;
    let running = lost.spawn_to(&lab.parts, &other.servers())?;
    until("the agent is turned away", || {
        running.log_tail().contains("does not know this agent").then_some(())
    });
    drop(running);
    // A replica of the other one as a founder here.
    let setup = other.folder().join("none");
    fs::write(&setup, "0123456789abcdef")?;
    let founder = |replica: &chaos_tests::lab::Replica| format!("{},{}", replica.client, replica.peer);
    let args = ["cluster", "init", "--root", "lab", "--admin", ADMIN, "--account", "root", "--founder"];
    let own = founder(&other.replicas[0]);
    let foreign = founder(&lab.replicas[0]);
    let setup = setup.display().to_string();
    let rest = [own.as_str(), "--founder", &foreign, "--setup-secret-file", &setup, "--as-context", "second"];
    let said = other.bursar(&args.into_iter().chain(rest).collect::<Vec<_>>());
    assert_ne!(said.code, 0, "a control plane was founded twice: {said:#?}");
    let contexts = other.bursar(&["context", "list"]);
    assert!(!contexts.out.contains("second"), "a refused founding left its context: {contexts:#?}");
    // A token of one opens nothing in the other.
    let token = lab.token_file("ana").display().to_string();
    let mut stranger = other.command(ADMIN);
    stranger.args(["queue"]).env("BURSAR_TOKEN_FILE", token);
    other.run(&mut stranger, "nobody")?.refused(5, &["B1406"]);
    drop(other);
    lab.wait_nodes();
    Ok(())
}
