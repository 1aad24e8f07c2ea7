use alloc::vec;
use alloc::vec::Vec;

use super::{
    Action, Agent, Assignment, Assignments, EndedBy, Event, Fault, GpuUse, Order, RankEvent, RankId,
    RankNews, Refusal, Token,
};
use crate::id::{
    AttemptId, AttemptNo, ClusterId, Epoch, Generation, GpuUuid, JobId, LogIndex, Name, Rank, SpecHash, Term,
};
use crate::job::Exit;
use crate::principal::AccountName;
use crate::spec::Tier;
use crate::unit::{Span, Timestamp};

const CLUSTER: ClusterId = ClusterId::new([7; 16]);

fn token(term: u64, index: u64) -> Token {
    Token { epoch: Epoch::new(1), term: Term::new(term), index: LogIndex::new(index) }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn gpu(name: &str) -> GpuUuid {
    GpuUuid::new(name).unwrap()
}

fn item(job: u32, gpus: &[&str], generation: u32, order: Order) -> Assignment {
    Assignment {
        attempt: AttemptId { job: JobId::new(job), no: AttemptNo::new(1) },
        rank: Rank::new(0),
        generation: Generation::new(generation),
        order,
        launch: SpecHash::new([1; 32]),
        account: AccountName::new("alice").unwrap(),
        gpus: gpus.iter().map(|name| gpu(name)).collect(),
        budget: "lab".into(),
        tier: Tier::Funded,
        start_by: at(600_000),
        protection: Span::from_secs(60),
        time_limit: None,
        grace: Span::from_secs(120),
        signal: 10,
        nodes: vec![Name::new("n1").unwrap()],
        addresses: Vec::new(),
        port: None,
        array: None,
    }
}

fn id(job: u32) -> RankId {
    item(job, &[], 1, Order::Run).id()
}

fn stop(grace_ms: u64) -> Order {
    Order::Stop { reason: "cancelled".into(), grace: Span::from_millis(grace_ms), has_notice: false }
}

fn preempt() -> Order {
    Order::Stop { reason: "preempted for 2.1".into(), grace: Span::from_secs(120), has_notice: true }
}

/// An agent under test: its machine, its clock, and what it was told to do.
struct Bench {
    agent: Agent,
    now: u64,
    index: u64,
    actions: Vec<Action>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Vec::new())
    }

    fn with(found: Vec<(RankId, Vec<GpuUuid>)>) -> Self {
        let agent = Agent::start(CLUSTER, token(1, 0), found);
        let mut bench = Self { agent, now: 1_000, index: 0, actions: Vec::new() };
        bench.event(Event::LinkUp);
        bench
    }

    fn event(&mut self, event: Event) -> Vec<Action> {
        let actions = self.agent.handle(event, at(self.now));
        self.actions.extend(actions.iter().cloned());
        actions
    }

    /// Lets time pass, waking the agent whenever it asked for it. Returns how often that was.
    fn pass(&mut self, ms: u64) -> usize {
        let end = self.now + ms;
        let mut woken = 0;
        loop {
            let wish = self.actions.iter().rev().find_map(|action| match action {
                Action::WakeAt(at) => Some(at.as_millis()),
                _ => None,
            });
            let Some(wish) = wish.filter(|wish| *wish > self.now && *wish <= end) else { break };
            self.now = wish;
            woken += 1;
            self.event(Event::Woke);
        }
        self.now = end;
        self.event(Event::Woke);
        woken
    }

    fn set(&mut self, items: Vec<Assignment>) -> Vec<Action> {
        self.index += 1;
        let token = token(1, self.index);
        self.event(Event::Set(Assignments { cluster: CLUSTER, token, time: at(self.now), items }))
    }

    fn news(&mut self, job: u32, news: RankNews) -> Vec<Action> {
        self.event(Event::Rank { id: id(job), at: at(self.now), news })
    }

    /// Answers the look that was asked for last.
    fn looked(&mut self, gpus: &[(&str, GpuUse)]) -> Vec<Action> {
        let look = self.actions.iter().rev().find_map(|action| match action {
            Action::Look(look) => Some(*look),
            _ => None,
        });
        let gpus = gpus.iter().map(|(name, usage)| (gpu(name), *usage)).collect();
        self.event(Event::Looked { look: look.expect("a look was asked for"), gpus })
    }

    /// Acknowledges batches until none is out; returns everything that was reported.
    fn reported(&mut self) -> Vec<(u32, RankEvent)> {
        let mut all = Vec::new();
        while let Some((seq, reports)) = self.actions.iter().rev().find_map(|action| match action {
            Action::Send { seq, reports } => Some((*seq, reports.clone())),
            _ => None,
        }) {
            self.actions.retain(|action| !matches!(action, Action::Send { .. }));
            all.extend(reports.into_iter().map(|report| (report.attempt.job.get(), report.event)));
            self.event(Event::Acked { seq });
        }
        all
    }

    fn run(&mut self, job: u32, name: &str) {
        self.set(vec![item(job, &[name], 1, Order::Run)]);
        self.looked(&[(name, GpuUse::Empty)]);
        self.news(job, RankNews::Started);
        assert_eq!(self.reported(), [(job, RankEvent::Started)]);
        self.actions.clear();
    }
}

fn launches(actions: &[Action]) -> Vec<u32> {
    let jobs = actions.iter().filter_map(|action| match action {
        Action::Launch(item) => Some(item.attempt.job.get()),
        _ => None,
    });
    jobs.collect()
}

fn stops(actions: &[Action]) -> Vec<(u32, u32)> {
    let stops = actions.iter().filter_map(|action| match action {
        Action::Stop { id, generation, .. } => Some((id.attempt.job.get(), generation.get())),
        _ => None,
    });
    stops.collect()
}

const EXIT: RankNews = RankNews::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None };

#[test]
fn a_rank_starts_once_on_gpus_proven_empty() {
    let mut bench = Bench::new();
    let actions = bench.set(vec![item(1, &["a"], 1, Order::Run)]);
    let until = Action::WakeAt(at(31_000));
    assert_eq!(actions, [Action::Persist(token(1, 1)), Action::Look(1), until]);
    assert_eq!(launches(&bench.looked(&[("a", GpuUse::Empty)])), [1]);
    assert_eq!(launches(&bench.set(vec![item(1, &["a"], 1, Order::Run)])), [] as [u32; 0]);
}

#[test]
fn busy_unknown_and_missing_gpus_are_not_empty_and_the_launch_fails_by_the_node() {
    for (usage, words) in [
        (Some(GpuUse::Busy { pid: 9 }), "process 9 is on GPU a"),
        (Some(GpuUse::Unknown), "not known what is on GPU a"),
        (None, "does not see GPU a"),
    ] {
        let mut bench = Bench::new();
        bench.set(vec![item(1, &["a"], 1, Order::Run)]);
        let answer: Vec<_> = usage.map(|usage| ("a", usage)).into_iter().collect();
        let actions = bench.looked(&answer);
        assert_eq!(actions, [Action::WakeAt(at(1_250))]);
        bench.now = 1_250;
        assert_eq!(bench.event(Event::Woke)[0], Action::Look(2));
        bench.now = 31_000;
        bench.looked(&answer);
        assert_eq!(launches(&bench.actions), [] as [u32; 0]);
        let reported = bench.reported();
        let [(1, RankEvent::LaunchFailed { fault: Fault::Node, what })] = reported.as_slice() else {
            panic!("{reported:?}")
        };
        assert!(what.contains(words), "{what}");
    }
}

#[test]
fn nothing_starts_after_its_latest_start() {
    let mut bench = Bench::new();
    bench.set(vec![Assignment { start_by: at(1_500), ..item(1, &["a"], 1, Order::Run) }]);
    bench.looked(&[("a", GpuUse::Unknown)]);
    bench.now = 1_501;
    bench.event(Event::Woke);
    assert!(matches!(bench.reported()[..], [(1, RankEvent::LaunchFailed { fault: Fault::Node, .. })]));
}

#[test]
fn absence_is_never_an_order() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    bench.set(Vec::new());
    bench.event(Event::LinkDown);
    bench.now += 86_400_000;
    bench.event(Event::Woke);
    bench.event(Event::LinkUp);
    bench.set(Vec::new());
    assert_eq!(stops(&bench.actions), []);
    let unknown = (1, RankEvent::Unknown { gpus: vec![gpu("a")] });
    assert_eq!(bench.reported(), [unknown.clone(), unknown], "told on each link until the set names it");
    assert_eq!(bench.agent.live().collect::<Vec<_>>(), [id(1)]);
}

#[test]
fn a_set_from_the_past_or_from_elsewhere_changes_nothing() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    let old = Assignments {
        cluster: CLUSTER,
        token: token(1, 0),
        time: at(0),
        items: vec![item(1, &["a"], 9, stop(0)), item(2, &["b"], 1, Order::Run)],
    };
    assert_eq!(bench.event(Event::Set(old.clone())), [Action::Refused(Refusal::Stale { seen: token(1, 1) })]);
    let foreign = Assignments { cluster: ClusterId::new([8; 16]), token: token(9, 9), ..old };
    assert_eq!(bench.event(Event::Set(foreign)), [Action::Refused(Refusal::OtherCluster)]);
    assert_eq!(bench.agent.seen(), token(1, 1));
}

#[test]
fn the_token_is_persisted_before_anything_is_done_by_it() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    let actions = bench.set(vec![item(1, &["a"], 2, stop(30_000))]);
    assert_eq!(actions[0], Action::Persist(token(1, 2)));
    assert_eq!(stops(&actions), [(1, 2)]);
}

#[test]
fn a_stop_is_handed_on_once_and_an_older_run_does_not_undo_it() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    assert_eq!(stops(&bench.set(vec![item(1, &["a"], 2, stop(30_000))])), [(1, 2)]);
    assert_eq!(stops(&bench.set(vec![item(1, &["a"], 2, stop(30_000))])), []);
    assert_eq!(bench.set(vec![item(1, &["a"], 1, Order::Run)]).len(), 1, "only the token");
    assert_eq!(stops(&bench.set(vec![item(1, &["a"], 3, stop(0))])), [(1, 3)]);
}

#[test]
fn a_stop_before_the_start_prevents_it() {
    let mut bench = Bench::new();
    bench.set(vec![item(1, &["a"], 1, Order::Run)]);
    bench.set(vec![item(1, &["a"], 2, stop(0)), item(2, &["b"], 1, stop(0))]);
    bench.looked(&[("a", GpuUse::Empty), ("b", GpuUse::Empty)]);
    bench.looked(&[("a", GpuUse::Empty), ("b", GpuUse::Empty)]);
    assert_eq!(launches(&bench.actions), [] as [u32; 0]);
    let stopped = RankEvent::Exited { exit: Exit::Unknown, by: EndedBy::Stop, saved_at: None };
    let expected = [(1, stopped.clone()), (2, stopped), (1, RankEvent::Freed), (2, RankEvent::Freed)];
    assert_eq!(bench.reported(), expected);
}

#[test]
fn a_gpu_is_free_by_a_look_that_began_after_its_last_process() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    bench.news(1, EXIT);
    assert_eq!(
        bench.reported(),
        [(1, RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None })]
    );
    assert!(!bench.actions.iter().any(|action| matches!(action, Action::Look(_))), "processes are left");
    bench.news(1, RankNews::Gone);
    bench.looked(&[("a", GpuUse::Busy { pid: 5 })]);
    assert_eq!(bench.reported(), []);
    bench.now += 1_000;
    bench.event(Event::Woke);
    bench.looked(&[("a", GpuUse::Empty)]);
    assert_eq!(bench.reported(), [(1, RankEvent::Freed)]);
}

#[test]
fn the_next_rank_waits_for_the_one_before_it() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    bench.news(1, EXIT);
    bench.set(vec![item(1, &["a"], 2, Order::Clear), item(2, &["a"], 1, Order::Run)]);
    bench.looked(&[("a", GpuUse::Empty)]);
    assert_eq!(launches(&bench.actions), [] as [u32; 0], "the first one has processes");
    bench.news(1, RankNews::Gone);
    bench.looked(&[("a", GpuUse::Empty)]);
    assert_eq!(launches(&bench.actions), [2]);
}

#[test]
fn reports_stay_until_acknowledged_and_are_sent_again() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    bench.event(Event::LinkDown);
    assert_eq!(bench.news(1, EXIT), []);
    let sent = bench.event(Event::LinkUp);
    let [Action::Send { seq, reports }] = sent.as_slice() else { panic!("{sent:?}") };
    bench.event(Event::LinkDown);
    let again = bench.event(Event::LinkUp);
    let [Action::Send { seq: later, reports: same }] = again.as_slice() else { panic!("{again:?}") };
    assert_eq!(reports, same);
    assert!(later > seq);
    bench.event(Event::Acked { seq: *seq });
    assert_eq!(bench.reported().len(), 1, "an acknowledgement of an older link counts for nothing");
}

#[test]
fn a_rank_is_forgotten_when_all_of_it_is_committed_and_no_set_names_it() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    bench.news(1, EXIT);
    bench.news(1, RankNews::Gone);
    bench.looked(&[("a", GpuUse::Empty)]);
    bench.reported();
    assert!(!bench.actions.contains(&Action::Forget(id(1))), "the set still names it");
    bench.set(Vec::new());
    assert!(bench.actions.contains(&Action::Forget(id(1))));
}

#[test]
fn what_is_adopted_is_reported_and_not_started_again() {
    let mut bench = Bench::with(vec![(id(1), vec![gpu("a")])]);
    bench.news(1, RankNews::Started);
    assert_eq!(bench.set(vec![item(1, &["a"], 1, Order::Run)]), [Action::Persist(token(1, 1))]);
    assert_eq!(bench.reported(), [(1, RankEvent::Started)]);
    assert_eq!(stops(&bench.set(vec![item(1, &["a"], 2, stop(0))])), [(1, 2)]);
}

#[test]
fn a_clear_order_ends_what_is_left_and_an_unknown_rank_is_proven_free() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    assert_eq!(
        stops(&bench.set(vec![item(1, &["a"], 2, Order::Clear), item(3, &["c"], 4, Order::Clear)])),
        [(1, 2)]
    );
    bench.looked(&[("a", GpuUse::Busy { pid: 1 }), ("c", GpuUse::Empty)]);
    assert_eq!(bench.reported(), [(3, RankEvent::Freed)]);
}

#[test]
fn a_preparation_waits_for_the_owner_without_polling_is_reported_once_and_starts_nothing() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    let prepare = || item(2, &["a"], 1, Order::Prepare);
    bench.set(vec![item(1, &["a"], 2, preempt()), prepare()]);
    bench.looked(&[("a", GpuUse::Busy { pid: 7 })]);
    let woken = bench.pass(120_000);
    assert_eq!((bench.reported(), woken), (vec![], 0), "longer than a fence, and nothing to look at");
    bench.news(1, EXIT);
    bench.news(1, RankNews::Gone);
    bench.looked(&[("a", GpuUse::Empty)]);
    bench.set(vec![prepare()]);
    bench.event(Event::LinkDown);
    bench.event(Event::LinkUp);
    bench.pass(60_000);
    let events = bench.reported();
    assert_eq!(events.iter().filter(|event| **event == (2, RankEvent::Ready)).count(), 1, "{events:?}");
    assert_eq!(launches(&bench.actions), [] as [u32; 0]);
}

#[test]
fn a_go_looks_again_also_at_the_generation_of_the_preparation() {
    for generation in [1, 2] {
        let mut bench = Bench::new();
        bench.set(vec![item(1, &["a"], 1, Order::Prepare)]);
        bench.looked(&[("a", GpuUse::Empty)]);
        assert_eq!(bench.reported(), [(1, RankEvent::Ready)]);
        let actions = bench.set(vec![item(1, &["a"], generation, Order::Run)]);
        assert_eq!((launches(&actions), actions.contains(&Action::Look(2))), (vec![], true));
        assert_eq!(launches(&bench.looked(&[("a", GpuUse::Busy { pid: 7 })])), [] as [u32; 0]);
        bench.pass(250);
        assert_eq!(launches(&bench.looked(&[("a", GpuUse::Empty)])), [1]);
    }
}

#[test]
fn a_preparation_that_is_never_ready_fails_at_its_latest_start_and_a_ready_one_is_not_to_blame() {
    let mut bench = Bench::new();
    let until = |job, name| Assignment { start_by: at(90_000), ..item(job, &[name], 1, Order::Prepare) };
    bench.set(vec![until(1, "a"), until(2, "b")]);
    bench.looked(&[("a", GpuUse::Busy { pid: 7 }), ("b", GpuUse::Empty)]);
    assert_eq!(bench.reported(), [(2, RankEvent::Ready)]);
    bench.now = 90_001;
    bench.event(Event::Woke);
    let reported = bench.reported();
    let [(1, RankEvent::LaunchFailed { fault: Fault::Node, what })] = reported.as_slice() else {
        panic!("{reported:?}")
    };
    assert!(what.contains("process 7"), "{what}");
}

#[test]
fn a_go_after_the_latest_start_starts_nothing() {
    let mut bench = Bench::new();
    bench.set(vec![Assignment { start_by: at(1_500), ..item(1, &["a"], 1, Order::Prepare) }]);
    bench.looked(&[("a", GpuUse::Empty)]);
    bench.now = 1_501;
    bench.set(vec![Assignment { start_by: at(1_500), ..item(1, &["a"], 1, Order::Run) }]);
    bench.looked(&[("a", GpuUse::Empty)]);
    assert_eq!(launches(&bench.actions), [] as [u32; 0]);
    assert!(matches!(bench.reported()[..], [(1, RankEvent::Ready), (1, RankEvent::LaunchFailed { .. }), ..]));
}

#[test]
fn a_new_leader_between_preparation_and_go_changes_nothing_but_the_token() {
    let mut bench = Bench::new();
    bench.set(vec![item(1, &["a"], 1, Order::Prepare)]);
    bench.looked(&[("a", GpuUse::Empty)]);
    bench.event(Event::LinkDown);
    bench.event(Event::LinkUp);
    let of = |term, order| Assignments {
        cluster: CLUSTER,
        token: token(term, 9),
        time: at(0),
        items: vec![item(1, &["a"], 1, order)],
    };
    bench.event(Event::Set(of(2, Order::Prepare)));
    assert_eq!(
        bench.reported(),
        [(1, RankEvent::Ready)],
        "reported again until it is acknowledged, not twice"
    );
    bench.event(Event::Set(of(2, Order::Run)));
    // The leader before it hears late that it is one no more.
    let old = bench.event(Event::Set(of(1, Order::Prepare)));
    assert!(old.contains(&Action::Refused(Refusal::Stale { seen: token(2, 9) })));
    assert_eq!(launches(&bench.looked(&[("a", GpuUse::Empty)])), [1]);
}

#[test]
fn what_never_ran_is_ended_by_a_stop_dropped_by_absence_and_cleared_in_silence() {
    for order in [Order::Prepare, Order::Run] {
        let fenced = |bench: &mut Bench| {
            bench.set(vec![item(1, &["a"], 1, order.clone())]);
            bench.looked(&[("a", GpuUse::Busy { pid: 7 })]);
        };
        for (stop, by) in [(preempt(), EndedBy::Notice), (stop(0), EndedBy::Stop)] {
            let mut bench = Bench::new();
            fenced(&mut bench);
            bench.set(vec![item(1, &["a"], 2, stop)]);
            assert_eq!(stops(&bench.actions), []);
            let ended = RankEvent::Exited { exit: Exit::Unknown, by, saved_at: None };
            assert_eq!(bench.reported(), [(1, ended)]);
        }
        let mut bench = Bench::new();
        fenced(&mut bench);
        bench.set(Vec::new());
        bench.pass(1_000);
        assert_eq!((bench.reported(), bench.agent.live().count()), (vec![], 0));
        let mut bench = Bench::new();
        fenced(&mut bench);
        bench.set(vec![item(1, &["a"], 2, Order::Clear)]);
        bench.pass(250);
        bench.looked(&[("a", GpuUse::Empty)]);
        assert_eq!(bench.reported(), [(1, RankEvent::Freed)]);
    }
}

#[test]
fn a_stop_with_notice_is_handed_on_with_it_and_a_cancel_after_it_without() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    let notices = |actions: &[Action]| -> Vec<(u64, bool)> {
        let stop = |action: &Action| match action {
            Action::Stop { grace, has_notice, .. } => Some((grace.as_millis(), *has_notice)),
            _ => None,
        };
        actions.iter().filter_map(stop).collect()
    };
    assert_eq!(notices(&bench.set(vec![item(1, &["a"], 2, preempt())])), [(120_000, true)]);
    assert_eq!(notices(&bench.set(vec![item(1, &["a"], 3, stop(30_000))])), [(30_000, false)]);
}

#[test]
fn an_order_of_a_lower_generation_is_passed_over() {
    let mut bench = Bench::new();
    bench.set(vec![item(1, &["a"], 4, Order::Run)]);
    bench.set(vec![item(1, &["a"], 3, preempt())]);
    bench.looked(&[("a", GpuUse::Empty)]);
    bench.news(1, RankNews::Started);
    bench.set(vec![item(1, &["a"], 3, stop(0))]);
    assert_eq!((launches(&bench.actions), stops(&bench.actions)), (vec![1], vec![]));
}

#[test]
fn a_stop_that_crosses_the_launch_reaches_what_was_launched() {
    let mut bench = Bench::new();
    bench.set(vec![item(1, &["a"], 1, Order::Run)]);
    bench.looked(&[("a", GpuUse::Empty)]);
    assert_eq!(stops(&bench.set(vec![item(1, &["a"], 2, preempt())])), [(1, 2)], "no news of its start yet");
    bench.news(1, RankNews::Started);
    assert_eq!(stops(&bench.set(vec![item(1, &["a"], 2, preempt())])), []);
}

#[test]
fn a_clock_that_jumps_stops_nothing_and_holds_nothing_up() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    bench.now = 86_400_000;
    bench.set(vec![item(1, &["a"], 1, Order::Run), item(3, &["c"], 1, Order::Clear)]);
    bench.looked(&[("c", GpuUse::Busy { pid: 7 })]);
    bench.news(1, RankNews::Saved { saved_at: Some(at(1)), signed_at: None });
    bench.now = 5_000;
    let back = bench.event(Event::Woke);
    assert!(back.iter().any(|action| matches!(action, Action::Look(_))), "{back:?}");
    bench.news(1, RankNews::Saved { saved_at: Some(at(2)), signed_at: None });
    assert_eq!(stops(&bench.actions), []);
    let told = bench.actions.iter().filter(|action| matches!(action, Action::Saves(_)));
    assert_eq!(told.count(), 2);
}

#[test]
fn an_unkillable_rank_is_told_once_and_its_gpus_stay_its_own() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    bench.set(vec![item(1, &["a"], 2, preempt()), item(2, &["a"], 1, Order::Prepare)]);
    bench.looked(&[("a", GpuUse::Empty)]);
    let hangs = || RankNews::Unkillable { what: "process 9 (python), state D in nvidia_close".into() };
    bench.news(1, hangs());
    bench.news(1, hangs());
    bench.pass(1_000);
    let told = bench.reported();
    assert!(matches!(told[..], [(1, RankEvent::Unkillable { .. })]), "{told:?}");
    bench.set(vec![item(1, &["a"], 3, Order::Clear), item(2, &["a"], 1, Order::Prepare)]);
    bench.pass(1_000);
    assert_eq!(bench.reported(), [], "neither free nor ready");
    bench.news(1, EXIT);
    bench.news(1, RankNews::Gone);
    bench.looked(&[("a", GpuUse::Empty)]);
    let rest = bench.reported();
    assert!(rest.contains(&(1, RankEvent::Freed)) && rest.contains(&(2, RankEvent::Ready)), "{rest:?}");
}

#[test]
fn checkpoints_are_told_at_most_once_a_second_again_on_each_link_and_with_the_end() {
    let mut bench = Bench::new();
    bench.run(1, "a");
    let saved = |ms| RankNews::Saved { saved_at: Some(at(ms)), signed_at: Some(at(500)) };
    let told = |bench: &mut Bench| -> Vec<Option<Timestamp>> {
        let mut all = Vec::new();
        for action in core::mem::take(&mut bench.actions) {
            if let Action::Saves(saves) = action {
                all.extend(saves.iter().map(|save| save.saved_at));
            }
        }
        all
    };
    bench.news(1, saved(600));
    bench.news(1, saved(700));
    bench.news(1, saved(800));
    assert_eq!(told(&mut bench), [Some(at(600))]);
    bench.event(Event::Woke);
    bench.pass(1_000);
    assert_eq!(told(&mut bench), [Some(at(800))]);
    bench.event(Event::LinkDown);
    bench.event(Event::LinkUp);
    bench.pass(1_000);
    assert_eq!(told(&mut bench), [Some(at(800))]);
    bench.news(1, saved(750));
    bench.pass(1_000);
    assert_eq!(told(&mut bench), [], "an older one is no news");
    bench.news(1, saved(850));
    assert_eq!(told(&mut bench), [Some(at(850))]);
    bench.news(1, saved(890));
    bench.news(1, RankNews::Exited { exit: Exit::Code(0), by: EndedBy::Notice, saved_at: Some(at(900)) });
    let is_told = |action: &Action| matches!(action, Action::Saves(_));
    let is_reported = |action: &Action| matches!(action, Action::Send { .. });
    let (told, sent) = (bench.actions.iter().position(is_told), bench.actions.iter().position(is_reported));
    assert!(told.is_some() && told < sent, "what was said last comes before the end: {:?}", bench.actions);
    let exited = RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Notice, saved_at: Some(at(900)) };
    assert_eq!(bench.reported(), [(1, exited)]);
}
