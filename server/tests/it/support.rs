//! A laboratory: three replicas in this process, people with tokens, an agent that does what the test says.

use std::future::Future;
use std::time::{Duration, Instant};

use proto::v1;
use proto::v1::agent_link_client::AgentLinkClient;
use proto::v1::control_client::ControlClient;
use proto::v1::setup_client::SetupClient;
use server::{Addresses, Config, Replica};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use xtask::{ClusterLock, cluster_lock};

/// Long enough for a busy machine; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// The first principal's token.
pub const ADMIN: &str = "the-admins-token";

/// Looks again and again until `look` finds what it looks for.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs a test on workers of its own, alone on this machine.
pub fn alone<F: Future<Output = ()>>(test: impl FnOnce(ClusterLock) -> F) {
    let lock = cluster_lock();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(test(lock));
    runtime.shutdown_background();
}

/// Three replicas, or fewer while some are stopped.
pub struct Lab {
    pub replicas: Vec<Option<Replica>>,
    pub configs: Vec<Config>,
    _dir: TempDir,
    _lock: ClusterLock,
}

impl Lab {
    /// Starts replicas that wait to be founded.
    pub async fn waiting(lock: ClusterLock, count: usize) -> Self {
        Self::waiting_with(lock, count, |_| {}).await
    }

    /// Starts replicas with changed configurations.
    pub async fn waiting_with(lock: ClusterLock, count: usize, change: impl Fn(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("peer-secret");
        std::fs::write(&secret, [b's'; 40]).unwrap();
        let (mut replicas, mut configs) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let mut config = Config::new(dir.path().join(format!("r{number}")), &secret);
            config.listen.set_port(0);
            config.peer_listen.set_port(0);
            config.free_disk_min_bytes = 1;
            config.free_disk_min_percent = 0;
            change(&mut config);
            let replica = Replica::start(config.clone()).await.unwrap();
            // A replica comes back where it was.
            config.listen = replica.addresses().client;
            config.peer_listen = replica.addresses().peer;
            replicas.push(Some(replica));
            configs.push(config);
        }
        Self { replicas, configs, _dir: dir, _lock: lock }
    }

    /// Starts three replicas and founds a control plane with a small tree, two users and short times.
    pub async fn founded(lock: ClusterLock) -> Self {
        Self::founded_with(lock, |_| {}).await
    }

    /// The same with changed configurations.
    pub async fn founded_with(lock: ClusterLock, change: impl Fn(&mut Config)) -> Self {
        Self::founded_as(lock, &[], change).await
    }

    async fn settle_people(&self) {
        let admin = self.client(0, ADMIN).await;
        for user in ["ana", "ben"] {
            admin.add_principal(user).await;
        }
        admin.apply_tree().await;
    }

    /// Returns a replica's setup secret.
    pub fn setup_secret(&self, at: usize) -> String {
        std::fs::read_to_string(self.configs[at].data.join("setup-secret")).unwrap().trim().to_owned()
    }

    /// The same with other settings, in milliseconds.
    pub async fn founded_as(
        lock: ClusterLock,
        settings: &[(&str, u64)],
        change: impl Fn(&mut Config),
    ) -> Self {
        let lab = Self::waiting_with(lock, 3, change).await;
        lab.found_as(&lab.setup_secret(0), settings).await.unwrap();
        lab.settle_people().await;
        lab
    }

    /// Asks the first replica to found.
    pub async fn found(&self, secret: &str) -> Result<String, Status> {
        self.found_as(secret, &[]).await
    }

    async fn found_as(&self, secret: &str, settings: &[(&str, u64)]) -> Result<String, Status> {
        let mut client = SetupClient::new(channel(self.configs[0].listen).await);
        let founders = self.configs.iter().map(|config| v1::Founder {
            peer: config.peer_listen.to_string(),
            client: config.listen.to_string(),
        });
        let request = v1::FoundRequest {
            founders: founders.collect(),
            root: "lab".into(),
            admin: "root-admin".into(),
            admin_token_hash: hash(ADMIN),
            admin_account: "nobody".into(),
            allow_simulated: true,
            settings_ms: [("beat", 200), ("keep_ended", 600_000)]
                .iter()
                .chain(settings)
                .map(|(name, ms)| ((*name).to_owned(), *ms))
                .collect(),
        };
        let reply = client.found(with_token(request, secret)).await?;
        Ok(reply.into_inner().cluster)
    }

    /// Returns a client of a replica.
    pub async fn client(&self, at: usize, token: &str) -> Client {
        Client { inner: ControlClient::new(channel(self.configs[at].listen).await), token: token.to_owned() }
    }

    /// Returns which replica leads, once one does.
    pub async fn leader(&self) -> usize {
        until("a leader", || async {
            self.replicas.iter().position(|replica| {
                replica.as_ref().is_some_and(|replica| replica.shared().leading.borrow().is_some())
            })
        })
        .await
    }

    /// Returns a running replica that does not lead.
    pub async fn follower(&self) -> usize {
        let leader = self.leader().await;
        (0..self.replicas.len()).find(|at| *at != leader && self.replicas[*at].is_some()).unwrap()
    }

    /// Starts a stopped replica again.
    pub async fn restart(&mut self, at: usize) {
        let replica = Replica::start(self.configs[at].clone()).await.unwrap();
        assert_eq!(Addresses::read(&self.configs[at].data).unwrap(), replica.addresses());
        self.replicas[at] = Some(replica);
    }

    /// Waits until all running replicas have applied the same index, and returns it with their digests.
    pub async fn settled(&self) -> (u64, Vec<[u8; 32]>) {
        until("replicas that agree on an index", || async {
            let views = self.replicas.iter().flatten().map(|replica| replica.shared().views.now());
            let views: Vec<_> = views.collect();
            let index = views[0].index;
            let is_same = views.iter().all(|view| view.index == index);
            is_same.then(|| (index.get(), views.iter().map(|view| view.state.digest()).collect()))
        })
        .await
    }
}

/// Connects to a listener.
pub async fn channel(addr: std::net::SocketAddr) -> Channel {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{addr}")).unwrap();
    endpoint.connect_timeout(Duration::from_secs(5)).connect_lazy()
}

/// Returns the hash of a token.
pub fn hash(token: &str) -> Vec<u8> {
    blake3::hash(token.as_bytes()).as_bytes().to_vec()
}

/// Makes a call's request with a token.
pub fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

/// Returns the refusal that a status carries.
pub fn refusal(status: &Status) -> v1::Refusal {
    prost::Message::decode(status.details()).unwrap()
}

/// A person's client of one replica.
#[derive(Clone)]
pub struct Client {
    pub inner: ControlClient<Channel>,
    pub token: String,
}

impl Client {
    /// Makes a request with this person's token.
    pub fn ask<T>(&self, message: T) -> Request<T> {
        with_token(message, &self.token)
    }

    /// Returns a new mark, dated with the replica's cluster time.
    pub async fn mark(&self) -> v1::RequestMark {
        let hello = self.inner.clone().hello(v1::HelloRequest {}).await.unwrap().into_inner();
        let mut id = vec![0; 16];
        getrandom::fill(&mut id).unwrap();
        v1::RequestMark { id, made_at: hello.cluster_time_at }
    }

    /// Adds a user whose token is `NAME-token`.
    pub async fn add_principal(&self, name: &str) {
        let request = v1::AddPrincipalRequest {
            mark: Some(self.mark().await),
            name: name.into(),
            token_hash: hash(&format!("{name}-token")),
            account: "nobody".into(),
            operator: false,
        };
        self.inner.clone().add_principal(self.ask(request)).await.unwrap();
    }

    /// Makes the small tree.
    pub async fn apply_tree(&self) {
        let leaf = |name: &str, share_ppm, member: &str| v1::TreeNode {
            name: name.into(),
            share_ppm,
            members: vec![member.into()],
            ..v1::TreeNode::default()
        };
        let tree = v1::TreeNode {
            name: "lab".into(),
            share_ppm: 1_000_000,
            owner: Some("root-admin".into()),
            children: vec![leaf("science", 600_000, "ana"), leaf("robotics", 400_000, "ben")],
            ..v1::TreeNode::default()
        };
        let plan = v1::BudgetPlanRequest { tree: Some(tree.clone()) };
        let plan = self.inner.clone().budget_plan(self.ask(plan)).await.unwrap().into_inner();
        assert_eq!(plan.changes.iter().filter(|change| change.kind == "added").count(), 2, "{plan:?}");
        let request = v1::BudgetApplyRequest {
            mark: Some(self.mark().await),
            tree: Some(tree),
            revision: plan.revision,
            reason: "the first tree".into(),
            at: None,
        };
        self.inner.clone().budget_apply(self.ask(request)).await.unwrap();
    }

    /// Submits a one-hour job.
    pub async fn submit(&self, budget: &str, gpus: u32) -> Result<v1::SubmitReply, Status> {
        let request = submission(self.mark().await, budget, gpus);
        self.inner.clone().submit(self.ask(request)).await.map(tonic::Response::into_inner)
    }

    /// Shows a job, as the newest state has it.
    pub async fn job(&self, job: u32) -> v1::JobView {
        let request = v1::ShowJobRequest { read: None, job, task: None };
        self.inner.clone().show_job(self.ask(request)).await.unwrap().into_inner()
    }

    /// Waits until a job is in a state.
    pub async fn job_in(&self, job: u32, state: &str) -> v1::JobView {
        until(&format!("job {job} in state {state}"), || async {
            Some(self.job(job).await).filter(|view| view.state == state)
        })
        .await
    }
}

/// Returns a submission of a one-hour job.
pub fn submission(mark: v1::RequestMark, budget: &str, gpus: u32) -> v1::SubmitRequest {
    let shape = v1::Shape { nodes: 1, gpus_per_node: gpus, ..v1::Shape::default() };
    let job = v1::JobRequest {
        name: "train".into(),
        budget: budget.into(),
        shape: Some(shape),
        min_runtime_ms: Some(3_600_000),
        resumable: Some(true),
        ..v1::JobRequest::default()
    };
    let argv = vec!["/bin/train".to_owned(), "--secret-plan".to_owned()];
    let launch = v1::Launch {
        program: Some(v1::launch::Program::Command(v1::Command { argv })),
        working_dir: "/tmp".into(),
        env: vec![v1::EnvVar { name: "HIDDEN".into(), value: "never shown".into() }],
        ..v1::Launch::default()
    };
    v1::SubmitRequest { mark: Some(mark), job: Some(job), launch: Some(launch) }
}

/// A node that joined.
#[derive(Clone)]
pub struct Joined {
    pub node: u32,
    pub name: String,
    pub credential: String,
    pub cluster: Vec<u8>,
    pub epoch: u32,
}

/// Lets a node join.
pub async fn join(lab: &Lab, name: &str) -> Joined {
    let admin = lab.client(0, ADMIN).await;
    let token = format!("join-{name}");
    let request = v1::IssueNodeTokenRequest {
        mark: Some(admin.mark().await),
        name: name.into(),
        pool: "main".into(),
        token_hash: hash(&token),
        valid_ms: 600_000,
        topology: String::new(),
    };
    admin.inner.clone().issue_node_token(admin.ask(request)).await.unwrap();
    let credential = format!("credential-of-{name}");
    let request = v1::JoinRequest {
        token,
        name: name.into(),
        machine: format!("machine-of-{name}"),
        credential_hash: hash(&credential),
    };
    let mut client = AgentLinkClient::new(channel(lab.configs[1].listen).await);
    let reply = client.join(request.clone()).await.unwrap().into_inner();
    assert_eq!(client.join(request).await.unwrap().into_inner(), reply, "a repeated join is the same one");
    Joined { node: reply.node, name: name.into(), credential, cluster: reply.cluster, epoch: reply.epoch }
}

/// Facts of a node with simulated GPUs.
pub fn facts(joined: &Joined, boot: &str, gpus: usize) -> v1::NodeFacts {
    let gpu = |slot| v1::GpuFacts {
        uuid: format!("GPU-{}-{slot}", joined.name),
        model: "H100".into(),
        memory_bytes: 80 << 30,
    };
    v1::NodeFacts {
        boot: boot.into(),
        agent: "0.1.0".into(),
        cpus: 64,
        memory_bytes: 512 << 30,
        gpus: (0..gpus).map(gpu).collect(),
        simulated: true,
        containment: "process tree".into(),
        trouble: Vec::new(),
        address: None,
    }
}

/// An agent that does what the test says, on one link.
pub struct Agent {
    out: mpsc::Sender<v1::AgentMessage>,
    from: Streaming<v1::ServerMessage>,
    seq: u64,
    /// The newest set that nobody waited for when it came.
    unread: Option<v1::Assignments>,
}

/// Sends a hello to one replica and returns the link with the first answer.
pub async fn say_hello(
    lab: &Lab,
    at: usize,
    joined: &Joined,
    hello: v1::AgentHello,
) -> Result<(Agent, Option<v1::server_message::Message>), Status> {
    let mut client = AgentLinkClient::new(channel(lab.configs[at].listen).await);
    let (out, messages) = mpsc::channel(64);
    let message = v1::AgentMessage { message: Some(v1::agent_message::Message::Hello(hello)) };
    out.send(message).await.unwrap();
    let request = with_token(ReceiverStream::new(messages), &joined.credential);
    let mut from = client.link(request).await?.into_inner();
    let first = from.message().await?.and_then(|message| message.message);
    Ok((Agent { out, from, seq: 0, unread: None }, first))
}

/// Returns a good hello.
pub fn hello(joined: &Joined, boot: &str, gpus: usize) -> v1::AgentHello {
    v1::AgentHello {
        cluster: joined.cluster.clone(),
        epoch: joined.epoch,
        node: joined.node,
        boot: boot.into(),
        agent_version: "0.1.0".into(),
        protocol_min: 1,
        protocol_max: 1,
        session: 7,
        seen: None,
        facts: Some(facts(joined, boot, gpus)),
        cluster_time_at: None,
    }
}

/// Links an agent with the leader, wherever that is.
pub async fn link(lab: &Lab, joined: &Joined, gpus: usize) -> Agent {
    until("a link with the leader", || async {
        let at = lab.leader().await;
        match say_hello(lab, at, joined, hello(joined, "boot-1", gpus)).await {
            Ok((agent, Some(v1::server_message::Message::Welcome(_)))) => Some(agent),
            Ok(_) | Err(_) => None,
        }
    })
    .await
}

impl Agent {
    /// Waits for a message that `pick` wants.
    pub async fn next<T>(
        &mut self,
        what: &str,
        mut pick: impl FnMut(v1::server_message::Message) -> Option<T>,
    ) -> T {
        let wait = async {
            loop {
                let message = self.from.message().await.expect("the link lives").expect("the link lives");
                if let Some(v1::server_message::Message::Assignments(set)) = &message.message {
                    self.unread = Some(set.clone());
                }
                if let Some(found) = message.message.and_then(&mut pick) {
                    return found;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(found) => found,
            Err(_) => panic!("no message in time: {what}"),
        }
    }

    /// Waits for a set that is as wanted, unless the newest one is already.
    pub async fn set(&mut self, what: &str, is_it: impl Fn(&v1::Assignments) -> bool) -> v1::Assignments {
        if let Some(set) = self.unread.take().filter(|set| is_it(set)) {
            return set;
        }
        let set = self
            .next(what, |message| match message {
                v1::server_message::Message::Assignments(set) if is_it(&set) => Some(set),
                _ => None,
            })
            .await;
        self.unread = None;
        set
    }

    /// Sends a message.
    pub async fn send(&self, message: v1::agent_message::Message) {
        self.out.send(v1::AgentMessage { message: Some(message) }).await.unwrap();
    }

    /// Starts the only job of its set and returns its item.
    pub async fn start(&mut self) -> v1::Assignment {
        let run = |item: &v1::Assignment| matches!(item.order, Some(v1::assignment::Order::Run(_)));
        let set = self.set("the order to run", |set| set.items.len() == 1 && run(&set.items[0])).await;
        let at = self.beat().await;
        self.report(&set.items[0], at, v1::report::Event::Started(v1::Started {})).await;
        set.items[0].clone()
    }

    /// Reports what happened to rank 0 of an attempt, and waits until it is committed.
    pub async fn report(&mut self, item: &v1::Assignment, at: u64, event: v1::report::Event) {
        self.seq += 1;
        let report =
            v1::Report { job: item.job, attempt: item.attempt, rank: item.rank, at, event: Some(event) };
        let batch = v1::ReportBatch { seq: self.seq, reports: vec![report] };
        self.send(v1::agent_message::Message::Reports(batch)).await;
        let seq = self.seq;
        self.next("an ack", |message| match message {
            v1::server_message::Message::Ack(ack) if ack.seq == seq => Some(()),
            _ => None,
        })
        .await;
    }

    /// Says that it lives and returns cluster time.
    pub async fn beat(&mut self) -> u64 {
        self.send(v1::agent_message::Message::Beat(v1::Beat { n: 1, cluster_time_at: None })).await;
        self.next("a beat's answer", |message| match message {
            v1::server_message::Message::Beat(ack) => Some(ack.cluster_time_at),
            _ => None,
        })
        .await
    }

    /// Waits until cluster time is at least `at`.
    pub async fn time_is(&mut self, at: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.beat().await < at {
            assert!(Instant::now() < deadline, "cluster time stands still");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
