//! The control plane itself.

use proto::v1::{ClusterView, JoiningView, MembersView, OkToStopView, ReplicaView};

use super::words;
use crate::form::table::Table;
use crate::form::text::{count, cut, plain, thousands, wrap};
use crate::form::{duration, size};
use crate::shell::Look;

/// Renders the state of the control plane.
pub fn status(view: &ClusterView, look: &Look) -> String {
    let mut out = match &view.safe_mode {
        Some(why) => format!("SAFE MODE: no job is started; running work goes on ({})\n", plain(why)),
        None => "accepting work, scheduling\n".into(),
    };
    out.push_str(&words::as_of(view.as_of.as_ref(), look));
    for pool in &view.pools {
        out.push_str(&words::pool(pool));
        out.push('\n');
    }
    out.push('\n');
    out.push_str(&replicas(&view.replicas, look));
    if view.changing {
        out.push_str("a change of who votes is half done: the old and the new majority are both needed\n");
    }
    out.push('\n');
    out.push_str(&leader(view));
    let silent = view.agents.saturating_sub(view.agents_connected);
    let silent = if silent > 0 { format!("; {silent} not") } else { String::new() };
    out.push_str(&format!("agents   {} of {} connected{silent}\n", view.agents_connected, view.agents));
    out.push_str(&format!("jobs     {} waiting, {} running\n", view.jobs_waiting, view.jobs_running));
    if let Some(plan) = &view.last_plan {
        out.push_str(&format!("plan     {}\n", plain(plan)));
    }
    for alarm in &view.alarms {
        for (n, line) in wrap(&plain(alarm), 88).into_iter().enumerate() {
            out.push_str(&format!("{:<9}{line}\n", if n == 0 { "alarm" } else { "" }));
        }
    }
    if look.is_wide {
        out.push_str(&format!(
            "cluster  {}, epoch {}, term {}\n",
            plain(&view.cluster),
            view.epoch,
            view.term
        ));
        out.push_str(&format!("digest   {}\n", plain(&view.digest)));
    }
    out
}

/// Renders who leads, and since when: the last election.
fn leader(view: &ClusterView) -> String {
    let leads = view.replicas.iter().find(|replica| replica.role == "leader");
    match (leads, view.led_for_ms) {
        (Some(leads), Some(ms)) => {
            format!(
                "leader   r{} for {}, elected in term {}\n",
                leads.replica,
                duration::short(ms),
                view.term
            )
        }
        (Some(leads), None) => format!("leader   r{}, elected in term {}\n", leads.replica, view.term),
        (None, _) => {
            "leader   none that answers: nothing is placed or accepted; running work goes on\n".into()
        }
    }
}

fn replicas(replicas: &[ReplicaView], look: &Look) -> String {
    let mut headings =
        vec!["REPLICA", "ROLE", ">UP", ">APPLIED", ">BEHIND", ">SNAPSHOT", ">LOG", ">DISK FREE"];
    if look.is_wide {
        headings.extend(["VERSION", "ADDRESS", "PEER"]);
    }
    headings.push("OK TO STOP");
    let number = |n: Option<u64>| n.map_or("-".into(), |n| thousands(&n.to_string()));
    let bytes = |n: Option<u64>| n.map_or("-".into(), size::show);
    let mut table = Table::new(&headings);
    for replica in replicas {
        let mut cells = vec![
            format!("r{}", replica.replica),
            role(replica),
            replica.up_ms.map_or("-".into(), duration::short),
            number(replica.applied),
            behind(replica),
            number(replica.snapshot),
            bytes(replica.log_bytes),
            bytes(replica.disk_free_bytes),
        ];
        if look.is_wide {
            let version = replica.version.clone().unwrap_or_else(|| "-".into());
            cells.extend([version, replica.client.clone(), replica.peer.clone()]);
        }
        let ok = if replica.ok_to_stop { "yes" } else { "no" };
        let says = format!("{ok}: {}", replica.ok_to_stop_says);
        cells.push(if look.is_wide { says } else { cut(&says, 24) });
        table.row(cells);
    }
    table.render()
}

fn role(replica: &ReplicaView) -> String {
    // A replica that joins and is away has no role to tell.
    if replica.votes || replica.role == "learner" {
        return replica.role.clone();
    }
    format!("{}, no vote", replica.role)
}

fn behind(replica: &ReplicaView) -> String {
    match (replica.snapshot_sent, replica.snapshot_parts) {
        (Some(sent), Some(parts)) => format!("snapshot {sent}/{parts}"),
        _ => replica.behind.map_or("-".into(), |n| thousands(&n.to_string())),
    }
}

/// Renders whether replicas can be stopped.
pub fn ok_to_stop(view: &OkToStopView) -> String {
    let names = |ids: &[u64]| ids.iter().map(|id| format!("r{id}")).collect::<Vec<_>>().join(", ");
    let answer = if view.ok { "yes" } else { "no" };
    let mut out = format!("stop {}: {answer}; {}\n", names(&view.replicas), plain(&view.says));
    let mut lines = |name: &str, texts: &[String]| {
        for (n, text) in texts.iter().enumerate() {
            out.push_str(&format!("  {:<9} {}\n", if n == 0 { name } else { "" }, plain(text)));
        }
    };
    lines("wait for", &view.wait_for);
    if view.ok && !view.together.is_empty() {
        lines("with it", &[names(&view.together)]);
    }
    lines("know that", &view.warnings);
    out
}

/// Renders how far replicas are that join, in a line.
pub fn joining(view: &MembersView) -> String {
    let one = |one: &JoiningView| {
        let how = match (one.votes, one.snapshot_sent, one.snapshot_parts, one.behind) {
            (true, ..) => "votes".to_owned(),
            (false, Some(sent), Some(parts), _) => format!("is sent a snapshot, part {sent} of {parts}"),
            (false, _, _, Some(0)) => "has everything".to_owned(),
            (false, _, _, Some(behind)) => format!("{} entries behind", thousands(&behind.to_string())),
            (false, ..) => "invited, not heard of yet".to_owned(),
        };
        format!("r{} at {}: {how}", one.replica, plain(&one.client))
    };
    view.joining.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Renders replicas that have joined.
pub fn joined(view: &MembersView) -> String {
    let mut out = String::new();
    for one in &view.joining {
        out.push_str(&format!("r{} at {} has joined and votes\n", one.replica, plain(&one.client)));
    }
    out
}

/// Renders the line after the founding.
pub fn founded(cluster: &str, founders: usize) -> String {
    let replicas = count(u64::try_from(founders).unwrap_or(u64::MAX), "replica");
    format!("founded {} on {replicas}\n", plain(cluster))
}
