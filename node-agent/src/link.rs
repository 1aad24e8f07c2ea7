//! The link: one stream to the leader, found through any replica, dialled again for ever.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::agent_link_client::AgentLinkClient;
use proto::v1::agent_message::Message as Out;
use proto::v1::server_message::Message as In;
use proto::{Wire, v1};
use scheduler_core::agent::{Assignments, Report, Token};
use scheduler_core::command::Saved;
use scheduler_core::node::Facts;
use scheduler_core::unit::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use crate::clock::ClusterClock;
use crate::dial;
use crate::journal::{Joined, Journal};

/// The version of the link's protocol that this agent speaks.
const PROTOCOL: u32 = 1;
/// The first and the longest pause before a replica is dialled again. An election takes about two seconds: whoever is
/// back long after it misses what was promised meanwhile, as that a node is empty by then.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Redirects followed without a pause.
const HOPS_MAX: u32 = 3;
/// How long a replica may take to welcome or redirect.
const WELCOME: Duration = Duration::from_secs(5);
/// Beats without an answer after which the link is given up, if that is longer than `SILENT_MIN`.
const SILENT_BEATS: u32 = 4;
/// The shortest silence after which the link is given up: a busy machine is no lost one.
const SILENT_MIN: Duration = Duration::from_secs(3);
/// Messages on their way out.
const OUTBOX: usize = 256;

/// What the link tells the agent's loop.
#[derive(Debug)]
pub enum Inbound {
    /// A leader welcomed this agent; launches are fetched here from now on.
    Up(AgentLinkClient<Channel>),
    /// The link is gone.
    Down,
    /// A set.
    Set(Assignments),
    /// A batch is committed.
    Ack(u64),
    /// Somebody wants to read a log.
    Log(v1::LogRequest),
    /// A replica said what time it is.
    Time,
}

/// What the agent's loop gives to the link. Without a link it is dropped: what matters is sent again on the next one.
#[derive(Debug)]
pub enum Outbound {
    /// Reports.
    Reports {
        /// Number of the batch.
        seq: u64,
        /// The reports.
        reports: Vec<Report>,
    },
    /// The newest checkpoints.
    Saves(Vec<Saved>),
    /// A part of a log.
    Log(v1::LogChunk),
}

/// What a link needs to know all the time.
pub struct Link {
    /// Replicas to begin with.
    pub servers: Vec<String>,
    /// Replicas as a leader told them last: they come and go.
    pub told: Vec<String>,
    /// Where that is kept.
    pub journal: Journal,
    /// Who dials.
    pub joined: Joined,
    /// The agent's bearer token.
    pub credential: String,
    /// Random at each start of the agent.
    pub session: u64,
    /// The node as it is.
    pub facts: watch::Receiver<Facts>,
    /// The highest token seen.
    pub seen: watch::Receiver<Token>,
    /// Cluster time.
    pub clock: Arc<ClusterClock>,
    /// To the agent's loop.
    pub inbound: mpsc::Sender<Inbound>,
    /// From the agent's loop.
    pub outbound: mpsc::Receiver<Outbound>,
}

/// How a connection ended.
enum End {
    /// Go there, after a pause.
    Redirect { leader: Option<String>, after: Duration },
    /// Try the next one.
    Broken,
    /// It was a link, and is no more.
    Lost,
    /// The loop is gone.
    Over,
}

/// Tells an operator that a replica does not take this agent; one that is only away is no news.
fn turned_away(server: &str, status: &Status) {
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => {
            tracing::error!(%server, said = status.message(), "a replica does not know this agent; jobs run on");
        }
        code => tracing::info!(%server, ?code, said = status.message(), "a replica does not take the link"),
    }
}

/// A bearer token as a header.
pub fn bearer(credential: &str) -> MetadataValue<Ascii> {
    let mut value: MetadataValue<Ascii> =
        format!("Bearer {credential}").parse().unwrap_or_else(|_| MetadataValue::from_static("Bearer -"));
    value.set_sensitive(true);
    value
}

impl Link {
    /// Dials until the loop is gone.
    pub async fn run(mut self) {
        let mut next = usize::try_from(self.session % 1_024).unwrap_or(0);
        let mut leader: Option<String> = None;
        let mut pause = PAUSE_MIN;
        let mut hops = 0;
        loop {
            let server = leader.take().unwrap_or_else(|| {
                next += 1;
                let (told, count) = (self.told.len(), self.told.len() + self.servers.len());
                let place = next % count.max(1);
                let server = self.told.get(place).or_else(|| self.servers.get(place.saturating_sub(told)));
                server.cloned().unwrap_or_default()
            });
            match self.dial(&server).await {
                End::Over => return,
                // Followed at once, but not in circles: replicas may each think that the other one leads.
                End::Redirect { leader: Some(address), .. } if address != server && hops < HOPS_MAX => {
                    leader = Some(address);
                    hops += 1;
                    continue;
                }
                End::Redirect { after, .. } => tokio::time::sleep(after).await,
                End::Lost => {
                    pause = PAUSE_MIN;
                    tracing::info!(%server, "the link is gone; jobs run on");
                    if self.inbound.send(Inbound::Down).await.is_err() {
                        return;
                    }
                }
                End::Broken => {}
            }
            hops = 0;
            // Full jitter: a thousand agents that lost one leader must not come back at once.
            tokio::time::sleep(jitter(pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn dial(&mut self, server: &str) -> End {
        let Ok(channel) = dial::connect(server).await else { return End::Broken };
        let mut client = AgentLinkClient::new(channel);
        // What was meant for another link: the machine sends it again.
        while self.outbound.try_recv().is_ok() {}
        let (send, messages) = mpsc::channel(OUTBOX);
        if send.send(wrap(Out::Hello(self.hello()))).await.is_err() {
            return End::Broken;
        }
        let mut request = Request::new(ReceiverStream::new(messages));
        request.metadata_mut().insert("authorization", bearer(&self.credential));
        let answer = match tokio::time::timeout(WELCOME, client.link(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(status)) => {
                turned_away(server, &status);
                return End::Broken;
            }
            Err(_) => return End::Broken,
        };
        let mut stream = answer.into_inner();
        let first = tokio::time::timeout(WELCOME, stream.message()).await;
        let beat = match first {
            Ok(Ok(Some(v1::ServerMessage { message: Some(In::Welcome(welcome)) }))) => {
                if welcome.cluster != self.joined.cluster {
                    tracing::error!(%server, "another control plane answers there; it is ignored");
                    return End::Broken;
                }
                self.clock.set(Timestamp::from_millis(welcome.cluster_time_at));
                Duration::from_millis(welcome.beat_ms.clamp(10, 600_000))
            }
            Ok(Ok(Some(v1::ServerMessage { message: Some(message) }))) => return early(server, message),
            Ok(Ok(_) | Err(_)) | Err(_) => return End::Broken,
        };
        tracing::info!(%server, "linked");
        client = client.max_decoding_message_size(1 << 20);
        if self.inbound.send(Inbound::Up(client)).await.is_err() {
            return End::Over;
        }
        self.serve(&mut stream, &send, beat).await
    }

    fn hello(&mut self) -> v1::AgentHello {
        let facts = self.facts.borrow_and_update().clone();
        let seen = *self.seen.borrow();
        v1::AgentHello {
            cluster: self.joined.cluster.to_vec(),
            epoch: self.joined.epoch.max(seen.epoch.get()),
            node: self.joined.node,
            boot: facts.boot.to_string(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_min: PROTOCOL,
            protocol_max: PROTOCOL,
            session: self.session,
            seen: Some(seen.to_wire()),
            facts: Some(facts.to_wire()),
            cluster_time_at: self.clock.known().map(Timestamp::as_millis),
        }
    }

    async fn serve(
        &mut self,
        stream: &mut Streaming<v1::ServerMessage>,
        send: &mpsc::Sender<v1::AgentMessage>,
        beat: Duration,
    ) -> End {
        let mut beats = tokio::time::interval(beat);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let patience = (beat * SILENT_BEATS).max(SILENT_MIN);
        let mut heard = Instant::now();
        let mut n = 0;
        loop {
            let message = tokio::select! {
                message = stream.message() => match message {
                    Ok(Some(v1::ServerMessage { message: Some(message) })) => message,
                    Ok(_) | Err(_) => return End::Lost,
                },
                _ = beats.tick() => {
                    if heard.elapsed() > patience {
                        return End::Lost;
                    }
                    n += 1;
                    let cluster_time_at = self.clock.known().map(Timestamp::as_millis);
                    // A full outbox means a replica that takes nothing: the unanswered beats will tell.
                    let _ = send.try_send(wrap(Out::Beat(v1::Beat { n, cluster_time_at })));
                    continue;
                }
                changed = self.facts.changed() => {
                    if changed.is_err() {
                        return End::Over;
                    }
                    let facts = self.facts.borrow_and_update().to_wire();
                    if send.try_send(wrap(Out::Facts(facts))).is_err() {
                        return End::Lost;
                    }
                    continue;
                }
                out = self.outbound.recv() => {
                    let Some(out) = out else { return End::Over };
                    if send.try_send(wrap(outgoing(out))).is_err() {
                        return End::Lost;
                    }
                    continue;
                }
            };
            heard = Instant::now();
            match self.take(message).await {
                Ok(()) => {}
                Err(End::Redirect { leader, after }) => {
                    // The leader went away: the loop must know before the next one is found.
                    if self.inbound.send(Inbound::Down).await.is_err() {
                        return End::Over;
                    }
                    return End::Redirect { leader, after };
                }
                Err(end) => return end,
            }
        }
    }

    /// Takes note of where the replicas are.
    fn learn(&mut self, replicas: Vec<String>) {
        if replicas.is_empty() || replicas == self.told {
            return;
        }
        tracing::info!(?replicas, "the replicas are at other addresses");
        if let Err(error) = self.journal.keep_replicas(&replicas) {
            tracing::warn!(error = &error as &dyn std::error::Error, "the replicas' addresses are not kept");
        }
        self.told = replicas;
    }

    async fn take(&mut self, message: In) -> Result<(), End> {
        let inbound = match message {
            In::Welcome(welcome) => {
                self.clock.set(Timestamp::from_millis(welcome.cluster_time_at));
                return Ok(());
            }
            In::Beat(ack) => {
                self.clock.set(Timestamp::from_millis(ack.cluster_time_at));
                self.learn(ack.replicas);
                Inbound::Time
            }
            In::Redirect(redirect) => return Err(redirected(redirect)),
            In::Assignments(set) => match Assignments::from_wire(set) {
                Ok(set) => {
                    self.clock.set(set.time);
                    Inbound::Set(set)
                }
                Err(error) => {
                    // Not understood is not obeyed, and not taken for an empty set.
                    tracing::error!(%error, "a set can't be read");
                    return Ok(());
                }
            },
            In::Ack(ack) => Inbound::Ack(ack.seq),
            In::Log(request) => Inbound::Log(request),
            In::Refusal(refusal) => {
                tracing::error!(what = %refusal.what, why = %refusal.why, fix = %refusal.fix, "the link is refused");
                return Err(End::Lost);
            }
        };
        self.inbound.send(inbound).await.map_err(|_| End::Over)
    }
}

/// What a replica says instead of a welcome.
fn early(server: &str, message: In) -> End {
    match message {
        In::Redirect(redirect) => redirected(redirect),
        In::Refusal(refusal) => {
            tracing::error!(%server, what = %refusal.what, why = %refusal.why, fix = %refusal.fix, "the link is refused");
            End::Broken
        }
        In::Welcome(_) | In::Assignments(_) | In::Ack(_) | In::Beat(_) | In::Log(_) => End::Broken,
    }
}

fn redirected(redirect: v1::Redirect) -> End {
    let after = Duration::from_millis(redirect.retry_after_ms.min(5_000));
    End::Redirect { leader: redirect.leader.filter(|leader| !leader.is_empty()), after }
}

fn outgoing(out: Outbound) -> Out {
    match out {
        Outbound::Reports { seq, reports } => {
            Out::Reports(v1::ReportBatch { seq, reports: reports.iter().map(Wire::to_wire).collect() })
        }
        Outbound::Saves(saves) => Out::Saves(saves.to_wire()),
        Outbound::Log(chunk) => Out::Log(chunk),
    }
}

fn wrap(message: Out) -> v1::AgentMessage {
    v1::AgentMessage { message: Some(message) }
}

/// A random part of a pause.
fn jitter(pause: Duration) -> Duration {
    let millis = u64::try_from(pause.as_millis()).unwrap_or(1).max(1);
    Duration::from_millis(getrandom::u64().unwrap_or(0) % millis + 1)
}
