//! What a submission would meet. No promise.

use proto::v1;
use scheduler_core::budget;
use scheduler_core::command::Submit;
use scheduler_core::decision::Start;
use scheduler_core::explain::{Explanation, Place};
use scheduler_core::id::{AttemptNo, Name};
use scheduler_core::job::{Job, Phase, Progress};
use scheduler_core::report::{DryRun, Expected};
use scheduler_core::unit::{ChargeMillis, Timestamp};

use super::{Scene, explain, receipt, words};

/// Returns what `user`'s submission would meet.
#[must_use]
pub fn view(scene: Scene<'_>, user: &Name, submit: &Submit, dry: &DryRun) -> v1::PlanJobReply {
    let place = match &dry.expected {
        Expected::Starts { .. } => None,
        Expected::Waits(why) => why.place.as_ref(),
    };
    let reply = v1::PlanJobReply {
        schema: "plan-job/v1".to_owned(),
        as_of: scene.as_of(),
        receipt: terms(scene, user, submit, dry, place),
        place: place.map(|place| place.place),
        ..v1::PlanJobReply::default()
    };
    match &dry.expected {
        Expected::Starts { start, .. } => starts(scene, start, reply),
        Expected::Waits(why) => {
            let date = why.date.as_ref().map(|date| super::date::view(scene.state(), date));
            v1::PlanJobReply { date, ..waits(why, reply) }
        }
    }
}

fn starts(scene: Scene<'_>, start: &Start, reply: v1::PlanJobReply) -> v1::PlanJobReply {
    let state = scene.state();
    let victims = explain::victims(state, start);
    let on: Vec<v1::PlacedOn> = start
        .on
        .iter()
        .map(|(node, slots)| v1::PlacedOn {
            node: words::node_name(state, *node),
            slots: slots.iter().map(|slot| u32::from(slot.get())).collect(),
        })
        .collect();
    let names: Vec<&str> = on.iter().map(|on| on.node.as_str()).collect();
    let sentence = match victims.as_slice() {
        [] => format!("it would start now, on {}", names.join(", ")),
        victims => {
            let who: Vec<&str> = victims.iter().map(|victim| victim.attempt.as_str()).collect();
            format!("it would get {} now; {} would give way to it", names.join(", "), who.join(", "))
        }
    };
    v1::PlanJobReply { starts: true, sentence, on, victims, ..reply }
}

fn waits(why: &Explanation, reply: v1::PlanJobReply) -> v1::PlanJobReply {
    let first = why.reasons.first().map_or("", |reason| reason.sentence.as_str());
    v1::PlanJobReply {
        starts: false,
        sentence: format!("it would be {}: {first}", why.stage.as_str()),
        reasons: why.reasons.iter().map(explain::reason_view).collect(),
        earliest_at: why.earliest.map(Timestamp::as_millis),
        ..reply
    }
}

/// Returns the receipt that the job would get.
fn terms(
    scene: Scene<'_>,
    user: &Name,
    submit: &Submit,
    dry: &DryRun,
    place: Option<&Place>,
) -> Option<v1::Receipt> {
    let state = scene.state();
    let job = Job {
        name: submit.request.name.clone(),
        user: user.clone(),
        account: state.principals.get(user)?.account.clone(),
        budget: budget::find(state, &submit.request.budget)?,
        launch: submit.launch.hash,
        terms: dry.terms.clone(),
        submitted_at: dry.at,
        phase: match dry.before.holds(dry.at) {
            Some(by) => Phase::Held { since: dry.at, by },
            None => Phase::Waiting { since: dry.at },
        },
        next_attempt: AttemptNo::new(1),
        retries_used: 0,
        failed_on: std::collections::BTreeSet::new(),
        past: Vec::new(),
        charged: ChargeMillis::ZERO,
        progress: Progress::default(),
        before: dry.before.clone(),
        array: None,
        wants: Vec::new(),
    };
    let tasks = submit.request.asks.array.as_ref().map(|tasks| v1::ArrayView {
        indexes: tasks.to_string(),
        count: tasks.count(),
        at_once: tasks.live_max().min(tasks.count()),
        ..v1::ArrayView::default()
    });
    Some(v1::Receipt { tasks, ..receipt::of(scene, dry.job, &job, place) })
}
