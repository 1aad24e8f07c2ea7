//! The earliest time at which nodes of the right shape are free for a job, and of those the cheapest (DESIGN 6, Dates).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::fit::{Room, barred};
use super::free_at::{Free, Judge};
use super::idle::{Ask as Asked, Found, Idle, Spare, size};
use super::offers::{Look, Offers};
use super::price::price;
use super::taking::among;
use super::victims::{Ahead, Victims};
use super::{Line, Links};
use crate::date::{Awaited, How, Promise};
use crate::decision::{Basis, Price, Start, UseOf};
use crate::id::{AttemptId, JobId, Name, NodeId, Slot};
use crate::job::Job;
use crate::lifecycle::dates::no_good;
use crate::lifecycle::lane::{Lane, Part, gpus};
use crate::lifecycle::leaving;
use crate::lifecycle::need::{Need, attempts_on, could_hold, is_of_type, need, rate};
use crate::lifecycle::reserve::{self, Reserved, Stay, both, certain, claimed_until};
use crate::node::{Contact, Node};
use crate::spec::Shape;
use crate::state::State;
use crate::unit::{MilliGpus, Span, Timestamp};

/// Who needs a date.
pub(super) struct Wish<'a> {
    pub id: JobId,
    pub job: &'a Job,
    pub pool: &'a Name,
    /// When it was issued first: rights are judged as of then.
    pub issued_at: Timestamp,
}

/// What a round knows when it looks for a date.
pub(super) struct Seeker<'r, 'a> {
    state: &'a State,
    links: &'r Links,
    now: Timestamp,
    decided: &'r [Start],
    /// The decisions by node, and who leaves by them.
    placed: BTreeMap<NodeId, Vec<usize>>,
    leaving: BTreeSet<AttemptId>,
}

/// One node that could hold a part of the job.
struct Spot<'a> {
    id: NodeId,
    node: &'a Node,
    slots: Vec<Seat>,
    /// Who stays, with what else it has here.
    stays: Vec<(AttemptId, Option<Free>, Need)>,
    reserved: Reserved,
    need: Need,
    /// So many GPUs the job asks for here.
    wanted: usize,
    /// When it is free.
    at: Timestamp,
}

/// An attempt that has GPUs of a node, or is promised some.
struct Here {
    by: AttemptId,
    /// When they are free; none if nobody can say.
    free: Option<Free>,
    /// Whether it does not leave.
    stays: bool,
    slots: Vec<Slot>,
}

/// One GPU of it.
#[derive(Clone, Copy)]
struct Seat {
    slot: Slot,
    free: Free,
    /// Who has it, or gets it; none if it is idle.
    by: Option<AttemptId>,
}

impl<'r, 'a> Seeker<'r, 'a> {
    pub(super) fn new(state: &'a State, links: &'r Links, now: Timestamp, decided: &'r [Start]) -> Self {
        let mut placed: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (at, start) in decided.iter().enumerate() {
            start.on.iter().for_each(|(node, _)| placed.entry(*node).or_default().push(at));
        }
        let leaving = decided.iter().flat_map(|start| &start.takes).map(|take| take.attempt).collect();
        Self { state, links, now, decided, placed, leaving }
    }

    /// Returns the cores and memory of a node that decisions gave to those who may be protected beyond a moment.
    pub(super) fn placed_on(&self, id: NodeId, at: Timestamp) -> Need {
        let mut sum = Need::default();
        let Some(node) = self.state.nodes.get(&id) else { return sum };
        for start in self.placed.get(&id).into_iter().flatten().map(|at| &self.decided[*at]) {
            if let Some(job) = self.state.jobs.get(&start.job)
                && at < self.over_by(start, job)
            {
                sum = both(sum, need(&job.terms.shape, node));
            }
        }
        sum
    }

    /// Returns what a job can be promised: none if no nodes in service could ever hold it. Of several types of GPUs it
    /// is the one that is free first.
    pub(super) fn find(&self, line: &mut Line<'a>, wish: &Wish<'a>, idle: &Idle<'a>) -> Option<Promise> {
        let types = wish.job.terms.shape.of_each_type();
        let found = types.iter().filter_map(|shape| self.find_of(line, wish, shape, idle));
        found.min_by_key(|promise| promise.at)
    }

    fn find_of(
        &self,
        line: &mut Line<'a>,
        wish: &Wish<'a>,
        shape: &Shape,
        idle: &Idle<'a>,
    ) -> Option<Promise> {
        let wanted = size(shape.nodes);
        let barred = barred(self.state, wish.job);
        let is_able = |(id, node): &(&NodeId, &Node)| {
            let is_open = node.contact == Contact::Ready && node.cordon.is_none() && !node.is_draining();
            let is_in = wish.job.terms.cluster.as_ref().is_none_or(|cluster| *cluster == node.cluster);
            node.pool == *wish.pool && is_in && is_open && !barred.contains(*id) && could_hold(shape, node)
        };
        let able: Vec<(&NodeId, &'a Node)> = self.state.nodes.iter().filter(is_able).collect();
        if able.len() < wanted || wanted == 0 {
            return None;
        }
        let mut judge = Judge::new(self.state, self.now, wish);
        let spots = able.into_iter().filter_map(|(id, node)| {
            let mut reserved = idle.reserved(*id);
            reserved.remove(wish.id);
            self.spot(line, &mut judge, (wish, shape), (*id, node), reserved)
        });
        let spots: Vec<Spot<'a>> = spots.collect();
        let from = lane_from(self.state, wish, &self.decided_ends(wish.pool), self.now);
        let at = match wanted {
            1 => self.earliest(wish, &spots.iter().collect::<Vec<_>>(), (wanted, from)),
            _ => self.earliest_within(wish, &spots, (wanted, from), shape.within.unwrap_or(0)),
        }?;
        let until = claimed_until(self.state, wish.id, wish.job, at);
        let free = |spot: &&Spot<'a>| spot.at <= at && spot.is_good(wish.id, at, until);
        self.cheapest(line, (wish, shape), (at, until), &spots.iter().filter(free).collect::<Vec<_>>())
    }

    /// Looks at a node; none if it is never free for the job.
    fn spot(
        &self,
        line: &mut Line<'a>,
        judge: &mut Judge<'a>,
        (wish, shape): (&Wish<'a>, &Shape),
        (id, node): (NodeId, &'a Node),
        reserved: Reserved,
    ) -> Option<Spot<'a>> {
        let decided: Vec<&Start> =
            self.placed.get(&id).into_iter().flatten().map(|at| &self.decided[*at]).collect();
        let here: Vec<Here> =
            attempts_on(node).into_iter().map(|by| self.here(line, judge, id, by)).collect();
        let mut slots = Vec::with_capacity(node.gpus.len());
        for (slot, gpu) in (0_u16..).map(Slot::new).zip(&node.gpus) {
            if !gpu.is_present || !is_of_type(shape, gpu) {
                continue;
            }
            let is_ours =
                |start: &&&Start| start.on.iter().any(|(on, slots)| *on == id && slots.contains(&slot));
            let (by, free) = match (decided.iter().find(is_ours), gpu.next.or(gpu.holder)) {
                (Some(start), _) => (Some(of(start)), self.free_of_start(line, judge, start)),
                (None, None) => (None, Some(Free { at: self.now, how: How::Takeable })),
                (None, Some(by)) => {
                    // Nobody knows when a process that nobody placed is gone.
                    let known = here.iter().find(|here| here.by == by && here.slots.contains(&slot));
                    (Some(by), known.and_then(|here| here.free))
                }
            };
            let Some(free) = free else { continue };
            slots.push(after(&reserved, self.state, Seat { slot, free, by }));
        }
        let mut stays: Vec<_> = Vec::new();
        for Here { by, free, .. } in here.iter().filter(|here| here.stays) {
            let Some(job) = self.state.jobs.get(&by.job) else { continue };
            stays.push((*by, *free, need(&job.terms.shape, node)));
        }
        for start in decided {
            let Some(job) = self.state.jobs.get(&start.job) else { continue };
            stays.push((of(start), self.free_of_start(line, judge, start), need(&job.terms.shape, node)));
        }
        let need = need(shape, node);
        let wanted = size(shape.gpus_per_node.get());
        let mut spot = Spot { id, node, slots, stays, reserved, need, wanted, at: self.now };
        spot.at = self.free_from(wish, &spot, node.backoff_until.unwrap_or(self.now))?;
        Some(spot)
    }

    /// Returns when a node is free for the job, not before a moment.
    fn free_from(&self, wish: &Wish<'a>, spot: &Spot<'a>, from: Timestamp) -> Option<Timestamp> {
        spot.free_from(wish.id, from, |at| claimed_until(self.state, wish.id, wish.job, at))
    }

    /// Looks at an attempt on a node.
    fn here(&self, line: &mut Line<'a>, judge: &mut Judge<'a>, node: NodeId, by: AttemptId) -> Here {
        let Some(attempt) = self.state.attempts.get(&by) else {
            return Here { by, free: None, stays: false, slots: Vec::new() };
        };
        Here {
            by,
            free: self.free_of(line, judge, by),
            stays: !(attempt.is_leaving() || self.leaving.contains(&by)),
            slots: attempt.slots_on(node).collect(),
        }
    }

    fn free_of(&self, line: &mut Line<'a>, judge: &mut Judge<'a>, id: AttemptId) -> Option<Free> {
        let attempt = self.state.attempts.get(&id)?;
        if self.leaving.contains(&id) {
            let grace = self.state.jobs.get(&id.job).map_or(Span::ZERO, |job| job.terms.grace);
            return Some(Free { at: self.now.plus(grace), how: How::Leaves });
        }
        judge.attempt(line, id, attempt)
    }

    fn free_of_start(&self, line: &mut Line<'a>, judge: &mut Judge<'a>, start: &Start) -> Option<Free> {
        let job = self.state.jobs.get(&start.job)?;
        Some(judge.placed(line, start.job, job, self.over_by(start, job)))
    }

    fn over_by(&self, start: &Start, job: &Job) -> Timestamp {
        let of = (start.job, start.on.as_slice(), start.takes.as_slice());
        let latest_go = leaving::latest_go_of(self.state, of, |id| self.leaving.contains(id), self.now);
        certain(self.state, start.job, job).map_or(Timestamp::ZERO, |certain| latest_go.plus(certain))
    }

    /// Returns when those that were decided to start in a pool are past their protection at the latest.
    fn decided_ends(&self, pool: &Name) -> Vec<(&'a Job, Timestamp)> {
        let is_here = |start: &&Start| {
            let node = start.on.first().and_then(|(node, _)| self.state.nodes.get(node));
            node.is_some_and(|node| node.pool == *pool)
        };
        let ends = self.decided.iter().filter(is_here).filter_map(|start| {
            let job = self.state.jobs.get(&start.job)?;
            Some((job, self.over_by(start, job)))
        });
        ends.collect()
    }

    /// Returns the earliest time, not before one, at which enough nodes are free.
    fn earliest(
        &self,
        wish: &Wish<'a>,
        spots: &[&Spot<'a>],
        (wanted, from): (usize, Timestamp),
    ) -> Option<Timestamp> {
        let mut free: Vec<(Timestamp, &Spot<'a>)> = spots.iter().map(|spot| (spot.at, *spot)).collect();
        loop {
            free.sort_by_key(|(since, spot)| (*since, spot.id));
            let at = free.get(wanted - 1)?.0.max(from);
            let until = claimed_until(self.state, wish.id, wish.job, at);
            let mut is_at = true;
            free.retain_mut(|(since, spot)| {
                if *since > at || spot.is_good(wish.id, at, until) {
                    return true;
                }
                is_at = false;
                // A drain to come closes a node for what would not be over by then; another date's job that comes to
                // it with its cores is gone again later.
                let is_closed = no_good(spot.node, at, until).is_some();
                let again = if is_closed { None } else { self.free_from(wish, spot, at) };
                *since = again.unwrap_or(*since);
                again.is_some()
            });
            if is_at {
                return Some(at);
            }
        }
    }

    /// Returns the earliest time at which enough nodes of one cluster, and of one group of a level in it, are.
    fn earliest_within(
        &self,
        wish: &Wish<'a>,
        spots: &[Spot<'a>],
        wanted: (usize, Timestamp),
        level: u8,
    ) -> Option<Timestamp> {
        let mut groups: BTreeMap<(&Name, &[Name]), Vec<&Spot<'a>>> = BTreeMap::new();
        for spot in spots {
            if let Some(group) = spot.node.group(level) {
                groups.entry((&spot.node.cluster, group)).or_default().push(spot);
            }
        }
        groups.into_values().filter_map(|group| self.earliest(wish, &group, wanted)).min()
    }

    /// Reserves the cheapest of the nodes that are free at a time.
    fn cheapest(
        &self,
        line: &mut Line<'a>,
        (wish, shape): (&Wish<'a>, &Shape),
        (at, until): (Timestamp, Timestamp),
        spots: &[&Spot<'a>],
    ) -> Option<Promise> {
        let mut ordered: Vec<&Spot<'a>> = spots.to_vec();
        ordered.sort_by_key(|spot| spot.id);
        let idle = Idle::of_nodes(ordered.iter().map(|spot| spot.spare(at)).collect());
        let (list, uses) = self.ahead(line, at, &ordered);
        let victims = Victims::by_date(list, &idle);
        let rights = victims.all(&uses, &idle);
        let none = BTreeSet::new();
        let (barred, certain, latest_go, protection) = (&none, None, self.now, Span::ZERO);
        let (cluster, only) = (None, None);
        let ask = Asked { job: wish.id, shape, barred, cluster, only, certain, latest_go, protection };
        let places: Vec<usize> = (0..idle.nodes.len()).collect();
        let offers = &mut Offers::default();
        let look = &mut Look { ask: &ask, idle: &idle, victims: &victims, rights: &rights, offers };
        let found = among(look, &places)?;
        let takes = found.takes.iter().map(|victim| victims.get(*victim).id);
        let awaits = awaits(&ordered, &found.on, takes);
        Some(Promise { at, until, on: found.on, awaits })
    }

    /// Returns who is out of the way by then, each with what taking it would cost now, and the use of its budget.
    fn ahead(&self, line: &mut Line<'a>, at: Timestamp, spots: &[&Spot<'a>]) -> (Vec<Ahead<'a>>, Vec<UseOf>) {
        let mut on: BTreeMap<AttemptId, Vec<(NodeId, Vec<Slot>)>> = BTreeMap::new();
        for spot in spots {
            for by in spot.out_of_the_way(at) {
                let seats = spot.slots.iter().filter(|seat| seat.by == Some(by) && seat.free.at <= at);
                let slots = seats.filter(|seat| !seat.comes()).map(|seat| seat.slot).collect();
                on.entry(by).or_default().push((spot.id, slots));
            }
        }
        let (mut list, mut uses) = (Vec::new(), Vec::new());
        for (id, on) in on {
            let Some(job) = self.state.jobs.get(&id.job) else { continue };
            let price = match self.state.attempts.get(&id) {
                Some(attempt) => price(self.state, self.links, id, (attempt, job), self.now),
                None => self.price_of_new(id, job),
            };
            uses.push(line.used(job.budget));
            list.push(Ahead { id, job, price, on });
        }
        (list, uses)
    }

    /// Returns what taking would cost that was only decided: nothing but to start again.
    fn price_of_new(&self, id: AttemptId, job: &Job) -> Price {
        let on = self.decided.iter().filter(|start| of(start) == id).flat_map(|start| &start.on);
        let nodes = on.filter_map(|(node, _)| self.state.nodes.get(node));
        let rate = nodes.map(|node| rate(&job.terms.shape, node).get()).sum();
        Price {
            rate: MilliGpus::new(rate),
            lost: Span::ZERO,
            restart: job.progress.usual_restart(self.state.meta.settings.restart_guess),
            preemptions: job.progress.preemptions,
            saved_at: None,
            basis: Basis::Unknown,
        }
    }
}

/// Stands for nobody: no job has the number zero.
const NOBODY: AttemptId = AttemptId { job: JobId::new(0), no: crate::id::AttemptNo::new(0) };

fn of(start: &Start) -> AttemptId {
    AttemptId { job: start.job, no: start.attempt }
}

/// Returns from when on a job that starts leaves the short lane unprotected, by all that is protected now: at the
/// latest that is when all of it has ended.
fn lane_from(state: &State, wish: &Wish<'_>, decided: &[(&Job, Timestamp)], now: Timestamp) -> Timestamp {
    let Some(lane) = Lane::of(state, wish.pool, now) else { return now };
    let is_longer = |job: &Job| Part::of(&job.terms) == Part::Longer;
    let live =
        state.attempts.iter().filter(|(_, attempt)| attempt.pool == *wish.pool && !attempt.is_leaving());
    let live = live.filter_map(|(id, attempt)| Some((state.jobs.get(&id.job)?, reserve::over_by(attempt))));
    let all = live.chain(decided.iter().copied()).filter(|(job, until)| is_longer(job) && now < *until);
    let mut ends: Vec<(Timestamp, u32)> = all.map(|(job, until)| (until, gpus(&job.terms.shape))).collect();
    ends.sort_unstable();
    let protected = ends.iter().fold(0_u32, |sum, (_, gpus)| sum.saturating_add(*gpus));
    let (mut lane, mut from) = (Lane { protected, ..lane }, now);
    for (until, gpus) in ends {
        if lane.lets(&wish.job.terms) {
            break;
        }
        (from, lane.protected) = (until, lane.protected.saturating_sub(gpus));
    }
    from
}

/// A GPU that is reserved by earlier dates is free after the protection of their jobs.
fn after(reserved: &Reserved, state: &State, seat: Seat) -> Seat {
    let last = reserved.parts().filter(|part| part.slots.contains(&seat.slot)).max_by_key(|part| part.until);
    match last {
        Some(part) if part.until > seat.free.at => {
            let no = state.jobs.get(&part.job).map_or(NOBODY.no, |job| job.next_attempt);
            let free = Free { at: part.until, how: How::EarlierDate };
            Seat { free, by: Some(AttemptId { job: part.job, no }), ..seat }
        }
        Some(_) | None => seat,
    }
}

impl Seat {
    /// Whether nobody has to be taken for it: it is idle, or comes free.
    fn comes(&self) -> bool {
        self.by.is_none() || matches!(self.free.how, How::Leaves | How::EarlierDate)
    }
}

impl<'a> Spot<'a> {
    /// Returns when GPUs, cores and memory enough are free, not before a moment.
    fn free_from(
        &self,
        id: JobId,
        from: Timestamp,
        until: impl Fn(Timestamp) -> Timestamp,
    ) -> Option<Timestamp> {
        let mut times: Vec<Timestamp> = self.slots.iter().map(|seat| seat.free.at).collect();
        times.sort_unstable();
        let first = (*times.get(self.wanted.checked_sub(1)?)?).max(from);
        let later = self.stays.iter().filter_map(|(_, free, _)| free.map(|free| free.at));
        let mut moments: Vec<Timestamp> = vec![first];
        moments.extend(later.chain(self.reserved.parts().map(|part| part.until)).filter(|at| *at > first));
        moments.sort_unstable();
        moments
            .into_iter()
            .find(|at| self.has_room(&Stay { job: id, need: self.need, from: *at, until: until(*at) }))
    }

    /// Whether it is as free as it was, later than it was: drains may begin, and dates of others come.
    fn is_good(&self, id: JobId, at: Timestamp, until: Timestamp) -> bool {
        let stay = || Stay { job: id, need: self.need, from: at, until };
        no_good(self.node, at, until).is_none() && (self.reserved.is_empty() || self.has_room(&stay()))
    }

    fn has_room(&self, stay: &Stay) -> bool {
        let at = stay.from;
        let is_there = |free: &Option<Free>| free.is_none_or(|free| free.at > at);
        let stays = self.stays.iter().filter(|(_, free, _)| is_there(free)).map(|(_, _, need)| *need);
        let all = both(stays.fold(stay.need, both), self.reserved.need_at(at, stay.job));
        let whole = reserve::whole(self.node);
        reserve::fits(all, whole) && self.reserved.has_room(whole, stay)
    }

    /// Returns who could be taken by then, whatever it has here.
    fn out_of_the_way(&self, at: Timestamp) -> impl Iterator<Item = AttemptId> + '_ {
        let is_out = move |free: &Option<Free>| free.is_some_and(|free| free.at <= at);
        self.stays.iter().filter(move |(_, free, _)| is_out(free)).map(|(by, _, _)| *by)
    }

    /// Returns it as it is at a date.
    fn spare(&self, at: Timestamp) -> Spare<'a> {
        let free = |comes: fn(&Seat) -> bool| {
            let seats = self.slots.iter().filter(move |seat| seat.free.at <= at && comes(seat));
            seats.map(|seat| seat.slot).collect::<Vec<Slot>>()
        };
        // Nobody has left who does not leave by itself: whose cores or memory the job lacks would be taken too.
        let stays = self.stays.iter().map(|(_, _, need)| *need);
        let taken = both(stays.fold(Need::default(), both), self.reserved.need_at(at, NOBODY.job));
        let room = Room::of(self.node, taken);
        Spare {
            id: self.id,
            node: self.node,
            version: 0,
            slots: free(|seat| seat.by.is_none()).into(),
            coming: free(|seat| seat.by.is_some() && seat.comes()).into(),
            now: room,
            later: room,
            reserved: Reserved::default(),
            protected_until: Timestamp::ZERO,
        }
    }
}

/// Returns who has the GPUs that are reserved, and who else would be taken for its cores or memory; and when each of them
/// is out of the way.
fn awaits(spots: &[&Spot<'_>], on: &Found, takes: impl Iterator<Item = AttemptId>) -> Vec<Awaited> {
    let mut awaited: BTreeMap<AttemptId, Awaited> = BTreeMap::new();
    for (id, slots) in on {
        let seats = spots.iter().filter(|spot| spot.id == *id).flat_map(|spot| &spot.slots);
        for seat in seats.filter(|seat| slots.contains(&seat.slot)) {
            let Some(attempt) = seat.by else { continue };
            let Free { at: free_at, how } = seat.free;
            awaited.entry(attempt).or_insert(Awaited { attempt, gpus: 0, free_at, how }).gpus += 1;
        }
    }
    for attempt in takes {
        let stays = spots.iter().flat_map(|spot| &spot.stays).filter(|(by, _, _)| *by == attempt);
        if let Some(Free { at: free_at, how }) = stays.filter_map(|(_, free, _)| *free).next() {
            awaited.entry(attempt).or_insert(Awaited { attempt, gpus: 0, free_at, how });
        }
    }
    awaited.into_values().collect()
}
