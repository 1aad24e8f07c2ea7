//! From an empty folder to a cluster that takes jobs.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use proto::v1::{
    AddPrincipalRequest, BudgetApplyRequest, BudgetPlanRequest, FoundRequest, Founder, IssueNodeTokenRequest,
    TreeNode,
};
use rustix::process::geteuid;
use tokio::time::sleep;

use super::cluster::{Cluster, replica_name};
use crate::client::{Client, found, random};
use crate::clock::Deadline;
use crate::codes;
use crate::config::write_private;
use crate::failure::Failure;
use crate::form::text::count;
use crate::secret::Token;
use crate::submission::Origin;
use crate::tree_file;

/// The demo lab.
pub const LAB: &str = include_str!("../../../examples/budgets.yaml");

/// The pool of all nodes.
const POOL: &str = "main";

/// How long a part may take to come up, also on a machine that is busy.
const UP_WITHIN: Duration = Duration::from_secs(60);

/// Times that are short enough to look at.
const SETTINGS: [(&str, u64); 12] = [
    ("window", 600_000),
    ("grace", 10_000),
    ("free_grace", 3_000),
    ("rank_grace", 2_000),
    ("restart_guess", 5_000),
    ("free_backoff", 2_000),
    ("recheck", 1_000),
    ("beat", 500),
    ("silent_after", 3_000),
    ("unreachable_after", 10_000),
    ("cancel_grace", 5_000),
    ("launch_backoff", 1_000),
];

/// Raises a cluster; `say` hears what is being done.
///
/// # Errors
/// When a part does not come up.
pub async fn raise(cluster: &mut Cluster, say: impl Fn(&str)) -> Result<(), Failure> {
    let lab = lab()?;
    say(&format!("starting {}", count(u64::from(cluster.args.replicas), "replica")));
    start_replicas(cluster).await?;
    let account = account()?;
    let admin = lab.owner.clone().unwrap_or_else(|| "admin".into());
    say("founding the control plane");
    let settings = settings(SETTINGS);
    found_it(cluster, &lab, &admin, &account, settings).await?;
    let client = cluster.client(UP_WITHIN)?;
    budgets(&client, &lab).await?;
    say("adding the lab's people");
    people(cluster, &client, &lab, &admin, &account).await?;
    say("starting the nodes' agents");
    start_agents(cluster, &client).await?;
    let deadline = Deadline::after(UP_WITHIN);
    let wanted = cluster.agents.len();
    while cluster.nodes_ready(&client).await? < wanted {
        if let Some(agent) =
            cluster.agents.iter_mut().find_map(|agent| Some((agent.has_ended()?, agent.name.clone())))
        {
            return Err(did_not_come_up(&agent.1, &agent.0, &cluster.place.log(&agent.1)));
        }
        if deadline.is_over() {
            let log = cluster.place.log(&cluster.agents[0].name);
            return Err(did_not_come_up("not all nodes", "out of time", &log));
        }
        sleep(Duration::from_millis(50)).await;
    }
    cluster.is_ready = true;
    cluster.write_state()
}

fn settings<const N: usize>(pairs: [(&str, u64); N]) -> std::collections::HashMap<String, u64> {
    pairs.into_iter().map(|(name, ms)| (name.to_string(), ms)).collect()
}

fn lab() -> Result<TreeNode, Failure> {
    let origin = Origin { file: "budgets.yaml".into(), text: LAB.into() };
    Ok(tree_file::parse(origin)?.tree)
}

async fn start_replicas(cluster: &mut Cluster) -> Result<(), Failure> {
    let secret = Token::make()?;
    secret.write(&cluster.place.peer_secret())?;
    let names: Vec<String> = (1..=cluster.args.replicas).map(replica_name).collect();
    for name in &names {
        let mut part = cluster.replica(name, "127.0.0.1:0", "127.0.0.1:0");
        part.start()?;
        cluster.replicas.push(part);
    }
    cluster.write_state()?;
    for (n, name) in names.iter().enumerate() {
        let file = cluster.place.replica(name).join("addresses");
        let deadline = Deadline::after(UP_WITHIN);
        let (client, peer) = loop {
            if let Some(addresses) = addresses(&file) {
                break addresses;
            }
            let log = cluster.place.log(name);
            if let Some(how) = cluster.replicas[n].has_ended() {
                return Err(did_not_come_up(name, &how, &log));
            }
            if deadline.is_over() {
                return Err(did_not_come_up(name, "out of time", &log));
            }
            sleep(Duration::from_millis(20)).await;
        };
        // Started again it has to listen where the others look for it.
        cluster.replicas[n].arguments = cluster.replica(name, &client, &peer).arguments;
        cluster.replicas[n].address = Some(client);
        cluster.replicas[n].peer = Some(peer);
    }
    cluster.write_state()
}

/// Reads the file that a replica writes once it listens.
fn addresses(file: &Path) -> Option<(String, String)> {
    let text = std::fs::read_to_string(file).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some((value["client"].as_str()?.into(), value["peer"].as_str()?.into()))
}

async fn found_it(
    cluster: &Cluster,
    lab: &TreeNode,
    admin: &str,
    account: &str,
    settings_ms: std::collections::HashMap<String, u64>,
) -> Result<(), Failure> {
    let founder =
        |part: &super::part::Part| Some(Founder { peer: part.peer.clone()?, client: part.address.clone()? });
    let founders: Vec<Founder> = cluster.replicas.iter().filter_map(founder).collect();
    let secret = cluster.place.replica(&replica_name(1)).join("setup-secret");
    let secret = crate::shell::read_text(&secret)?;
    let request = FoundRequest {
        root: lab.name.clone(),
        admin: admin.into(),
        admin_token_hash: cluster.admin.hash(),
        admin_account: account.into(),
        allow_simulated: true,
        settings_ms,
        founders: founders.clone(),
    };
    found(&founders[0].client, secret.trim(), request).await.map(|_| ())
}

async fn budgets(client: &Client, lab: &TreeNode) -> Result<(), Failure> {
    let plan = client.budget_plan(BudgetPlanRequest { tree: Some(lab.clone()) }).await?;
    let request = BudgetApplyRequest {
        mark: Some(client.mark(None).await?),
        tree: Some(lab.clone()),
        revision: plan.revision,
        reason: "the demo lab".into(),
        at: None,
    };
    client.budget_apply(request).await.map(|_| ())
}

async fn people(
    cluster: &Cluster,
    client: &Client,
    lab: &TreeNode,
    admin: &str,
    account: &str,
) -> Result<(), Failure> {
    cluster.admin.write(&cluster.place.token(admin))?;
    let mut names = BTreeSet::new();
    named(lab, &mut names);
    names.remove(admin);
    for name in names {
        let token = Token::make()?;
        token.write(&cluster.place.token(&name))?;
        let request = AddPrincipalRequest {
            mark: Some(client.mark(None).await?),
            name,
            token_hash: token.hash(),
            account: account.into(),
            operator: false,
        };
        client.add_principal(request).await?;
    }
    Ok(())
}

fn named(budget: &TreeNode, names: &mut BTreeSet<String>) {
    names.extend(budget.owner.iter().chain(&budget.members).cloned());
    for child in &budget.children {
        named(child, names);
    }
}

async fn start_agents(cluster: &mut Cluster, client: &Client) -> Result<(), Failure> {
    let of_cluster = u32::from_le_bytes(random()?);
    for n in 1..=cluster.args.nodes {
        let name = format!("node-{n:02}");
        let token = Token::make()?;
        token.write(&cluster.place.token(&name))?;
        let request = IssueNodeTokenRequest {
            mark: Some(client.mark(None).await?),
            name: name.clone(),
            pool: POOL.into(),
            token_hash: token.hash(),
            valid_ms: 3_600_000,
            topology: String::new(),
        };
        client.issue_node_token(request).await?;
        let gpus = crate::shell::json(&super::gpus::file(of_cluster, n, cluster.args.gpus), true)?;
        let file = cluster.place.gpus(&name);
        write_private(&file, gpus.as_bytes()).map_err(|error| {
            Failure::new(codes::DEV_FAILED, format!("cannot write {}", file.display())).why(error.to_string())
        })?;
        let mut part = cluster.agent(&name, geteuid().is_root());
        part.start()?;
        cluster.agents.push(part);
    }
    cluster.write_state()
}

/// Returns the Unix account that we are, by its name.
fn account() -> Result<String, Failure> {
    // In a process group of its own: a Ctrl-C on the terminal is for the supervisor, which ends in good order.
    let output = Command::new("id").arg("-un").process_group(0).output();
    let name = output.ok().filter(|output| output.status.success());
    let name = name.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    match name.trim() {
        "" => Err(Failure::new(codes::DEV_FAILED, "cannot tell the name of our Unix account")
            .why("`id -un` gives none; jobs run as an account with a name")),
        name => Ok(name.into()),
    }
}

/// Tells what a part that failed wrote last.
fn did_not_come_up(name: &str, how: &str, log: &Path) -> Failure {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(8).collect();
    let last: Vec<&str> = lines.into_iter().rev().collect();
    Failure::new(codes::DEV_FAILED, format!("{name} did not come up: {how}"))
        .why(if last.is_empty() { "its log is empty".into() } else { last.join("\n") })
        .fix(format!("its log is {}; --keep keeps it", log.display()))
}
