//! Asking all replicas, of which some may not answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proto::v1::{ClusterStatusRequest, ClusterView, HelloReply, ListNodesRequest, NodeView, ReadAs};

use crate::client::Client;
use crate::failure::Failure;

/// How long one replica is tried.
const ONE: Duration = Duration::from_millis(1500);
/// How long all of them are tried for what only a leader vouches for.
const TOGETHER: Duration = Duration::from_secs(4);
/// More addresses than replicas there can be.
const ADDRESSES_MAX: usize = 32;

/// What one address said.
#[derive(Debug, Clone, Default)]
pub struct Reached {
    /// Its greeting.
    pub hello: Option<HelloReply>,
    /// The control plane as this replica sees it alone.
    pub view: Option<ClusterView>,
    /// Why it said nothing.
    pub why: String,
}

/// What all of them said.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// What each address said: those of the context, and those that replicas named.
    pub replicas: BTreeMap<String, Reached>,
    /// The addresses of the context.
    pub context: Vec<String>,
    /// The control plane, as a leader vouches for it.
    pub view: Option<ClusterView>,
    /// Why there is none.
    pub why: String,
    /// The nodes, as any replica knows them.
    pub nodes: Vec<NodeView>,
    /// Whether the list of nodes is one that a leader vouches for.
    pub are_nodes_fresh: bool,
}

/// Asks all replicas that can be found from `servers`.
///
/// # Errors
/// When an address of the context is none.
pub async fn gather(servers: &[String], token: Option<&str>) -> Result<Gathered, Failure> {
    let mut gathered = Gathered { context: servers.to_vec(), ..Gathered::default() };
    let mut waiting: VecDeque<String> = servers.iter().cloned().collect();
    let mut known: BTreeSet<String> = waiting.iter().cloned().collect();
    while let Some(address) = waiting.pop_front() {
        let reached = ask(&address, token).await?;
        for named in reached.hello.iter().flat_map(|hello| &hello.replicas) {
            if known.len() < ADDRESSES_MAX && known.insert(named.clone()) {
                waiting.push_back(named.clone());
            }
        }
        gathered.replicas.insert(address, reached);
    }
    let answering: Vec<String> =
        gathered.replicas.iter().filter(|(_, one)| one.hello.is_some()).map(|(at, _)| at.clone()).collect();
    if answering.is_empty() || token.is_none() {
        return Ok(gathered);
    }
    let client = Client::new(&answering, token.map(String::from), TOGETHER, false)?;
    match client.cluster_status(ClusterStatusRequest { read: None }).await {
        Ok(view) => gathered.view = Some(view),
        Err(failure) => gathered.why = format!("{}: {}", failure.what, failure.why.replace('\n', "; ")),
    }
    gathered.are_nodes_fresh = gathered.view.is_some();
    let read = Some(ReadAs { stale: !gathered.are_nodes_fresh });
    if let Ok(list) = client.list_nodes(ListNodesRequest { read }).await {
        gathered.nodes = list.nodes;
    }
    Ok(gathered)
}

async fn ask(address: &str, token: Option<&str>) -> Result<Reached, Failure> {
    let client = Client::new(&[address.to_owned()], token.map(String::from), ONE, false)?;
    let hello = match client.hello().await {
        Ok(hello) => hello,
        Err(failure) => {
            let why = failure.why.lines().next().unwrap_or_default().to_owned();
            return Ok(Reached { why, ..Reached::default() });
        }
    };
    let stale = Some(ReadAs { stale: true });
    let asked = client.cluster_status(ClusterStatusRequest { read: stale }).await;
    let (view, why) = match asked {
        Ok(view) => (Some(view), String::new()),
        Err(failure) => (None, failure.what),
    };
    Ok(Reached { hello: Some(hello), view, why })
}
