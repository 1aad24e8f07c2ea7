//! A small laboratory from a few lines of text: nodes, budgets, work that runs and jobs that wait.
//!
//! ```text
//! pool p a,b [h100:2000,a100:500]        its clusters, or -; weights in thousandths; before its nodes
//! node n1 8 h100[,a100] [pool=p] [cluster=a] [cpus=64] [at=b1/r3] [backoff] [gone] [cordoned] [drains] [closes=5h]
//! budget a/b 30                          percent of its parent
//! runs 3.1 a/b 4 n1 0-3 for=2h [free] [min=1h] [was]   an attempt since so long; `was`: over, only charged
//!      [saved=30m] [every=30m] [pre=2] [once]          saved so long ago; declared interval; preemptions; not resumable
//!      [stops] [over]                                  cancelled just now; ended, not yet proven empty
//! runs 3.1 a/b 2x8 n1,n2 0-7 for=2h      a gang
//! job 7 a/b 4 [free] [first|last] [min=2h] [type=h100] [pool=cluster]
//!      [cpus=8] [memory=600] [failed=n1]              cores and memory in GiB; a node has 1,024
//!      [limit=20m]                                      the time limit
//!      [type=h100,a100] [within=1] [exclude=n1,n2]      types in order of preference; topology; nodes to keep away from
//! job 7 a/b 2x8 [ran=n2,n1]              a gang, and where it ran before, by rank
//! ```

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::budget::{Budget, ROOT};
use scheduler_core::id::{
    AttemptId, AttemptNo, BudgetId, DecisionId, Generation, GpuUuid, JobId, Label, LogIndex, Name, NodeId,
    Rank, Slot, SpecHash, Term, TokenHash,
};
use scheduler_core::job::{
    Attempt, AttemptEnd, Before, End, Ended, Exit, Job, PastAttempt, Phase, Placement, Progress, Stop,
    StopCause, Terms,
};
use scheduler_core::ledger::{Class, Run, Weighed};
use scheduler_core::node::{Contact, Cordon, Drain, Facts, Gpu, GpuFacts, Node, PORT_FIRST, Urgency};
use scheduler_core::plan::{Links, plan};
use scheduler_core::pool::{Pool, of_cluster, weight_of};
use scheduler_core::principal::AccountName;
use scheduler_core::spec::{ContractDefaults, Shape, TermSource, Tier, Turn};
use scheduler_core::state::{InLine, Kind, State};
use scheduler_core::unit::{Bytes, ChargeMillis, GpuCount, MilliGpus, Share, Span, Timestamp, Weight};

/// The moment at which every laboratory stands: a month after its pools began.
pub const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Memory in GiB.
pub fn gib(text: &str) -> Bytes {
    Bytes::new(text.parse::<u64>().expect("memory in GiB") << 30)
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("tests use names that are names")
}

pub fn label(text: &str) -> Label {
    Label::new(text).expect("tests use labels that are labels")
}

/// Builds a state from lines.
pub fn state(text: &str) -> State {
    let mut lab = Lab { state: State::default(), paths: BTreeMap::new() };
    lab.state.meta.time = NOW;
    lab.state.meta.index = LogIndex::new(100);
    lab.budget("", 100);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "pool" => lab.pool(&words[1..]),
            "node" => lab.node(&words[1..]),
            "budget" => lab.budget(words[1], words[2].parse().expect("a share in percent")),
            "runs" => lab.runs(&words[1..]),
            "job" => lab.job(&words[1..]),
            other => panic!("no such line: {other}"),
        }
    }
    lab.state
}

/// Builds a state in which nobody gets a date.
pub fn undated(text: &str) -> State {
    let mut state = state(text);
    state.meta.settings.dates = false;
    state
}

/// Plans with every ready node linked, in term 1.
pub fn planned(state: &State) -> String {
    show(&plan(state, &Links::all_ready(state), NOW, Term::new(1)), state)
}

/// Shows a plan as `7 on n1:0,1` lines; a gang's nodes in order of rank, and whom it takes: `7 on n1:0 n2:1 takes 3.1`.
pub fn show(plan: &scheduler_core::decision::Plan, state: &State) -> String {
    let mut text = String::new();
    for start in &plan.decisions {
        let mut line = format!("{} on", start.job);
        for (node, slots) in &start.on {
            let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
            let node = &state.nodes.get(node).expect("plans name known nodes").name;
            line += &format!(" {node}:{}", slots.join(","));
        }
        let takes: Vec<String> = start.takes.iter().map(|take| take.attempt.to_string()).collect();
        if !takes.is_empty() {
            line += &format!(" takes {}", takes.join(","));
        }
        text += &format!("{line}\n");
    }
    text
}

struct Lab {
    state: State,
    paths: BTreeMap<String, BudgetId>,
}

fn value<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn hours(text: &str) -> Span {
    let number = |unit: char| text.trim_end_matches(unit).parse().expect("a time like 2h or 30m");
    match text.chars().last() {
        Some('s') => Span::from_secs(number('s')),
        Some('m') => Span::from_mins(number('m')),
        _ => Span::from_hours(number('h')),
    }
}

impl Lab {
    fn budget(&mut self, path: &str, percent: u32) {
        let id = BudgetId::new(u32::try_from(self.paths.len()).expect("few budgets"));
        let (above, own) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = (id != ROOT).then(|| self.paths[above]);
        if let Some(parent) = parent {
            let above = self.state.budgets.get_mut(&parent).expect("parents come first");
            above.children.insert(id);
        }
        let record = Budget {
            name: name(if own.is_empty() { "lab" } else { own }),
            parent,
            children: Default::default(),
            share: Share::from_ppm(percent * 10_000).expect("at most the whole"),
            owner: None,
            members: Default::default(),
            defaults: ContractDefaults::default(),
            is_closed: false,
            pools: Default::default(),
            slices: Vec::new(),
            was: Vec::new(),
        };
        self.state.budgets.insert(id, record);
        self.paths.insert(path.to_owned(), id);
    }

    fn node(&mut self, words: &[&str]) {
        let id = NodeId::new(u32::try_from(self.state.nodes.len()).expect("few nodes") + 1);
        let count: u16 = words[1].parse().expect("a number of GPUs");
        let pool = value(words, "pool").unwrap_or("main");
        let cluster = name(value(words, "cluster").unwrap_or(pool));
        let pool = of_cluster(&self.state.pools, &cluster);
        // So many of each type, one type after the other.
        let types: Vec<Label> = words[2].split(',').map(label).collect();
        let model = |slot: u16| &types[usize::from(slot) * types.len() / usize::from(count)];
        let gpu = |slot: u16| Gpu {
            uuid: GpuUuid::new(&format!("GPU-{id}-{slot}")).expect("a plain text"),
            model: model(slot).clone(),
            memory: Bytes::new(1 << 36),
            weight: weight_of(&self.state.pools, &pool, model(slot)),
            is_present: true,
            holder: None,
            next: None,
        };
        let gpus: Vec<Gpu> = (0..count).map(gpu).collect();
        let facts = Facts {
            boot: label("boot-1"),
            agent: label("0.1.0"),
            cpus: value(words, "cpus").map_or(64, |text| text.parse().expect("a number of cores")),
            memory: Bytes::new(1 << 40),
            gpus: gpus
                .iter()
                .map(|gpu| GpuFacts { uuid: gpu.uuid.clone(), model: gpu.model.clone(), memory: gpu.memory })
                .collect(),
            is_simulated: false,
            containment: label("cgroup"),
            trouble: Vec::new(),
            address: None,
        };
        let is_gone = words.contains(&"gone");
        let node = Node {
            name: name(words[0]),
            cluster: cluster.clone(),
            pool: pool.clone(),
            credential: TokenHash::new([0; 32]),
            machine: label(words[0]),
            facts: Some(facts),
            gpus,
            contact: if is_gone { Contact::Unreachable { since: NOW } } else { Contact::Ready },
            backoff_until: words.contains(&"backoff").then(|| NOW.plus(Span::from_secs(10))),
            failed_launches: 0,
            cordon: words.contains(&"cordoned").then(cordon),
            drain: drain(words),
            next_port: PORT_FIRST,
            topology: value(words, "at").map_or_else(Vec::new, |path| path.split('/').map(name).collect()),
        };
        let class = free_class(&node);
        self.state.books.gpus_added(
            &pool,
            Weighed { count: GpuCount::new(count.into()), weight: node.gpus[0].weight },
            class,
            NOW.minus(Span::from_hours(720)),
        );
        self.state.nodes.insert(id, node);
    }

    fn node_id(&self, wanted: &str) -> NodeId {
        let found = self.state.nodes.iter().find(|(_, node)| node.name.as_str() == wanted);
        *found.expect("a known node").0
    }

    fn path(&self, leaf: BudgetId) -> Vec<BudgetId> {
        let up = std::iter::successors(Some(leaf), |id| self.state.budgets.get(id).and_then(|b| b.parent));
        let mut path: Vec<BudgetId> = up.collect();
        path.reverse();
        path
    }

    fn job(&mut self, words: &[&str]) {
        let id = JobId::new(words[0].parse().expect("a number"));
        let mut job = self.new_job(id, words);
        let since = job.submitted_at;
        job.phase = Phase::Waiting { since };
        if let Some(node) = value(words, "failed") {
            job.failed_on.insert(self.node_id(node));
            job.next_attempt = AttemptNo::new(2);
        }
        if let Some(nodes) = value(words, "ran") {
            let nodes = nodes.split(',').map(|node| self.node_id(node)).collect();
            job.past.push(past(nodes));
            job.next_attempt = AttemptNo::new(2);
        }
        let place = InLine {
            budget: job.budget,
            tier: job.terms.tier,
            turn: job.terms.turn,
            submitted_at: since,
            job: id,
        };
        self.state.line.insert(place, Kind::of(&job));
        self.state.jobs.insert(id, job);
    }

    fn new_job(&self, id: JobId, words: &[&str]) -> Job {
        let is_free = words.contains(&"free");
        let turn = match () {
            () if words.contains(&"first") => Turn::First,
            () if words.contains(&"last") => Turn::Last,
            () => Turn::Normal,
        };
        let (nodes, gpus) = words[2].split_once('x').unwrap_or(("1", words[2]));
        let nodes = nodes.parse().expect("a number of nodes");
        let mut types = value(words, "type").into_iter().flat_map(|types| types.split(',')).map(label);
        let terms = Terms {
            cluster: value(words, "pool").map(name),
            shape: Shape {
                nodes,
                gpus_per_node: GpuCount::new(gpus.parse().expect("a number of GPUs")),
                gpu_type: types.next(),
                cpus: value(words, "cpus").map(|text| text.parse().expect("a number of cores")),
                memory: value(words, "memory").map(gib),
                or_types: types.collect(),
                within: value(words, "within").map(|text| text.parse().expect("a level")),
            },
            tier: if is_free { Tier::Free } else { Tier::Funded },
            exclude: value(words, "exclude").map_or_else(BTreeSet::new, |nodes| {
                nodes.split(',').map(|node| self.node_id(node)).collect()
            }),
            tier_source: TermSource::Submission,
            min_runtime: match () {
                () if is_free => Span::ZERO,
                () => value(words, "min").map_or(Span::from_hours(1), hours),
            },
            time_limit: value(words, "limit").map(hours),
            resumable: !words.contains(&"once"),
            resumable_source: TermSource::Submission,
            grace: Span::from_secs(30),
            signal: 10,
            checkpoint_every: value(words, "every").map(hours),
            requeue_code: None,
            retries: 0,
            turn,
        };
        Job {
            name: label(&format!("job-{id}")),
            user: name("ann"),
            account: AccountName::new("ann").expect("an account"),
            budget: self.paths[words[1]],
            launch: SpecHash::new([1; 32]),
            terms,
            submitted_at: NOW.minus(Span::from_mins(60)).plus(Span::from_secs(id.get().into())),
            phase: Phase::Waiting { since: NOW },
            next_attempt: AttemptNo::new(1),
            retries_used: 0,
            failed_on: Default::default(),
            past: Vec::new(),
            charged: ChargeMillis::ZERO,
            progress: Progress {
                saved: value(words, "saved").map(|ago| (AttemptNo::new(1), NOW.minus(hours(ago)))),
                preemptions: value(words, "pre").map_or(0, |text| text.parse().expect("a number")),
                ..Progress::default()
            },
            before: Before::default(),
            array: None,
            wants: Vec::new(),
        }
    }

    fn runs(&mut self, words: &[&str]) {
        let (job_id, no) = words[0].split_once('.').expect("an attempt like 3.1");
        let attempt_id = AttemptId {
            job: JobId::new(job_id.parse().expect("a number")),
            no: AttemptNo::new(no.parse().expect("a number")),
        };
        let nodes: Vec<NodeId> = words[3].split(',').map(|node| self.node_id(node)).collect();
        let (first, last) = words[4].split_once('-').unwrap_or((words[4], words[4]));
        let slots = first.parse().expect("a slot")..=last.parse().expect("a slot");
        let slots: Vec<Slot> = slots.map(Slot::new).collect();
        let since = NOW.minus(hours(value(words, "for").expect("for=how long")));
        let mut job = self.new_job(attempt_id.job, words);
        job.phase = Phase::Live(attempt_id.no);
        job.next_attempt = AttemptNo::new(attempt_id.no.get() + 1);
        let placement = |(rank, node): (u16, &NodeId)| Placement {
            rank: Rank::new(rank),
            node: *node,
            slots: slots.clone(),
            generation: Generation::new(1),
            ready_at: None,
            started_at: Some(since),
            exited: None,
            freed_at: None,
        };
        let is_over = words.contains(&"over");
        let attempt = Attempt {
            budget: job.budget,
            tier: job.terms.tier,
            pool: self.state.nodes.get(&nodes[0]).expect("a known node").pool.clone(),
            placements: (0..).zip(&nodes).map(placement).collect(),
            rate: MilliGpus::new(self.rate(&nodes, slots.len())),
            decision: DecisionId { index: LogIndex::new(1), n: 0 },
            placed_at: since,
            go_at: Some(since),
            latest_go: since,
            port: None,
            start_by: since.plus(Span::from_mins(10)),
            protection: job.terms.min_runtime,
            started_at: Some(since),
            saved_at: value(words, "saved").map(|ago| NOW.minus(hours(ago)).max(since)),
            signed_at: None,
            stop: words.contains(&"stops").then(stop),
            first_end: None,
            ended: is_over.then_some(Ended { at: NOW, cause: AttemptEnd::Exited, exit: Some(Exit::Code(0)) }),
        };
        self.book(&attempt, since, words.contains(&"was"));
        if words.contains(&"was") {
            return;
        }
        for (node, slot) in nodes.iter().flat_map(|node| slots.iter().map(move |slot| (node, slot))) {
            let record = self.state.nodes.get_mut(node).expect("a known node");
            record.gpus[usize::from(slot.get())].holder = Some(attempt_id);
        }
        if is_over {
            job.phase = Phase::Ended { at: NOW, end: End::Completed, exit: Some(Exit::Code(0)) };
        }
        self.state.jobs.insert(attempt_id.job, job);
        self.state.attempts.insert(attempt_id, attempt);
    }

    fn rate(&self, nodes: &[NodeId], gpus: usize) -> u64 {
        let weight = |id| u64::from(self.state.nodes.get(id).expect("a known node").gpus[0].weight.milli());
        nodes.iter().map(weight).sum::<u64>() * u64::try_from(gpus).expect("few GPUs")
    }

    fn pool(&mut self, words: &[&str]) {
        let clusters = words[1].split(',').filter(|word| *word != "-").map(name).collect();
        let weight = |word: &str| {
            let (kind, milli) = word.split_once(':').expect("a type and a weight");
            (label(kind), Weight::from_milli(milli.parse().expect("thousandths")).expect("a weight"))
        };
        let weights = words.get(2).map_or_else(Vec::new, |words| words.split(',').map(weight).collect());
        self.state.pools.insert(name(words[0]), Pool { clusters, weights });
    }

    fn book(&mut self, attempt: &Attempt, since: Timestamp, was: bool) {
        let path = self.path(attempt.budget);
        let run = Run::of(attempt, &path);
        let fresh = Run { go: None, started: None, ..run };
        let occupied = Class::Occupied { budget: attempt.budget, tier: attempt.tier };
        let books = &mut self.state.books;
        books.placed(&fresh);
        books.go(&fresh, since, NOW);
        books.started(&Run { started: None, ..run }, since, NOW);
        for placement in &attempt.placements {
            let node = self.state.nodes.get(&placement.node).expect("a known node");
            let count = GpuCount::new(u32::try_from(placement.slots.len()).expect("few slots"));
            let (count, free) = (Weighed { count, weight: node.gpus[0].weight }, free_class(node));
            books.reclass(&attempt.pool, count, free, occupied, since);
            if was || attempt.ended.is_some() {
                let after = if was { free } else { Class::Overhead };
                books.reclass(&attempt.pool, count, occupied, after, NOW);
            }
        }
        if was || attempt.ended.is_some() {
            books.ended(&run, NOW, NOW);
        }
    }
}

fn free_class(node: &Node) -> Class {
    if node.is_in_service(&node.gpus[0]) { Class::Idle } else { Class::Unavailable }
}

fn cordon() -> Cordon {
    Cordon { who: Some(name("ada")), reason: "a fan".to_owned(), since: NOW }
}

fn drain(words: &[&str]) -> Option<Drain> {
    let is_active = words.contains(&"drains");
    let begins_at = value(words, "closes").map(|from_now| NOW.plus(hours(from_now)));
    let begins_at = begins_at.or(is_active.then_some(NOW))?;
    let (who, reason) = (name("ada"), "a new fan".to_owned());
    Some(Drain { who, reason, ordered_at: NOW, begins_at, is_active, urgency: Urgency::Normal })
}

fn stop() -> Stop {
    let cause = StopCause::Cancel { who: name("ann"), reason: String::new() };
    Stop { at: NOW, cause, grace: Span::from_secs(30) }
}

fn past(nodes: Vec<NodeId>) -> PastAttempt {
    PastAttempt {
        no: AttemptNo::new(1),
        gpus: u32::try_from(nodes.len()).expect("few nodes"),
        nodes,
        decision: DecisionId { index: LogIndex::new(1), n: 0 },
        placed_at: NOW,
        go_at: None,
        started_at: None,
        saved_at: None,
        stop: None,
        ended: Ended { at: NOW, cause: AttemptEnd::NodeLost, exit: None },
        charged: ChargeMillis::ZERO,
    }
}
