//! One agent's connection, from its hello to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use proto::v1::agent_message::Message as FromAgent;
use proto::v1::server_message::Message as ToAgent;
use proto::{Wire as _, v1};
use scheduler_core::agent::{Report, Token, full_set};
use scheduler_core::command::{Code, Command, Entry, Rejection};
use scheduler_core::id::{Label, NodeId};
use scheduler_core::leader::{Event, Session};
use scheduler_core::node::Facts;
use scheduler_core::principal::Actor;
use scheduler_core::unit::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::{Status, Streaming};

use super::saves::{self, SAVES_MAX};
use super::{LOG_PATIENCE, Link, Mailbox};
use crate::clock::Deadline;
use crate::shared::{Leading, Shared};
use crate::write;

/// The version of the link's protocol that this code speaks.
const PROTOCOL: u32 = 1;
/// An agent says hello within this time.
const HELLO: Duration = Duration::from_secs(10);
/// An agent that takes nothing for so long loses its link.
const SLOW: Duration = Duration::from_secs(10);
/// Reports in one batch of one agent, and bytes of such a batch or of a node's facts: far below one entry of the log.
const REPORTS_MAX: usize = 1024;
const FACTS_BYTES_MAX: usize = 128 * 1024;
/// Log requests that one agent has unanswered.
const PENDING_MAX: usize = 256;
/// When an agent asks a replica that does not lead, it may ask again after this time.
const AGAIN_MS: u64 = 200;

/// Where a link's messages go.
pub type Out = mpsc::Sender<Result<v1::ServerMessage, Status>>;

/// Serves one agent's link until it ends. `node` is whose credential the connection carries.
pub async fn serve(shared: Arc<Shared>, node: NodeId, mut from: Streaming<v1::AgentMessage>, out: Out) {
    let leads = shared.leading.borrow().clone();
    // One that does not lead, and does not know what time it is, listens to what the agent knows.
    if leads.is_none() && shared.clock.now().is_some() {
        redirect(&shared, &out).await;
        return;
    }
    let hello = match tokio::time::timeout(HELLO, from.message()).await {
        Ok(Ok(Some(v1::AgentMessage { message: Some(FromAgent::Hello(hello)) }))) => hello,
        Ok(Ok(_) | Err(_)) | Err(_) => return,
    };
    let greeted = match greet(&shared, node, &hello) {
        Ok(greeted) => greeted,
        Err(rejection) => {
            tracing::warn!(%node, what = %rejection.what, "an agent's link is refused");
            if hello.node != node.get() {
                report_foreign(&shared, node, hello.node).await;
            }
            let _ = send(&out, ToAgent::Refusal(rejection.to_wire())).await;
            return;
        }
    };
    if let Some(time) = hello.cluster_time_at {
        shared.clock.claim(node, Timestamp::from_millis(time));
    }
    let Some(leading) = leads else {
        redirect(&shared, &out).await;
        return;
    };
    let quiet_after = quiet_after(&shared);
    let Ok((link, mailbox)) = shared.links.enter(node, greeted.boot, quiet_after) else {
        tracing::error!(%node, "a second machine says that it is this node: refused");
        let _ = send(&out, ToAgent::Refusal(occupied().to_wire())).await;
        return;
    };
    let session = link.session;
    let worker = Worker { shared: &shared, node, link: &link, leading: &leading, out: &out };
    tracing::info!(%node, session = session.get(), "an agent is linked");
    worker.run(greeted.facts, &mut from, mailbox).await;
    shared.links.leave(node, session);
    let _ = leading.inbox.send(Event::LinkDown { node, session }).await;
    tracing::info!(%node, session = session.get(), "an agent's link ended");
}

/// What a good hello says.
struct Greeted {
    boot: Label,
    facts: Facts,
}

fn greet(shared: &Shared, node: NodeId, hello: &v1::AgentHello) -> Result<Greeted, Rejection> {
    let meta = &shared.views.now().state.meta;
    let no = |what: String, fix: &str| Err(Rejection::new(Code::NotAllowed, what, "", fix.to_owned()));
    if meta.cluster.is_none_or(|cluster| cluster.as_bytes().as_slice() != hello.cluster) {
        return no(
            "this is another control plane".to_owned(),
            "the agent's data directory belongs elsewhere",
        );
    }
    if hello.epoch > meta.epoch.get() {
        return no(
            format!("the agent has seen epoch {}, this control plane is in {}", hello.epoch, meta.epoch),
            "a backup was restored without a new epoch",
        );
    }
    if hello.node != node.get() {
        return no(format!("the credential is node {node}'s, the agent says it is node {}", hello.node), "");
    }
    if hello.protocol_min > PROTOCOL || hello.protocol_max < PROTOCOL {
        return no(format!("this replica speaks version {PROTOCOL} of the link"), "use matching versions");
    }
    let bad = |cause: proto::Error| Rejection::new(Code::BadSpec, cause.to_string(), "", String::new());
    let facts = hello.facts.clone().ok_or(proto::Error::Missing("facts")).map_err(bad)?;
    if facts.encoded_len() > FACTS_BYTES_MAX {
        return Err(bad(proto::Error::bad("facts", "more than 128 KiB")));
    }
    let facts = Facts::from_wire(facts).map_err(bad)?;
    let boot = Label::new(&hello.boot).map_err(|_| bad(proto::Error::bad("boot", "it is no boot id")))?;
    Ok(Greeted { boot, facts })
}

/// Has the control plane note, for every replica and operator to see, that an agent spoke for another node.
async fn report_foreign(shared: &Shared, node: NodeId, claimed: u32) {
    let command = Command::Reports { node: NodeId::new(claimed), reports: Vec::new() };
    let via = Some(shared.replica());
    let entry = Entry { time: Timestamp::ZERO, actor: Actor::Agent(node), via, request: None, command };
    let _ = write::here(shared, entry).await;
}

fn occupied() -> Rejection {
    Rejection::new(
        Code::NotAllowed,
        "another machine has this node's link".to_owned(),
        "two machines with one node's data directory would run the same work twice",
        "stop one of them; a copied data directory must not be used".to_owned(),
    )
}

fn quiet_after(shared: &Shared) -> Duration {
    let beat = shared.views.now().state.meta.settings.beat;
    Duration::from_millis(beat.as_millis().saturating_mul(2).saturating_add(500))
}

async fn redirect(shared: &Shared, out: &Out) {
    let leader = shared.standing().leader.filter(|leader| leader.id.get() != shared.replica().get());
    let leader = leader.map(|leader| leader.client_addr);
    let _ = send(out, ToAgent::Redirect(v1::Redirect { leader, retry_after_ms: AGAIN_MS })).await;
}

/// Sends a message; an agent that takes nothing for long is given up.
async fn send(out: &Out, message: ToAgent) -> Result<(), Ended> {
    let message = Ok(v1::ServerMessage { message: Some(message) });
    match tokio::time::timeout(SLOW, out.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Ended),
    }
}

/// The link is over.
struct Ended;

struct Worker<'a> {
    shared: &'a Shared,
    node: NodeId,
    link: &'a Link,
    leading: &'a Leading,
    out: &'a Out,
}

/// Log requests without an answer, and what the agent was told.
#[derive(Default)]
struct Pending {
    /// The replicas' addresses.
    told: Vec<String>,
    next: u64,
    waiting: BTreeMap<u64, (Deadline, oneshot::Sender<v1::LogChunk>)>,
}

/// What a link waits for.
enum Woken {
    Agent(Box<FromAgent>),
    Set,
    Ack(u64),
    Ask(super::Ask),
    Over { redirect: bool },
}

impl Worker<'_> {
    async fn run(&self, facts: Facts, from: &mut Streaming<v1::AgentMessage>, mut mailbox: Mailbox) {
        let mut leading = self.shared.leading.subscribe();
        let mut stopping = self.shared.stopping.subscribe();
        let mut pending = Pending::default();
        if self.welcome(facts).await.is_err() {
            return;
        }
        loop {
            let woken = tokio::select! {
                biased;
                _ = mailbox.close.wait_for(|close| *close) => Woken::Over { redirect: false },
                () = left(&mut leading, self.leading) => Woken::Over { redirect: true },
                _ = stopping.wait_for(|stopping| *stopping) => Woken::Over { redirect: true },
                message = from.message() => match message {
                    Ok(Some(v1::AgentMessage { message: Some(message) })) => Woken::Agent(Box::new(message)),
                    Ok(_) | Err(_) => Woken::Over { redirect: false },
                },
                Ok(()) = mailbox.set.changed() => Woken::Set,
                Some(seq) = mailbox.acks.recv() => Woken::Ack(seq),
                Some(ask) = mailbox.asks.recv() => Woken::Ask(ask),
            };
            let done = match woken {
                Woken::Agent(message) => self.take(*message, &mut pending).await,
                Woken::Set => self.send_set().await,
                Woken::Ack(seq) => send(self.out, ToAgent::Ack(v1::ReportAck { seq })).await,
                Woken::Ask(ask) => self.ask(ask, &mut pending).await,
                Woken::Over { redirect: true } => {
                    redirect(self.shared, self.out).await;
                    Err(Ended)
                }
                Woken::Over { redirect: false } => Err(Ended),
            };
            if done.is_err() {
                return;
            }
        }
    }

    async fn welcome(&self, facts: Facts) -> Result<(), Ended> {
        let meta = self.shared.views.now().state.meta.clone();
        let welcome = v1::Welcome {
            cluster: meta.cluster.map(|cluster| cluster.as_bytes().to_vec()).unwrap_or_default(),
            term: self.leading.term.get(),
            cluster_time_at: self.shared.clock.roughly().as_millis(),
            beat_ms: meta.settings.beat.as_millis(),
        };
        send(self.out, ToAgent::Welcome(welcome)).await?;
        let session = self.session();
        self.tell(Event::LinkUp { node: self.node, session }).await?;
        // Its set follows once these facts are committed: after a restart of the machine the present one is of before.
        self.tell(Event::Facts { node: self.node, session, facts }).await
    }

    fn session(&self) -> Session {
        self.link.session
    }

    async fn tell(&self, event: Event) -> Result<(), Ended> {
        self.leading.inbox.send(event).await.map_err(|_| Ended)
    }

    async fn take(&self, message: FromAgent, pending: &mut Pending) -> Result<(), Ended> {
        self.link.hear();
        match message {
            FromAgent::Hello(_) => self.refuse("a second hello").await,
            FromAgent::Facts(facts) if facts.encoded_len() > FACTS_BYTES_MAX => {
                self.refuse("facts of more than 128 KiB").await
            }
            FromAgent::Facts(facts) => match Facts::from_wire(facts) {
                Ok(facts) => {
                    self.tell(Event::Facts { node: self.node, session: self.session(), facts }).await
                }
                Err(cause) => self.refuse(&cause.to_string()).await,
            },
            FromAgent::Reports(batch) => self.reports(batch).await,
            FromAgent::Saves(saves) => self.saves(saves).await,
            FromAgent::Beat(beat) => {
                self.tell(Event::Beat { node: self.node }).await?;
                let cluster_time_at = self.shared.clock.roughly().as_millis();
                let now = crate::api::addresses(&self.shared.standing());
                let is_news = pending.told != now;
                if is_news {
                    pending.told.clone_from(&now);
                }
                let replicas = if is_news { now } else { Vec::new() };
                send(self.out, ToAgent::Beat(v1::BeatAck { n: beat.n, cluster_time_at, replicas })).await
            }
            FromAgent::Log(chunk) => {
                // Nobody may be waiting for it any more.
                if let Some((_, answer)) = pending.waiting.remove(&chunk.id) {
                    let _ = answer.send(chunk);
                }
                Ok(())
            }
        }
    }

    async fn reports(&self, batch: v1::ReportBatch) -> Result<(), Ended> {
        if batch.reports.len() > REPORTS_MAX || batch.encoded_len() > FACTS_BYTES_MAX {
            return self.refuse("a batch of more than 1,024 reports or 128 KiB").await;
        }
        let reports: Result<Vec<_>, _> = batch.reports.into_iter().map(Report::from_wire).collect();
        match reports {
            Ok(reports) => {
                let (node, session) = (self.node, self.session());
                self.tell(Event::Reports { node, session, seq: batch.seq, reports }).await
            }
            Err(cause) => self.refuse(&cause.to_string()).await,
        }
    }

    async fn saves(&self, saves: v1::Saves) -> Result<(), Ended> {
        if saves.items.len() > SAVES_MAX {
            return self.refuse("the progress of more than 4,096 ranks").await;
        }
        let kept = saves::keep(&self.shared.views.now().state, self.node, &saves.items);
        if let Some(other) = kept.foreign {
            tracing::warn!(node = %self.node, %other, "an agent reports a checkpoint of another node's work");
            // One alarm is enough, whatever else it sends.
            if !self.shared.views.now().state.meta.alarms.contains_key(&self.node) {
                report_foreign(self.shared, self.node, other.get()).await;
            }
        }
        if kept.saves.is_empty() {
            return Ok(());
        }
        let (node, session) = (self.node, self.session());
        self.tell(Event::Saves { node, session, saves: kept.saves }).await
    }

    async fn refuse(&self, what: &str) -> Result<(), Ended> {
        tracing::warn!(node = %self.node, what, "an agent sent what cannot be");
        let rejection = Rejection::new(Code::BadSpec, what.to_owned(), "", String::new());
        send(self.out, ToAgent::Refusal(rejection.to_wire())).await?;
        Err(Ended)
    }

    /// Sends the node its set as it is now, under the leader's term and the index it was made at.
    async fn send_set(&self) -> Result<(), Ended> {
        let view = self.shared.views.now();
        let Some(mut set) = full_set(&view.state, self.node) else { return Ok(()) };
        set.token = Token { epoch: view.state.meta.epoch, term: self.leading.term, index: view.index };
        set.time = self.shared.clock.roughly();
        send(self.out, ToAgent::Assignments(set.to_wire())).await
    }

    async fn ask(&self, (mut request, answer): super::Ask, pending: &mut Pending) -> Result<(), Ended> {
        pending.waiting.retain(|_, (until, answer)| !until.is_over() && !answer.is_closed());
        if pending.waiting.len() >= PENDING_MAX {
            return Ok(());
        }
        pending.next += 1;
        request.id = pending.next;
        pending.waiting.insert(request.id, (Deadline::after(LOG_PATIENCE), answer));
        send(self.out, ToAgent::Log(request)).await
    }
}

/// Waits until this replica no longer leads in the same term.
async fn left(leading: &mut watch::Receiver<Option<Leading>>, since: &Leading) {
    let is_over = |now: &Option<Leading>| now.as_ref().is_none_or(|now| now.term != since.term);
    let _ = leading.wait_for(is_over).await;
}
