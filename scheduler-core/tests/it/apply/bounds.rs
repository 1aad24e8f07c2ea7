//! Each table has its bound: what is above it is refused with a way out, or the oldest leaves.

use std::sync::Arc;

use scheduler_core::agent::{EndedBy, Fault, RankEvent};
use scheduler_core::budget::{COUNT_MAX, KEPT_MAX, ROOT, TreeNode, find};
use scheduler_core::command::{
    AddPrincipal, Answer, ApplyBudgets, Blob, Code, Command, Entry, IssueJoinToken, JobWord, RequestMark,
    Submit,
};
use scheduler_core::id::{AttemptId, BodyHash, JobId, NodeId, RequestId, SpecHash};
use scheduler_core::invariants;
use scheduler_core::job::{End, Exit};
use scheduler_core::ledger::Class;
use scheduler_core::lifecycle::forget::result;
use scheduler_core::settings::Settings;
use scheduler_core::spec::Tier;
use scheduler_core::unit::Span;

use crate::world::{
    BEGIN, REPLICA, World, ended, join, launch_failed, name, person, principal, request, submission, token,
};

fn world(change: impl FnOnce(&mut Settings)) -> World {
    let mut settings = Settings { allow_simulated: true, ..Settings::default() };
    change(&mut settings);
    World::with(settings)
}

/// One job's whole life on a GPU.
fn life(world: &mut World, node: NodeId, code: u8) -> JobId {
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    run(world, node, attempt, code);
    job
}

fn run(world: &mut World, node: NodeId, attempt: AttemptId, code: u8) {
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_secs(10));
    world.report(node, attempt, ended(Exit::Code(code), EndedBy::Itself));
    world.report(node, attempt, RankEvent::Freed);
}

/// Something happens, so that time goes on.
fn tick(world: &mut World, span: Span) {
    world.wait(span);
    world.must(REPLICA, Command::NodeBack { node: NodeId::new(1) });
}

#[test]
fn how_a_job_ended_is_known_for_eight_days_and_no_longer() {
    let mut world = world(|_| {});
    let node = world.node("n0", 1);
    let job = life(&mut world, node, 3);
    let expected = Some((End::Failed, Some(Exit::Code(3))));
    assert_eq!(result(&world.state, job), expected);
    tick(&mut world, Span::from_hours(1));
    assert!(world.state.jobs.is_empty(), "it is looked at for an hour");
    assert_eq!((world.state.results.len(), result(&world.state, job)), (1, expected));
    // Eight days from its end, which was the last thing that happened before.
    tick(&mut world, Span::from_hours(8 * 24 - 1));
    assert_eq!(result(&world.state, job), None);
    assert!(world.state.results.is_empty() && world.state.results_by_end.is_empty());
}

#[test]
fn of_too_many_results_the_oldest_leave() {
    let mut world = world(|settings| {
        settings.keep_ended_max = 0;
        settings.keep_results_max = 3;
    });
    let node = world.node("n0", 1);
    let jobs: Vec<JobId> = (0..6).map(|code| life(&mut world, node, code)).collect();
    tick(&mut world, Span::from_secs(1));
    let known: Vec<bool> = jobs.iter().map(|job| result(&world.state, *job).is_some()).collect();
    assert_eq!(known, [false, false, false, true, true, true]);
}

#[test]
fn a_job_that_has_not_ended_has_no_result() {
    let mut world = world(|_| {});
    let job = world.submit("bob", request(1));
    assert_eq!(result(&world.state, job), None);
    assert_eq!(result(&world.state, JobId::new(77)), None);
}

fn spec(text: &str, kib: usize) -> Command {
    let mut hash = [0; 32];
    for (byte, letter) in hash.iter_mut().zip(text.bytes()) {
        *byte = letter;
    }
    let bytes: Arc<[u8]> = vec![7; kib * 1024].into();
    Command::Submit(Submit { request: request(1), launch: Blob { hash: SpecHash::new(hash), bytes } })
}

#[test]
fn what_nodes_read_is_bounded_in_all_and_equal_content_costs_nothing() {
    let mut world = world(|settings| settings.specs_mib_max = 1);
    for n in 0..16 {
        world.must(person("bob"), spec(&format!("spec {n}"), 64));
    }
    assert_eq!(world.refused(person("bob"), spec("one more", 1)), Code::Full);
    world.must(person("bob"), spec("spec 3", 64));
    assert_eq!(world.refused(person("bob"), spec("too large", 65)), Code::BadSpec);
    // With the jobs that need it the room comes back.
    world.cancel("bob", JobId::new(1), "").expect("it is bob's");
    world.wait(Span::from_hours(1));
    world.must(person("bob"), spec("one more", 1));
    assert_eq!(world.state.meta.spec_bytes, (15 * 64 + 1) * 1024);
}

fn asked(world: &World, id: u16, command: Command) -> Entry {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&id.to_le_bytes());
    let (id, body) = (RequestId::new(bytes), BodyHash::new([0; 32]));
    let mark = Some(RequestMark { id, made_at: world.now, body });
    Entry { time: world.now, actor: person("bob"), request: mark, via: None, command }
}

fn code(answer: Answer) -> Option<Code> {
    answer.err().map(|refused| refused.code)
}

#[test]
fn answers_are_remembered_up_to_a_bound_and_submissions_leave_room_for_others() {
    let mut world = world(|settings| settings.requests_max = 16);
    for id in 0..14 {
        let entry = asked(&world, id, submission(request(1)));
        world.entry(entry).expect("there is room");
    }
    let entry = asked(&world, 14, submission(request(1)));
    let refused = world.entry(entry.clone()).expect_err("submissions leave an eighth of it");
    assert_eq!(refused.code, Code::Full);
    assert!(refused.what.contains("14 requests") && !refused.fix.is_empty(), "{refused:?}");
    // A person's other words still come through, and a retry is answered as before.
    let hold = |job| Command::Hold(JobWord { job: JobId::new(job), reason: String::new() });
    for id in [15, 16] {
        let entry = asked(&world, id, hold(u32::from(id) - 14));
        world.entry(entry).expect("there is room for those");
    }
    let entry = asked(&world, 17, hold(3));
    assert_eq!(code(world.entry(entry)), Some(Code::Full));
    let again = asked(&world, 3, submission(request(1)));
    world.entry(again).expect("it is answered as the first time");
    assert_eq!(world.state.jobs.len(), 14);
    // What was refused was not done and is not remembered: the same request is good when there is room.
    world.wait(Span::from_mins(10));
    let later = asked(&world, 14, submission(request(1)));
    world.entry(later).expect("the others are forgotten");
}

#[test]
fn of_too_many_decisions_the_oldest_leave_and_each_job_keeps_its_last_run() {
    let mut world = world(|settings| settings.decisions_max = 8);
    let node = world.node("n0", 1);
    let mut spec = request(1);
    spec.requeue_code = Some(75);
    spec.retries = 1_000;
    let jobs: Vec<JobId> = (0..3).map(|_| world.submit("bob", spec.clone())).collect();
    for _ in 0..7 {
        for job in &jobs {
            let attempt = world.place(*job, node, &[0]);
            run(&mut world, node, attempt, 75);
            assert!(world.state.decisions.len() <= 8, "{} decisions", world.state.decisions.len());
        }
    }
    // A launch that failed does not make the control plane forget that the job has run.
    for job in &jobs {
        let attempt = world.place(*job, node, &[0]);
        world.report(node, attempt, launch_failed(Fault::Node));
        world.report(node, attempt, RankEvent::Freed);
        world.wait(Span::from_mins(20));
        let past = &world.job(*job).past;
        assert!(past.iter().any(|past| past.started_at.is_some()), "{past:?}");
    }
    let charged = world.job(jobs[0]).charged.get();
    assert_eq!(charged, 7 * 10_000 * 1_000, "what has left was charged all the same");
}

#[test]
fn of_too_many_bills_the_oldest_leave() {
    let mut world = world(|settings| settings.bills_max = 2);
    let node = world.node("n0", 1);
    for _ in 0..4 {
        let mut spec = request(1);
        spec.min_runtime = Some(Span::ZERO);
        spec.resumable = Some(false);
        let job = world.submit("bob", spec);
        let attempt = world.place(job, node, &[0]);
        world.report(node, attempt, RankEvent::Started);
        world.wait(Span::from_secs(10));
        let word = JobWord { job, reason: String::from("to see what it costs") };
        world.must(person("ada"), Command::Requeue(word));
        world.report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
        world.report(node, attempt, RankEvent::Freed);
        world.cancel("bob", job, "").expect("it is bob's");
    }
    let first = world.state.bills.first().map(|((_, id), _)| id.job);
    assert_eq!((world.state.bills.len(), first), (2, Some(JobId::new(3))));
}

#[test]
fn nodes_come_from_a_bounded_number_of_clusters() {
    let mut world = world(|_| {});
    let issue = |text: &str, pool: &str| {
        Command::IssueJoinToken(IssueJoinToken {
            name: name(text),
            pool: name(pool),
            token: token(text),
            expires_at: BEGIN.plus(Span::from_hours(1)),
            topology: Vec::new(),
        })
    };
    for n in 0..64 {
        world.must(person("ada"), issue(&format!("n{n}"), &format!("pool-{n}")));
    }
    world.must(REPLICA, Command::Join(join("n0")));
    assert_eq!(world.refused(person("ada"), issue("n64", "pool-64")), Code::Full);
    world.must(person("ada"), issue("n64", "pool-0"));
    // The permissions that nobody used lapse.
    world.wait(Span::from_hours(1));
    let late = IssueJoinToken {
        name: name("n65"),
        pool: name("pool-64"),
        token: token("n65"),
        expires_at: world.now.plus(Span::from_hours(1)),
        topology: Vec::new(),
    };
    world.must(person("ada"), Command::IssueJoinToken(late));
    assert_eq!(world.state.join_tokens.len(), 1);
}

#[test]
fn a_principal_who_was_revoked_and_is_not_needed_makes_room() {
    let mut world = world(|_| {});
    let founded = world.state.clone();
    let filler = founded.principals.get(&name("bob")).expect("a member").clone();
    for n in founded.principals.len()..100_000 {
        let mut one = filler.clone();
        one.token = token(&format!("filler {n}"));
        world.state.principals.insert(name(&format!("f{n}")), one);
    }
    let new = || Command::AddPrincipal(AddPrincipal { token: token("newcomer"), ..principal("newcomer") });
    assert_eq!(world.refused(person("ada"), new()), Code::Full);
    // `bob` is a member of a budget and `eve` owns one, so they stay.
    for who in ["bob", "eve", "f777"] {
        world.must(person("ada"), Command::RevokePrincipal { name: name(who) });
    }
    world.must(person("ada"), new());
    assert_eq!(world.state.principals.len(), 100_000);
    let stays = ["bob", "eve", "f777"].map(|who| world.state.principals.contains(&name(who)));
    assert_eq!(stays, [true, true, false]);
}

/// A tree whose root has one budget with many below it, and `lang` as it was.
fn wide(prefix: &str, count: usize) -> TreeNode {
    let mut root = crate::world::tree();
    let leaf = root.children[2].clone();
    let below = |n| TreeNode { name: name(&format!("{prefix}{n}")), ..leaf.clone() };
    let crowd = TreeNode { name: name("crowd"), children: (0..count).map(below).collect(), ..leaf.clone() };
    root.children.push(crowd);
    root
}

fn apply_tree(world: &mut World, root: TreeNode) -> Answer {
    let base = world.state.meta.tree;
    let budgets = ApplyBudgets { root, base, reason: String::from("another year"), at: None };
    world.apply(person("ada"), Command::ApplyBudgets(budgets))
}

#[test]
fn closed_budgets_leave_when_nothing_needs_them_and_their_time_stays_in_the_books() {
    let mut world = world(|_| {});
    let node = world.node("n0", 1);
    // Five in the tree besides, and the root, and `crowd`.
    let most = COUNT_MAX - 7;
    apply_tree(&mut world, wide("a", most)).expect("as many as a tree has");
    let used = find(&world.state, "lang/post").expect("a leaf");
    life(&mut world, node, 0);
    // Another crowd, and `lang` with what it used is closed.
    let mut other = wide("b", most);
    other.children.remove(0);
    apply_tree(&mut world, other.clone()).expect("the first crowd is not needed");
    assert!(world.state.budgets.contains(&used), "it was charged within the window");
    assert!(find(&world.state, "crowd/a7").is_none() && find(&world.state, "crowd/b7").is_some());
    tick(&mut world, Span::from_hours(7 * 24 + 1));
    let mut third = wide("c", most);
    third.children.remove(0);
    apply_tree(&mut world, third).expect("the second crowd is not needed");
    assert!(!world.state.budgets.contains(&used));
    assert!(world.state.budgets.len() <= COUNT_MAX);
    let pool = world.state.books.pool(&name("main")).expect("there is a node");
    let time =
        |budget| pool.in_class(Class::Occupied { budget, tier: Tier::Funded }, world.state.meta.time).time;
    assert_eq!((time(used).get(), time(ROOT).get()), (0, 10_000), "its time counts with the budget above");
    let root = pool.account(ROOT, Tier::Funded).expect("it was used");
    assert_eq!(root.charged_ever(world.state.meta.time).get(), 10_000 * 1_000);
    invariants::check_all(&world.state).expect("the books add up");
    assert_eq!(world.replayed().digest(), world.state.digest());
}

#[test]
fn closed_budgets_with_work_are_bounded_by_a_refusal() {
    let mut world = world(|settings| settings.requests_max = 100);
    // In state they are needed as long as they have jobs.
    let most = COUNT_MAX - 7;
    for (prefix, is_taken) in [("a", true), ("b", true), ("c", false)] {
        let answer = apply_tree(&mut world, wide(prefix, most));
        assert_eq!(answer.is_ok(), is_taken, "{prefix}: {} budgets", world.state.budgets.len());
        if let Err(refused) = answer {
            assert_eq!(refused.code, Code::Full);
            continue;
        }
        occupy(&mut world, prefix);
    }
    assert!(world.state.budgets.len() <= KEPT_MAX);
    assert!(find(&world.state, "crowd/b7").is_some(), "the tree is as it was before the refusal");
}

/// Puts a job in every budget of a crowd, without the way of a submission: that takes long.
fn occupy(world: &mut World, prefix: &str) {
    let sample = world.submit("bob", request(1));
    let sample = world.job(sample).clone();
    let crowd: Vec<_> =
        world.state.budgets.iter().filter(|(_, budget)| budget.name.as_str().starts_with(prefix)).collect();
    let crowd: Vec<_> = crowd.into_iter().map(|(id, _)| *id).filter(|id| *id != ROOT).collect();
    for budget in crowd {
        let mut job = sample.clone();
        job.budget = budget;
        let id = world.state.meta.next_job;
        world.state.meta.next_job = JobId::new(id.get() + 1);
        let hash = job.launch;
        world.state.launches.get_mut(&hash).expect("the sample's").jobs += 1;
        scheduler_core::lifecycle::phase::admit(&mut world.state, id, job);
    }
}

#[test]
fn a_tree_names_a_bounded_number_of_members() {
    let mut world = world(|_| {});
    let mut root = crate::world::tree();
    root.children[1].members = (0..100_001).map(|n| name(&format!("m{n}"))).collect();
    assert_eq!(code(apply_tree(&mut world, root)), Some(Code::BadTree));
}
