//! The first entry of a control plane.

use alloc::format;
use alloc::string::String;

use super::entry::DONE;
use crate::budget;
use crate::command::{Answer, Code, Found, Rejection};
use crate::id::{BudgetId, JobId, NodeId, Revision};
use crate::principal::Principal;
use crate::settings::Settings;
use crate::state::State;
use crate::unit::Span;

/// The behaviour of this build.
const LEVEL: u32 = 1;

/// Founds the control plane: its identity, its root budget, its first principal.
pub(super) fn found(state: &mut State, found: &Found) -> Answer {
    if state.meta.cluster.is_some() {
        let what = String::from("this control plane was founded before");
        return Err(Rejection::new(Code::Founding, what, "it is founded once", String::new()));
    }
    check_settings(&found.settings)?;
    state.meta.cluster = Some(found.cluster);
    state.meta.epoch = found.epoch;
    state.meta.level = LEVEL;
    state.meta.settings = found.settings.clone();
    state.meta.next_job = JobId::new(1);
    state.meta.next_node = NodeId::new(1);
    state.meta.next_budget = BudgetId::new(1);
    state.meta.tree = Revision::new(1);
    budget::found(state, found.root.clone(), found.admin.clone());
    let admin = Principal {
        token: found.admin_token,
        account: found.admin_account.clone(),
        is_operator: true,
        is_revoked: false,
    };
    state.principals.insert(found.admin.clone(), admin);
    DONE
}

fn check_settings(settings: &Settings) -> Result<(), Rejection> {
    let spans = [
        ("window", settings.window),
        ("cap", settings.cap),
        ("start limit", settings.start_limit),
        ("grace", settings.grace),
        ("free-tier grace", settings.free_grace),
        ("longest grace", settings.grace_max),
        ("cancel grace", settings.cancel_grace),
        ("beat", settings.beat),
        ("silent after", settings.silent_after),
        ("unreachable after", settings.unreachable_after),
        ("launch backoff", settings.launch_backoff),
        ("longest launch backoff", settings.launch_backoff_max),
        ("request memory", settings.request_memory),
        ("request skew", settings.request_skew),
        ("keep ended", settings.keep_ended),
        ("keep results", settings.keep_results),
    ];
    for (name, span) in spans {
        if span < Span::from_millis(50) || span > Span::MAX {
            let what = format!("the setting `{name}` is {span}");
            return Err(Rejection::new(Code::BadSpec, what, "", String::from("from 50 ms to 10 years")));
        }
    }
    // An id comes at most a skew before its own time, and a retry of it at most a skew after.
    let needed = settings.request_skew.plus(settings.request_skew);
    if settings.request_memory < needed {
        let what = format!("request ids would be forgotten after {}", settings.request_memory);
        let why = "a retry may come later than that, and would be done twice";
        return Err(Rejection::new(Code::BadSpec, what, why, format!("a request memory of {needed}")));
    }
    Ok(())
}
