//! A site: machines with clocks of their own, agents that remember, and a log of stamps.

use scheduler_core::cluster_time::{
    BootTime, ClusterTime, Heard, Line, Reading, Source, Wall, Witnesses, look_at_walls,
};
use scheduler_core::command::TimeSource;
use scheduler_core::id::ReplicaId;
use scheduler_core::unit::{Span, Timestamp};

use crate::random::Random;

/// By how much a wall clock may be wrong, in ms: a day behind, an hour ahead, 40 years ahead.
pub const WRONG: [i64; 3] = [-86_400_000, 3_600_000, 40 * 365 * 86_400_000];

/// The wall clock at the beginning of a test.
const BEGIN: u64 = 1_795_972_127_000;

/// The longest way of a message there and back, in ms.
const WAY: u64 = 100;

struct Machine {
    /// When it booted, in ms since the beginning.
    booted: u64,
    /// By how much its wall clock is wrong.
    wall: i64,
    /// What its process wrote down on this boot.
    kept: Option<(Line, Source)>,
    time: ClusterTime,
}

/// All of it.
pub struct Site {
    passed: u64,
    machines: Vec<Machine>,
    /// Cluster time less time passed, as an agent carries it.
    agents: Vec<Option<u64>>,
    leader: usize,
    last_entry: Timestamp,
    alarm: bool,
}

impl Site {
    /// Founds a control plane; every agent has contact once.
    pub fn new(replicas: usize, agents: usize, random: &mut Random) -> Self {
        let machine = |booted| Machine {
            booted,
            wall: 0,
            kept: None,
            time: ClusterTime::resume(None, Timestamp::ZERO, BootTime::default()),
        };
        let mut site = Self {
            passed: 10_000_000,
            machines: (0..replicas).map(|_| machine(random.below(9_000_000))).collect(),
            agents: vec![None; agents],
            leader: 0,
            last_entry: Timestamp::ZERO,
            alarm: false,
        };
        let reading = site.reading(0);
        site.machines[0].time.found(reading);
        site.stamp();
        site.settle(random);
        site
    }

    pub fn replicas(&self) -> usize {
        self.machines.len()
    }

    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// What a right wall clock shows.
    pub fn real(&self) -> Timestamp {
        Timestamp::from_millis(BEGIN + self.passed)
    }

    pub fn pass(&mut self, ms: u64) {
        self.passed += ms;
    }

    /// The leader makes an entry, which every replica sees.
    pub fn stamp(&mut self) -> Timestamp {
        let boot = self.boot(self.leader);
        let now = self.machines[self.leader].time.at(boot).expect("a leader has cluster time");
        self.last_entry = self.last_entry.max(now);
        for at in 0..self.machines.len() {
            let boot = self.boot(at);
            self.machines[at].time.seen(self.last_entry, boot);
        }
        self.last_entry
    }

    pub fn restart(&mut self, at: usize) {
        let boot = self.boot(at);
        let machine = &mut self.machines[at];
        machine.kept = machine.time.line();
        machine.time = ClusterTime::resume(machine.kept, self.last_entry, boot);
        assert_eq!(machine.time.line(), machine.kept, "a good line is dropped");
    }

    /// Restarts a machine: nothing that was kept is of its boot; `wall` is what its clock is wrong by from now on.
    pub fn reboot(&mut self, at: usize, wall: i64) {
        let machine = &mut self.machines[at];
        (machine.booted, machine.wall, machine.kept) = (self.passed, wall, None);
        machine.time = ClusterTime::resume(None, self.last_entry, BootTime::default());
    }

    pub fn step_wall(&mut self, at: usize, wall: i64) {
        self.machines[at].wall = wall;
    }

    /// Restarts an agent's machine: it forgets. It has contact again before anything else happens, unless it is the last
    /// one that remembers.
    pub fn reboot_agent(&mut self, at: usize) {
        self.agents[at] = None;
    }

    /// Another replica leads.
    pub fn lead(&mut self, at: usize, random: &mut Random) {
        self.leader = at;
        self.settle(random);
    }

    pub fn has_alarm(&self) -> bool {
        self.alarm
    }

    /// By how much cluster time is ahead of a right wall clock.
    pub fn ahead_of_real(&mut self) -> i64 {
        let (stamp, real) = (self.stamp(), self.real());
        let ms = |span: Span| i64::try_from(span.as_millis()).expect("no ages");
        ms(stamp.since(real)) - ms(real.since(stamp))
    }

    /// Everybody asks whom they ask, and agents have contact with the leader.
    pub fn settle(&mut self, random: &mut Random) {
        self.resume();
        for at in 0..self.machines.len() {
            if at == self.leader {
                self.slew(random);
            } else {
                self.follow(at, random);
            }
        }
        let boot = self.boot(self.leader);
        let now = self.machines[self.leader].time.at(boot).expect("a leader has cluster time");
        let offset = now.as_millis() - self.passed;
        self.agents.iter_mut().for_each(|agent| *agent = Some(offset));
    }

    /// The leader finds out what time it is, if it does not know.
    fn resume(&mut self) {
        let reading = self.reading(self.leader);
        let others: Vec<Timestamp> =
            (0..self.machines.len()).filter_map(|at| self.machines[at].time.at(self.boot(at))).collect();
        let agents = self.agents.iter().flatten().map(|offset| Timestamp::from_millis(offset + self.passed));
        let agents: Vec<Timestamp> = agents.collect();
        let said = Witnesses {
            replicas: &others,
            agents: &agents,
            are_all: false,
            is_time_up: true,
            wall: reading.wall,
        };
        let time = &mut self.machines[self.leader].time;
        if time.ask(&said, reading.boot) {
            self.alarm |= time.to_say().is_some_and(|said| said.from == TimeSource::LastEntry);
            time.said();
        }
    }

    fn follow(&mut self, at: usize, random: &mut Random) {
        let way = random.below(WAY);
        let boot = self.boot(self.leader);
        let leader = self.machines[self.leader].time.at(boot).expect("a leader has cluster time");
        let earliest = leader.minus(Span::from_millis(random.below(way + 1)));
        let boot = self.boot(at);
        let heard = Heard { earliest, latest: earliest.plus(Span::from_millis(way)) };
        self.machines[at].time.follow(heard, boot);
    }

    fn slew(&mut self, random: &mut Random) {
        let reading = self.reading(self.leader);
        let wall = |at: usize| Wall {
            replica: ReplicaId::new(u64::try_from(at).expect("few")),
            at: self.reading(at).wall,
        };
        let walls: Vec<Wall> = (0..self.machines.len()).map(wall).collect();
        let heard = if walls.len() > 3 && random.one_in(3) { &walls[..3] } else { &walls[..] };
        let time = &mut self.machines[self.leader].time;
        let now = time.at(reading.boot).expect("a leader has cluster time");
        time.slew(look_at_walls(heard, now).ppm, reading.boot);
    }

    fn boot(&self, at: usize) -> BootTime {
        BootTime::from_millis(self.passed - self.machines[at].booted)
    }

    fn reading(&self, at: usize) -> Reading {
        let wall = self.real().as_millis().saturating_add_signed(self.machines[at].wall);
        Reading { boot: self.boot(at), wall: Timestamp::from_millis(wall) }
    }
}
