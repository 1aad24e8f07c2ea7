//! Changes of the replicas: who leads, who comes, who goes, who can be spared.
//!
//! Any replica takes such a call, checks that an operator makes it, and passes it on to the leader. Each is a step that
//! can be repeated, at whoever leads then.

use std::collections::BTreeSet;
use std::time::Duration;

use proto::v1;
use raft_store::{ReplicaId, Status as Standing, change};
use scheduler_core::command::{Code, Rejection};
use tonic::{Request, Status};

use super::cluster::gathered;
use crate::clock::Moment;
use crate::hand_over;
use crate::peers::Client;
use crate::refusal;
use crate::shared::Shared;

/// A replica that has been silent for so long is not there.
const SILENT_MS: u64 = 5_000;
/// One that leads next is no further behind.
const BEHIND: u64 = 1_000;
/// How long the leader may take for a step.
const ONE_STEP: Duration = Duration::from_secs(20);

/// Hands leadership over.
pub async fn transfer(
    shared: &Shared,
    asked: Request<v1::TransferLeaderRequest>,
) -> Result<v1::TransferLeaderReply, Status> {
    operator(shared, &asked).await?;
    let request = asked.into_inner();
    match leader(shared)? {
        None => transfer_here(shared, request).await,
        Some(mut there) => passed(there.transfer_leader(request)).await,
    }
}

/// Says whether replicas can be stopped.
pub async fn ok_to_stop(
    shared: &Shared,
    asked: Request<v1::OkToStopRequest>,
) -> Result<v1::OkToStopView, Status> {
    let _caller = shared.admit(asked.metadata()).await?;
    let request = asked.into_inner();
    let stopped: BTreeSet<_> = request.replicas.iter().copied().map(ReplicaId::new).collect();
    if stopped.is_empty() {
        return Err(refusal::bad(&proto::Error::bad("replicas", "name one at least")));
    }
    let gathered = gathered(shared).await;
    let is_member = |id: &&ReplicaId| gathered.standing.members.iter().any(|member| member.id == **id);
    if let Some(unknown) = stopped.iter().find(|id| !is_member(id)) {
        return Err(no_such(*unknown));
    }
    let verdict = gathered.judge(&stopped);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(v1::OkToStopView {
        schema: "ok-to-stop/v1".to_owned(),
        ok: verdict.ok,
        replicas: request.replicas,
        says: verdict.says,
        wait_for: verdict.wait_for,
        warnings: gathered.warnings(&stopped),
        together: gathered.together(&stopped).into_iter().map(ReplicaId::get).collect(),
        voters: count(verdict.voters),
        needed: count(verdict.needed),
        left: count(verdict.left),
    })
}

/// Lets replicas join, one step of it.
pub async fn add(shared: &Shared, asked: Request<v1::AddMembersRequest>) -> Result<v1::MembersView, Status> {
    operator(shared, &asked).await?;
    let request = asked.into_inner();
    match leader(shared)? {
        None => add_here(shared, request).await,
        Some(mut there) => passed(there.add_members(request)).await,
    }
}

/// Removes a replica, or says what that would do.
pub async fn remove(
    shared: &Shared,
    asked: Request<v1::RemoveMemberRequest>,
) -> Result<v1::RemoveMemberReply, Status> {
    operator(shared, &asked).await?;
    let request = asked.into_inner();
    match leader(shared)? {
        None => remove_here(shared, request).await,
        Some(mut there) => passed(there.remove_member(request)).await,
    }
}

/// Checks that an operator asks.
async fn operator<T>(shared: &Shared, asked: &Request<T>) -> Result<(), Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, true).await?;
    let is_operator = read.view.state.principals.get(&caller.name).is_some_and(|who| who.is_operator);
    if is_operator {
        return Ok(());
    }
    Err(refusal::status(&Rejection::new(
        Code::NotAllowed,
        format!("{} may not change the replicas", caller.name),
        "operators do",
        "ask an operator".to_owned(),
    )))
}

/// Returns a client of the leader, `None` if that is this replica.
fn leader(shared: &Shared) -> Result<Option<Client>, Status> {
    let standing = shared.standing();
    if standing.is_leader() {
        return Ok(None);
    }
    let leader = standing.leader.ok_or_else(refusal::no_leader)?;
    shared.peers.at(&leader.peer_addr).map(Some).ok_or_else(refusal::no_leader)
}

/// Waits for the leader's answer. One that cannot be reached may be no leader any more.
async fn passed<T>(call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(ONE_STEP, call).await {
        Ok(Ok(reply)) => Ok(reply.into_inner()),
        Ok(Err(status)) if status.details().is_empty() => Err(refusal::no_leader()),
        Ok(Err(status)) => Err(status),
        Err(_) => Err(refusal::no_leader()),
    }
}

/// Hands leadership over, on the leader.
pub async fn transfer_here(
    shared: &Shared,
    request: v1::TransferLeaderRequest,
) -> Result<v1::TransferLeaderReply, Status> {
    let standing = shared.standing();
    let own = shared.log.identity().ok_or_else(refusal::waiting)?.replica;
    let to = match request.to.map(ReplicaId::new) {
        Some(to) => to,
        None => best(&standing, &BTreeSet::new()).ok_or_else(|| {
            refused("no other replica can lead now", "none that votes answers and has caught up", STATUS)
        })?,
    };
    let reply = |took_ms| v1::TransferLeaderReply {
        schema: "leader/v1".to_owned(),
        from: own.get(),
        to: to.get(),
        took_ms,
    };
    if to == own {
        return Ok(reply(0));
    }
    if let Some(peer) = standing.peers.get(&to).filter(|_| standing.voters.contains(&to)) {
        if peer.silent_ms.is_none_or(|silent| silent >= SILENT_MS) {
            return Err(refused(&format!("r{to} cannot lead: it does not answer"), "", STATUS));
        }
        if peer.lag > BEHIND || peer.snapshot.is_some() {
            let what = format!("r{to} cannot lead yet: it is {} entries behind", peer.lag);
            return Err(refused(&what, "the others would wait for it", STATUS));
        }
    }
    let begun = Moment::now();
    hand_over::to(shared, to).await.map_err(|error| said(&error))?;
    Ok(reply(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)))
}

/// Returns who should lead next: the replica that has most of the log, of those that answer and are not in `without`.
fn best(standing: &Standing, without: &BTreeSet<ReplicaId>) -> Option<ReplicaId> {
    let candidates = standing.peers.iter().filter(|(id, peer)| {
        let is_there = peer.silent_ms.is_some_and(|silent| silent < SILENT_MS) && peer.lag <= BEHIND;
        standing.voters.contains(id) && is_there && !without.contains(id)
    });
    candidates.max_by_key(|(_, peer)| peer.matched).map(|(id, _)| *id)
}

/// Lets replicas join, one step of it, on the leader.
pub async fn add_here(shared: &Shared, request: v1::AddMembersRequest) -> Result<v1::MembersView, Status> {
    if request.members.is_empty() || request.members.len() > 9 {
        return Err(refusal::bad(&proto::Error::bad("members", "one to nine")));
    }
    let own = shared.log.identity().ok_or_else(refusal::waiting)?.replica;
    let replaces: BTreeSet<_> = request.replaces.iter().copied().map(ReplicaId::new).collect();
    if replaces.contains(&own) {
        // Who leads cannot replace itself.
        let to = best(&shared.standing(), &replaces).ok_or_else(refusal::no_leader)?;
        hand_over::to(shared, to).await.map_err(|error| said(&error))?;
        return Err(refusal::no_leader());
    }
    let mut members = Vec::new();
    for asked in &request.members {
        let joined = shared.log.add_learner(&asked.peer, &asked.client).await;
        members.push(joined.map_err(|error| said(&error))?);
    }
    let stands = |id| shared.log.joining(id);
    let can_vote = |id| stands(id).is_some_and(|joining| joining.votes || joining.has_caught_up());
    if members.iter().all(|member| can_vote(member.id)) {
        let ids = members.iter().map(|member| member.id).collect();
        match shared.log.promote(&ids, &replaces).await {
            Ok(()) | Err(change::Error::Behind { .. }) => {}
            Err(error) => return Err(said(&error)),
        }
    }
    let standing = shared.standing();
    let joining = members.iter().map(|member| {
        let peer = standing.peers.get(&member.id);
        let snapshot = peer.and_then(|peer| peer.snapshot);
        v1::JoiningView {
            replica: member.id.get(),
            client: member.client_addr.clone(),
            peer: member.peer_addr.clone(),
            votes: member.id == own || standing.voters.contains(&member.id),
            behind: peer.filter(|peer| peer.matched.is_some()).map(|peer| peer.lag),
            snapshot_sent: snapshot.map(|sending| sending.sent),
            snapshot_parts: snapshot.map(|sending| sending.parts),
        }
    });
    let joining: Vec<_> = joining.collect();
    let is_replaced = !standing.members.iter().any(|member| replaces.contains(&member.id));
    let done = is_replaced && joining.iter().all(|one| one.votes);
    Ok(v1::MembersView { schema: "members/v1".to_owned(), done, joining })
}

/// Removes a replica, or says what that would do; on the leader.
pub async fn remove_here(
    shared: &Shared,
    request: v1::RemoveMemberRequest,
) -> Result<v1::RemoveMemberReply, Status> {
    let standing = shared.standing();
    let id = ReplicaId::new(request.replica);
    if !standing.members.iter().any(|member| member.id == id) {
        return Err(no_such(id));
    }
    let own = shared.log.identity().ok_or_else(refusal::waiting)?.replica;
    let effect = Effect::of(&standing, own, id);
    effect.check()?;
    if !request.dry {
        shared.log.remove_member(id).await.map_err(|error| said(&error))?;
    }
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(v1::RemoveMemberReply {
        schema: "removal/v1".to_owned(),
        removed: !request.dry,
        effect: effect.says(),
        voters: count(effect.voters),
        needed: count(effect.voters / 2 + 1),
        left: count(effect.there),
    })
}

/// What is left when a replica goes.
struct Effect {
    id: ReplicaId,
    leads: bool,
    votes: bool,
    /// How many vote then.
    voters: usize,
    /// How many of those answer now.
    there: usize,
}

impl Effect {
    fn of(standing: &Standing, own: ReplicaId, id: ReplicaId) -> Self {
        let is_there = |voter: &ReplicaId| {
            let silent = standing.peers.get(voter).and_then(|peer| peer.silent_ms);
            *voter == own || silent.is_some_and(|silent| silent < SILENT_MS)
        };
        let voters: Vec<_> = standing.voters.iter().copied().filter(|voter| *voter != id).collect();
        Self {
            id,
            leads: id == own,
            votes: standing.voters.contains(&id),
            voters: voters.len(),
            there: voters.iter().filter(|voter| is_there(voter)).count(),
        }
    }

    fn check(&self) -> Result<(), Status> {
        let Self { id, voters, there, .. } = *self;
        if self.votes && voters == 0 {
            let what = format!("r{id} is the only replica that votes: without it there is no control plane");
            return Err(refused(&what, "", "add another one first: bursar cluster member add ADDRESS"));
        }
        let needed = voters / 2 + 1;
        if self.votes && there < needed {
            let what = format!("r{id} cannot go now: of the {voters} that would vote then {there} answer");
            let why = format!("{needed} are needed to decide anything, the removal itself included");
            return Err(refused(
                &what,
                &why,
                "remove the replicas that do not answer first, or bring them back",
            ));
        }
        Ok(())
    }

    fn says(&self) -> String {
        let Self { id, voters, there, .. } = *self;
        if !self.votes {
            return format!("r{id} goes; it has no vote, so nothing changes for the others");
        }
        let spare = there - (voters / 2 + 1);
        let over = if self.leads { "; it leads, and hands over first" } else { "" };
        let lost = match spare {
            0 => "none of them may be lost then".to_owned(),
            1 => "one of them may be lost then".to_owned(),
            n => format!("{n} of them may be lost then"),
        };
        format!("r{id} goes{over}; {voters} vote then, {there} of them answer, {lost}")
    }
}

const STATUS: &str = "bursar cluster status";

fn no_such(id: ReplicaId) -> Status {
    refusal::not_found(format!("there is no replica r{id}"))
}

fn refused(what: &str, why: &str, fix: &str) -> Status {
    refusal::status(&Rejection::new(Code::Members, what.to_owned(), why, fix.to_owned()))
}

/// Says in words why a change was not made.
fn said(error: &change::Error) -> Status {
    let chain = || {
        let mut why = String::new();
        let mut next = std::error::Error::source(error);
        while let Some(source) = next {
            why = format!("{why}{}{source}", if why.is_empty() { "" } else { ": " });
            next = source.source();
        }
        why
    };
    let waits = "start it on an empty data directory, with the peer secret of the others: bursar server";
    match error {
        change::Error::NotLeader { .. } | change::Error::Stopped | change::Error::Timeout => {
            refusal::no_leader()
        }
        change::Error::NoSuchMember(id) => no_such(*id),
        change::Error::NoVote(id) => {
            refused(&format!("r{id} cannot lead: it has no vote"), "it is joining", STATUS)
        }
        change::Error::Taken { .. } => refused(
            &error.to_string(),
            "a replica comes back under a new number only",
            "bursar server rebuild there",
        ),
        change::Error::Unreachable { .. } => refused(&error.to_string(), "", waits),
        change::Error::Invite(_) => refused("the replica was not invited", &chain(), waits),
        change::Error::LastMember(_)
        | change::Error::Behind { .. }
        | change::Error::NoMajority { .. }
        | change::Error::TooMany(_)
        | change::Error::Refused(_) => refused(&error.to_string(), &chain(), STATUS),
    }
}

#[cfg(test)]
mod tests {
    use raft_store::{Member, Peer};

    use super::*;

    fn standing(silent: &[(u64, Option<u64>)]) -> Standing {
        let ids: Vec<_> = (1..=1 + u64::try_from(silent.len()).unwrap()).map(ReplicaId::new).collect();
        let member =
            |id: &ReplicaId| Member { id: *id, peer_addr: String::new(), client_addr: String::new() };
        let peer = |(id, silent_ms): &(u64, Option<u64>)| {
            (ReplicaId::new(*id), Peer { matched: Some(9), silent_ms: *silent_ms, ..Peer::default() })
        };
        Standing {
            members: ids.iter().map(member).collect(),
            voters: ids,
            peers: silent.iter().map(peer).collect(),
            ..Standing::default()
        }
    }

    fn effect(silent: &[(u64, Option<u64>)], id: u64) -> Result<String, String> {
        let effect = Effect::of(&standing(silent), ReplicaId::new(1), ReplicaId::new(id));
        effect.check().map(|()| effect.says()).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn removal_says_what_is_left_and_never_takes_the_majority_away() {
        let all = [(2, Some(10)), (3, Some(10))];
        let says = "r3 goes; 2 vote then, 2 of them answer, none of them may be lost then";
        assert_eq!(effect(&all, 3), Ok(says.to_owned()));
        assert!(effect(&all, 1).unwrap().contains("it leads, and hands over first"));
        let dead = [(2, Some(10)), (3, None)];
        assert!(effect(&dead, 3).is_ok(), "the dead one may go");
        assert_eq!(
            effect(&dead, 2),
            Err("r2 cannot go now: of the 2 that would vote then 1 answer".to_owned())
        );
        assert!(effect(&[], 1).unwrap_err().contains("only replica that votes"));
        let five = [(2, Some(10)), (3, Some(10)), (4, Some(10)), (5, Some(10))];
        assert!(effect(&five, 5).unwrap().ends_with("one of them may be lost then"));
    }

    #[test]
    fn next_leader_answers_and_has_most_of_the_log() {
        let mut three = standing(&[(2, Some(10)), (3, Some(10))]);
        three.peers.get_mut(&ReplicaId::new(3)).unwrap().matched = Some(10);
        assert_eq!(best(&three, &BTreeSet::new()), Some(ReplicaId::new(3)));
        assert_eq!(best(&three, &BTreeSet::from([ReplicaId::new(3)])), Some(ReplicaId::new(2)));
        three.peers.get_mut(&ReplicaId::new(3)).unwrap().silent_ms = None;
        assert_eq!(best(&three, &BTreeSet::new()), Some(ReplicaId::new(2)));
    }
}
