//! Histories in a few lines of text, lived by a world whose agents do what they are told. A line that says what is so is
//! checked at that moment.
//!
//! ```text
//! budget a/b 50                       percent of its parent; they come first
//! window 24h | margin 2 | dates off | lane 10 | burst 200   settings; before everything else
//! node n1 4 [in=east]                 its cluster
//! pool main main,east [h100:2000]     the clusters of a pool, or -; weights in thousandths
//! submit x a/b 4 [min=60m] [free] [first|last] [once] [every=30m] [grace=30s] [retries=2]
//!     [limit=20m] [in=east]           the time limit; the cluster that it must be in
//!     [cpus=8] [memory=64]            cores, and memory in GiB, where it is not the GPUs' part of the node
//!     [lasts=3h]                      it exits well after so much work; what was saved is not done again
//!     [saves=30m]                     it reports a checkpoint so often
//!     [quick]                         it saves and exits at a notice
//!     [stubborn]                      it is there until somebody finds that it cannot be killed
//!     [fails-on=n1]                   its launch fails there, by the node's fault
//! run 3h [by=1m]                      time passes; a look at least every five minutes
//! cancel x | hold x | release x | requeue x
//! drain n1 | drain-now n1 | undrain n1 | cordon n1 | uncordon n1 | lose n1 | back n1 | reboot n1
//! share a/b 30 reason                 an edit of the tree
//! elect | replay | quiet 3h           another leader; from the log alone; time in which nothing is decided
//!
//! x has-date | x runs | x waits | x leaves | x is held | x ended completed | x started 2 times | x gave-way 1 times
//! takes 3                             attempts that gave way so far
//! use a 34                            percent, rounded down
//! ```

mod agents;
mod says;

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::apply::next_change;
use scheduler_core::budget::TreeNode;
use scheduler_core::command::{
    ApplyBudgets, Cancel, Command, DrainNode, JobWord, NodeWord, Outcome, SetPool,
};
use scheduler_core::decision::{Plan, Start};
use scheduler_core::id::{AttemptId, JobId, NodeId, Term};
use scheduler_core::node::Urgency;
use scheduler_core::plan::Links;
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::spec::{ContractDefaults, Request, Turn};
use scheduler_core::state::State;
use scheduler_core::unit::{GpuCount, Share, Span, Timestamp, Weight};

use crate::lab::gib;
use crate::world::{REPLICA, World, facts, label, name, person, planned, request, submission};

/// Looks at a plan and the state that it was made from.
pub type Seen = fn(&State, Timestamp, &Plan, &mut Vec<(&'static str, String)>);

/// What a job's processes do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    pub lasts: Option<Span>,
    pub saves: Option<Span>,
    pub is_quick: bool,
    pub is_stubborn: bool,
    /// A node on which it never starts, by the node's fault.
    pub fails_on: Option<NodeId>,
    /// Work that is saved.
    pub done: Span,
    /// What was saved when its attempt started.
    pub begun: Span,
}

pub struct Story {
    pub world: World,
    pub jobs: BTreeMap<String, JobId>,
    pub manners: BTreeMap<JobId, Manner>,
    pub nodes: BTreeMap<String, NodeId>,
    /// Nodes of which nothing is heard.
    pub lost: BTreeSet<NodeId>,
    /// How often each node was restarted.
    boots: BTreeMap<NodeId, u32>,
    tree: Vec<(String, u32)>,
    is_planted: bool,
    settings: Settings,
    /// All decisions, in order.
    pub starts: Vec<Start>,
    /// Looks at every plan before it is adopted.
    pub seen: Option<Seen>,
    /// Laws that were broken, and how.
    pub broken: Vec<(&'static str, String)>,
    /// How often a node or a leader broke.
    broke: usize,
    /// Looks at least so often.
    by: Span,
}

/// A law of every plan that is looked at.
pub const TWICE: &str = "planning twice changes nothing";

/// Plants the mistake that `cargo xtask mutants` names, if this was built for it.
pub fn plant() {
    #[cfg(feature = "mutants")]
    if let Ok(name) = std::env::var("BURSAR_MUTANT") {
        scheduler_core::mutant::plant(&name);
    }
}

/// Whether a mistake was planted on purpose.
pub fn is_planted() -> bool {
    cfg!(feature = "mutants") && std::env::var_os("BURSAR_MUTANT").is_some()
}

/// Lives a story to its end, and checks at last that the log alone makes the same state.
pub fn check(text: &str) -> Story {
    let mut story = Story::new();
    story.tell(text);
    story.replay();
    story
}

pub fn span(text: &str) -> Span {
    let (number, unit) = text.split_at(text.len() - 1);
    let number: u64 = number.parse().unwrap_or_else(|_| panic!("{text} is a time like 3h, 5m, 10s"));
    match unit {
        "h" => Span::from_hours(number),
        "m" => Span::from_mins(number),
        "s" => Span::from_secs(number),
        "d" => Span::from_hours(24 * number),
        other => panic!("no such unit: {other}"),
    }
}

fn value<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

impl Story {
    pub fn new() -> Self {
        plant();
        Self {
            world: World::empty(),
            jobs: BTreeMap::new(),
            manners: BTreeMap::new(),
            nodes: BTreeMap::new(),
            lost: BTreeSet::new(),
            boots: BTreeMap::new(),
            tree: Vec::new(),
            is_planted: false,
            settings: Settings { allow_simulated: true, ..Settings::default() },
            starts: Vec::new(),
            seen: None,
            broken: Vec::new(),
            broke: 0,
            by: Span::from_mins(5),
        }
    }

    pub fn tell(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            self.line(line);
        }
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["budget", path, percent] => {
                self.tree.push(((*path).to_owned(), percent.parse().expect("a share in percent")));
                return;
            }
            ["window", time] => {
                self.settings.window = span(time);
                return;
            }
            ["dates", "off"] => {
                self.settings.dates = false;
                return;
            }
            ["burst", percent] => {
                self.settings.burst_limit_pct = percent.parse().expect("a limit in percent");
                return;
            }
            ["lane", percent] => {
                let percent: u32 = percent.parse().expect("a lane in percent");
                self.settings.short_lane_ppm = percent * 10_000;
                return;
            }
            ["margin", percent] => {
                self.settings.margin_ppm = percent.parse::<u32>().expect("a margin in percent") * 10_000;
                return;
            }
            _ => self.plant(),
        }
        match words.as_slice() {
            ["node", of, gpus, rest @ ..] => {
                let cluster = value(rest, "in").unwrap_or("main");
                let id = self.world.node_in(cluster, of, gpus.parse().expect("a number of GPUs"));
                self.nodes.insert((*of).to_owned(), id);
            }
            ["pool", of, clusters, rest @ ..] => self.pool(of, clusters, rest.first().copied()),
            ["submit", of, budget, shape, rest @ ..] => self.submit(of, budget, shape, rest),
            ["run", time, rest @ ..] => {
                self.by = value(rest, "by").map_or(Span::from_mins(5), span);
                self.run(span(time));
            }
            ["quiet", time] => {
                let before = self.starts.len();
                self.run(span(time));
                let more = &self.starts[before..];
                assert!(more.is_empty(), "nothing was to be decided, but {more:?}");
            }
            ["elect"] => {
                self.broke += 1;
                self.world.term = Term::new(self.world.term.get() + 1);
            }
            ["replay"] => self.replay(),
            ["share", path, percent, ..] => self.share(path, percent.parse().expect("a share in percent")),
            [verb, of] if self.word(verb, of) => {}
            _ => self.says(line, &words),
        }
    }

    /// The first line that is not about the tree makes the world.
    fn plant(&mut self) {
        if self.is_planted {
            return;
        }
        self.is_planted = true;
        self.world = World::with(self.settings.clone());
        self.edit("a first tree");
    }

    fn share(&mut self, path: &str, percent: u32) {
        let found = self.tree.iter_mut().find(|(of, _)| of == path);
        found.expect("a known budget").1 = percent;
        self.edit("another share");
    }

    fn pool(&mut self, of: &str, clusters: &str, weights: Option<&str>) {
        let weight = |word: &str| {
            let (kind, milli) = word.split_once(':').expect("a type and a weight");
            (label(kind), Weight::from_milli(milli.parse().expect("thousandths")).expect("a weight"))
        };
        let clusters = clusters.split(',').filter(|word| *word != "-").map(name).collect();
        let weights = weights.map_or_else(Vec::new, |words| words.split(',').map(weight).collect());
        self.world.must(person("ada"), Command::SetPool(SetPool { pool: name(of), clusters, weights }));
    }

    /// The tree as it stands in the story.
    pub fn root(&self) -> TreeNode {
        let leaf = |text: &str, percent: u32| TreeNode {
            pools: Default::default(),
            name: name(text),
            share: Share::from_ppm(percent * 10_000).expect("at most the whole"),
            owner: None,
            members: [name("bob")].into(),
            defaults: ContractDefaults::default(),
            children: Vec::new(),
        };
        let mut root = TreeNode { owner: Some(name("ada")), members: [].into(), ..leaf("lab", 100) };
        for (path, percent) in &self.tree {
            let (above, own) = path.rsplit_once('/').unwrap_or(("", path));
            let mut at = &mut root;
            for level in above.split('/').filter(|level| !level.is_empty()) {
                at =
                    at.children.iter_mut().find(|child| child.name.as_str() == level).expect("parents first");
            }
            at.children.push(leaf(own, *percent));
        }
        root
    }

    fn edit(&mut self, reason: &str) {
        let (root, base) = (self.root(), self.world.state.meta.tree);
        let edit = ApplyBudgets { root, base, reason: String::from(reason), at: None };
        self.world.must(person("ada"), Command::ApplyBudgets(edit));
    }

    fn submit(&mut self, of: &str, budget: &str, shape: &str, words: &[&str]) {
        let asked = asked(budget, shape, words);
        let id = self.world.submit("bob", asked);
        self.known(of, id, words);
    }

    /// Submits by a story's line; says whether it was taken.
    pub fn try_submit(&mut self, line: &str) -> bool {
        self.plant();
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["submit", of, budget, shape, words @ ..] = words.as_slice() else { panic!("{line}") };
        match self.world.apply(person("bob"), submission(asked(budget, shape, words))) {
            Ok(Outcome::Submitted { job }) => {
                self.known(of, job, words);
                true
            }
            _ => false,
        }
    }
    fn known(&mut self, of: &str, id: JobId, words: &[&str]) {
        let has = |word: &str| words.contains(&word);
        let manner = Manner {
            lasts: value(words, "lasts").map(span),
            saves: value(words, "saves").map(span),
            is_quick: has("quick"),
            is_stubborn: has("stubborn"),
            fails_on: value(words, "fails-on").map(|node| self.nodes[node]),
            ..Manner::default()
        };
        self.jobs.insert(of.to_owned(), id);
        self.manners.insert(id, manner);
    }

    /// A word about a job or a node; says whether it is one.
    fn word(&mut self, verb: &str, of: &str) -> bool {
        let reason = String::from("as the story has it");
        let job = self.jobs.get(of).copied();
        let node = self.nodes.get(of).copied();
        let about_job =
            |to: fn(JobWord) -> Command, reason: String| job.map(|job| to(JobWord { job, reason }));
        let about_node =
            |to: fn(NodeWord) -> Command, reason: String| node.map(|node| to(NodeWord { node, reason }));
        let drain = |urgency, reason| {
            node.map(|node| Command::Drain(DrainNode { node, urgency, begins_at: None, reason }))
        };
        let command = match verb {
            "cancel" => job.map(|job| Command::Cancel(Cancel { job, is_now: false, reason })),
            "hold" => about_job(Command::Hold, reason),
            "release" => about_job(Command::Release, reason),
            "requeue" => about_job(Command::Requeue, reason),
            "drain" => drain(Urgency::Normal, reason),
            "drain-now" => drain(Urgency::Now, reason),
            "undrain" => about_node(Command::Undrain, reason),
            "cordon" => about_node(Command::Cordon, reason),
            "uncordon" => about_node(Command::Uncordon, reason),
            "lose" | "back" | "reboot" => {
                self.broke += 1;
                self.contact(verb, of, node.expect("a known node"));
                return true;
            }
            _ => return false,
        };
        self.broke += 1;
        self.world.must(person("ada"), command.unwrap_or_else(|| panic!("nobody is called {of}")));
        true
    }

    fn contact(&mut self, verb: &str, of: &str, node: NodeId) {
        match verb {
            "lose" => {
                self.lost.insert(node);
                self.world.must(REPLICA, Command::NodeUnreachable { node });
            }
            "back" => {
                self.lost.remove(&node);
                self.world.must(REPLICA, Command::NodeBack { node });
            }
            _ => {
                let boots = self.boots.entry(node).or_insert(1);
                *boots += 1;
                let gpus = self.world.state.nodes.get(&node).map_or(0, |node| node.gpus.len());
                let gpus = u32::try_from(gpus).expect("few GPUs");
                let facts = facts(of, &format!("boot-{boots}"), gpus);
                self.world.must(Actor::Agent(node), Command::NodeFacts { node, facts });
            }
        }
    }

    /// Time passes: whoever has something to do does it, and after each change a plan is made.
    pub fn run(&mut self, span: Span) {
        let until = self.world.now.plus(span);
        self.moment();
        while self.world.now < until {
            let mut next = until.min(self.world.now.plus(self.by));
            let moments = self.moments();
            let times = moments.into_iter().chain(next_change(&self.world.state));
            next = times.filter(|at| self.world.now < *at).fold(next, |first, at| first.min(at));
            self.world.now = next;
            self.moment();
        }
    }

    /// All that happens now.
    pub fn moment(&mut self) {
        self.world.must(REPLICA, Command::Batch(Vec::new()));
        for _ in 0..64 {
            self.act();
            if self.world.state.line.is_empty() || !self.decide() {
                return;
            }
        }
        panic!("a moment without end");
    }

    /// A plan is made, and adopted whole; says whether it decided anything.
    fn decide(&mut self) -> bool {
        let links = Links::all_ready(&self.world.state);
        let World { known, state, now, term, .. } = &mut self.world;
        let made = planned(known, state, &links, *now, *term);
        if made.is_empty() {
            return false;
        }
        if let Some(seen) = self.seen {
            seen(&self.world.state, self.world.now, &made, &mut self.broken);
        }
        let count = made.decisions.len();
        let is_full = count >= Plan::DECISIONS_MAX
            || made.decisions.iter().filter(|start| !start.takes.is_empty()).count() >= Plan::TAKING_MAX;
        self.starts.extend(made.decisions.iter().cloned());
        match self.world.must(REPLICA, Command::Adopt(made)) {
            Outcome::Adopted { adopted, dropped } => {
                assert_eq!((usize::try_from(adopted), dropped), (Ok(count), Vec::new()));
            }
            other => panic!("a plan is answered with what was adopted, not {other:?}"),
        }
        if self.seen.is_some() && !is_full {
            self.plans_twice(&links);
        }
        true
    }

    /// With a plan adopted whole and nothing else having happened there is nothing more to decide.
    fn plans_twice(&mut self, links: &Links) {
        let World { known, state, now, term, .. } = &mut self.world;
        let again = planned(known, state, links, *now, *term);
        if !again.is_empty() && self.broken.iter().all(|(law, _)| *law != TWICE) {
            self.broken.push((TWICE, format!("at {now:?}: {again:?}")));
        }
    }

    pub fn replay(&self) {
        let digest = self.world.replayed().digest();
        assert_eq!(digest, self.world.state.digest(), "the log alone makes the same state");
    }

    pub fn id(&self, of: &str) -> JobId {
        *self.jobs.get(of).unwrap_or_else(|| panic!("nobody is called {of}"))
    }

    /// How often a node or a leader broke, or somebody was drained at once or cancelled.
    pub fn breaks(&self) -> usize {
        self.broke
    }

    /// Attempts that gave way so far.
    pub fn taken(&self) -> Vec<AttemptId> {
        self.starts.iter().flat_map(|start| &start.takes).map(|take| take.attempt).collect()
    }
}

fn asked(budget: &str, shape: &str, words: &[&str]) -> Request {
    let (nodes, gpus) = shape.split_once('x').unwrap_or(("1", shape));
    let has = |word: &str| words.contains(&word);
    let mut asked = Request {
        budget: budget.to_owned(),
        min_runtime: Some(if has("free") {
            Span::ZERO
        } else {
            value(words, "min").map_or(Span::from_hours(1), span)
        }),
        time_limit: value(words, "limit").map(span),
        cluster: value(words, "in").map(name),
        resumable: Some(!has("once")),
        checkpoint_every: value(words, "every").map(span),
        grace: value(words, "grace").map(span),
        retries: value(words, "retries").map_or(0, |text| text.parse().expect("a number")),
        turn: match () {
            () if has("first") => Some(Turn::First),
            () if has("last") => Some(Turn::Last),
            () => Some(Turn::Normal),
        },
        ..request(gpus.parse().expect("a number of GPUs"))
    };
    asked.shape.cpus = value(words, "cpus").map(|text| text.parse().expect("a number of cores"));
    asked.shape.memory = value(words, "memory").map(gib);
    asked.shape.nodes = nodes.parse().expect("a number of nodes");
    asked.shape.gpus_per_node = GpuCount::new(gpus.parse().expect("a number of GPUs"));
    asked
}
