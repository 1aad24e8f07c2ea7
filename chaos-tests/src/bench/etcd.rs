//! The yardstick: an etcd of three members on this machine, and its puts.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::lab::{Process, try_until};

const PUT: PathAndQuery = PathAndQuery::from_static("/etcdserverpb.KV/Put");
const STATUS: PathAndQuery = PathAndQuery::from_static("/etcdserverpb.Maintenance/Status");
/// How long the members may take to agree on a leader.
const COMING_UP: Duration = Duration::from_secs(30);

/// What etcd's `Put` takes, as far as it is used here.
#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// What it answers, as far as it is read here.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct PutResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct StatusRequest {}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(uint64, tag = "4")]
    leader: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Header {
    #[prost(uint64, tag = "2")]
    member_id: u64,
}

/// Three members. Dropping it ends them.
#[derive(Debug)]
pub struct Etcd {
    /// What it calls itself.
    pub version: String,
    members: Vec<Process>,
    clients: Vec<String>,
}

impl Etcd {
    /// Starts three members with their data in `folder`; `None` where no etcd is installed.
    ///
    /// # Errors
    /// When one cannot be started, or they agree on no leader.
    pub fn start(folder: &Path) -> Result<Option<Self>> {
        let Ok(said) = Command::new("etcd").arg("--version").output() else { return Ok(None) };
        let version = String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned();
        let places = (1..=3).map(|n| Place::new(folder, n)).collect::<Result<Vec<_>>>()?;
        let cluster: Vec<String> = places.iter().map(|p| format!("{}=http://{}", p.name, p.peer)).collect();
        let members = places.iter().map(|place| place.start(&cluster.join(","))).collect::<Result<_>>()?;
        Ok(Some(Self { version, members, clients: places.into_iter().map(|place| place.client).collect() }))
    }

    /// Returns connections to the leader, once there is one.
    ///
    /// # Errors
    /// When none leads in time.
    pub async fn to_leader(&self, connections: usize) -> Result<Vec<Puts>> {
        let begun = std::time::Instant::now();
        while begun.elapsed() < COMING_UP {
            for client in &self.clients {
                if leads(client).await.unwrap_or(false) {
                    return (0..connections).map(|_| Puts::new(client)).collect();
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let logs: Vec<String> = self.members.iter().map(Process::log_tail).collect();
        anyhow::bail!("etcd has no leader:\n{}", logs.join("\n---\n"))
    }
}

/// Whether the member at this address says that it leads.
async fn leads(client: &str) -> Result<bool> {
    let mut grpc = Grpc::new(channel(client)?);
    grpc.ready().await.context("no connection")?;
    let codec = ProstCodec::<StatusRequest, StatusResponse>::default();
    let answer = grpc.unary(tonic::Request::new(StatusRequest {}), STATUS, codec).await?.into_inner();
    Ok(answer.leader != 0 && answer.header.is_some_and(|header| header.member_id == answer.leader))
}

fn channel(client: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{client}")).context("this is no address")?;
    Ok(endpoint.connect_timeout(Duration::from_secs(1)).tcp_nodelay(true).connect_lazy())
}

/// One connection that puts.
#[derive(Debug, Clone)]
pub struct Puts(Grpc<Channel>);

impl Puts {
    fn new(client: &str) -> Result<Self> {
        Ok(Self(Grpc::new(channel(client)?)))
    }

    /// Puts one key and waits until it is acknowledged.
    ///
    /// # Errors
    /// With etcd's own status.
    pub async fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.0.ready().await.context("no connection")?;
        let request = tonic::Request::new(PutRequest { key, value });
        self.0.unary(request, PUT, ProstCodec::<PutRequest, PutResponse>::default()).await?;
        Ok(())
    }
}

/// Where one member lives.
struct Place {
    name: String,
    data: PathBuf,
    log: PathBuf,
    client: String,
    peer: String,
}

impl Place {
    fn new(folder: &Path, n: usize) -> Result<Self> {
        let name = format!("e{n}");
        let (data, log) = (folder.join(&name), folder.join(format!("{name}.log")));
        Ok(Self { name, data, log, client: free_address()?, peer: free_address()? })
    }

    fn start(&self, cluster: &str) -> Result<Process> {
        let (client, peer) = (format!("http://{}", self.client), format!("http://{}", self.peer));
        let mut command = Command::new("etcd");
        command.args(["--name", &self.name, "--data-dir"]).arg(&self.data);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", cluster, "--initial-cluster-state", "new"]);
        command.args(["--heartbeat-interval", "100", "--election-timeout", "1000"]);
        let mut process = Process::start(command, &self.log)?;
        let has_begun =
            try_until(COMING_UP, || (self.data.exists() || process.ended().is_some()).then_some(()));
        ensure!(has_begun.is_some() && process.ended().is_none(), "etcd ended:\n{}", process.log_tail());
        Ok(process)
    }
}

/// Returns an address on loopback that nobody listens on now. Etcd takes no address of "any port", since each member
/// is told the others' before they start.
fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no address is free")?;
    Ok(listener.local_addr().context("an address")?.to_string())
}
