//! A node without processes: it says at once that what it was told to run has started, and that it ended, or stays until
//! it is told to end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use proto::v1::agent_link_client::AgentLinkClient;
use proto::v1::agent_message::Message as ToServer;
use proto::v1::assignment::Order;
use proto::v1::report::Event;
use proto::v1::server_message::Message as FromServer;
use proto::v1::{self, AgentMessage};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::transport::Endpoint;

use crate::lab::{ADMIN, Lab};

const GPUS: u32 = 8;
/// Messages on their way.
const BUFFER: usize = 256;

/// A node that is in service until dropped.
#[derive(Debug)]
pub struct Scripted {
    task: JoinHandle<()>,
}

/// What a node does with jobs, and whom it tells.
#[derive(Debug, Clone)]
pub enum Life {
    /// Each ends as soon as it has started.
    Short,
    /// Each stays until it is told to end, and leaves at once then; those of the budget `but` end as soon as they have
    /// started.
    Long {
        /// Whose jobs do not stay.
        but: String,
        /// Hears of every order to run or to stop.
        heard: UnboundedSender<Heard>,
    },
}

/// An order as it came.
#[derive(Debug, Clone, Copy)]
pub struct Heard {
    /// Of which job.
    pub job: u32,
    /// To run, and not to stop.
    pub is_run: bool,
    /// When.
    pub at: Instant,
}

/// Who the node is.
struct Node {
    life: Life,
    servers: Vec<String>,
    credential: String,
    joined: v1::JoinReply,
    boot: String,
}

impl Scripted {
    /// Joins as a new node.
    ///
    /// # Errors
    /// When it is refused.
    pub fn join(lab: &Lab, n: usize, life: Life) -> Result<Self> {
        let name = format!("scripted-{n:02}");
        let token = secret()?;
        let servers: Vec<String> = lab.replicas.iter().map(|replica| replica.client.clone()).collect();
        let admin = lab.client(ADMIN)?;
        lab.block_on(admin.node_token(&name, blake3::hash(token.as_bytes()).as_bytes()))?;
        let credential = secret()?;
        let request = v1::JoinRequest {
            token,
            name: name.clone(),
            machine: format!("{n:032x}"),
            credential_hash: blake3::hash(credential.as_bytes()).as_bytes().to_vec(),
        };
        let joined = lab.block_on(async {
            let channel = endpoint(&servers[0])?.connect().await.context("failed to connect")?;
            let joined = AgentLinkClient::new(channel).join(request).await;
            joined.with_context(|| format!("{name} may not join"))
        })?;
        let node = Node { life, servers, credential, joined: joined.into_inner(), boot: format!("boot-{n}") };
        let task = lab.handle().spawn(async move { node.serve().await });
        Ok(Self { task })
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a text that nobody guesses.
fn secret() -> Result<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).context("the system gives no random bytes")?;
    Ok(blake3::Hash::from_bytes(random).to_hex().to_string())
}

fn endpoint(address: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).context("this is no address")?;
    Ok(endpoint.connect_timeout(Duration::from_secs(1)).tcp_nodelay(true))
}

impl Node {
    /// Stays linked to whoever leads.
    async fn serve(&self) {
        for server in self.servers.iter().cycle() {
            if let Err(error) = self.link(server).await {
                eprintln!("a scripted node goes on elsewhere: {error:#}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn link(&self, server: &str) -> Result<()> {
        let channel = endpoint(server)?.connect().await.context("failed to connect")?;
        let (out, messages) = mpsc::channel(BUFFER);
        let hello = AgentMessage { message: Some(ToServer::Hello(self.hello())) };
        out.send(hello).await.context("a fresh channel has room")?;
        let mut request = Request::new(ReceiverStream::new(messages));
        let bearer = format!("Bearer {}", self.credential).parse().context("a credential is plain text")?;
        request.metadata_mut().insert("authorization", bearer);
        let link = AgentLinkClient::new(channel).link(request).await;
        let mut link = link.context("failed to link")?.into_inner();
        let (mut beat, mut n, mut seq) = (Duration::from_millis(500), 0, 0);
        let mut known = BTreeMap::new();
        loop {
            let message = tokio::select! {
                message = link.message() => message.context("the link broke")?,
                () = tokio::time::sleep(beat) => {
                    n += 1;
                    let message = Some(ToServer::Beat(v1::Beat { n, cluster_time_at: None }));
                    out.send(AgentMessage { message }).await.context("the link is closed")?;
                    continue;
                }
            };
            match message.context("the link ended")?.message {
                Some(FromServer::Welcome(welcome)) => beat = Duration::from_millis(welcome.beat_ms / 2),
                Some(FromServer::Assignments(set)) => {
                    let reports = self.life.reports(&set, &mut known);
                    if !reports.is_empty() {
                        seq += 1;
                        let message = Some(ToServer::Reports(v1::ReportBatch { seq, reports }));
                        out.send(AgentMessage { message }).await.context("the link is closed")?;
                    }
                }
                Some(FromServer::Redirect(_)) => return Ok(()),
                Some(FromServer::Refusal(refusal)) => bail!("refused: {}", refusal.what),
                Some(FromServer::Ack(_) | FromServer::Beat(_) | FromServer::Log(_)) | None => {}
            }
        }
    }

    fn hello(&self) -> v1::AgentHello {
        let gpu = |n: u32| v1::GpuFacts {
            uuid: format!("GPU-{:08x}-0000-4000-9000-{n:012x}", self.joined.node),
            model: "NVIDIA H100 80GB HBM3".to_owned(),
            memory_bytes: 80 << 30,
        };
        let facts = v1::NodeFacts {
            address: None,
            boot: self.boot.clone(),
            agent: "scripted".to_owned(),
            cpus: 64,
            memory_bytes: 512 << 30,
            gpus: (0..GPUS).map(gpu).collect(),
            simulated: true,
            containment: "tree".to_owned(),
            trouble: Vec::new(),
        };
        v1::AgentHello {
            cluster: self.joined.cluster.clone(),
            epoch: self.joined.epoch,
            node: self.joined.node,
            boot: self.boot.clone(),
            agent_version: "scripted".to_owned(),
            protocol_min: 1,
            protocol_max: 1,
            session: u64::from(self.joined.node),
            seen: None,
            facts: Some(facts),
            cluster_time_at: None,
        }
    }
}

/// Whether a job that was started has ended.
type Known = BTreeMap<(u32, u32), bool>;

impl Life {
    /// Returns what is to be said of a set: every start and every end that is new.
    fn reports(&self, set: &v1::Assignments, known: &mut Known) -> Vec<v1::Report> {
        let mut reports = Vec::new();
        for item in &set.items {
            let id = (item.job, item.attempt);
            let mut events = Vec::new();
            match &item.order {
                Some(Order::Run(_)) if !known.contains_key(&id) => {
                    self.tell(item.job, true);
                    let is_over = self.is_short(&item.budget);
                    known.insert(id, is_over);
                    events.push(Event::Started(v1::Started {}));
                    events.extend(is_over.then(|| ended(v1::EndedBy::Itself)).into_iter().flatten());
                }
                Some(Order::Stop(stop)) if known.get(&id) != Some(&true) => {
                    self.tell(item.job, false);
                    known.insert(id, true);
                    events.extend(ended(if stop.notice { v1::EndedBy::Notice } else { v1::EndedBy::Stop }));
                }
                Some(Order::Run(_) | Order::Stop(_) | Order::Clear(_) | Order::Prepare(_)) | None => {}
            }
            let (job, attempt, rank, at) = (item.job, item.attempt, item.rank, set.cluster_time_at);
            let report = |event| v1::Report { job, attempt, rank, at, event: Some(event) };
            reports.extend(events.into_iter().map(report));
        }
        reports
    }

    fn is_short(&self, budget: &str) -> bool {
        match self {
            Self::Short => true,
            Self::Long { but, .. } => budget == but,
        }
    }

    fn tell(&self, job: u32, is_run: bool) {
        match self {
            Self::Short => {}
            // Nobody may listen any more.
            Self::Long { heard, .. } => drop(heard.send(Heard { job, is_run, at: Instant::now() })),
        }
    }
}

/// Returns the end of a process that is gone at once.
fn ended(by: v1::EndedBy) -> [Event; 2] {
    let exit = Some(v1::Exit { exit: Some(v1::exit::Exit::Code(0)) });
    [Event::Exited(v1::Exited { exit, by: by.into(), saved_at: None }), Event::Freed(v1::Freed {})]
}
