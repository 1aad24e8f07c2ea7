//! A control plane of one, scripted by the test: what an agent hears and says over a real connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::v1::agent_link_server::{AgentLink, AgentLinkServer};
use proto::v1::agent_message::Message as FromAgent;
use proto::v1::server_message::Message as ToAgent;
use proto::{Wire, v1};
use scheduler_core::agent::{Assignment, Assignments, RankEvent, Report, Token};
use scheduler_core::id::{ClusterId, Epoch, LogIndex, SpecHash, Term};
use scheduler_core::unit::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

pub(crate) const CLUSTER: ClusterId = ClusterId::new([7; 16]);
pub(crate) const JOIN_TOKEN: &str = "one-time";
/// Cluster time is far from any clock of this machine, and goes on like the boot clock.
fn cluster_ms() -> u64 {
    4_000_000_000_000 + shim::sys::boot_ms()
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) joins: u32,
    credential: Vec<u8>,
    pub(crate) hellos: Vec<v1::AgentHello>,
    pub(crate) beats: u64,
    pub(crate) facts: Vec<v1::NodeFacts>,
    pub(crate) reports: Vec<Report>,
    pub(crate) logs: Vec<v1::LogChunk>,
    pub(crate) saves: Vec<v1::Saved>,
    pub(crate) launches: BTreeMap<SpecHash, Vec<u8>>,
    pub(crate) redirect: Option<String>,
    /// Set: every link is refused with these words, as for a node whose link another machine has.
    pub(crate) refusal: Option<String>,
    pub(crate) refused: u32,
    /// False: reports are taken and not acknowledged, as by a leader that dies before it commits.
    pub(crate) acks: bool,
    /// The newest set; every new link gets it.
    set: Option<v1::Assignments>,
    to_agent: Option<mpsc::Sender<Result<v1::ServerMessage, Status>>>,
}

/// One replica that leads, or says who does.
pub(crate) struct Plane {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    stop: watch::Sender<bool>,
}

#[derive(Clone)]
struct Service {
    seen: Arc<Mutex<Seen>>,
    stopped: watch::Receiver<bool>,
}

impl Plane {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Seen { acks: true, ..Seen::default() }));
        let (stop, mut stopped) = watch::channel(false);
        let service = AgentLinkServer::new(Service { seen: Arc::clone(&seen), stopped: stopped.clone() });
        tokio::spawn(async move {
            let served = tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener));
            tokio::select! { _ = served => {}, _ = stopped.wait_for(|stopped| *stopped) => {} }
        });
        Self { address, seen, stop }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends this replica, its listener and its links.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
        self.seen().to_agent = None;
    }

    pub(crate) async fn send(&self, message: ToAgent) {
        let to = self.seen().to_agent.clone().expect("an agent is linked");
        to.send(Ok(v1::ServerMessage { message: Some(message) })).await.expect("the link stands");
    }

    pub(crate) async fn assign(&self, index: u64, items: Vec<Assignment>) {
        let token = Token { epoch: Epoch::new(1), term: Term::new(1), index: LogIndex::new(index) };
        let set = Assignments { cluster: CLUSTER, token, time: Timestamp::from_millis(cluster_ms()), items };
        let set = set.to_wire();
        let to = {
            let mut seen = self.seen();
            seen.set = Some(set.clone());
            seen.to_agent.clone()
        };
        // Without a link, or with one that is just ending, the next one gets it.
        if let Some(to) = to {
            let _ = to.send(wrap(ToAgent::Assignments(set))).await;
        }
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.seen().to_agent.as_ref().is_some_and(|to| !to.is_closed())
    }

    /// The events reported of a job, repetitions left out.
    pub(crate) fn events(&self, job: u32) -> Vec<RankEvent> {
        let mut events: Vec<RankEvent> = Vec::new();
        for report in &self.seen().reports {
            if report.attempt.job.get() == job && !events.contains(&report.event) {
                events.push(report.event.clone());
            }
        }
        events
    }
}

#[tonic::async_trait]
impl AgentLink for Service {
    type LinkStream = Pin<Box<dyn Stream<Item = Result<v1::ServerMessage, Status>> + Send>>;

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinReply>, Status> {
        let request = request.into_inner();
        if request.token != JOIN_TOKEN {
            return Err(Status::permission_denied("the join token is unknown, used, or too old"));
        }
        let mut seen = self.seen();
        seen.joins += 1;
        seen.credential = request.credential_hash;
        Ok(Response::new(v1::JoinReply { node: 3, cluster: CLUSTER.as_bytes().to_vec(), epoch: 1 }))
    }

    async fn link(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::LinkStream>, Status> {
        self.check(request.metadata())?;
        let mut messages = request.into_inner();
        let (to_agent, out) = mpsc::channel(64);
        let redirect = self.seen().redirect.clone();
        let service = self.clone();
        tokio::spawn(async move {
            if let Some(leader) = redirect {
                let redirect = v1::Redirect { leader: Some(leader), retry_after_ms: 50 };
                let _ = to_agent.send(wrap(ToAgent::Redirect(redirect))).await;
                return;
            }
            let mut stopped = service.stopped.clone();
            loop {
                let message = tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => return,
                    message = messages.next() => message,
                };
                let Some(Ok(message)) = message else { return };
                if let Some(message) = message.message {
                    service.take(message, &to_agent).await;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(out))))
    }

    async fn fetch_launch(
        &self,
        request: Request<v1::FetchLaunchRequest>,
    ) -> Result<Response<v1::FetchLaunchReply>, Status> {
        self.check(request.metadata())?;
        let hash = SpecHash::from_slice(&request.into_inner().hash).expect("a hash");
        match self.seen().launches.get(&hash) {
            Some(launch) => Ok(Response::new(v1::FetchLaunchReply { launch: launch.clone() })),
            None => Err(Status::not_found("no such launch")),
        }
    }
}

impl Service {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, metadata: &tonic::metadata::MetadataMap) -> Result<(), Status> {
        let shown = metadata.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or("");
        let shown = blake3::hash(shown.strip_prefix("Bearer ").unwrap_or("").as_bytes());
        let known = self.seen().credential.clone();
        // A replica that took over knows the credential from the log; here it believes the first one it sees.
        if known.is_empty() || known == shown.as_bytes() {
            Ok(())
        } else {
            Err(Status::unauthenticated("unknown"))
        }
    }

    async fn take(&self, message: FromAgent, to_agent: &mpsc::Sender<Result<v1::ServerMessage, Status>>) {
        let answer = match message {
            FromAgent::Hello(_) if self.seen().refusal.is_some() => {
                let mut seen = self.seen();
                seen.refused += 1;
                let what = seen.refusal.clone().unwrap_or_default();
                Some(ToAgent::Refusal(v1::Refusal { what, ..v1::Refusal::default() }))
            }
            FromAgent::Hello(hello) => {
                let mut seen = self.seen();
                seen.hellos.push(hello);
                seen.to_agent = Some(to_agent.clone());
                Some(ToAgent::Welcome(v1::Welcome {
                    cluster: CLUSTER.as_bytes().to_vec(),
                    term: 1,
                    cluster_time_at: cluster_ms(),
                    beat_ms: 50,
                }))
            }
            FromAgent::Beat(beat) => {
                self.seen().beats += 1;
                Some(ToAgent::Beat(v1::BeatAck {
                    n: beat.n,
                    cluster_time_at: cluster_ms(),
                    replicas: Vec::new(),
                }))
            }
            FromAgent::Reports(batch) => {
                let mut seen = self.seen();
                let reports =
                    batch.reports.into_iter().map(|report| Report::from_wire(report).expect("valid"));
                seen.reports.extend(reports);
                seen.acks.then_some(ToAgent::Ack(v1::ReportAck { seq: batch.seq }))
            }
            FromAgent::Facts(facts) => {
                self.seen().facts.push(facts);
                None
            }
            FromAgent::Saves(saves) => {
                self.seen().saves.extend(saves.items);
                None
            }
            FromAgent::Log(chunk) => {
                self.seen().logs.push(chunk);
                None
            }
        };
        let is_welcome = matches!(answer, Some(ToAgent::Welcome(_)));
        if let Some(answer) = answer {
            let _ = to_agent.send(wrap(answer)).await;
        }
        let set = self.seen().set.clone();
        if let Some(set) = set.filter(|_| is_welcome) {
            let _ = to_agent.send(wrap(ToAgent::Assignments(set))).await;
        }
    }
}

fn wrap(message: ToAgent) -> Result<v1::ServerMessage, Status> {
    Ok(v1::ServerMessage { message: Some(message) })
}
