//! What is wrong, from what replicas and nodes said.

use std::collections::{BTreeMap, BTreeSet};

use proto::v1::{ClusterView, NodeView, ReplicaView};
use serde::Serialize;

use super::gather::Gathered;
use crate::form::duration;
use crate::form::text::thousands;

/// A replica further behind than this is no help when another is lost.
const BEHIND: u64 = 1_000;
/// A log this long since its last snapshot is slow to start from.
const LOG_LONG: u64 = 250_000;
/// Work waits beside idle GPUs, and nobody has looked for this long.
const PLAN_OLD_MS: u64 = 120_000;
/// Less than this part of the disk, in percent, is little.
const DISK_LITTLE: u64 = 5;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work now.
    Error,
    /// Something may soon not work, or is no help when something else fails.
    Warning,
    /// Good to know; nothing is wrong.
    Note,
}

impl Severity {
    /// Returns its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: `cluster`, `r2`, `node-07`, an address, a folder.
    pub about: String,
    /// A token that does not change its meaning.
    pub reason: &'static str,
    /// A sentence.
    pub says: String,
    /// What to type, or to do.
    pub fix: String,
}

/// The findings so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(
        &mut self,
        (severity, reason): (Severity, &'static str),
        about: impl Into<String>,
        says: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (about, says, fix) = (about.into(), says.into(), fix.into());
        self.0.push(Finding { severity, about, reason, says, fix });
    }
}

/// Returns what is wrong, the worst first.
pub fn diagnose(gathered: &Gathered) -> Vec<Finding> {
    let mut findings = Findings::default();
    addresses(gathered, &mut findings);
    // The view of a leader if there is one; else the newest that any replica has.
    let newest = gathered.replicas.values().filter_map(|one| one.view.as_ref());
    let newest = newest.max_by_key(|view| view.as_of.map_or(0, |as_of| as_of.index));
    if let Some(view) = gathered.view.as_ref().or(newest) {
        replicas(gathered, view, &mut findings);
        cluster(view, &mut findings);
        alarms(gathered, view, &mut findings);
    }
    nodes(gathered, &mut findings);
    let mut findings = findings.0;
    findings.sort();
    findings.dedup();
    findings
}

/// What addresses say that answer, or do not, before anything is known of a control plane.
fn addresses(gathered: &Gathered, out: &mut Findings) {
    let answering = gathered.replicas.values().filter(|one| one.hello.is_some()).count();
    if answering == 0 {
        let tried: Vec<&str> = gathered.replicas.keys().map(String::as_str).collect();
        let why = gathered.replicas.values().find(|one| !one.why.is_empty()).map(|one| one.why.as_str());
        let says = format!(
            "no replica can be reached ({}): {}; running jobs are not touched by that",
            tried.join(", "),
            why.unwrap_or("no answer")
        );
        let fix = "on each replica's machine: systemctl status bursar-server, and bursar doctor --data DIR";
        out.add((Severity::Error, "cluster.unreachable"), "cluster", says, fix);
        return;
    }
    for (address, one) in &gathered.replicas {
        let Some(hello) = &one.hello else { continue };
        if hello.role == "waiting" {
            let says =
                format!("the replica at {address} belongs to no control plane: its data directory is empty");
            let fix =
                format!("bursar cluster member add {address}; or bursar cluster init, if there is none yet");
            out.add((Severity::Warning, "replica.waiting"), address, says, fix);
        } else if hello.role == "removed" {
            let says = format!("the replica at {address} was removed, and is about to end");
            out.add((Severity::Note, "replica.removed"), address, says, "nothing");
        }
    }
    let members: BTreeSet<&String> =
        gathered.replicas.values().filter_map(|one| one.hello.as_ref()).flat_map(|h| &h.replicas).collect();
    for address in gathered.context.iter().filter(|_| !members.is_empty()) {
        let is_silent = gathered.replicas.get(address).is_some_and(|one| one.hello.is_none());
        if is_silent && !members.contains(address) {
            let says = format!("{address} of the context is no address of a replica any more");
            let fix = "bursar context add NAME --servers …, with those of bursar cluster status -o wide";
            out.add((Severity::Note, "context.outdated"), address, says, fix);
        }
    }
    let token = gathered.replicas.values().any(|one| one.hello.is_some() && one.view.is_none());
    if gathered.view.is_none() && token && gathered.replicas.values().all(|one| one.view.is_none()) {
        let why = gathered.replicas.values().map(|one| one.why.as_str()).find(|why| !why.is_empty());
        let says = format!("replicas answer, but say nothing more: {}", why.unwrap_or("there is no token"));
        out.add((Severity::Error, "cluster.mute"), "cluster", says, "bursar whoami; bursar context list");
    }
}

/// What is wrong with replicas.
fn replicas(gathered: &Gathered, view: &ClusterView, out: &mut Findings) {
    let voters: Vec<&ReplicaView> = view.replicas.iter().filter(|replica| replica.votes).collect();
    let answering = voters.iter().filter(|replica| replica.role != "no answer").count();
    let needed = voters.len() / 2 + 1;
    if gathered.view.is_none() {
        let says = if answering < needed {
            format!(
                "there is no leader: of {} replicas that vote {answering} answer, {needed} are needed; nothing is \
                 accepted or placed, running jobs go on",
                voters.len()
            )
        } else {
            format!("there is no leader, although {answering} of {} replicas answer", voters.len())
        };
        let fix = "start those that do not answer: bursar server -c FILE; their own logs say why they ended";
        out.add((Severity::Error, "cluster.no-leader"), "cluster", says, fix);
    }
    for replica in &view.replicas {
        one_replica(replica, view, out);
    }
    if voters.len() > 1 && voters.len().is_multiple_of(2) {
        let says =
            format!("{} replicas vote: as many as {} could lose no more", voters.len(), voters.len() - 1);
        let fix = "bursar cluster member add ADDRESS, or bursar cluster member remove R";
        out.add((Severity::Warning, "cluster.even"), "cluster", says, fix);
    }
    if view.changing {
        let says = "a change of who votes is half done; the leader ends it by itself";
        out.add((Severity::Warning, "cluster.changing"), "cluster", says, "bursar cluster status");
    }
    digests(view, out);
}

fn one_replica(replica: &ReplicaView, view: &ClusterView, out: &mut Findings) {
    let name = format!("r{}", replica.replica);
    if replica.role == "no answer" {
        let says = format!("{name} at {} does not answer", replica.client);
        let fix = format!(
            "on its machine: bursar server -c FILE; if it says that its data is damaged: bursar server rebuild -c \
             FILE; if the machine is gone: bursar cluster member remove {name}"
        );
        return out.add((Severity::Error, "replica.down"), name, says, fix);
    }
    if !replica.votes {
        let says = format!("{name} is joining and has no vote yet");
        let fix = format!("bursar cluster member add {},{}", replica.client, replica.peer);
        out.add((Severity::Warning, "replica.joining"), name.clone(), says, fix);
    }
    if let Some(behind) = replica.behind.filter(|behind| *behind > BEHIND) {
        let says = format!("{name} is {} entries behind", thousands(&behind.to_string()));
        let fix = "wait, bursar cluster status shows it come closer; if it does not, look at its disk";
        out.add((Severity::Warning, "replica.behind"), name.clone(), says, fix);
    }
    if let (Some(free), Some(size)) = (replica.disk_free_bytes, replica.disk_bytes)
        && size > 0
        && u128::from(free) * 100 < u128::from(size) * u128::from(DISK_LITTLE)
    {
        let says =
            format!("the disk of {name} is nearly full: {} MiB of {} are free", free >> 20, size >> 20);
        let fix = "free space outside its data directory; nothing inside may be deleted by hand";
        out.add((Severity::Error, "replica.disk"), name.clone(), says, fix);
    }
    if let Some(entries) = replica.log_entries.filter(|entries| *entries > LOG_LONG) {
        let says = format!(
            "the log of {name} holds {} entries: its last snapshot is old",
            thousands(&entries.to_string())
        );
        let fix = "look at its log for why it makes none; snapshot_every says how often it should";
        out.add((Severity::Warning, "replica.snapshot-old"), name.clone(), says, fix);
    }
    for alarm in &replica.alarms {
        let fix = fix_of(alarm);
        out.add((Severity::Warning, "replica.alarm"), name.clone(), format!("{name} says: {alarm}"), fix);
    }
    let versions: BTreeSet<_> = view.replicas.iter().filter_map(|one| one.version.as_ref()).collect();
    let newest = versions.last();
    if versions.len() > 1 && replica.version.as_ref() != newest.copied() {
        let has = replica.version.clone().unwrap_or_default();
        let says = format!("{name} runs {has}, another replica {}", newest.map_or("", |newest| newest));
        let fix = format!("bursar cluster ok-to-stop {name}, then start it with the newer program");
        out.add((Severity::Warning, "cluster.versions"), name, says, fix);
    }
}

/// Returns what to do about an alarm, as far as its words tell.
fn fix_of(alarm: &str) -> &'static str {
    let has = |word: &str| alarm.contains(word);
    if has("cluster time") || has("clock") || has("wall") {
        "bursar cluster time shows everybody's clocks; check that machine's (chronyc tracking)"
    } else if has("MiB") || has("free") {
        "free space outside its data directory; nothing inside may be deleted by hand"
    } else if has("round of planning") {
        "bursar cluster transfer-leader, and keep the log of the replica that led"
    } else if has("history") {
        "it is fetched from another replica by itself; bursar cluster status shows when it is there"
    } else {
        "bursar cluster status -o wide; the replica's own log says more"
    }
}

/// Replicas that have applied the same have to hold the same.
fn digests(view: &ClusterView, out: &mut Findings) {
    let mut by_index: BTreeMap<u64, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for replica in &view.replicas {
        if let (Some(applied), Some(digest)) = (replica.applied, replica.digest.as_deref()) {
            let same = by_index.entry(applied).or_default().entry(digest).or_default();
            same.push(format!("r{}", replica.replica));
        }
    }
    for (index, digests) in by_index.iter().filter(|(_, digests)| digests.len() > 1) {
        let groups: Vec<String> = digests.values().map(|names| names.join(" and ")).collect();
        let says = format!("replicas differ after the same entry, {index}: {}", groups.join(" from "));
        let fix = "keep a copy of all data directories and report it; then rebuild the one that differs";
        out.add((Severity::Error, "cluster.differs"), "cluster", says, fix);
    }
}

/// What is wrong with the control plane as a whole.
fn cluster(view: &ClusterView, out: &mut Findings) {
    if let Some(what) = &view.safe_mode {
        let says = format!("safe mode: no job is started, running work goes on ({what})");
        let fix = "keep a copy of a replica's data directory, report it, then bursar cluster safe-mode end --reason TEXT";
        out.add((Severity::Error, "cluster.safe-mode"), "cluster", says, fix);
    }
    let idle: u32 = view.pools.iter().map(|pool| pool.idle).sum();
    let now = view.as_of.as_ref().map_or(0, |as_of| as_of.time_at);
    let age = view.last_plan_at.map(|at| now.saturating_sub(at));
    if let Some(age) = age.filter(|age| view.jobs_waiting > 0 && idle > 0 && *age > PLAN_OLD_MS) {
        let says = format!(
            "{} jobs wait, {idle} GPUs are idle, and the last plan is {} old",
            view.jobs_waiting,
            duration::long(age)
        );
        let fix = "bursar queue, bursar explain JOB; bursar cluster transfer-leader if nothing moves";
        out.add((Severity::Warning, "cluster.planning"), "cluster", says, fix);
    }
    if view.simulated_allowed {
        let says = "nodes with simulated GPUs may join: right for trying, wrong for work";
        let fix = "found the control plane for real work without --allow-simulated";
        out.add((Severity::Note, "cluster.simulated"), "cluster", says, fix);
    }
}

/// What the control plane as a whole raises an alarm about, and no replica or node alone.
fn alarms(gathered: &Gathered, view: &ClusterView, out: &mut Findings) {
    let of_replica = |alarm: &str| {
        let said = view.replicas.iter().flat_map(|one| one.alarms.iter().map(|said| (one.replica, said)));
        said.into_iter().any(|(replica, said)| alarm == format!("r{replica}: {said}"))
    };
    let of_node = |alarm: &str| gathered.nodes.iter().any(|node| alarm.starts_with(node.name.as_str()));
    for alarm in view.alarms.iter().filter(|alarm| !of_replica(alarm) && !of_node(alarm)) {
        out.add((Severity::Warning, "cluster.alarm"), "cluster", alarm.as_str(), fix_of(alarm));
    }
}

/// What is wrong with nodes.
fn nodes(gathered: &Gathered, out: &mut Findings) {
    let versions: BTreeSet<&str> = gathered
        .nodes
        .iter()
        .map(|node| node.agent_version.as_str())
        .filter(|text| !text.is_empty())
        .collect();
    if versions.len() > 1 {
        let all: Vec<&str> = versions.into_iter().collect();
        let says = format!("agents run different versions: {}", all.join(", "));
        out.add((Severity::Warning, "node.versions"), "nodes", says, "bursar node list -o wide");
    }
    for node in &gathered.nodes {
        one_node(node, gathered.are_nodes_fresh, out);
    }
}

fn one_node(node: &NodeView, is_fresh: bool, out: &mut Findings) {
    let name = node.name.clone();
    let agent = "on its machine: systemctl status bursar-agent; its jobs run on, and it finds them again";
    match node.state.as_str() {
        "unreachable" => {
            let says = format!("{name} is unreachable; its {} GPUs stay with their jobs", node.gpus);
            out.add((Severity::Error, "node.unreachable"), name.clone(), says, agent);
        }
        "silent" if is_fresh => {
            let says = format!("{name} is silent: it gets no new work");
            out.add((Severity::Warning, "node.silent"), name.clone(), says, agent);
        }
        "joined" => {
            let says = format!("{name} has joined and was never heard of since");
            out.add((Severity::Warning, "node.joined"), name.clone(), says, agent);
        }
        "backing-off" => {
            let says = format!("{name} gets no work for a while: launches failed there");
            let fix = format!("bursar node show {name}; bursar events --node {name}");
            out.add((Severity::Warning, "node.backing-off"), name.clone(), says, fix);
        }
        "cordoned" if node.cordoned_by.is_none() => {
            let why = node.cordon_reason.clone().unwrap_or_default();
            let says = format!("{name} takes no work until an operator says so: {why}");
            let fix = format!("look at the node, then bursar node uncordon {name}");
            out.add((Severity::Error, "node.closed"), name.clone(), says, fix);
        }
        _ => {}
    }
    for trouble in &node.trouble {
        let fix = format!("bursar node show {name}");
        out.add((Severity::Warning, "node.trouble"), name.clone(), format!("{name} says: {trouble}"), fix);
    }
    if let Some(alarm) = &node.alarm {
        let fix = format!("bursar node show {name}; a copied data directory must not be used");
        out.add((Severity::Error, "node.alarm"), name.clone(), format!("{name}: {alarm}"), fix);
    }
}

#[cfg(test)]
mod tests {
    use proto::v1::{AsOf, HelloReply, PoolView};

    use super::super::gather::Reached;
    use super::*;

    fn replica(number: u64, role: &str) -> ReplicaView {
        let (replica, role, votes) = (number, role.to_owned(), role != "learner");
        let client = format!("h{number}:1");
        let (applied, behind, version) = (Some(100), Some(0), Some("1.0.0".to_owned()));
        ReplicaView { replica, role, votes, client, applied, behind, version, ..ReplicaView::default() }
    }

    fn healthy() -> Gathered {
        let replicas = vec![replica(1, "leader"), replica(2, "follower"), replica(3, "follower")];
        let view = ClusterView { replicas, ..ClusterView::default() };
        let hello = |role: &str| HelloReply {
            role: role.into(),
            replicas: (1..=3).map(|n| format!("h{n}:1")).collect(),
            ..HelloReply::default()
        };
        let reached =
            |role: &str| Reached { hello: Some(hello(role)), view: Some(view.clone()), ..Reached::default() };
        Gathered {
            replicas: [("h1:1", "leader"), ("h2:1", "follower"), ("h3:1", "follower")]
                .map(|(at, role)| (at.to_owned(), reached(role)))
                .into(),
            context: (1..=3).map(|n| format!("h{n}:1")).collect(),
            view: Some(view),
            are_nodes_fresh: true,
            ..Gathered::default()
        }
    }

    fn reasons(gathered: &Gathered) -> Vec<&'static str> {
        diagnose(gathered).into_iter().map(|finding| finding.reason).collect()
    }

    fn with(change: impl FnOnce(&mut ClusterView)) -> Gathered {
        let mut gathered = healthy();
        if let Some(view) = &mut gathered.view {
            change(view);
        }
        gathered
    }

    #[test]
    fn healthy_control_plane_has_nothing_wrong() {
        assert_eq!(diagnose(&healthy()), []);
    }

    #[test]
    fn every_finding_says_what_to_type() {
        let cases: Vec<(Gathered, &str)> = vec![
            (with(|view| view.replicas[2].role = "no answer".into()), "replica.down"),
            (with(|view| view.replicas[2].votes = false), "replica.joining"),
            (with(|view| view.replicas[2].behind = Some(40_112)), "replica.behind"),
            (with(|view| view.replicas[1].alarms = vec!["no witness".into()]), "replica.alarm"),
            (with(|view| view.replicas[1].version = Some("0.9.0".into())), "cluster.versions"),
            (with(|view| view.replicas[1].log_entries = Some(900_000)), "replica.snapshot-old"),
            (
                with(|view| {
                    (view.replicas[1].disk_bytes, view.replicas[1].disk_free_bytes) =
                        (Some(1 << 30), Some(1 << 20));
                }),
                "replica.disk",
            ),
            (
                with(|view| {
                    view.replicas[1].digest = Some("aa".into());
                    view.replicas[2].digest = Some("bb".into());
                }),
                "cluster.differs",
            ),
            (with(|view| view.safe_mode = Some("negative charge".into())), "cluster.safe-mode"),
            (with(|view| view.simulated_allowed = true), "cluster.simulated"),
            (with(|view| view.changing = true), "cluster.changing"),
            (with(|view| view.alarms = vec!["cluster time may be wrong".into()]), "cluster.alarm"),
            (with(|view| drop(view.replicas.pop())), "cluster.even"),
            (
                with(|view| {
                    view.jobs_waiting = 3;
                    view.last_plan_at = Some(1_000);
                    view.as_of = Some(AsOf { time_at: 313_400, ..AsOf::default() });
                    view.pools = vec![PoolView { idle: 4, ..PoolView::default() }];
                }),
                "cluster.planning",
            ),
        ];
        for (gathered, reason) in cases {
            let findings = diagnose(&gathered);
            let found = findings.iter().find(|finding| finding.reason == reason);
            let found = found.unwrap_or_else(|| panic!("{reason} is missing in {findings:#?}"));
            assert!(!found.says.is_empty() && !found.fix.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn what_can_be_told_is_told_without_a_leader_and_without_any_replica() {
        let mut alone = healthy();
        alone.view = None;
        for at in ["h1:1", "h3:1"] {
            alone
                .replicas
                .insert(at.into(), Reached { why: "connection refused".into(), ..Reached::default() });
        }
        if let Some(view) = alone.replicas.get_mut("h2:1").and_then(|one| one.view.as_mut()) {
            view.replicas[0].role = "no answer".into();
            view.replicas[2].role = "no answer".into();
        }
        assert_eq!(reasons(&alone), ["cluster.no-leader", "replica.down", "replica.down"]);
        let mut none = Gathered { context: vec!["h1:1".into()], ..Gathered::default() };
        none.replicas
            .insert("h1:1".into(), Reached { why: "connection refused".into(), ..Reached::default() });
        let findings = diagnose(&none);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].says.contains("connection refused"), "{findings:?}");
    }

    #[test]
    fn replica_that_waits_and_an_address_of_before_are_told() {
        let mut gathered = healthy();
        let waiting = HelloReply { role: "waiting".into(), ..HelloReply::default() };
        gathered.replicas.insert("h4:1".into(), Reached { hello: Some(waiting), ..Reached::default() });
        gathered.context.push("old:1".into());
        gathered.replicas.insert("old:1".into(), Reached { why: "refused".into(), ..Reached::default() });
        assert_eq!(reasons(&gathered), ["replica.waiting", "context.outdated"]);
    }

    #[test]
    fn nodes_that_need_a_person_are_told() {
        let node =
            |state: &str| NodeView { name: "node-07".into(), state: state.into(), ..NodeView::default() };
        let of = |node: NodeView| reasons(&Gathered { nodes: vec![node], ..healthy() });
        assert_eq!(of(node("ready")), [] as [&str; 0]);
        assert_eq!(of(node("unreachable")), ["node.unreachable"]);
        assert_eq!(of(node("silent")), ["node.silent"]);
        assert_eq!(of(node("backing-off")), ["node.backing-off"]);
        assert_eq!(of(node("cordoned")), ["node.closed"]);
        assert_eq!(of(NodeView { cordoned_by: Some("ops".into()), ..node("cordoned") }), [] as [&str; 0]);
        assert_eq!(of(NodeView { trouble: vec!["no NVML".into()], ..node("ready") }), ["node.trouble"]);
        assert_eq!(of(NodeView { alarm: Some("spoke for node 3".into()), ..node("ready") }), ["node.alarm"]);
    }
}
