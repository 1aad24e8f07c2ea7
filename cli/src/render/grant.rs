//! Share that budgets have for a time.

use proto::v1::{GrantList, GrantView};

use crate::form::gpu_time;
use crate::form::table::Table;
use crate::form::text::{cut, plain};
use crate::shell::Look;

/// Renders the grants.
pub fn grants(list: &GrantList, look: &Look) -> String {
    if list.grants.is_empty() {
        return "no grants: every budget has its own share\n".into();
    }
    let now = list.as_of.as_ref().map_or(0, |as_of| as_of.time_at);
    let mut table =
        Table::new(&[">ID", "BUDGET", ">SHARE", "FROM", "BEGINS", "ENDS", "STATE", "BY", "REASON"]);
    for grant in &list.grants {
        let size = |width: usize, text: &str| if look.is_wide { text.into() } else { cut(text, width) };
        table.row([
            grant.grant.to_string(),
            size(24, &grant.budget),
            format!("+{}", gpu_time::percent(grant.share_ppm)),
            size(20, grant.from_budget.as_deref().unwrap_or("unassigned")),
            look.zone.short(grant.begins_at, now),
            look.zone.short(grant.until_at, now),
            grant.state.clone(),
            size(10, &grant.by),
            size(32, &grant.reason),
        ]);
    }
    format!(
        "{}\nA grant counts for its own time alone, and leaves the window as that time does.\n",
        table.render()
    )
}

/// Renders one grant.
pub fn one(grant: &GrantView, look: &Look) -> String {
    let mut out = format!("{}\n", line(grant, 0, look));
    if let Some(why) = grant.end_reason.as_deref().filter(|_| grant.state == "over") {
        let who = grant.ended_by.as_deref().unwrap_or("the control plane");
        out.push_str(&format!("ended by {}: {}\n", plain(who), plain(why)));
    }
    out
}

/// Returns a grant in one line.
pub fn line(grant: &GrantView, now: u64, look: &Look) -> String {
    let from = match &grant.from_budget {
        Some(from) => format!("from {}", plain(from)),
        None => "from what nobody has".into(),
    };
    let when = |ms| look.zone.short(ms, now);
    let time = match grant.state.as_str() {
        "to-come" => format!("{} to {}", when(grant.begins_at), when(grant.until_at)),
        "on" => format!("until {}", when(grant.until_at)),
        "taken-back" => "taken back before it began".into(),
        _ => format!("over since {}", when(grant.until_at)),
    };
    let share = gpu_time::percent(grant.share_ppm);
    format!(
        "grant {}: +{share} to {} {from}, {time} ({}: {})",
        grant.grant,
        plain(&grant.budget),
        plain(&grant.by),
        plain(&grant.reason)
    )
}
