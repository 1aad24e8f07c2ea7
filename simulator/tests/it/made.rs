//! A plausible week that nobody lived through: three budgets on 16 nodes of 8 GPUs, with preemptions, a node away, the
//! free tier and dates. Nothing decides in it: it is there to be measured and drawn.

use scheduler_core::unit::{Span, Timestamp};
use simulator::record::{
    AttemptEnd, AttemptRecord, BudgetRecord, Cause, DateRecord, GpuPlace, HeadRecord, JobEnd, JobRecord,
    NodeRecord, PreemptionRecord, Record,
};

/// A drawn sequence, equal for equal seeds (splitmix64).
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// Begins the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// How large a made week is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Nodes of 8 GPUs.
    pub nodes: usize,
    /// Days.
    pub days: u64,
}

/// The week that the tests look at.
pub const WEEK: Size = Size { nodes: 16, days: 7 };

/// When a made week begins.
pub fn begin() -> Timestamp {
    Timestamp::ZERO.plus(Span::from_hours(500_000))
}

/// Returns the moment so many minutes after the beginning.
pub fn at(minutes: u64) -> Timestamp {
    begin().plus(Span::from_mins(minutes))
}

/// Makes a week.
pub fn week(seed: u64, size: Size) -> Record {
    let mut record = Record {
        scenario: "made-week".to_owned(),
        policy: "bursar".to_owned(),
        variant: vec!["protection.cap=8h".to_owned()],
        seed,
        begin: begin(),
        end: at(size.days * 1440),
        window: Span::from_hours(48),
        cap: Span::from_hours(8),
        head_bound: Span::from_mins(510),
        nodes: (0..size.nodes).map(node).collect(),
        budgets: budgets(),
        rounds: 1000,
        entries: 2000,
        ..Record::default()
    };
    // The last node is away for a day in the middle.
    let away = (at(2 * 1440), at(3 * 1440));
    record.nodes.last_mut().expect("there are nodes").away = vec![away];
    let mut chance = Chance::new(seed);
    let last = size.nodes - 1;
    let mut at_node = 0;
    while at_node < size.nodes {
        // A part of the nodes works in eights and fours, as gangs do; the rest one by one, whole or slot by slot.
        let wide = match at_node % 16 {
            0 if at_node + 8 < last => 8,
            8 if at_node + 4 < last => 4,
            _ => 1,
        };
        let lanes = if wide == 1 && at_node % 3 == 1 { 8 } else { 1 };
        for lane in 0..lanes {
            let gpus =
                (at_node..at_node + wide).flat_map(|node| slots(node, lane, lanes)).collect::<Vec<_>>();
            let pauses = if at_node == last { vec![(2 * 1440, 3 * 1440)] } else { Vec::new() };
            lane_of(&mut record, &mut chance, &gpus, &pauses);
        }
        at_node += wide;
    }
    record.attempts.sort_by_key(|attempt| (attempt.placed_at, attempt.job));
    link(&mut record);
    record
}

fn node(place: usize) -> NodeRecord {
    NodeRecord { name: format!("node-{place:03}"), gpus: 8, away: Vec::new() }
}

fn budgets() -> Vec<BudgetRecord> {
    let budget =
        |path: &str, parent, share, is_leaf| BudgetRecord { path: path.to_owned(), parent, share, is_leaf };
    vec![
        budget("", None, 1.0, false),
        budget("language", Some(0), 0.5, true),
        budget("robotics", Some(0), 0.3, true),
        budget("science", Some(0), 0.2, true),
    ]
}

fn slots(node: usize, lane: u16, lanes: u16) -> impl Iterator<Item = GpuPlace> {
    let slots = if lanes == 1 { 0..8 } else { lane..lane + 1 };
    let node = u32::try_from(node).expect("a small number");
    slots.map(move |slot| GpuPlace::new(node, slot))
}

/// Fills some GPUs from the beginning to the end, one job after the other.
fn lane_of(record: &mut Record, chance: &mut Chance, gpus: &[GpuPlace], pauses: &[(u64, u64)]) {
    let end = record.end.since(record.begin).as_millis() / 60_000;
    let mut now = chance.below(120);
    while now < end {
        let protected = if chance.below(5) == 0 { 5 + chance.below(11) } else { 15 + chance.below(465) };
        let ran = protected + chance.below(600);
        if let Some((_, until)) = pauses.iter().find(|(from, until)| now + ran + 10 > *from && now < *until) {
            now = *until;
            continue;
        }
        let is_free = chance.below(6) == 0;
        let is_preempted = chance.below(3) > 0;
        let waited = chance.below(90);
        let job = record.jobs.len();
        let ended = now + ran;
        let is_over = ended <= end;
        let min = if is_free { 0 } else { protected };
        record.jobs.push(JobRecord {
            name: format!("job-{job}").into(),
            budget: 1 + usize::try_from(chance.below(3)).expect("a small number"),
            user: format!("user-{}", chance.below(9)).into(),
            submitted_at: at(now.saturating_sub(waited)),
            gpus: u32::try_from(gpus.len()).expect("a small number"),
            nodes: u32::try_from(gpus.len().div_ceil(8)).expect("a small number"),
            is_free,
            min_runtime: Span::from_mins(min),
            work: Span::from_mins(ran),
            is_resumable: false,
            ended: is_over
                .then(|| (at(ended), if is_preempted { JobEnd::Preempted } else { JobEnd::Completed })),
        });
        let go = now + if is_preempted { 2 } else { 0 };
        let end_of = if is_preempted { AttemptEnd::Preempted } else { AttemptEnd::ByItself };
        record.attempts.push(AttemptRecord {
            job,
            number: 1,
            gpus: gpus.into(),
            placed_at: at(now),
            go_at: Some(at(go)),
            started_at: Some(at(go)),
            protected_until: (!is_free).then(|| at(go + protected)),
            noticed_at: (is_over && is_preempted).then(|| at(ended - 2)),
            ended_at: is_over.then(|| at(ended)),
            freed_at: is_over.then(|| at(ended + 1)),
            end: is_over.then_some(end_of),
        });
        now = ended + 1 + if chance.below(4) == 0 { chance.below(240) } else { 0 };
    }
}

/// Says for whom each preemption was: the next job on the same GPUs; adds a head and a date.
fn link(record: &mut Record) {
    let mut preemptions = Vec::new();
    for (place, victim) in record.attempts.iter().enumerate() {
        let (Some(noticed), Some(AttemptEnd::Preempted)) = (victim.noticed_at, victim.end) else { continue };
        let next = record.attempts[place + 1..].iter().find(|next| {
            victim.gpus.first() == next.gpus.first()
                && victim.freed_at.is_some_and(|freed| freed <= next.placed_at)
        });
        let is_free = record.jobs[victim.job].is_free;
        let lost_mins = 5 + u64::try_from(place % 20).expect("a small number");
        let gpus = u64::try_from(victim.gpus.len()).expect("a small number");
        preemptions.push(PreemptionRecord {
            at: noticed,
            victim: place,
            taken_for: next.map(|next| next.job),
            cause: match (is_free, place % 9) {
                (true, _) => Cause::FreeTier,
                (false, 0) => Cause::Claim,
                (false, 1) => Cause::Turn,
                (false, 2) => Cause::Operator,
                (false, _) => Cause::Share,
            },
            lost_gpu_ms: gpus * lost_mins * 60_000,
            is_wasted: false,
        });
    }
    preemptions.sort_by_key(|preemption| preemption.at);
    record.preemptions = preemptions;
    let wide = record.jobs.iter().position(|job| job.gpus >= 32 && job.submitted_at > at(1440));
    if let Some(job) = wide {
        let since = record.jobs[job].submitted_at;
        let go = record.attempts.iter().find(|attempt| attempt.job == job).and_then(|attempt| attempt.go_at);
        let until = go.unwrap_or(record.end);
        record.heads.push(HeadRecord { job, since, until });
        record.dates.push(DateRecord {
            job,
            issued_at: since,
            first_at: until,
            at: until,
            moves_by_node: 0,
            moves_otherwise: 0,
        });
    }
}
