//! Which replicas count, and which can be spared: from what each says of itself, and what the leader says of the others.
//!
//! A replica counts when it answers, follows the leader in its term, has nearly all of the log, and its disk moves.
//! What is not known never counts.

use std::collections::BTreeSet;

use proto::v1;
use raft_store::{Member, ReplicaId};

use super::cluster::Gathered;

/// A replica that is no further behind has caught up.
const BEHIND: u64 = 200;
/// A leader that no majority has confirmed for so long may be none.
const UNCONFIRMED_MS: u64 = 5_000;
/// A disk that has not moved for so long may never move again.
const STALLED_MS: u64 = 1_000;
/// With less free space a replica soon takes nothing.
const DISK_LEAST: u64 = 64 << 20;

/// What can be said of replicas that are to be stopped together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the others go on without them.
    pub ok: bool,
    /// Why, or why not.
    pub says: String,
    /// What speaks against it, and will pass or can be mended.
    pub wait_for: Vec<String>,
    /// How many that vote.
    pub voters: usize,
    /// How many of them have to be there.
    pub needed: usize,
    /// How many that count would be left.
    pub left: usize,
}

impl Gathered {
    /// Returns what a replica said of itself.
    #[must_use]
    pub fn reply(&self, id: ReplicaId) -> Option<&v1::StandingReply> {
        self.replies.iter().find(|reply| reply.replica == id.get())
    }

    /// Returns what the leader says of itself; `None` if no replica that answers says that it leads now.
    #[must_use]
    pub fn leader(&self) -> Option<&v1::StandingReply> {
        let leads = self.replies.iter().filter(|reply| reply.role == "leader");
        leads.max_by_key(|reply| reply.term)
    }

    /// Returns what the leader knows of a replica.
    #[must_use]
    pub fn known_to_leader(&self, id: ReplicaId) -> Option<&v1::PeerStanding> {
        self.leader()?.peers.iter().find(|peer| peer.replica == id.get())
    }

    /// Returns why a replica does not count; `None` if it does.
    #[must_use]
    pub fn doubt(&self, id: ReplicaId) -> Option<String> {
        let Some(reply) = self.reply(id) else { return Some(format!("r{id} does not answer")) };
        let Some(leader) = self.leader() else { return Some(no_leader()) };
        if leader.quorum_ack_ms.is_some_and(|ms| ms > UNCONFIRMED_MS) {
            return Some(format!("no majority has confirmed r{} as leader lately", leader.replica));
        }
        if reply.disk_stall_ms >= STALLED_MS {
            return Some(format!("the disk of r{id} has not moved for {} ms", reply.disk_stall_ms));
        }
        if reply.disk_bytes > 0 && reply.disk_free_bytes < DISK_LEAST {
            return Some(format!("the disk of r{id} is full"));
        }
        if reply.replica == leader.replica {
            return None;
        }
        if reply.term != leader.term || reply.leader != Some(leader.replica) {
            return Some(format!("r{id} does not follow r{}", leader.replica));
        }
        let Some(known) = self.known_to_leader(id) else {
            return Some(format!("r{} does not know how far r{id} is", leader.replica));
        };
        if let (Some(sent), Some(parts)) = (known.snapshot_sent, known.snapshot_parts) {
            return Some(format!("r{id} is being sent a snapshot, part {sent} of {parts}"));
        }
        (known.lag > BEHIND).then(|| format!("r{id} is catching up, {} entries behind", known.lag))
    }

    /// Judges whether replicas can be stopped together.
    #[must_use]
    pub fn judge(&self, stopped: &BTreeSet<ReplicaId>) -> Verdict {
        let voters = &self.standing.voters;
        let needed = voters.len() / 2 + 1;
        let rest: Vec<_> = voters.iter().copied().filter(|id| !stopped.contains(id)).collect();
        let doubts: Vec<_> = rest.iter().map(|id| self.doubt(*id)).collect();
        let left: Vec<_> =
            rest.iter().zip(&doubts).filter(|(_, doubt)| doubt.is_none()).map(|(id, _)| *id).collect();
        let mut wait_for: Vec<String> = doubts.into_iter().flatten().collect();
        wait_for.dedup();
        let verdict = |ok, says: String, wait_for| Verdict {
            ok,
            says,
            wait_for,
            voters: voters.len(),
            needed,
            left: left.len(),
        };
        if self.leader().is_none() {
            return verdict(false, no_leader(), vec!["a leader".to_owned()]);
        }
        if !stopped.iter().any(|id| voters.contains(id)) {
            return verdict(true, "it has no vote: nothing rests on it".to_owned(), Vec::new());
        }
        if self.standing.is_changing {
            let wait = vec!["the end of a change of who votes".to_owned()];
            return verdict(false, "a change of who votes is half done".to_owned(), wait);
        }
        if rest.is_empty() {
            let says =
                if stopped.len() == 1 { "it is the only one that votes" } else { "nobody would be left" };
            return verdict(false, says.to_owned(), Vec::new());
        }
        let uncounted = stopped.iter().all(|id| !voters.contains(id) || self.doubt(*id).is_some());
        let names = list(&left);
        if left.len() < needed {
            let says = match left.len() {
                0 => format!("nobody that counts would be left, {needed} are needed"),
                1 => format!("{names} alone would be left, {needed} are needed"),
                _ => format!("{names} would be left, {needed} are needed"),
            };
            // More were never there: waiting helps nothing.
            return verdict(false, says, wait_for);
        }
        let says = if uncounted {
            format!("not counted on now; {names} go on")
        } else if left.len() == needed {
            format!("{names} go on, and none of them may be lost meanwhile")
        } else {
            format!("{names} go on")
        };
        verdict(true, says, Vec::new())
    }

    /// Returns which more could be stopped at the same time.
    #[must_use]
    pub fn together(&self, stopped: &BTreeSet<ReplicaId>) -> Vec<ReplicaId> {
        let mut all = stopped.clone();
        let mut more = Vec::new();
        let others = self.standing.members.iter().map(|member| member.id).filter(|id| !stopped.contains(id));
        for id in others {
            all.insert(id);
            if self.judge(&all).ok {
                more.push(id);
            } else {
                all.remove(&id);
            }
        }
        more
    }

    /// Returns what has to be known before replicas are stopped, also where nothing speaks against it.
    #[must_use]
    pub fn warnings(&self, stopped: &BTreeSet<ReplicaId>) -> Vec<String> {
        let mut warnings = Vec::new();
        let leads = self.leader().map(|leader| ReplicaId::new(leader.replica));
        if let Some(id) = leads.filter(|id| stopped.contains(id)) {
            warnings
                .push(format!("r{id} leads: stopped by TERM it hands over first, in a fraction of a second"));
        }
        let rest = self.standing.members.iter().filter(|member| !stopped.contains(&member.id));
        for member in rest {
            let alarms = self.reply(member.id).map(|reply| reply.alarms.as_slice()).unwrap_or_default();
            warnings.extend(alarms.iter().map(|alarm| format!("r{} says: {alarm}", member.id)));
        }
        let learners = stopped.iter().filter(|id| !self.standing.voters.contains(id) && self.is_known(**id));
        warnings.extend(learners.map(|id| format!("r{id} is joining: that goes on when it is back")));
        warnings
    }

    fn is_known(&self, id: ReplicaId) -> bool {
        self.standing.members.iter().any(|member| member.id == id)
    }
}

fn no_leader() -> String {
    "no replica that answers leads".to_owned()
}

/// Returns numbers as a list in words.
fn list(ids: &[ReplicaId]) -> String {
    let mut text = String::new();
    for (n, id) in ids.iter().enumerate() {
        let before = match n {
            0 => "",
            n if n + 1 == ids.len() => " and ",
            _ => ", ",
        };
        text.push_str(&format!("{before}r{id}"));
    }
    text
}

/// Returns a replica's view.
#[must_use]
pub fn view(member: &Member, gathered: &Gathered) -> v1::ReplicaView {
    let reply = gathered.reply(member.id);
    let newest = gathered.replies.iter().map(|reply| reply.applied).max().unwrap_or(0);
    let verdict = gathered.judge(&BTreeSet::from([member.id]));
    let known = gathered.known_to_leader(member.id);
    let entries =
        |reply: &v1::StandingReply| Some(reply.last_log?.saturating_sub(reply.purged.unwrap_or_default()));
    v1::ReplicaView {
        replica: member.id.get(),
        client: member.client_addr.clone(),
        peer: member.peer_addr.clone(),
        role: reply.map_or_else(|| "no answer".to_owned(), |reply| reply.role.clone()),
        version: reply.map(|reply| reply.version.clone()),
        applied: reply.map(|reply| reply.applied),
        behind: reply.map(|reply| newest.saturating_sub(reply.applied)),
        trouble: reply.and_then(|reply| reply.trouble.clone()),
        votes: gathered.standing.voters.contains(&member.id),
        ok_to_stop: verdict.ok,
        ok_to_stop_says: verdict.says,
        last_log: reply.and_then(|reply| reply.last_log),
        snapshot: reply.and_then(|reply| reply.snapshot),
        log_entries: reply.and_then(entries),
        log_bytes: reply.map(|reply| reply.log_bytes),
        snapshot_bytes: reply.map(|reply| reply.snapshot_bytes),
        disk_free_bytes: reply.map(|reply| reply.disk_free_bytes),
        disk_bytes: reply.map(|reply| reply.disk_bytes),
        up_ms: reply.map(|reply| reply.up_ms),
        snapshot_sent: known.and_then(|known| known.snapshot_sent),
        snapshot_parts: known.and_then(|known| known.snapshot_parts),
        alarms: reply.map(|reply| reply.alarms.clone()).unwrap_or_default(),
        cluster_time_at: reply.and_then(|reply| reply.cluster_time_at),
        digest: reply.map(|reply| reply.digest.clone()),
    }
}

#[cfg(test)]
mod tests {
    use raft_store::Status;

    use super::*;

    fn id(number: u64) -> ReplicaId {
        ReplicaId::new(number)
    }

    fn ids(numbers: &[u64]) -> BTreeSet<ReplicaId> {
        numbers.iter().copied().map(ReplicaId::new).collect()
    }

    fn member(number: u64) -> Member {
        Member { id: id(number), peer_addr: format!("p{number}"), client_addr: format!("c{number}") }
    }

    /// `count` replicas that all count, r1 leads.
    fn gathered(count: u64) -> Gathered {
        let all = || 1..=count;
        let peers = all().skip(1).map(|replica| v1::PeerStanding { replica, ..Default::default() });
        let peers: Vec<_> = peers.collect();
        let reply = |replica: u64| v1::StandingReply {
            replica,
            role: if replica == 1 { "leader" } else { "follower" }.to_owned(),
            term: 4,
            leader: Some(1),
            quorum_ack_ms: (replica == 1).then_some(20),
            peers: if replica == 1 { peers.clone() } else { Vec::new() },
            ..Default::default()
        };
        let standing = Status {
            members: all().map(member).collect(),
            voters: all().map(id).collect(),
            ..Default::default()
        };
        Gathered { standing, replies: all().map(reply).collect() }
    }

    fn check(gathered: &Gathered, stopped: &[u64], ok: bool, says: &str) {
        let verdict = gathered.judge(&ids(stopped));
        assert_eq!((verdict.ok, verdict.says.as_str()), (ok, says), "{stopped:?}: {verdict:?}");
    }

    #[test]
    fn majority_that_counts_is_enough() {
        check(&gathered(3), &[1], true, "r2 and r3 go on, and none of them may be lost meanwhile");
        check(&gathered(3), &[1, 2], false, "r3 alone would be left, 2 are needed");
        check(&gathered(5), &[1], true, "r2, r3, r4 and r5 go on");
        check(&gathered(5), &[2, 4], true, "r1, r3 and r5 go on, and none of them may be lost meanwhile");
        check(&gathered(5), &[2, 3, 4], false, "r1 and r5 would be left, 3 are needed");
        check(&gathered(1), &[1], false, "it is the only one that votes");
        check(&gathered(2), &[2], false, "r1 alone would be left, 2 are needed");
    }

    #[test]
    fn what_is_not_known_never_counts() {
        let mut unknown = gathered(3);
        unknown.replies.retain(|reply| reply.replica != 3);
        check(&unknown, &[2], false, "r1 alone would be left, 2 are needed");
        assert_eq!(unknown.judge(&ids(&[2])).wait_for, ["r3 does not answer"]);
        check(&unknown, &[3], true, "not counted on now; r1 and r2 go on");
        let mut silent = gathered(3);
        silent.replies[0].peers.retain(|peer| peer.replica != 3);
        assert_eq!(silent.judge(&ids(&[2])).wait_for, ["r1 does not know how far r3 is"]);
        let mut nobody = gathered(3);
        nobody.replies[0].role = "candidate".to_owned();
        check(&nobody, &[2], false, "no replica that answers leads");
    }

    #[test]
    fn replica_that_lags_or_is_sent_a_snapshot_or_cannot_write_does_not_count() {
        let mut lags = gathered(3);
        lags.replies[0].peers[1].lag = 40_112;
        check(&lags, &[2], false, "r1 alone would be left, 2 are needed");
        assert_eq!(lags.judge(&ids(&[2])).wait_for, ["r3 is catching up, 40112 entries behind"]);
        let mut snapshot = gathered(3);
        (snapshot.replies[0].peers[1].snapshot_sent, snapshot.replies[0].peers[1].snapshot_parts) =
            (Some(3), Some(9));
        assert_eq!(snapshot.judge(&ids(&[2])).wait_for, ["r3 is being sent a snapshot, part 3 of 9"]);
        let mut stalls = gathered(3);
        stalls.replies[2].disk_stall_ms = 4_000;
        assert_eq!(stalls.judge(&ids(&[1])).wait_for, ["the disk of r3 has not moved for 4000 ms"]);
        let mut full = gathered(3);
        (full.replies[2].disk_bytes, full.replies[2].disk_free_bytes) = (1 << 40, 1 << 20);
        assert_eq!(full.judge(&ids(&[1])).wait_for, ["the disk of r3 is full"]);
        let mut elsewhere = gathered(3);
        elsewhere.replies[2].term = 3;
        assert_eq!(elsewhere.judge(&ids(&[1])).wait_for, ["r3 does not follow r1"]);
        let mut alone = gathered(3);
        alone.replies[0].quorum_ack_ms = Some(60_000);
        assert!(!alone.judge(&ids(&[2])).ok);
        let mut changing = gathered(3);
        changing.standing.is_changing = true;
        check(&changing, &[2], false, "a change of who votes is half done");
    }

    #[test]
    fn learner_can_always_be_stopped_and_more_can_go_together() {
        let mut joining = gathered(3);
        joining.standing.members.push(member(1007));
        check(&joining, &[1007], true, "it has no vote: nothing rests on it");
        assert_eq!(joining.together(&ids(&[2])), [id(1007)]);
        assert!(joining.warnings(&ids(&[1007])).iter().any(|warning| warning.contains("is joining")));
        assert_eq!(gathered(5).together(&ids(&[2])), [id(1)]);
        assert_eq!(gathered(5).together(&ids(&[2, 3])), []);
        assert!(gathered(3).warnings(&ids(&[1])).iter().any(|warning| warning.contains("r1 leads")));
    }

    #[test]
    fn alarm_of_one_that_stays_is_a_warning() {
        let mut alarmed = gathered(3);
        alarmed.replies[2].alarms = vec!["its clock is off".to_owned()];
        assert_eq!(alarmed.warnings(&ids(&[2])), ["r3 says: its clock is off"]);
        assert!(alarmed.judge(&ids(&[2])).ok);
        assert_eq!(alarmed.warnings(&ids(&[3])), [] as [String; 0]);
    }
}
