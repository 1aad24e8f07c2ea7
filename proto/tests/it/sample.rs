//! One of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use scheduler_core::agent::{EndedBy, Fault, RankEvent, Report};
use scheduler_core::array::Indexes;
use scheduler_core::budget::TreeNode;
use scheduler_core::command::{
    AddPrincipal, Answer, ApplyBudgets, Blob, Cancel, CancelEdit, Code, Command, DrainNode, EndGrant, Entry,
    Found, GrantShare, IssueJoinToken, JobWord, Join, NodeWord, Outcome, Rejection, RequestMark, ResumeTime,
    Saved, SetNode, SetPool, SetTime, Submit, TimeSource,
};
use scheduler_core::date::{Awaited, How, Promise, Trouble, What};
use scheduler_core::decision::{
    Basis, Choice, DateStep, Dated, Dropped, Level, Plan, Price, Right, Start, Step, Take, UseOf, Why,
};
use scheduler_core::id::{
    AttemptId, AttemptNo, BodyHash, BudgetId, ClusterId, DecisionId, EditId, Epoch, Generation, GpuUuid,
    GrantId, JobId, Label, LogIndex, Name, NodeId, Rank, ReplicaId, RequestId, Revision, Slot, SpecHash,
    Term, TokenHash,
};
use scheduler_core::job::Exit;
use scheduler_core::node::{Facts, GpuFacts, Urgency};
use scheduler_core::principal::{AccountName, Actor};
use scheduler_core::settings::Settings;
use scheduler_core::spec::{After, Asks, ContractDefaults, Request, Shape, Turn, Wants};
use scheduler_core::unit::{Bytes, ChargeMillis, GpuCount, MilliGpus, Share, Span, Timestamp, Weight};

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

pub fn entry(command: Command) -> Entry {
    Entry {
        time: Timestamp::from_millis(1_795_972_127_001),
        actor: Actor::Principal(name("ada")),
        via: None,
        request: Some(RequestMark {
            id: RequestId::new([7; 16]),
            made_at: Timestamp::from_millis(1_795_972_127_000),
            body: BodyHash::new([9; 32]),
        }),
        command,
    }
}

pub fn commands() -> Vec<Command> {
    let mut commands = first_commands();
    commands.extend(words());
    commands.extend(grants());
    commands
}

/// Share for a time.
fn grants() -> Vec<Command> {
    let at = Timestamp::from_millis;
    let grant = |from: Option<&str>, begins_at| {
        Command::Grant(GrantShare {
            to: "language/posttrain".into(),
            from: from.map(str::to_owned),
            share: Share::from_ppm(125_000).unwrap(),
            begins_at,
            until: at(9_000),
            reason: "a deadline".into(),
        })
    };
    vec![
        grant(Some("language/pretrain"), Some(at(8_000))),
        grant(None, None),
        Command::ApplyBudgets(ApplyBudgets {
            root: tree(),
            base: Revision::new(4),
            reason: "next term".into(),
            at: Some(at(8_000)),
        }),
        Command::CancelEdit(CancelEdit { edit: EditId::new(6), reason: "not yet".into() }),
        Command::EndGrant(EndGrant { grant: GrantId::new(7), reason: "it is over".into() }),
    ]
}

/// What people say about jobs and nodes, and ranks of their progress.
fn words() -> Vec<Command> {
    let node = NodeId::new(3);
    let job = || JobWord { job: JobId::new(4190), reason: "wrong data".into() };
    let word = || NodeWord { node, reason: "fan is loud".into() };
    let at = Timestamp::from_millis;
    let drain = |urgency, begins_at| {
        Command::Drain(DrainNode { node, urgency, begins_at, reason: "new firmware".into() })
    };
    let saved = |saved_at, signed_at| Saved { attempt: attempt(3), saved_at, signed_at };
    vec![
        Command::Hold(job()),
        Command::Release(job()),
        Command::Requeue(job()),
        Command::Cordon(word()),
        Command::Uncordon(word()),
        Command::Undrain(word()),
        Command::SetNode(SetNode { node, topology: vec![name("block-2")] }),
        Command::SetPool(SetPool {
            pool: name("big"),
            clusters: [name("east"), name("main")].into(),
            weights: vec![(Label::new("H100").unwrap(), Weight::from_milli(1_500).unwrap())],
        }),
        drain(Urgency::Normal, None),
        drain(Urgency::Deadline(at(9_000)), Some(at(7_000))),
        drain(Urgency::Now, None),
        Command::Saves { node, saves: vec![saved(Some(at(70)), Some(at(60))), saved(None, None)] },
    ]
}

pub fn attempt(no: u16) -> AttemptId {
    AttemptId { job: JobId::new(4190), no: AttemptNo::new(no) }
}

fn first_commands() -> Vec<Command> {
    let node = NodeId::new(3);
    let reports = Command::Reports { node, reports: reports() };
    vec![
        found(),
        submit(),
        Command::Cancel(Cancel { job: JobId::new(4190), is_now: true, reason: "wrong data".into() }),
        Command::ApplyBudgets(ApplyBudgets {
            root: tree(),
            base: Revision::new(4),
            reason: "new term".into(),
            at: None,
        }),
        Command::AddPrincipal(AddPrincipal {
            name: name("ada"),
            token: TokenHash::new([3; 32]),
            account: AccountName::new("ada").unwrap(),
            is_operator: true,
        }),
        Command::RevokePrincipal { name: name("ada") },
        Command::IssueJoinToken(IssueJoinToken {
            name: name("node-01"),
            pool: name("main"),
            token: TokenHash::new([4; 32]),
            expires_at: Timestamp::from_millis(9),
            topology: vec![name("block-1"), name("rack-3")],
        }),
        Command::Join(Join {
            token: TokenHash::new([4; 32]),
            name: name("node-01"),
            machine: label("m-1"),
            credential: TokenHash::new([5; 32]),
        }),
        Command::NodeFacts { node, facts: facts() },
        reports.clone(),
        Command::NodeUnreachable { node },
        Command::NodeBack { node },
        Command::Adopt(plan()),
        Command::EndSafeMode { reason: "looked at it".into() },
        Command::ResumeTime(ResumeTime { from: TimeSource::LastEntry, what: "nobody knew".into() }),
        Command::SetTime(SetTime { to: Some(Timestamp::from_millis(9)), reason: "by my watch".into() }),
        Command::Batch(vec![
            (Actor::Agent(node), reports),
            (Actor::Replica(ReplicaId::new(2)), Command::NodeBack { node }),
        ]),
    ]
}

fn found() -> Command {
    Command::Found(Found {
        cluster: ClusterId::new([1; 16]),
        epoch: Epoch::new(1),
        root: name("lab"),
        admin: name("ceo"),
        admin_token: TokenHash::new([2; 32]),
        admin_account: AccountName::new("ceo").unwrap(),
        settings: settings(),
    })
}

/// No figure is a default, and no two are the same.
pub fn settings() -> Settings {
    Settings {
        window: Span::from_millis(51),
        cap: Span::from_millis(52),
        start_limit: Span::from_millis(53),
        grace: Span::from_millis(54),
        free_grace: Span::from_millis(55),
        grace_max: Span::from_millis(56),
        cancel_grace: Span::from_millis(57),
        rank_grace: Span::from_millis(58),
        margin_ppm: 59,
        restart_guess: Span::from_millis(60),
        free_backoff: Span::from_millis(61),
        free_backoff_max: Span::from_millis(62),
        barren_max: 63,
        recheck: Span::from_millis(64),
        debounce: Span::from_millis(89),
        dates: false,
        date_margin: Span::from_millis(82),
        more_dates_ppm: 83,
        short_later: true,
        short_lane_ppm: 84,
        burst_limit_pct: 87,
        beat: Span::from_millis(65),
        silent_after: Span::from_millis(66),
        unreachable_after: Span::from_millis(67),
        launch_backoff: Span::from_millis(68),
        launch_backoff_max: Span::from_millis(69),
        request_memory: Span::from_millis(70),
        request_skew: Span::from_millis(71),
        keep_ended: Span::from_millis(72),
        keep_ended_max: 73,
        live_jobs_max: 74,
        keep_results: Span::from_millis(75),
        keep_results_max: 76,
        specs_mib_max: 77,
        requests_max: 78,
        decisions_max: 79,
        bills_max: 80,
        curve_points_max: 81,
        dependencies_max: 82,
        array_tasks_max: 83,
        allow_simulated: true,
    }
}

fn submit() -> Command {
    Command::Submit(Submit {
        request: Request {
            name: label("sft-think-7b"),
            budget: "language/posttrain".into(),
            cluster: Some(name("h100-a")),
            shape: Shape {
                nodes: 1,
                gpus_per_node: GpuCount::new(8),
                gpu_type: Some(label("H100")),
                cpus: Some(64),
                memory: Some(Bytes::new(1 << 40)),
                or_types: vec![label("A100"), label("L40")],
                within: Some(2),
            },
            min_runtime: Some(Span::from_hours(4)),
            time_limit: Some(Span::from_hours(72)),
            resumable: Some(true),
            grace: Some(Span::from_secs(120)),
            signal: Some(15),
            checkpoint_every: Some(Span::from_mins(15)),
            checkpoint_glob: Some("ckpt/*.done".into()),
            requeue_code: Some(75),
            retries: 2,
            turn: Some(Turn::Last),
            is_held: true,
            asks: Asks {
                begin: Some(Timestamp::from_millis(1_795_972_128_000)),
                after: vec![
                    After { job: JobId::new(4188), task: None, wants: Wants::End },
                    After { job: JobId::new(4189), task: Some(7), wants: Wants::Success },
                ],
                array: Some(Indexes::parse("0-9:3,20%4").unwrap()),
                exclude: vec![name("node-03"), name("node-07")],
            },
        },
        launch: Blob { hash: SpecHash::new([6; 32]), bytes: Arc::from(vec![1, 2, 3]) },
    })
}

pub fn tree() -> TreeNode {
    let leaf = TreeNode {
        name: name("science"),
        share: Share::from_ppm(200_000).unwrap(),
        pools: BTreeMap::from([(name("h100"), Share::from_ppm(300_000).unwrap())]),
        owner: Some(name("pi")),
        members: BTreeSet::from([name("ada"), name("bob")]),
        defaults: ContractDefaults {
            min_runtime: Some(Span::from_hours(1)),
            resumable: Some(false),
            time_limit: Some(Span::from_hours(2)),
        },
        children: vec![],
    };
    TreeNode {
        name: name("lab"),
        share: Share::WHOLE,
        pools: BTreeMap::new(),
        owner: None,
        members: BTreeSet::new(),
        defaults: ContractDefaults::default(),
        children: vec![leaf],
    }
}

fn facts() -> Facts {
    Facts {
        boot: label("b-1"),
        agent: label("0.1.0"),
        cpus: 128,
        memory: Bytes::new(1 << 41),
        gpus: vec![GpuFacts {
            uuid: GpuUuid::new("GPU-1").unwrap(),
            model: label("NVIDIA H100"),
            memory: Bytes::new(1 << 36),
        }],
        is_simulated: true,
        containment: label("process tree"),
        trouble: vec!["gpu 3: probe silent".into()],
        address: Some(label("node-01.lab")),
    }
}

pub fn reports() -> Vec<Report> {
    let exited = |exit, by| RankEvent::Exited { exit, by, saved_at: Some(Timestamp::from_millis(70)) };
    let failed = |fault| RankEvent::LaunchFailed { fault, what: "no such directory".into() };
    let events = vec![
        RankEvent::Ready,
        RankEvent::Started,
        RankEvent::Unkillable { what: "pid 7 in D".into() },
        exited(Exit::Code(75), EndedBy::Notice),
        exited(Exit::Code(3), EndedBy::Itself),
        exited(Exit::Signal(9), EndedBy::Stop),
        exited(Exit::Unknown, EndedBy::Reboot),
        exited(Exit::Code(0), EndedBy::TimeLimit),
        failed(Fault::Node),
        failed(Fault::Job { code: 127 }),
        RankEvent::Freed,
        RankEvent::Unknown { gpus: vec![GpuUuid::new("GPU-1").unwrap()] },
    ];
    let report = |event| Report {
        attempt: AttemptId { job: JobId::new(4190), no: AttemptNo::new(3) },
        rank: Rank::new(1),
        at: Timestamp::from_millis(77),
        event,
    };
    events.into_iter().map(report).collect()
}

pub fn use_of(charged: u128) -> UseOf {
    UseOf {
        budget: BudgetId::new(5),
        charged: ChargeMillis::new(charged),
        set_aside: ChargeMillis::new(1 << 70),
        allocation: ChargeMillis::new(u128::MAX),
    }
}

pub fn rights() -> [Right; 5] {
    [
        Right::FreeTier,
        Right::Turn,
        Right::Share { mine: use_of(3), theirs: use_of(4) },
        Right::Claim { date: decision_id(), at: Timestamp::from_millis(78) },
        Right::Lane { occupied: 85, part: 86 },
    ]
}

fn decision_id() -> DecisionId {
    DecisionId { index: LogIndex::new(98), n: 3 }
}

/// What is promised, with each way in which GPUs come free.
pub fn promise() -> Promise {
    let hows = [How::Takeable, How::Leaves, How::Protection, How::Margin, How::Cap, How::EarlierDate];
    let awaited = |(no, how): (u16, How)| Awaited {
        attempt: attempt(no),
        gpus: u32::from(no) + 1,
        free_at: Timestamp::from_millis(80 + u64::from(no)),
        how,
    };
    Promise {
        at: Timestamp::from_millis(79),
        until: Timestamp::from_millis(99),
        on: vec![(NodeId::new(3), vec![Slot::new(1)]), (NodeId::new(4), vec![Slot::new(2)])],
        awaits: (1..).zip(hows).map(awaited).collect(),
    }
}

/// Each kind of trouble.
pub fn troubles() -> [Trouble; 6] {
    let what = [
        What::Unreachable,
        What::Cordoned,
        What::Draining,
        What::Backoff,
        What::GpuGone,
        What::HolderUnreachable,
    ];
    what.map(|what| Trouble { node: NodeId::new(3), what })
}

fn date_steps() -> Vec<DateStep> {
    let step = |step| DateStep { after: 1, job: JobId::new(4191), pool: name("main"), step };
    let mut steps = vec![step(Step::Issue(promise()))];
    for trouble in troubles() {
        steps.push(step(Step::Move { to: promise(), trouble }));
        steps.push(step(Step::Drop { trouble }));
    }
    steps
}

pub fn price(basis: Basis, saved_at: Option<Timestamp>) -> Price {
    Price {
        rate: MilliGpus::new(8_000),
        lost: Span::from_millis(61),
        restart: Span::from_millis(62),
        preemptions: 2,
        saved_at,
        basis,
    }
}

fn takes() -> Vec<Take> {
    let saved_at = Some(Timestamp::from_millis(70));
    let bases = [
        (Basis::Reported, saved_at),
        (Basis::Declared, None),
        (Basis::Unknown, None),
        (Basis::Unknown, None),
        (Basis::Unknown, None),
    ];
    let take = |((no, right), (basis, saved_at))| Take {
        attempt: attempt(no),
        generation: Generation::new(5),
        right,
        price: price(basis, saved_at),
        gpus: 8,
    };
    (2..).zip(rights()).zip(bases).map(take).collect()
}

fn plan() -> Plan {
    Plan {
        term: Term::new(4),
        index: LogIndex::new(99),
        decisions: vec![
            Start {
                job: JobId::new(4190),
                attempt: AttemptNo::new(1),
                on: vec![(NodeId::new(3), vec![Slot::new(0), Slot::new(7)])],
                takes: vec![],
                why: Why {
                    place: 2,
                    levels: vec![Level { chosen: use_of(1), next: Some(use_of(2)) }],
                    choice: None,
                    date: None,
                },
            },
            taking(Some((attempt(9), price(Basis::Declared, None)))),
            taking(None),
        ],
        dates: date_steps(),
    }
}

/// A start on two nodes that takes by each right.
pub fn taking(runner_up: Option<(AttemptId, Price)>) -> Start {
    Start {
        job: JobId::new(4190),
        attempt: AttemptNo::new(1),
        on: vec![(NodeId::new(3), vec![Slot::new(0)]), (NodeId::new(4), vec![Slot::new(7)])],
        takes: takes(),
        why: Why {
            place: 1,
            levels: vec![Level { chosen: use_of(1), next: None }],
            choice: Some(Choice { lacked: 20, freed: 24, considered: 5, runner_up }),
            date: runner_up.map(|_| Dated {
                decision: decision_id(),
                issued_at: Timestamp::from_millis(75),
                at: Timestamp::from_millis(76),
            }),
        },
    }
}

pub fn answers() -> Vec<Answer> {
    let drops = [
        Dropped::NotWaiting,
        Dropped::AttemptTaken,
        Dropped::GpuTaken,
        Dropped::NodeNotReady,
        Dropped::WrongShape,
        Dropped::NodeFull,
        Dropped::VictimChanged,
        Dropped::VictimProtected,
        Dropped::Reserved,
        Dropped::NotDue,
        Dropped::DateStands,
        Dropped::TooManyDates,
        Dropped::NoLane,
        Dropped::LaneKept,
    ];
    let dropped = drops.into_iter().enumerate().map(|(n, why)| (u16::try_from(n).unwrap(), why)).collect();
    let mut answers = vec![
        Ok(Outcome::Done),
        Ok(Outcome::Submitted { job: JobId::new(4190) }),
        Ok(Outcome::BudgetsApplied { revision: Revision::new(5) }),
        Ok(Outcome::EditPlanned { edit: EditId::new(6) }),
        Ok(Outcome::Granted { grant: GrantId::new(7) }),
        Ok(Outcome::Joined { node: NodeId::new(3) }),
        Ok(Outcome::Adopted { adopted: 3, dropped }),
    ];
    answers.extend(Code::ALL.map(|code| Err(Rejection::new(code, "what".into(), "why", "fix".into()))));
    let all = answers.clone();
    answers.push(Ok(Outcome::Batch(all)));
    answers
}

pub fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
