//! What people say: submissions, words about jobs and nodes, edits of the tree, retries, and what odd clients do.

use scheduler_core::apply::broken;
use scheduler_core::array::Indexes;
use scheduler_core::budget::tree;
use scheduler_core::command::{
    ApplyBudgets, Cancel, Command, DrainNode, Entry, JobWord, Join, NodeWord, ResumeTime, SetNode, SetPool,
    SetTime, TimeSource,
};
use scheduler_core::id::{JobId, NodeId};
use scheduler_core::node::Urgency;
use scheduler_core::spec::{After, Request, Turn, Wants};
use scheduler_core::unit::{Bytes, GpuCount, Share, Span, Weight};

use super::History;
use crate::world::{REPLICA, join, label, name, person, principal, request, submission, token};

impl History {
    /// A few submissions, most of them good ones.
    pub fn submit(&mut self) {
        for _ in 0..=self.below(3) {
            let mut asked = self.good_request();
            let mut who = "bob";
            if self.one_in(4) {
                self.spoil(&mut asked);
                who = ["bob", "ada", "eve", "mallory"][self.below(4)];
            }
            let _ = self.apply(person(who), submission(asked));
        }
    }

    fn good_request(&mut self) -> Request {
        let mut asked = request([1, 1, 2, 2, 4][self.below(5)]);
        asked.name = label(["train", "eval", "sweep"][self.below(3)]);
        asked.budget = String::from(["lang/post", "lang/pre"][self.below(2)]);
        let minimums = [0, 0, 10, 10, 30, 120].map(Span::from_mins);
        asked.min_runtime = Some(minimums[self.below(6)]);
        asked.resumable = Some(!self.one_in(3));
        asked.requeue_code = self.one_in(3).then_some(75);
        asked.retries = u16::try_from(self.below(3)).expect("small");
        asked.checkpoint_every = self.one_in(3).then_some(Span::from_mins(15));
        asked.shape.cpus = self.one_in(6).then_some(16);
        asked.shape.nodes = [1, 1, 1, 2][self.below(4)];
        asked.turn = [None, Some(Turn::First), Some(Turn::Last)][self.below(3)];
        if self.one_in(8) {
            asked.asks.begin = Some(self.world.now.plus(Span::from_mins(u64::from(self.small(200)))));
        }
        if self.one_in(6) {
            for _ in 0..=self.below(2) {
                let wants = [Wants::End, Wants::Success][self.below(2)];
                asked.asks.after.push(After { job: self.some_job(), task: None, wants });
            }
        }
        if self.one_in(6) {
            let tasks = ["0-5%2", "0-30:10", "7,3,5%1", "0-400"][self.below(4)];
            asked.asks.array = Some(Indexes::parse(tasks).expect("a range"));
        }
        if self.one_in(8) {
            asked.shape.gpu_type = Some(label("a100"));
            asked.shape.or_types = vec![label("h100")];
        }
        asked.shape.within = (asked.shape.nodes > 1 && self.one_in(6)).then_some(1);
        if self.one_in(24) {
            let at = self.below(3);
            let some = self.world.state.nodes.values().nth(at);
            asked.asks.exclude = some.map(|node| node.name.clone()).into_iter().collect();
        }
        asked.grace = self.one_in(4).then_some(Span::from_secs(u64::from(self.small(300))));
        asked
    }

    fn spoil(&mut self, asked: &mut Request) {
        match self.below(7) {
            0 => asked.shape.gpus_per_node = GpuCount::new([0, 3, 9][self.below(3)]),
            1 => {
                let budgets = ["lab/lang/pre", "vision", "lang", "none"];
                asked.budget = String::from(budgets[self.below(4)]);
            }
            2 => asked.min_runtime = [None, Some(Span::from_mins(600))][self.below(2)],
            3 => asked.resumable = None,
            4 => asked.shape.memory = Some(Bytes::new(100 << 30)),
            5 => asked.shape.nodes = 3,
            _ => asked.is_held = true,
        }
    }

    fn some_job(&mut self) -> JobId {
        JobId::new(self.small(self.world.state.meta.next_job.get() + 1))
    }

    pub fn cancel(&mut self) {
        let job = self.some_job();
        let reason = String::from(["", "not needed any more"][self.below(2)]);
        let who = ["bob", "eve", "ada"][self.below(3)];
        let cancel = Cancel { job, is_now: self.one_in(2), reason };
        let _ = self.apply(person(who), Command::Cancel(cancel));
    }

    pub fn word_about_a_job(&mut self) {
        let word = JobWord { job: self.some_job(), reason: String::from(["", "so"][self.below(2)]) };
        let who = ["bob", "eve", "ada"][self.below(3)];
        let command = [Command::Hold, Command::Release, Command::Requeue][self.below(3)];
        let _ = self.apply(person(who), command(word));
    }

    pub fn word_about_a_node(&mut self) {
        let node = NodeId::new(self.small(6));
        let reason = String::from(["", "so", "so", "so"][self.below(4)]);
        let who = ["bob", "ada", "ada", "ada"][self.below(4)];
        let word = NodeWord { node, reason: reason.clone() };
        let command = match self.below(10) {
            9 => self.word_about_a_pool(),
            8 => {
                let topology =
                    [vec![], vec![name("b1")], vec![name("b2"), name("r1")]][self.below(3)].clone();
                Command::SetNode(SetNode { node, topology })
            }
            0 => Command::Cordon(word),
            1..3 => Command::Uncordon(word),
            3..6 => Command::Undrain(word),
            _ => {
                let later = self.world.now.plus(Span::from_mins(u64::from(self.small(200))));
                let deadline = later.plus(Span::from_mins(u64::from(self.small(90))));
                let begins_at = [None, Some(later)][self.below(2)];
                let urgency = [Urgency::Normal, Urgency::Deadline(deadline), Urgency::Now][self.below(3)];
                Command::Drain(DrainNode { node, urgency, begins_at, reason })
            }
        };
        let _ = self.apply(person(who), command);
    }

    fn word_about_a_pool(&mut self) -> Command {
        let pool = name(["main", "west", "west"][self.below(3)]);
        let clusters = [vec![], vec![name("main")], vec![name("main"), name("east")]][self.below(3)].clone();
        let weight = |milli| Weight::from_milli(milli).expect("a weight");
        let weights = match self.below(4) {
            0 => vec![],
            1 => vec![(label("h100"), weight(500))],
            2 => vec![(label("a100"), weight(250)), (label("nvidia"), weight(1_700))],
            _ => vec![(label("h100"), weight(1_000))],
        };
        Command::SetPool(SetPool { pool, clusters: clusters.into_iter().collect(), weights })
    }

    /// An operator brings everything back into service.
    pub fn repair(&mut self) {
        let end = Command::EndSafeMode { reason: String::from("looked at it") };
        let _ = self.apply(person("ada"), end);
        let _ = self.apply(person("ada"), Command::RevokePrincipal { name: name("bob") });
        let mut bob = principal("bob");
        bob.token = token(&format!("bob-{}", self.world.log.len()));
        let _ = self.apply(person("ada"), Command::AddPrincipal(bob));
        let base = self.world.state.meta.tree;
        let budgets =
            ApplyBudgets { root: crate::world::tree(), base, reason: String::from("as it was"), at: None };
        let _ = self.apply(person("ada"), Command::ApplyBudgets(budgets));
        let from = self.below(self.nodes.len());
        for at in from..self.nodes.len() {
            let node = self.nodes[at];
            let word = || NodeWord { node, reason: String::new() };
            let _ = self.apply(REPLICA, Command::NodeBack { node });
            let _ = self.apply(person("ada"), Command::Uncordon(word()));
            let _ = self.apply(person("ada"), Command::Undrain(word()));
        }
    }

    pub fn budgets(&mut self) {
        let mut root = tree(&self.world.state).expect("it was founded");
        let base = self.world.state.meta.tree;
        let ppm = 100_000 * self.small(6);
        let count = root.children.len();
        match self.below(6) {
            0 if count > 1 => {
                root.children.remove(self.below(count));
            }
            1..4 => {
                let mut back = crate::world::tree();
                root.children = core::mem::take(&mut back.children);
            }
            _ if count > 0 => {
                let at = self.below(count);
                root.children[at].share = Share::from_ppm(ppm).expect("at most 60 %");
            }
            _ => {}
        }
        let who = ["ada", "eve"][self.below(2)];
        let budgets = ApplyBudgets { root, base, reason: String::from("a change"), at: None };
        let _ = self.apply(person(who), Command::ApplyBudgets(budgets));
    }

    pub fn retry(&mut self) {
        if self.marked.is_empty() {
            return;
        }
        let at = self.below(self.marked.len());
        let again = self.marked[at].clone();
        let _ = self.entry(Entry { time: self.world.now, ..again });
    }

    pub fn odd(&mut self) {
        let end = || Command::EndSafeMode { reason: String::from("looked at it") };
        match self.below(9) {
            0 => {
                let rejoined = Join { credential: token("copied"), ..join("n0") };
                let _ = self.apply(REPLICA, Command::Join(rejoined));
            }
            1 => {
                let _ = self.apply(REPLICA, Command::Join(join("n1")));
            }
            2 => {
                let _ = self.apply(person("ada"), Command::RevokePrincipal { name: name("bob") });
            }
            3 => {
                let mut bob = principal("bob");
                bob.token = token(&format!("bob-{}", self.world.log.len()));
                let _ = self.apply(person("ada"), Command::AddPrincipal(bob));
            }
            4 => {
                // As the shell does after a panic; the replay must do the same, so only the mode's end is kept.
                let mut copy = self.world.state.clone();
                let index = copy.meta.index;
                assert!(broken(&mut copy, index, self.world.now, "a panic").is_err());
            }
            5 => {
                let _ = self.apply(person("mallory"), end());
            }
            6 => {
                let ahead = Span::from_mins(u64::from(self.small(300)));
                let to = [None, Some(self.world.now.plus(ahead))][self.below(2)];
                let set = SetTime { to, reason: String::from("by my watch") };
                if self.apply(person("ada"), Command::SetTime(set)).is_ok() {
                    self.world.now = self.world.now.max(self.world.state.meta.time);
                }
            }
            7 => {
                let from = [TimeSource::Agents, TimeSource::WallClock, TimeSource::LastEntry][self.below(3)];
                let resumed = ResumeTime { from, what: String::from("nobody knew") };
                let _ = self.apply(REPLICA, Command::ResumeTime(resumed));
            }
            _ => {
                let _ = self.apply(person("ada"), end());
            }
        }
    }
}
