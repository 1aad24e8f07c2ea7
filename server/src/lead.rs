//! The leader's loop: `select` waits, `Leader::handle` decides, this carries out.
//!
//! The pure machine starts when this replica leads and has applied the first entry of its own term, and is dropped when
//! it leads no more; links are then told to go elsewhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scheduler_core::command::{Command, Entry};
use scheduler_core::decision::Plan;
use scheduler_core::id::{NodeId, Term};
use scheduler_core::leader::{Effect, Event, Leader, Ticket};
use scheduler_core::plan::{self, Known, Links};
use scheduler_core::principal::Actor;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;
use tokio::sync::mpsc;

use crate::clock::{Deadline, Moment};
use crate::shared::{Leading, Shared};
use crate::write::{self, Tried};

/// Events on their way to the loop; a link that finds no room waits.
const INBOX: usize = 4096;
/// The loop looks whether it still leads at least this often.
const LOOK: Duration = Duration::from_millis(500);

/// Leads whenever this replica does, until it stops.
pub async fn run(shared: Arc<Shared>) {
    let mut standing = shared.log.watch();
    loop {
        let leads = standing.wait_for(|standing| standing.is_leader()).await;
        let Ok(term) = leads.map(|standing| standing.term) else { return };
        if *shared.stopping.borrow() {
            return;
        }
        if !has_applied_own_term(&shared, term).await {
            continue;
        }
        lead(&shared, Term::new(term)).await;
        shared.leading.send_replace(None);
        tracing::info!(term, "leads no more");
    }
}

/// Waits until this leader is confirmed, has applied its term's first entry, and something vouches for cluster time.
async fn has_applied_own_term(shared: &Shared, term: u64) -> bool {
    let deadline = Deadline::after(Duration::from_secs(30));
    while still_leads(shared, term) && !deadline.is_over() {
        // Between the founding of the log and its first entry there is nothing to lead.
        if shared.views.when(LOOK, |view| view.state.meta.cluster.is_some()).await.is_none() {
            continue;
        }
        let is_confirmed = shared.log.read_barrier().await.is_ok();
        let has_own = shared.views.when(LOOK, |view| view.term.get() >= term).await.is_some();
        if is_confirmed && has_own && shared.clock.now().is_some() {
            // The waiting for cluster time ends by itself, see `time`.
            return still_leads(shared, term);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

fn still_leads(shared: &Shared, term: u64) -> bool {
    let standing = shared.standing();
    standing.is_leader() && standing.term == term
}

/// What the loop waits for.
enum Woken {
    Event(Event),
    Applied,
    Timer,
    Look,
}

/// The shell's side of one leader.
struct Shell {
    shared: Arc<Shared>,
    inbox: mpsc::Sender<Event>,
    wake_at: Option<Timestamp>,
    /// What the last round knew, for the next one.
    known: Arc<Mutex<Known>>,
}

async fn lead(shared: &Arc<Shared>, term: Term) {
    let (inbox, mut events) = mpsc::channel(INBOX);
    let mut views = shared.views.clone();
    let mut stopping = shared.stopping.subscribe();
    let (known, wake_at) = (Arc::default(), None);
    let mut shell = Shell { shared: Arc::clone(shared), inbox: inbox.clone(), wake_at, known };
    let view = shared.views.now();
    let (mut leader, effects) = Leader::start(&view.state, shared.replica(), term, now(shared, &view.state));
    tracing::info!(term = term.get(), index = view.index.get(), "leads");
    drop(view);
    shell.carry_out(effects);
    shared.leading.send_replace(Some(Leading { term, since: Moment::now(), inbox }));
    loop {
        let woken = tokio::select! {
            changed = views.changed() => if changed { Woken::Applied } else { return },
            Some(event) = events.recv() => Woken::Event(event),
            () = shell.timer() => Woken::Timer,
            () = tokio::time::sleep(LOOK) => Woken::Look,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        if !still_leads(shared, term.get()) {
            return;
        }
        // A look takes no view: what was applied meanwhile is still news.
        if matches!(woken, Woken::Look) {
            continue;
        }
        // Before the view: a time after a step comes with the state that has the step.
        let at = shared.clock.roughly();
        let view = views.take_newest();
        let event = match woken {
            Woken::Event(event) => event,
            Woken::Applied | Woken::Look => Event::Applied { index: view.index },
            Woken::Timer => {
                shell.wake_at = None;
                Event::Woke
            }
        };
        let effects = leader.handle(&view.state, event, at.max(view.state.meta.time));
        shared.undecided.send_replace(leader.undecided_since());
        shell.carry_out(effects);
    }
}

/// Cluster time as the leader stamps it.
fn now(shared: &Shared, state: &State) -> Timestamp {
    shared.clock.roughly().max(state.meta.time)
}

impl Shell {
    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Plan { view, links, term } => self.plan(view, links, term),
                Effect::Propose { ticket, command } => self.propose(ticket, *command),
                Effect::Send { node } => self.with_link(node, |link| link.set_changed()),
                Effect::Ack { node, session, seq } => self.with_link(node, |link| {
                    if link.session == session {
                        link.ack(seq);
                    }
                }),
                Effect::Close { node, session } => self.with_link(node, |link| {
                    if link.session == session {
                        link.close();
                    }
                }),
                Effect::WakeAt(at) => self.wake_at = Some(at),
            }
        }
    }

    fn with_link(&self, node: NodeId, act: impl FnOnce(&crate::links::Link)) {
        if let Some(link) = self.shared.links.get(node) {
            act(&link);
        }
    }

    async fn timer(&self) {
        match self.wake_at {
            Some(at) => {
                let left = at.since(self.shared.clock.roughly());
                tokio::time::sleep(Duration::from_millis(left.as_millis())).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Plans on a thread of its own; one that fails answers with an empty plan.
    fn plan(&self, view: Box<State>, links: Links, term: Term) {
        let (shared, inbox) = (Arc::clone(&self.shared), self.inbox.clone());
        let known = Arc::clone(&self.known);
        let empty = Plan { term, index: view.meta.index, decisions: Vec::new(), dates: Vec::new() };
        let at = now(&shared, &view);
        tokio::spawn(async move {
            let begun = Moment::now();
            let planned = tokio::task::spawn_blocking(move || {
                // A round that panicked left what the next one begins again from.
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                plan::plan_on(&mut known, &view, &links, at, term)
            });
            let planned = planned.await;
            let plan = planned.unwrap_or(empty);
            let took = begun.elapsed().as_millis();
            let said =
                format!("{} starts and {} dates, took {took} ms", plan.decisions.len(), plan.dates.len());
            shared.last_plan.send_replace(Some((at, said)));
            // The loop ended: a plan of that term is worth nothing.
            let _ = inbox.send(Event::Planned(plan)).await;
        });
    }

    fn propose(&self, ticket: Ticket, command: Command) {
        let (shared, inbox) = (Arc::clone(&self.shared), self.inbox.clone());
        tokio::spawn(async move {
            let own = shared.replica();
            let actor = Actor::Replica(own);
            let entry = Entry { time: Timestamp::ZERO, actor, via: Some(own), request: None, command };
            let event = match write::here(&shared, entry).await {
                Tried::Applied(index, answer) => {
                    if let Err(rejection) = *answer {
                        tracing::debug!(what = %rejection.what, %index, "the leader's own entry was refused");
                    }
                    // The event is never ahead of the state that it is handled with.
                    let _ = shared.views.at_least(index, Duration::from_secs(5)).await;
                    Event::Committed { ticket }
                }
                Tried::Refused(_) | Tried::Elsewhere(_) => Event::Refused { ticket },
            };
            let _ = inbox.send(event).await;
        });
    }
}
