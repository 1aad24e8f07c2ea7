//! A call that does not care which replica answers it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::{sleep, timeout};
use tonic::{Response, Status};

use super::refused::{self, Answer};
use super::replicas::{Bearer, Control, Replica};
use crate::clock::Deadline;
use crate::codes;
use crate::failure::Failure;

/// How long one replica may take for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long one replica may take for what is more than an answer.
const DONE_WITHIN: Duration = Duration::from_secs(20);

/// After how long without an answer the next one is asked too.
const SLOW: Duration = Duration::from_millis(700);

/// How long all are tried when nothing listens at any address: a leader's death never looks like that.
const NOBODY_WITHIN: Duration = Duration::from_secs(10);

/// The pauses between rounds.
const PAUSE_FIRST: Duration = Duration::from_millis(30);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What a replica refuses that belongs to no control plane yet.
const WAITING: u16 = scheduler_core::command::Code::Founding.number();

/// Where the replicas are, as one of them said last; nothing if none has.
pub type Learned = Arc<Mutex<Option<Vec<String>>>>;

/// A client of one control plane.
#[derive(Debug)]
pub struct Client {
    replicas: Vec<Replica>,
    bearer: Option<Bearer>,
    patience: Duration,
    is_verbose: bool,
    /// The replica that answered last.
    at: AtomicUsize,
    learned: Learned,
}

/// What became of one round over the replicas.
enum Round<T> {
    Answered(T),
    Refused(Failure),
    Nobody(String),
    NotNow(String),
}

impl Client {
    /// Makes a client.
    ///
    /// # Errors
    /// When an address or the token cannot be one.
    pub fn new(
        servers: &[String],
        token: Option<String>,
        patience: Duration,
        is_verbose: bool,
    ) -> Result<Self, Failure> {
        let replicas = servers.iter().map(|address| Replica::new(address)).collect::<Result<Vec<_>, _>>()?;
        let bearer = token.as_deref().map(Bearer::new).transpose()?;
        let (at, learned) = (AtomicUsize::new(0), Learned::default());
        Ok(Self { replicas, bearer, patience, is_verbose, at, learned })
    }

    /// Leaves what it learns about the replicas' addresses with the caller.
    pub fn learning(self, learned: &Learned) -> Self {
        Self { learned: Arc::clone(learned), ..self }
    }

    /// Takes note of where the replicas are. Where this client asks by other ways than those that replicas know of
    /// themselves (a tunnel), their addresses would lead nowhere.
    pub fn learn(&self, addresses: &[String]) {
        let is_known = |address: &String| self.replicas.iter().any(|replica| replica.address == *address);
        if addresses.iter().any(is_known) {
            let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
            *learned = Some(addresses.to_vec());
        }
    }

    /// Returns a failure if there is no token: every call but the greeting needs one.
    pub(super) fn need_token(&self) -> Result<(), Failure> {
        if self.bearer.is_some() {
            return Ok(());
        }
        Err(Failure::new(codes::NO_TOKEN, "not logged in: there is no token")
            .fix("set BURSAR_TOKEN_FILE or BURSAR_TOKEN, or select a context that has one"))
    }

    /// Asks until a replica answers or time is up.
    pub(super) async fn ask<T>(
        &self,
        call: impl AsyncFn(Control) -> Result<Response<T>, Status>,
    ) -> Result<T, Failure> {
        self.ask_within(ANSWER_WITHIN, call).await
    }

    /// As [`Client::ask`], for what a replica may take long to do.
    pub(super) async fn ask_patiently<T>(
        &self,
        call: impl AsyncFn(Control) -> Result<Response<T>, Status>,
    ) -> Result<T, Failure> {
        self.ask_within(DONE_WITHIN, call).await
    }

    async fn ask_within<T>(
        &self,
        within: Duration,
        call: impl AsyncFn(Control) -> Result<Response<T>, Status>,
    ) -> Result<T, Failure> {
        let deadline = Deadline::after(self.patience);
        let mut pause = PAUSE_FIRST;
        let mut has_told = self.is_verbose;
        loop {
            let (code, why) = match self.round(&call, within, &deadline).await {
                Round::Answered(answer) => return Ok(answer),
                Round::Refused(failure) => return Err(failure),
                Round::Nobody(why) => (codes::UNREACHABLE, why),
                Round::NotNow(why) => (codes::NO_LEADER, why),
            };
            let is_hopeless = code == codes::UNREACHABLE && deadline.elapsed() >= NOBODY_WITHIN;
            if deadline.is_over() || is_hopeless {
                return Err(self.given_up(code, why));
            }
            if !has_told && deadline.elapsed() > Duration::from_secs(3) {
                has_told = true;
                note(&format!("no answer yet ({why}); still trying, Ctrl-C stops"));
            }
            sleep(pause.min(deadline.left())).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Asks each replica once, the one that answered last first. The next one is asked when one fails, and also when one
    /// is slow: a replica that hangs answers nobody, and whatever is asked may be asked twice.
    async fn round<T>(
        &self,
        call: &impl AsyncFn(Control) -> Result<Response<T>, Status>,
        within: Duration,
        deadline: &Deadline,
    ) -> Round<T> {
        let first = self.at.load(Ordering::Relaxed);
        let mut places = (0..self.replicas.len()).map(|step| (first + step) % self.replicas.len());
        let (mut nobody, mut not_now, mut waiting) = (String::new(), None, None);
        let mut refused = None;
        let mut asked = FuturesUnordered::new();
        loop {
            if asked.is_empty() {
                if let Some(failure) = refused {
                    return Round::Refused(failure);
                }
                let Some(n) = places.next() else { break };
                asked.push(self.ask_one(n, call, within, deadline));
            }
            let tried = tokio::select! {
                Some(tried) = asked.next() => tried,
                () = sleep(SLOW) => {
                    if refused.is_none() && let Some(n) = places.next() {
                        asked.push(self.ask_one(n, call, within, deadline));
                    }
                    continue;
                }
            };
            match tried {
                Round::Nobody(why) => nobody = why,
                Round::NotNow(why) => not_now = Some(why),
                // One that is about to join, or to be founded: the others may know more.
                Round::Refused(failure) if failure.code == WAITING => waiting = Some(failure),
                // What one replica refuses, another that was asked too may still do.
                Round::Refused(failure) => refused = Some(failure),
                answered @ Round::Answered(_) => return answered,
            }
        }
        match (not_now, waiting) {
            (Some(why), _) => Round::NotNow(why),
            (None, Some(failure)) => Round::Refused(failure),
            (None, None) => Round::Nobody(nobody),
        }
    }

    /// Asks one replica.
    async fn ask_one<T>(
        &self,
        n: usize,
        call: &impl AsyncFn(Control) -> Result<Response<T>, Status>,
        within: Duration,
        deadline: &Deadline,
    ) -> Round<T> {
        let replica = &self.replicas[n];
        let connected = match timeout(ANSWER_WITHIN, replica.connect(self.bearer.as_ref())).await {
            Ok(connected) => connected.map_err(|error| root_cause(&error)),
            Err(_) => Err("no connection in time".into()),
        };
        let control = match connected {
            Ok(control) => control,
            Err(why) => {
                let why = format!("{}: {why}", replica.address);
                self.tell(&why);
                return Round::Nobody(why);
            }
        };
        let within = within.min(deadline.left().max(Duration::from_millis(100)));
        let answer = timeout(within, call(control)).await;
        let why = match answer.map_err(|_| Status::deadline_exceeded("no answer in time")) {
            Ok(Ok(response)) => {
                self.at.store(n, Ordering::Relaxed);
                return Round::Answered(response.into_inner());
            }
            Ok(Err(status)) | Err(status) => match refused::judge(&status) {
                Answer::Refused(failure) => return Round::Refused(failure),
                Answer::Again(why) => why,
            },
        };
        let why = format!("{}: {why}", replica.address);
        self.tell(&why);
        Round::NotNow(why)
    }

    /// Turns away from the replica that answered last, because it broke off.
    pub(super) fn turn_away(&self, why: &str) {
        let n = self.at.fetch_add(1, Ordering::Relaxed);
        self.tell(&format!("{}: {why}", self.replicas[n % self.replicas.len()].address));
        self.at.store((n + 1) % self.replicas.len(), Ordering::Relaxed);
    }

    /// Returns how long a client tries.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    fn tell(&self, why: &str) {
        if self.is_verbose {
            note(why);
        }
    }

    fn given_up(&self, code: u16, why: String) -> Failure {
        let tried: Vec<&str> = self.replicas.iter().map(|replica| replica.address.as_str()).collect();
        let what = match code {
            codes::UNREACHABLE => format!("no replica can be reached ({})", tried.join(", ")),
            _ => format!("replicas answer, but none can act ({})", tried.join(", ")),
        };
        Failure::new(code, what)
            .why(format!("{why}\nrunning jobs are not touched by that"))
            .fix("try again; `bursar cluster status` shows what each replica says")
    }
}

fn note(text: &str) {
    use std::io::Write as _;
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(std::io::stderr().lock(), "{}", crate::form::text::plain(text));
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
