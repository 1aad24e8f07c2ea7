//! The control plane itself.

use proto::v1::{ClusterView, ReplicaView};

use super::words;
use crate::form::table::Table;
use crate::form::text::{count, cut, plain, thousands, wrap};
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
    out.push('\n');
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

fn replicas(replicas: &[ReplicaView], look: &Look) -> String {
    let mut headings = vec!["REPLICA", "ROLE", ">APPLIED", ">BEHIND", "VERSION", "ADDRESS", "TROUBLE"];
    if look.is_wide {
        headings.insert(6, "PEER");
    }
    let number = |n: Option<u64>| n.map_or("-".into(), |n| thousands(&n.to_string()));
    let mut table = Table::new(&headings);
    for replica in replicas {
        let trouble = replica.trouble.clone().unwrap_or_default();
        let mut cells = vec![
            format!("r{}", replica.replica),
            replica.role.clone(),
            number(replica.applied),
            number(replica.behind),
            replica.version.clone().unwrap_or_else(|| "-".into()),
            if look.is_wide { replica.client.clone() } else { cut(&replica.client, 24) },
        ];
        if look.is_wide {
            cells.push(replica.peer.clone());
        }
        cells.push(if look.is_wide { trouble } else { cut(&trouble, 28) });
        table.row(cells);
    }
    table.render()
}

/// Renders the line after the founding.
pub fn founded(cluster: &str, founders: usize) -> String {
    let replicas = count(u64::try_from(founders).unwrap_or(u64::MAX), "replica");
    format!("founded {} on {replicas}\n", plain(cluster))
}
