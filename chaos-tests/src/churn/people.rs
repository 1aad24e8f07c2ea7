//! What people do all year.

use scheduler_core::budget::{TreeNode, find};
use scheduler_core::command::{
    AddPrincipal, ApplyBudgets, Blob, Cancel, Command, DrainNode, Entry, IssueJoinToken, JobWord, NodeWord,
    RequestMark, Submit,
};
use scheduler_core::id::{BodyHash, JobId, NodeId, SpecHash};
use scheduler_core::job::{Job, Phase};
use scheduler_core::node::Urgency;
use scheduler_core::spec::{Request, Turn};
use scheduler_core::unit::{GpuCount, Share, Span};

use super::machine::Machine;
use crate::world::{REPLICA, label, name, person, principal, request, token};

const TEAMS: [&str; 4] = ["lang", "vision", "robots", "tools"];
const LEAVES: [&str; 3] = ["a", "b", "c"];
const PEOPLE: [&str; 3] = ["bob", "eve", "mallory"];
/// Above so many waiting jobs people give up on some of theirs.
const PATIENCE: usize = 240;
/// What nodes read: some is shared by many jobs, as in a sweep.
const SPECS: u32 = 300;

/// The tree of the year's `season`: four teams, and some budgets that come and go.
pub(super) fn tree(season: u32, shares: [u32; 4]) -> TreeNode {
    let node = |text: &str, percent: u32, children: Vec<TreeNode>| TreeNode {
        pools: Default::default(),
        name: name(text),
        share: Share::from_ppm(percent * 10_000).expect("at most the whole"),
        owner: None,
        members: [].into(),
        defaults: Default::default(),
        children,
    };
    let team = |(team, percent): (&str, u32)| {
        node(team, percent, LEAVES.iter().map(|leaf| node(leaf, 33, Vec::new())).collect())
    };
    let mut children: Vec<TreeNode> = TEAMS.into_iter().zip(shares).map(team).collect();
    let passing = (0..6).map(|n| node(&format!("s{season}-{n}"), 10, Vec::new()));
    children.push(node("passing", 10, passing.collect()));
    TreeNode { owner: Some(name("ada")), members: PEOPLE.map(name).into(), ..node("lab", 100, children) }
}

impl Machine {
    /// A submission; some are refused, some come twice.
    pub(super) fn submit(&mut self, season: u32) {
        let asked = self.wish(season);
        let who = self.random.pick(&PEOPLE);
        let spec = self.random.below(SPECS);
        let bytes: Vec<u8> =
            format!("spec {spec} ").into_bytes().repeat(8 + usize::try_from(spec).unwrap_or(0));
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&spec.to_le_bytes());
        let launch = Blob { hash: SpecHash::new(hash), bytes: bytes.into() };
        // Refusals are part of it.
        let _ = self.ask(person(who), Command::Submit(Submit { request: asked, launch }));
    }

    fn wish(&mut self, season: u32) -> Request {
        let mut asked = request(self.random.pick(&[1, 1, 1, 2, 2, 4, 8]));
        asked.name = label(self.random.pick(&["train", "eval", "sweep", "tune"]));
        let (team, leaf) = (self.random.pick(&TEAMS), self.random.pick(&LEAVES));
        asked.budget = if self.random.one_in(20) {
            format!("passing/s{season}-{}", self.random.below(6))
        } else {
            format!("{team}/{leaf}")
        };
        let minimum = self.random.pick(&[0, 0, 20, 60, 120, 300]);
        asked.min_runtime = Some(Span::from_secs(minimum));
        asked.resumable = Some(!self.random.one_in(4));
        asked.requeue_code = self.random.one_in(3).then_some(75);
        asked.retries = u16::try_from(self.random.below(3)).unwrap_or(0);
        asked.checkpoint_every = self.random.one_in(3).then_some(Span::from_mins(1));
        asked.turn = self.random.pick(&[None, None, Some(Turn::First), Some(Turn::Last)]);
        asked.grace = self.random.one_in(4).then_some(Span::from_secs(20));
        if self.random.one_in(30) {
            asked.shape.nodes = 2;
        }
        match self.random.below(120) {
            0 => asked.shape.gpus_per_node = GpuCount::new(0),
            1 => asked.budget = String::from("lang"),
            2 => asked.min_runtime = None,
            3 => asked.is_held = true,
            4 => asked.shape.nodes = 3_000,
            _ => {}
        }
        asked
    }

    /// Words about jobs, nodes, trees and people, each as often as it would be.
    pub(super) fn words(&mut self, tick: u64, season: &mut u32) {
        if self.state.line.len() > PATIENCE {
            self.give_up();
        }
        if self.random.one_in(12) {
            self.word_about_a_job();
        }
        if self.random.one_in(8) {
            self.come_again();
        }
        if self.random.one_in(300) {
            self.word_about_a_node();
        }
        if tick.is_multiple_of(97) {
            self.reopen_nodes();
            self.look_at_held_jobs();
        }
        if self.random.one_in(900) {
            self.edit_the_tree(season);
        }
        if self.random.one_in(1_500) {
            self.people_come_and_go();
        }
    }

    fn give_up(&mut self) {
        let waiting = u32::try_from(self.state.line.len()).unwrap_or(u32::MAX);
        let skip = usize::try_from(self.random.below(waiting)).unwrap_or(0);
        let jobs: Vec<JobId> = self.state.line.keys().skip(skip).take(12).map(|place| place.job).collect();
        for job in jobs {
            let reason = String::from("waits too long");
            let _ = self.ask(person("ada"), Command::Cancel(Cancel { job, is_now: false, reason }));
        }
    }

    fn some_job(&mut self) -> JobId {
        let next = self.state.meta.next_job.get();
        JobId::new(next.saturating_sub(self.random.below(600)))
    }

    fn word_about_a_job(&mut self) {
        let job = self.some_job();
        let who = self.random.pick(&["bob", "eve", "ada"]);
        let reason = String::from(self.random.pick(&["", "so"]));
        let word = JobWord { job, reason: reason.clone() };
        let command = match self.random.below(8) {
            0..2 => Command::Hold(word),
            2..5 => Command::Release(word),
            5 => Command::Requeue(word),
            _ => Command::Cancel(Cancel { job, is_now: self.random.one_in(2), reason }),
        };
        let _ = self.ask(person(who), command);
    }

    /// A client repeats itself: late, with another body, or as it should.
    fn come_again(&mut self) {
        if self.marked.is_empty() {
            return;
        }
        let bound = u32::try_from(self.marked.len()).unwrap_or(u32::MAX);
        let at = usize::try_from(self.random.below(bound)).unwrap_or(0);
        let again = Entry { time: self.now, ..self.marked[at].clone() };
        let mark = again.request.filter(|_| self.random.one_in(20));
        let body = BodyHash::new([8; 32]);
        let request = mark.map(|mark| RequestMark { body, ..mark }).or(again.request);
        let _ = self.entry(Entry { request, ..again });
    }

    fn some_node(&mut self) -> NodeId {
        let next = self.state.meta.next_node.get();
        NodeId::new(1 + self.random.below(next.saturating_sub(1)))
    }

    fn word_about_a_node(&mut self) {
        let (node, reason) = (self.some_node(), String::from("a fan"));
        let later = self.now.plus(Span::from_mins(5));
        let deadline = later.plus(Span::from_mins(10));
        let command = match self.random.below(6) {
            0 => Command::Cordon(NodeWord { node, reason }),
            1..4 => {
                let begins_at = self.random.pick(&[None, Some(later)]);
                let urgency = self.random.pick(&[Urgency::Normal, Urgency::Deadline(deadline), Urgency::Now]);
                Command::Drain(DrainNode { node, urgency, begins_at, reason })
            }
            4 => Command::Uncordon(NodeWord { node, reason }),
            _ => Command::Undrain(NodeWord { node, reason }),
        };
        let _ = self.ask(person("ada"), command);
    }

    fn reopen_nodes(&mut self) {
        let closed =
            self.state.nodes.iter().filter(|(_, node)| node.cordon.is_some() || node.drain.is_some());
        let closed: Vec<NodeId> = closed.map(|(id, _)| *id).collect();
        for node in closed {
            let word = || NodeWord { node, reason: String::new() };
            let _ = self.ask(person("ada"), Command::Uncordon(word()));
            let _ = self.ask(person("ada"), Command::Undrain(word()));
        }
    }

    /// What was held long ago is released or given up.
    fn look_at_held_jobs(&mut self) {
        let now = self.now;
        let is_old = |job: &Job| match job.phase {
            Phase::Held { since, .. } => now.since(since) > Span::from_mins(30),
            Phase::Waiting { .. } | Phase::Live(_) | Phase::Ended { .. } => false,
        };
        let held: Vec<JobId> =
            self.state.jobs.iter().filter(|(_, job)| is_old(job)).map(|(id, _)| *id).collect();
        for job in held {
            let reason = String::from("held long enough");
            let command = if self.random.one_in(2) {
                Command::Cancel(Cancel { job, is_now: false, reason })
            } else {
                Command::Release(JobWord { job, reason })
            };
            let _ = self.ask(person("ada"), command);
        }
    }

    pub(super) fn edit_the_tree(&mut self, season: &mut u32) {
        let shares =
            self.random.pick(&[[30, 30, 20, 10], [10, 20, 30, 30], [22, 22, 22, 22], [60, 10, 10, 10]]);
        *season += self.random.below(2);
        let base = self.state.meta.tree;
        let reason = String::from("another quarter");
        let budgets = ApplyBudgets { root: tree(*season, shares), base, reason, at: None };
        let _ = self.ask(person("ada"), Command::ApplyBudgets(budgets));
        debug_assert!(find(&self.state, "lang/a").is_some());
    }

    fn people_come_and_go(&mut self) {
        let n = self.index;
        let who = format!("guest-{n}");
        let token_of = |what: &str| token(&format!("{what} {n}"));
        let guest = AddPrincipal { token: token_of("guest"), ..principal(&who) };
        let _ = self.ask(person("ada"), Command::AddPrincipal(guest));
        let _ = self.ask(person("ada"), Command::RevokePrincipal { name: name(&who) });
        let permission = IssueJoinToken {
            name: name(&format!("new-{n}")),
            pool: name("main"),
            token: token_of("join"),
            expires_at: self.now.plus(Span::from_hours(1)),
            topology: Vec::new(),
        };
        let _ = self.ask(person("ada"), Command::IssueJoinToken(permission));
        // Nobody may do that.
        let _ = self.apply(REPLICA, Command::RevokePrincipal { name: name("ada") });
    }
}
