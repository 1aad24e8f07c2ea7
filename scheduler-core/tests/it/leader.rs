//! The leader, event by event: each line is an event, then what it makes the leader ask for.
//!
//! Times are milliseconds since the leader began. `commit N` is the log's answer to ticket N, `refuse N` the other one.
//! `state ...` changes what is applied, as an entry would, and the next event is handled with it.

mod checkpoints;
mod silence;

use scheduler_core::agent::{RankEvent, Report};
use scheduler_core::command::{Command, Saved};
use scheduler_core::date::{Date, Promise};
use scheduler_core::decision::{Plan, Record, Start, Why};
use scheduler_core::id::{AttemptId, AttemptNo, Generation, JobId, LogIndex, NodeId, Rank, ReplicaId, Term};
use scheduler_core::job::{Attempt, Phase, Placement, Stop, StopCause};
use scheduler_core::leader::{Effect, Event, Leader, Session, Ticket};
use scheduler_core::node::Contact;
use scheduler_core::plan::{Links, plan};
use scheduler_core::state::{InLine, State, TimeJump, Timer};
use scheduler_core::unit::{MilliGpus, Span, Timestamp};

use crate::lab::{NOW, label, name, undated};

const TERM: Term = Term::new(3);

struct Script {
    state: State,
    leader: Leader,
    now: Timestamp,
    asked: Option<(State, Links)>,
}

/// Runs the script's events and compares what the leader asks for after each.
fn check(lab: &str, script: &str) {
    let state = undated(lab);
    let (leader, _) = Leader::start(&state, ReplicaId::new(1), TERM, NOW);
    let mut run = Script { state, leader, now: NOW, asked: None };
    let mut found = String::new();
    let lines: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for line in &lines {
        let event = line.split("=>").next().expect("a line has a first part").trim();
        let effects = run.line(event);
        found += &if effects.is_empty() { format!("{event}\n") } else { format!("{event} => {effects}\n") };
    }
    let expected: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(found, expected, "\nfound\n{found}");
}

impl Script {
    fn line(&mut self, line: &str) -> String {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let Some(at) = words[0].strip_prefix('+') {
            self.now = NOW.plus(Span::from_millis(at.parse().expect("milliseconds")));
            words.remove(0);
        }
        if words[0] == "state" {
            self.change(&words[1..]);
            return String::new();
        }
        let event = self.event(&words);
        let effects = self.leader.handle(&self.state, event, self.now);
        let shown: Vec<String> = effects.into_iter().map(|effect| self.show(effect)).collect();
        shown.join(", ")
    }

    fn event(&mut self, words: &[&str]) -> Event {
        let session = |at: usize| Session::new(words[at].parse().expect("a session's number"));
        let ticket = || Ticket { term: TERM, number: words[1].parse().expect("a ticket's number") };
        match words[0] {
            "applied" => Event::Applied { index: self.state.meta.index },
            "up" => Event::LinkUp { node: self.node(words[1]), session: session(2) },
            "down" => Event::LinkDown { node: self.node(words[1]), session: session(2) },
            "beat" => Event::Beat { node: self.node(words[1]) },
            "reports" => Event::Reports {
                node: self.node(words[1]),
                session: session(2),
                seq: words[3].parse().expect("a number"),
                reports: vec![Report {
                    attempt: AttemptId { job: JobId::new(1), no: AttemptNo::new(1) },
                    rank: Rank::new(0),
                    at: self.now,
                    event: RankEvent::Started,
                }],
            },
            "facts" => {
                let node = self.node(words[1]);
                let record = self.state.nodes.get(&node).expect("a known node");
                let mut facts = record.facts.clone().expect("the lab's nodes have facts");
                if let Some(boot) = words.get(3) {
                    facts.boot = label(boot);
                }
                Event::Facts { node, session: session(2), facts }
            }
            "saves" => Event::Saves {
                node: self.node(words[1]),
                session: session(2),
                saves: vec![Saved {
                    attempt: AttemptId {
                        job: JobId::new(words[3].parse().expect("a number")),
                        no: AttemptNo::new(1),
                    },
                    saved_at: words.contains(&"saved").then_some(self.now),
                    signed_at: words.contains(&"signed").then_some(self.now),
                }],
            },
            "planned" => Event::Planned(self.plan(words.get(1).map_or(TERM, |_| Term::new(2)))),
            "commit" => Event::Committed { ticket: ticket() },
            "refuse" => Event::Refused { ticket: ticket() },
            "woke" => Event::Woke,
            other => panic!("no such event: {other}"),
        }
    }

    fn node(&self, wanted: &str) -> NodeId {
        let wanted = name(wanted);
        *self.state.nodes.iter().find(|(_, node)| node.name == wanted).expect("a known node").0
    }

    fn plan(&self, term: Term) -> Plan {
        let (view, links) = self.asked.as_ref().expect("a plan was asked for");
        plan(view, links, self.now, term)
    }

    /// Changes state as an entry would.
    fn change(&mut self, words: &[&str]) {
        if let ["owed" | "settled"] = words {
            return assert_eq!(self.leader.undecided_since().is_some(), words[0] == "owed");
        }
        self.state.meta.index = LogIndex::new(self.state.meta.index.get() + 1);
        match words[0] {
            "unreachable" => self.contact(words[1], Contact::Unreachable { since: self.now }),
            "ready" => self.contact(words[1], Contact::Ready),
            "jump" => {
                let span = Span::from_millis(words[1].parse().expect("milliseconds"));
                self.state.meta.time_jump = Some(TimeJump { from: self.now.minus(span), to: self.now });
            }
            "boot" => {
                let node = self.node(words[1]);
                let record = self.state.nodes.get_mut(&node).expect("a known node");
                record.facts.as_mut().expect("it has facts").boot = label(words[2]);
            }
            "place" => {
                let id = JobId::new(words[1].parse().expect("a number"));
                let node = self.node(words[2]);
                self.place(id, node);
            }
            "noted" => {}
            "decided" => {
                let job = JobId::new(words[1].parse().expect("a number"));
                self.decided(job);
            }
            "forgotten" => {
                let oldest = *self.state.decisions.keys().next().expect("there is one");
                self.state.decisions.remove(&oldest);
            }
            "started" => {
                let now = self.now;
                self.attempt(words[1]).started_at = Some(now);
            }
            "stop" => {
                let cause = StopCause::Unwanted;
                let stop = Stop { at: self.now, cause, grace: Span::from_secs(30) };
                self.attempt(words[1]).stop = Some(stop);
            }
            "saved" => {
                let now = self.now;
                let attempt = self.attempt(words[1]);
                (attempt.saved_at, attempt.signed_at) = (Some(now), Some(now));
            }
            "date" => {
                let job = JobId::new(words[1].parse().expect("a number"));
                let at = NOW.plus(Span::from_millis(words[3].parse().expect("milliseconds")));
                let node = self.node(words[2]);
                let slots = (0..2).map(scheduler_core::id::Slot::new).collect();
                let promise = Promise { at, until: at, on: vec![(node, slots)], awaits: Vec::new() };
                let decision = scheduler_core::id::DecisionId { index: self.state.meta.index, n: 0 };
                let date = Date { issued_at: self.now, decision, promise, moved: 0, moves: Vec::new() };
                self.state.dates.insert((job, name("main")), date);
            }
            "gone" => {
                let id =
                    AttemptId { job: JobId::new(words[1].parse().expect("a number")), no: AttemptNo::new(1) };
                self.state.attempts.remove(&id);
            }
            "due" => {
                let at = NOW.plus(Span::from_millis(words[1].parse().expect("milliseconds")));
                self.state.timers.insert((at, Timer::Drain(NodeId::new(1))), ());
            }
            "happened" => {
                let first = *self.state.timers.first().expect("there is one").0;
                self.state.timers.remove(&first);
            }
            other => panic!("no such change: {other}"),
        }
    }

    /// Notes a decision for a job's first attempt.
    fn decided(&mut self, job: JobId) {
        let made_at = self.state.meta.index;
        let why = Why { place: 1, levels: Vec::new(), choice: None, date: None };
        let start = Start { job, attempt: AttemptNo::new(1), on: Vec::new(), takes: Vec::new(), why };
        let id = scheduler_core::id::DecisionId { index: made_at, n: 0 };
        self.state.decisions.insert(id, Record { at: self.now, made_at, term: TERM, start });
    }

    fn attempt(&mut self, job: &str) -> &mut Attempt {
        let id = AttemptId { job: JobId::new(job.parse().expect("a number")), no: AttemptNo::new(1) };
        self.state.attempts.get_mut(&id).expect("it runs")
    }

    fn contact(&mut self, node: &str, contact: Contact) {
        let node = self.node(node);
        self.state.nodes.get_mut(&node).expect("a known node").contact = contact;
    }

    /// Places a job on the first idle GPU of a node.
    fn place(&mut self, id: JobId, node: NodeId) {
        let job = self.state.jobs.get_mut(&id).expect("a known job");
        let place = InLine {
            budget: job.budget,
            tier: job.terms.tier,
            turn: job.terms.turn,
            submitted_at: job.submitted_at,
            job: id,
        };
        let attempt_id = AttemptId { job: id, no: job.next_attempt };
        job.phase = Phase::Live(attempt_id.no);
        job.next_attempt = AttemptNo::new(attempt_id.no.get() + 1);
        let record = self.state.nodes.get_mut(&node).expect("a known node");
        let slot = (0..).zip(&record.gpus).find(|(_, gpu)| gpu.holder.is_none()).expect("an idle GPU").0;
        record.gpus[usize::from(slot)].holder = Some(attempt_id);
        let attempt = Attempt {
            budget: job.budget,
            tier: job.terms.tier,
            pool: record.pool.clone(),
            placements: vec![Placement {
                rank: Rank::new(0),
                node,
                slots: vec![scheduler_core::id::Slot::new(slot)],
                generation: Generation::new(1),
                ready_at: None,
                started_at: None,
                exited: None,
                freed_at: None,
            }],
            rate: MilliGpus::new(1000),
            decision: scheduler_core::id::DecisionId { index: self.state.meta.index, n: 0 },
            placed_at: self.now,
            go_at: Some(self.now),
            latest_go: NOW,
            port: None,
            start_by: self.now.plus(Span::from_mins(10)),
            protection: job.terms.min_runtime,
            started_at: None,
            saved_at: None,
            signed_at: None,
            stop: None,
            first_end: None,
            ended: None,
        };
        self.state.line.remove(&place);
        self.state.attempts.insert(attempt_id, attempt);
    }

    fn show(&mut self, effect: Effect) -> String {
        let node = |id: &NodeId| self.state.nodes.get(id).expect("a known node").name.to_string();
        match effect {
            Effect::Plan { view, links, term } => {
                assert_eq!(term, TERM);
                let linked: Vec<String> = links.nodes().map(|id| node(&id)).collect();
                let saved = |id: &AttemptId| Some((id.job, links.saved_at(*id)?.since(NOW).as_millis()));
                let saves = self.state.attempts.keys().filter_map(saved);
                let saves: Vec<String> =
                    saves.map(|(job, at)| format!(" knowing {job} saved +{at}")).collect();
                let text = format!("plan on {}{}", linked.join("+"), saves.join(","));
                self.asked = Some((*view, links));
                text
            }
            Effect::Propose { ticket, command } => {
                format!("propose {}: {}", ticket.number, self.command(&command))
            }
            Effect::Send { node: id } => format!("send {}", node(&id)),
            Effect::Ack { node: id, session, seq } => format!("ack {} {} {seq}", node(&id), session.get()),
            Effect::Close { node: id, session } => format!("close {} {}", node(&id), session.get()),
            Effect::WakeAt(at) => format!("wake +{}", at.since(NOW).as_millis()),
        }
    }

    fn command(&self, command: &Command) -> String {
        let node = |id: &NodeId| self.state.nodes.get(id).expect("a known node").name.to_string();
        match command {
            Command::Batch(commands) if commands.is_empty() => "the time".to_owned(),
            Command::Saves { saves, .. } => {
                let at = |at: Option<Timestamp>| {
                    at.map_or("-".to_owned(), |at| format!("+{}", at.since(NOW).as_millis()))
                };
                let one = |said: &Saved| {
                    format!("{} saved {} signed {}", said.attempt.job, at(said.saved_at), at(said.signed_at))
                };
                saves.iter().map(one).collect::<Vec<_>>().join("+")
            }
            Command::Batch(commands) => {
                let shown: Vec<String> = commands.iter().map(|(_, command)| self.command(command)).collect();
                shown.join(" & ")
            }
            Command::Reports { node: id, .. } => format!("reports {}", node(id)),
            Command::NodeFacts { node: id, .. } => format!("facts {}", node(id)),
            Command::NodeUnreachable { node: id } => format!("unreachable {}", node(id)),
            Command::NodeBack { node: id } => format!("back {}", node(id)),
            Command::Adopt(plan) => {
                let jobs: Vec<String> = plan.decisions.iter().map(|start| start.job.to_string()).collect();
                format!("start {}", jobs.join("+"))
            }
            other => panic!("a leader never proposes {other:?}"),
        }
    }
}

const ONE: &str = "node n1 2 h100\nbudget a 100\njob 1 a 1";

#[test]
fn a_job_starts_once_its_node_is_linked_and_known() {
    check(
        ONE,
        "up n1 7
         +2 facts n1 7 => send n1, wake +12
         +12 woke => plan on n1, wake +20002
         +13 planned => propose 1: start 1
         state place 1 n1
         +14 commit 1 => send n1, wake +24
         +24 woke => wake +20002",
    );
}

#[test]
fn unknown_facts_are_committed_before_anything_is_sent() {
    check(
        ONE,
        "up n1 7
         +2 facts n1 7 boot-2 => propose 1: facts n1
         +12 woke => wake +20000
         state boot n1 boot-2
         +14 commit 1 => send n1, wake +24
         +24 woke => plan on n1, wake +20002",
    );
}

#[test]
fn reports_are_answered_after_their_entry_is_committed_and_in_order() {
    check(
        "node n1 2 h100\nnode n2 2 h100\nbudget a 100",
        "up n1 7
         facts n1 7 => send n1, wake +10
         up n2 8
         facts n2 8 => send n2
         +20 reports n1 7 1 => propose 1: reports n1, wake +20000
         +21 reports n1 7 2
         +21 reports n2 8 1
         +22 reports n2 8 1
         +23 reports n2 9 1
         state noted
         +24 commit 1 => ack n1 7 1, wake +25
         +25 woke => propose 2: reports n1 & reports n2, wake +34
         +26 refuse 2
         +126 woke => propose 3: reports n1 & reports n2, wake +20000
         down n2 8 => wake +136
         +127 commit 3 => ack n1 7 2",
    );
}

#[test]
fn a_plan_of_another_term_or_a_second_one_is_dropped() {
    check(
        ONE,
        "up n1 7
         +2 facts n1 7 => send n1, wake +12
         +12 woke => plan on n1, wake +20002
         +13 planned older
         +14 planned => propose 1: start 1
         +15 planned
         +16 refuse 1 => wake +116
         +116 woke => plan on n1, wake +20002",
    );
}

#[test]
fn a_plan_of_which_nothing_was_adopted_is_made_again() {
    // Its victim changed meanwhile by what the next plan does not depend on, and then nothing else happens.
    check(
        "node n1 2 h100\nbudget a 50\nbudget b 50\nruns 90.1 b 2 n1 0-1 for=60m free\njob 1 a 2",
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         +11 planned => propose 1: start 1
         state noted
         +12 commit 1 => wake +22
         +22 woke => wake +122
         +122 woke => plan on n1, wake +20000
         +123 planned => propose 2: start 1",
    );
}

#[test]
fn a_closed_node_that_is_linked_again_is_a_reason_to_plan() {
    // The gang that would give way has a rank there, and only now hears of it.
    check(
        "node n1 2 h100\nnode n2 2 h100 cordoned\nbudget a 50\nbudget b 50
         runs 90.1 b 2x2 n1,n2 0-1 for=60m free\njob 1 a 2",
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         +11 planned
         +5000 beat n1
         up n2 8 => wake +25000
         facts n2 8 => send n2, wake +5010
         +5010 woke => plan on n1+n2, wake +25000
         +5011 planned => propose 1: start 1",
    );
}

#[test]
fn only_one_plan_is_under_way_and_only_a_change_asks_for_another() {
    check(
        "node n1 1 h100\nbudget a 100\njob 1 a 2\nruns 5.1 a 1 n1 0 for=1h",
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         state noted
         +11 applied
         +12 planned => wake +21
         +21 woke => wake +10010
         state unreachable n1
         +30 applied => wake +40",
    );
}

#[test]
fn a_decision_is_a_reason_to_plan_and_that_an_old_one_is_forgotten_is_none() {
    check(
        "node n1 1 h100\nbudget a 100\njob 1 a 2\nruns 5.1 a 1 n1 0 for=1h",
        "state decided 5
         up n1 7 => wake +10
         facts n1 7 => send n1
         +10 woke => plan on n1, wake +20000
         +11 planned => wake +10010
         state decided 1
         +20 applied => wake +30
         +30 woke => plan on n1, wake +20000
         +31 planned => wake +10030
         state forgotten
         +40 applied => wake +50
         +50 woke => wake +10030",
    );
}

#[test]
fn a_round_is_owed_until_it_says_whether_anybody_starts() {
    check(
        "node n1 1 h100\nbudget a 100\njob 1 a 2\nruns 5.1 a 1 n1 0 for=1h",
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         state owed
         +9000 beat n1
         state owed
         +9001 planned => wake +10010
         state settled",
    );
}

#[test]
fn an_agent_that_floods_is_cut_off_and_may_come_back() {
    let mut script = String::from("up n1 7\nfacts n1 7 => send n1, wake +10\n");
    script += "+20 reports n1 7 1 => propose 1: reports n1, wake +20000\n";
    for seq in 2..=256 {
        script += &format!("reports n1 7 {seq}\n");
    }
    script += "reports n1 7 257 => close n1 7\nreports n1 7 258\nup n1 8 => wake +20020\nreports n1 8 1\n";
    check("node n1 1 h100\nbudget a 100", &script);
}

/// Somebody waits for what `b` has, which is protected for ten seconds more.
const PROTECTED: &str = "node n1 2 h100\nbudget a 50\nbudget b 50
    runs 90.1 b 2 n1 0-1 for=60m min=3610s\njob 1 a 2";

#[test]
fn the_end_of_a_protection_is_a_reason_to_plan_while_somebody_waits() {
    check(
        PROTECTED,
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         +11 planned => wake +10000
         +10000 woke => wake +10010
         +10010 woke => plan on n1, wake +20000
         +10011 planned",
    );
}

#[test]
fn rights_are_judged_again_by_time_alone_only_while_a_funded_job_waits_for_somebody() {
    let interruptible = "node n1 2 h100\nbudget a 50\nbudget b 50\nruns 90.1 b 2 n1 0-1 for=60m";
    check(
        &format!("{interruptible}\njob 1 a 2"),
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         +11 planned => wake +10010
         +10010 woke => wake +10020
         +10020 woke => plan on n1, wake +20000",
    );
    for waits in ["", "job 1 a 2 free"] {
        let plans = if waits.is_empty() { "wake +20000" } else { "plan on n1, wake +20000" };
        check(
            &format!("{interruptible}\n{waits}"),
            &format!("up n1 7\nfacts n1 7 => send n1, wake +10\n+10 woke => {plans}"),
        );
    }
}

#[test]
fn a_date_is_a_reason_to_plan_at_that_moment_and_its_job_starts_then() {
    // Nobody's protection ends, and use alone would be looked at after ten seconds.
    check(
        "node n1 2 h100\nbudget a 50\nbudget b 50\nruns 90.1 b 2 n1 0-1 for=60m\njob 1 a 2",
        "state date 1 n1 5000
         up n1 7 => wake +10
         facts n1 7 => send n1
         +10 woke => plan on n1, wake +20000
         +11 planned => wake +5000
         +4999 woke => wake +5000
         +5000 woke => wake +5010
         +5010 woke => plan on n1, wake +20000
         +5011 planned => propose 1: start 1",
    );
}

#[test]
fn what_comes_free_is_a_reason_to_plan() {
    check(
        PROTECTED,
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         +11 planned => wake +10000
         state stop 90
         +20 applied => send n1, wake +30
         +30 woke => plan on n1, wake +20000
         +31 planned => propose 1: start 1",
    );
}

#[test]
fn what_is_new_in_state_is_taken_with_whatever_event_it_comes_with() {
    // A shell may hand in a newer state with a beat, and have no other word of it.
    check(
        PROTECTED,
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         +11 planned => wake +10000
         state stop 90
         +20 beat n1 => send n1, wake +30
         +21 applied
         +30 woke => plan on n1, wake +20000",
    );
}

#[test]
fn what_changes_by_time_alone_gets_its_entry() {
    check(
        "node n1 2 h100\nbudget a 100",
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => wake +20000
         state due 500
         +12 applied => wake +22
         +22 woke => wake +500
         +500 woke => propose 1: the time, wake +1500
         +600 refuse 1
         +1500 woke => propose 2: the time, wake +2500
         state happened
         +1501 applied => wake +1511
         +1511 woke => wake +20000",
    );
}
