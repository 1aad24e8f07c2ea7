//! The thread that owns the executor: launches and stops in the order given, and looks for what happened.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use scheduler_core::agent::{Assignment, EndedBy, RankId, RankNews};
use scheduler_core::job::Exit;
use scheduler_core::spec::Launch;
use scheduler_core::unit::Timestamp;
use shim::format;
use tokio::sync::mpsc::Sender as ToLoop;

use crate::clock::ClusterClock;
use crate::executor::{Executor, Happening, LaunchError, Order, StopOrder};

/// Pause between two looks while something was just launched or stopped.
const BRISK: Duration = Duration::from_millis(5);
/// How long that lasts.
const BRISK_FOR: Duration = Duration::from_secs(2);
/// The most orders between two looks.
const AT_ONCE: usize = 16;
/// Pause between two looks otherwise: how late an end is seen.
const STEADY: Duration = Duration::from_millis(100);

/// What is to be done.
#[derive(Debug)]
pub enum Do {
    /// Launch a rank.
    Launch {
        /// What the control plane said.
        assignment: Box<Assignment>,
        /// What runs.
        launch: Launch,
        /// The end of its protection if it starts now.
        protected_until: Option<Timestamp>,
    },
    /// Hand on a stop.
    Stop {
        /// Of which rank.
        id: RankId,
        /// The stop.
        order: StopOrder,
    },
    /// Forget a rank.
    Forget(RankId),
}

/// What happened to a rank, and when: in ms of the boot clock, if this boot's clock has a time for it.
#[derive(Debug)]
pub struct News {
    /// Which.
    pub id: RankId,
    /// When.
    pub boot_ms: Option<u64>,
    /// What.
    pub news: RankNews,
}

/// Starts the thread. It ends when the sender, or the receiver of news, is dropped.
pub fn start(mut executor: Executor, clock: Arc<ClusterClock>, news: ToLoop<News>) -> Sender<Do> {
    let (send, orders) = channel();
    std::thread::spawn(move || {
        let mut hands = Hands { clock, unwritten: Vec::new(), brisk_until: Instant::now() + BRISK_FOR };
        while hands.turn(&mut executor, &orders, &news) {}
    });
    send
}

/// Looks once at everything, for an agent that starts.
pub fn look(executor: &mut Executor, clock: &ClusterClock) -> Vec<News> {
    let happened = executor.look();
    happened.into_iter().map(|(id, happening)| translate(executor, clock, id, happening)).collect()
}

struct Hands {
    clock: Arc<ClusterClock>,
    /// Stops that couldn't be written yet (a full disk): they are orders all the same.
    unwritten: Vec<(RankId, StopOrder)>,
    brisk_until: Instant,
}

impl Hands {
    /// One round. Says whether to go on.
    fn turn(&mut self, executor: &mut Executor, orders: &Receiver<Do>, news: &ToLoop<News>) -> bool {
        let pause = if Instant::now() < self.brisk_until { BRISK } else { STEADY };
        match orders.recv_timeout(pause) {
            Ok(order) => {
                self.brisk_until = Instant::now() + BRISK_FOR;
                // What was ordered together is done together: a look costs more than most orders.
                for order in std::iter::once(order).chain(orders.try_iter().take(AT_ONCE - 1)) {
                    let told = self.carry_out(executor, order);
                    if told.into_iter().any(|item| news.blocking_send(item).is_err()) {
                        return false;
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        self.unwritten.retain(|(id, order)| executor.stop(*id, order).is_err());
        look(executor, &self.clock).into_iter().all(|item| news.blocking_send(item).is_ok())
    }

    fn carry_out(&mut self, executor: &mut Executor, order: Do) -> Vec<News> {
        match order {
            Do::Launch { assignment, launch, protected_until } => {
                let order = Order { assignment: &assignment, launch: &launch, protected_until };
                match executor.launch(&order) {
                    Ok(()) => Vec::new(),
                    Err(LaunchError { fault, what }) => {
                        let id = assignment.id();
                        let failed = RankNews::LaunchFailed { fault, what };
                        [failed, RankNews::Gone].map(|news| News { id, boot_ms: None, news }).into()
                    }
                }
            }
            Do::Stop { id, order } => {
                if let Err(error) = executor.stop(id, &order) {
                    tracing::error!(attempt = %id.attempt, error = &error as &dyn std::error::Error, "a stop is not handed on yet");
                    self.unwritten.push((id, order));
                }
                Vec::new()
            }
            Do::Forget(id) => {
                if let Err(error) = executor.forget(id) {
                    tracing::warn!(attempt = %id.attempt, error = &error as &dyn std::error::Error, "an attempt is not marked as acknowledged");
                }
                Vec::new()
            }
        }
    }
}

fn translate(executor: &Executor, clock: &ClusterClock, id: RankId, happening: Happening) -> News {
    let moment = |boot_ms: Option<u64>| boot_ms.map(|boot_ms| clock.of_boot_ms(boot_ms));
    match happening {
        Happening::Saved { saved_ms, signed_ms } => {
            let news = RankNews::Saved { saved_at: moment(saved_ms), signed_at: moment(signed_ms) };
            News { id, boot_ms: None, news }
        }
        Happening::Unkillable { what } => News { id, boot_ms: None, news: RankNews::Unkillable { what } },
        Happening::Started { boot_ms } => News { id, boot_ms: Some(boot_ms), news: RankNews::Started },
        Happening::Gone => News { id, boot_ms: None, news: RankNews::Gone },
        Happening::Exited(exit) => {
            let boot_ms = (exit.boot == executor.boot() && exit.ended_ms > 0).then_some(exit.ended_ms);
            let news = match exit.launch {
                Some(failure) => {
                    let LaunchError { fault, what } = executor.explain(id, failure);
                    RankNews::LaunchFailed { fault, what }
                }
                None => RankNews::Exited {
                    exit: status(&exit.status),
                    by: by(&exit),
                    saved_at: moment(exit.saved_ms),
                },
            };
            News { id, boot_ms, news }
        }
    }
}

fn status(status: &format::Status) -> Exit {
    let small = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match status {
        format::Status::Code(code) => Exit::Code(small(*code)),
        format::Status::Signal(signal) => Exit::Signal(small(*signal)),
        format::Status::Unknown(_) => Exit::Unknown,
    }
}

fn by(exit: &format::Exit) -> EndedBy {
    match exit.asked.as_deref() {
        // Whatever came after the notice is its end, a restart of the machine too.
        _ if exit.noticed => EndedBy::Notice,
        Some("limit") => EndedBy::TimeLimit,
        Some("reboot") => EndedBy::Reboot,
        // Nobody had told the job yet.
        None | Some(StopOrder::NOTICE) => EndedBy::Itself,
        Some(_) => EndedBy::Stop,
    }
}
