//! Calls that any replica may answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use prost::Message as _;
use proto::v1::control_client::ControlClient;
use proto::v1::{self, RequestMark};
use tokio::time::{Instant, sleep, timeout};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use super::request::fresh_mark;

/// How long one replica may take for one answer.
const ONE_TRY: Duration = Duration::from_secs(5);
/// After how long without an answer the next one is asked too.
const SLOW: Duration = Duration::from_millis(700);
/// How long a call is tried, over all replicas: as long as `bursar` does.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after a round in which no replica answered.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a call was given up.
#[derive(Debug, Clone, thiserror::Error)]
#[error("B{code}: {what}")]
pub struct Failed {
    /// The code of the refusal; 0 when no replica answered in time.
    pub code: u32,
    /// What was said.
    pub what: String,
}

/// Why a replica gave no answer.
enum Tried {
    Refused(Failed),
    Again(String),
}

/// A caller with a token, and the replicas it may ask, one connection each.
#[derive(Debug)]
pub struct Client {
    replicas: Vec<Control>,
    at: AtomicUsize,
}

type Control = ControlClient<InterceptedService<Channel, Bearer>>;

/// Puts the token on each call.
#[derive(Clone)]
pub struct Bearer(MetadataValue<Ascii>);

impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bearer")
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

impl Client {
    /// Makes a caller; connections come about when they are needed. Needs a runtime around it.
    ///
    /// # Errors
    /// When an address or the token cannot be one.
    pub fn new(servers: &[String], token: &str) -> Result<Self> {
        let bearer = Bearer(format!("Bearer {token}").parse().context("this is no token")?);
        let control = |address: &String| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))
                .with_context(|| format!("{address} is no address"))?
                .connect_timeout(Duration::from_secs(1))
                .tcp_nodelay(true);
            let channel = endpoint.connect_lazy();
            Ok(ControlClient::with_interceptor(channel, bearer.clone()).max_decoding_message_size(64 << 20))
        };
        Ok(Self { replicas: servers.iter().map(control).collect::<Result<_>>()?, at: AtomicUsize::new(0) })
    }

    /// Returns another caller with the same token and connections, that begins with replica `first`.
    #[must_use]
    pub fn from_replica(&self, first: usize) -> Self {
        Self { replicas: self.replicas.clone(), at: AtomicUsize::new(first % self.replicas.len()) }
    }

    /// Asks until a replica answers; a refusal is an answer. As `bursar` does, the next one is asked too when one is slow.
    ///
    /// # Errors
    /// When it is refused, or none answers in time.
    pub async fn ask<T, F>(&self, call: impl Fn(Control) -> F) -> Result<T, Failed>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let last = match self.round(&call).await {
                Ok(answer) => return Ok(answer),
                Err(Tried::Refused(failed)) => return Err(failed),
                Err(Tried::Again(why)) => why,
            };
            if Instant::now() > deadline {
                return Err(Failed { code: 0, what: last });
            }
            sleep(PAUSE).await;
        }
    }

    async fn round<T, F>(&self, call: &impl Fn(Control) -> F) -> Result<T, Tried>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let first = self.at.load(Ordering::Relaxed);
        let mut places = (0..self.replicas.len()).map(|step| (first + step) % self.replicas.len());
        let mut asked = FuturesUnordered::new();
        let (mut last, mut refused) = (String::new(), None);
        loop {
            if asked.is_empty() {
                if let Some(failed) = refused {
                    return Err(Tried::Refused(failed));
                }
                let Some(n) = places.next() else { return Err(Tried::Again(last)) };
                asked.push(self.ask_one(n, call));
            }
            let tried = tokio::select! {
                Some(tried) = asked.next() => tried,
                () = sleep(SLOW) => {
                    if refused.is_none() && let Some(n) = places.next() {
                        asked.push(self.ask_one(n, call));
                    }
                    continue;
                }
            };
            match tried {
                Err(Tried::Again(why)) => last = why,
                // What one replica refuses, another that was asked too may still do.
                Err(Tried::Refused(failed)) => refused = Some(failed),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    async fn ask_one<T, F>(&self, n: usize, call: &impl Fn(Control) -> F) -> Result<T, Tried>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let status = match timeout(ONE_TRY, call(self.replicas[n].clone())).await {
            Ok(Ok(answer)) => {
                self.at.store(n, Ordering::Relaxed);
                return Ok(answer.into_inner());
            }
            Ok(Err(status)) => status,
            Err(_) => Status::deadline_exceeded("no answer in time"),
        };
        Err(judge(&status).map_or_else(Tried::Refused, Tried::Again))
    }

    /// Names a write.
    ///
    /// # Errors
    /// When no replica answers.
    pub async fn mark(&self) -> Result<RequestMark, Failed> {
        let hello = self.ask(|mut control| async move { control.hello(v1::HelloRequest {}).await }).await?;
        fresh_mark(hello.cluster_time_at).map_err(|error| Failed { code: 0, what: error.to_string() })
    }

    /// Submits a job under a name, however often it takes.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn submit(&self, request: &v1::SubmitRequest) -> Result<u32, Failed> {
        Ok(self
            .ask(|mut control| {
                let request = request.clone();
                async move { control.submit(request).await }
            })
            .await?
            .job)
    }

    /// Submits a job under a new name.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn submit_new(&self, job: v1::JobRequest, launch: v1::Launch) -> Result<u32, Failed> {
        let mark = Some(self.mark().await?);
        self.submit(&v1::SubmitRequest { mark, job: Some(job), launch: Some(launch) }).await
    }

    /// Submits once, to one replica.
    ///
    /// # Errors
    /// With the replica's own status.
    pub async fn submit_at(&self, n: usize, request: v1::SubmitRequest) -> Result<u32, Status> {
        Ok(self.replicas[n].clone().submit(request).await?.into_inner().job)
    }

    /// Ends a job.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn cancel(&self, job: u32, reason: &str) -> Result<(), Failed> {
        let mark = self.mark().await?;
        let request = v1::CancelRequest { mark: Some(mark), job, now: true, reason: reason.to_owned() };
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.cancel(request).await }
        })
        .await?;
        Ok(())
    }

    /// Ends every job that has not ended.
    ///
    /// # Errors
    /// When one is refused, or no replica answers.
    pub async fn cancel_all(&self, reason: &str) -> Result<(), Failed> {
        const AT_ONCE: usize = 16;
        let jobs = self.live_jobs().await?;
        let cancels = jobs.into_iter().map(|job| self.cancel(job, reason));
        let mut cancels = futures_util::stream::iter(cancels).buffer_unordered(AT_ONCE);
        while let Some(cancelled) = cancels.next().await {
            match cancelled {
                // It ended by itself meanwhile.
                Err(failed) if failed.code == 0 => return Err(failed),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Reads a job.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn show(&self, job: u32) -> Result<v1::JobView, Failed> {
        let request = v1::ShowJobRequest { read: None, job, task: None };
        self.ask(|mut control| async move { control.show_job(request).await }).await
    }

    /// Reads all jobs that state holds, ended ones too.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn jobs(&self) -> Result<Vec<v1::JobView>, Failed> {
        let states =
            ["held", "waiting", "starting", "running", "stopping", "ended"].map(String::from).to_vec();
        self.list(v1::ListJobsRequest { states, ..v1::ListJobsRequest::default() }).await
    }

    /// Reads every page of a list.
    async fn list(&self, mut request: v1::ListJobsRequest) -> Result<Vec<v1::JobView>, Failed> {
        request.limit = 100_000;
        let mut jobs = Vec::new();
        loop {
            let asked = &request;
            let page = self.ask(|mut control| async move { control.list_jobs(asked.clone()).await }).await?;
            jobs.extend(page.jobs);
            match page.next {
                Some(next) if request.from.as_ref() == Some(&next) => {
                    return Err(Failed { code: 0, what: format!("a list does not go on from {next}") });
                }
                Some(next) => request.from = Some(next),
                None => return Ok(jobs),
            }
        }
    }

    /// Returns the numbers of the jobs that have not ended.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn live_jobs(&self) -> Result<Vec<u32>, Failed> {
        let jobs = self.list(v1::ListJobsRequest::default()).await?;
        Ok(jobs.iter().map(|job| job.job).collect())
    }

    /// Reads the control plane.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn status(&self) -> Result<v1::ClusterView, Failed> {
        let request = v1::ClusterStatusRequest { read: None };
        self.ask(|mut control| async move { control.cluster_status(request).await }).await
    }

    /// Hands leadership over to the replica that has most of the log.
    ///
    /// # Errors
    /// When no replica did it in time.
    pub async fn transfer_leader(&self) -> Result<v1::TransferLeaderReply, Failed> {
        let request = v1::TransferLeaderRequest { to: None };
        self.ask(|mut control| async move { control.transfer_leader(request).await }).await
    }

    /// Reads what one replica has, as it is.
    ///
    /// # Errors
    /// With the replica's own status.
    pub async fn status_at(&self, n: usize) -> Result<v1::ClusterView, Status> {
        let request = v1::ClusterStatusRequest { read: Some(v1::ReadAs { stale: true }) };
        Ok(self.replicas[n].clone().cluster_status(request).await?.into_inner())
    }

    /// Reads the budgets.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn budgets(&self) -> Result<v1::BudgetTreeView, Failed> {
        let request = v1::BudgetTreeRequest { read: None };
        self.ask(|mut control| async move { control.budget_tree(request).await }).await
    }

    /// Greets one replica.
    ///
    /// # Errors
    /// With the replica's own status.
    pub async fn hello_at(&self, n: usize) -> Result<v1::HelloReply, Status> {
        Ok(self.replicas[n].clone().hello(v1::HelloRequest {}).await?.into_inner())
    }

    /// Greets any replica.
    ///
    /// # Errors
    /// When none answers.
    pub async fn hello(&self) -> Result<v1::HelloReply, Failed> {
        self.ask(|mut control| async move { control.hello(v1::HelloRequest {}).await }).await
    }
}

/// Returns the refusal in a status, if there is one.
#[must_use]
pub fn refusal(status: &Status) -> Option<v1::Refusal> {
    v1::Refusal::decode(status.details()).ok().filter(|refusal| refusal.code != 0)
}

/// Returns why another try may help, or the refusal that is final.
fn judge(status: &Status) -> Result<String, Failed> {
    const NO_LEADER: u32 = 1604;
    // One that is about to join: the others know more.
    const WAITING: u32 = 1603;
    match refusal(status) {
        None => Ok(status.to_string()),
        Some(refusal)
            if [NO_LEADER, WAITING].contains(&refusal.code)
                || status.metadata().contains_key("retry-after-ms") =>
        {
            Ok(refusal.what)
        }
        Some(refusal) => Err(Failed { code: refusal.code, what: refusal.what }),
    }
}
