//! Whatever happened, it can be told: every job is explained, reports agree with the books, a dry run with the plan.

use scheduler_core::explain::{self, Token};
use scheduler_core::id::{AttemptId, JobId, Term};
use scheduler_core::job::Phase;
use scheduler_core::ledger::Class;
use scheduler_core::plan::{Links, plan};
use scheduler_core::report::{By, Expected, bill, capacity, dry_run, empty_by};
use scheduler_core::state::{InLine, Kind, State};
use scheduler_core::table::Table;
use scheduler_core::unit::{GpuMillis, Span, Timestamp};

use super::{History, STEPS};
use crate::world::{person, request, submission};

const TOLD: u64 = 12;

#[test]
fn whatever_happened_can_be_told() {
    let mut told = Told::default();
    for seed in 1_000..1_000 + TOLD {
        let mut history = History::new(seed);
        for step in 0..STEPS {
            history.step();
            history.come_to_now();
            if step % 8 == 0 {
                let state = &history.world.state;
                let now = state.meta.time;
                told.all(state, now, &format!("seed {seed} step {step}"));
            }
        }
    }
    assert!(told.waiting > 50 && told.live > 50 && told.past > 100, "too little happened: {told:?}");
    assert!(told.starts > 5 && told.waits > 5 && told.bills > 5, "too little happened: {told:?}");
}

/// What was told, to see that enough was.
#[derive(Debug, Default)]
struct Told {
    waiting: u32,
    live: u32,
    past: u32,
    starts: u32,
    waits: u32,
    bills: u32,
}

impl Told {
    fn all(&mut self, state: &State, now: Timestamp, when: &str) {
        let links = Links::all_ready(state);
        for (id, job) in state.jobs.iter() {
            let found = explain::job(state, &links, *id, now).expect("state has it");
            assert!(!found.reasons.is_empty(), "{when}: {found:?}");
            match job.phase {
                Phase::Waiting { .. } => self.waits(state, &links, *id, &found.reasons, now, when),
                Phase::Live(_) => self.live += 1,
                Phase::Held { .. } | Phase::Ended { .. } => {}
            }
            for past in &job.past {
                let id = AttemptId { job: *id, no: past.no };
                assert!(explain::attempt(state, &links, id, now).is_some(), "{when}: {id}");
                self.past += 1;
            }
        }
        for id in state.decisions.keys() {
            let found = explain::decision(state, *id).expect("it is kept");
            assert_eq!(found.victims.len(), found.record.start.takes.len(), "{when}");
        }
        for node in state.nodes.keys() {
            let found = empty_by(state, *node, now).expect("a known node");
            assert!(found.at.is_none_or(|at| now <= at), "{when}");
        }
        agrees_with_the_books(state, &links, now, when);
        self.adds_up(state, now, when);
        self.dry_run(state, &links, now, when);
    }

    /// What would start if it were alone waits for the line and for nothing else; and the queue says the same.
    fn waits(
        &mut self,
        state: &State,
        links: &Links,
        id: JobId,
        reasons: &[explain::Reason],
        now: Timestamp,
        when: &str,
    ) {
        self.waiting += 1;
        let job = state.jobs.get(&id).expect("it is in state");
        let mut alone = state.clone();
        alone.line = Table::default();
        let (budget, tier, turn) = (job.budget, job.terms.tier, job.terms.turn);
        alone
            .line
            .insert(InLine { budget, tier, turn, submitted_at: job.submitted_at, job: id }, Kind::of(job));
        let starts = !plan(&alone, links, now, Term::new(0)).decisions.is_empty();
        let of_the_line = [Token::WaitingEvaluation, Token::WaitingOrder];
        let tokens: Vec<Token> = reasons.iter().map(|reason| reason.token).collect();
        if starts {
            assert!(tokens.iter().all(|token| of_the_line.contains(token)), "{when}: {id} {tokens:?}");
        }
        let rows = scheduler_core::queue::rows(state, links, now);
        let row = rows.iter().find(|row| row.job == id).expect("the queue has it");
        assert_eq!(row.reason, reasons[0], "{when}: {id}");
    }

    fn adds_up(&mut self, state: &State, now: Timestamp, when: &str) {
        let since = now.minus(Span::from_hours(24));
        for by in [By::Cause, By::Tier, By::Budget, By::User, By::Size, By::Basis] {
            let found = bill(state, now, since, &[by]);
            let lost: u64 = found.rows.iter().map(|row| row.lost.lost.get()).sum();
            assert_eq!(GpuMillis::new(lost), found.total.lost, "{when}: by {by:?}");
            self.bills += found.total.preemptions;
        }
    }

    /// A dry run changes nothing, and says what the plan says once the job is really there.
    fn dry_run(&mut self, state: &State, links: &Links, now: Timestamp, when: &str) {
        let mut asked = request(2);
        asked.budget = String::from("lang/pre");
        let scheduler_core::command::Command::Submit(submit) = submission(asked) else {
            panic!("a submission is one")
        };
        let before = state.digest();
        let found = dry_run(state, links, &person("bob"), &submit, now);
        assert_eq!(state.digest(), before, "{when}");
        let Ok(found) = found else { return };
        match found.expected {
            Expected::Starts { start, victims } => {
                assert_eq!(victims.len(), start.takes.len(), "{when}");
                self.starts += 1;
            }
            Expected::Waits(why) => {
                assert!(!why.reasons.is_empty(), "{when}");
                self.waits += 1;
            }
        }
    }
}

/// Each GPU is told in the class that it is booked to.
fn agrees_with_the_books(state: &State, links: &Links, now: Timestamp, when: &str) {
    for found in capacity(state, links, now) {
        let books = state.books.pool(&found.pool).expect("its GPUs are booked");
        let told = found.classes;
        let mut booked = [0_u32; 5];
        for (class, tally) in books.by_class(now) {
            let place = match class {
                Class::Idle => 0,
                Class::Unavailable => 1,
                Class::Handover => 2,
                Class::Overhead => 3,
                Class::Occupied { .. } => 4,
            };
            booked[place] += tally.count.get();
        }
        let occupied = told.protected + told.interruptible + told.free_tier;
        let told = [told.idle, told.unavailable, told.handover, told.overhead, occupied];
        assert_eq!(told, booked, "{when}: idle, unavailable, handover, overhead, occupied");
    }
}
