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
    }
}

fn id(job: u32) -> RankId {
    item(job, &[], 1, Order::Run).id()
}

fn stop(grace_ms: u64) -> Order {
    Order::Stop { reason: "cancelled".into(), grace: Span::from_millis(grace_ms), has_notice: false }
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

const EXIT: RankNews = RankNews::Exited { exit: Exit::Code(0), by: EndedBy::Itself };

#[test]
fn a_rank_starts_once_on_gpus_proven_empty() {
    let mut bench = Bench::new();
    let actions = bench.set(vec![item(1, &["a"], 1, Order::Run)]);
    assert_eq!(actions, [Action::Persist(token(1, 1)), Action::Look(1)]);
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
        assert_eq!(bench.event(Event::Woke), [Action::Look(2)]);
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
