//! What would become of a waiting job if something were another.

use proto::v1;
use scheduler_core::decision::Start;
use scheduler_core::id::{Label, Name};
use scheduler_core::report::{Change, Then, WhatIf};
use scheduler_core::spec::{Shape, Turn};
use scheduler_core::unit::{Share, Span, Timestamp};

use super::{Scene, explain, words};

/// Reads what is to be another.
///
/// # Errors
/// When a value can't be.
pub fn changes(asked: &v1::WhatIfRequest) -> Result<Vec<Change>, proto::Error> {
    let mut changes = Vec::new();
    let name =
        |field, text: &str| Name::new(text).map_err(|error| proto::Error::bad(field, error.to_string()));
    if let Some(text) = &asked.gpu_type {
        let label =
            |text: &str| Label::new(text).map_err(|error| proto::Error::bad("gpu_type", error.to_string()));
        changes.push(Change::GpuType((!text.is_empty()).then(|| label(text)).transpose()?));
    }
    if let Some(text) = &asked.cluster {
        changes.push(Change::Cluster((!text.is_empty()).then(|| name("cluster", text)).transpose()?));
    }
    for node in &asked.nodes_back {
        changes.push(Change::NodeBack(name("node", node)?));
    }
    for share in &asked.shares {
        let part = Share::from_ppm(share.share_ppm)
            .ok_or_else(|| proto::Error::bad("share", "more than the whole"))?;
        changes.push(Change::Share(share.budget.clone(), part));
    }
    changes.extend(asked.cap_ms.map(|ms| Change::Cap(Span::from_millis(ms))));
    // Judged against what is above: the type, the cluster, the cap.
    changes.extend(asked.gpus.map(Change::Gpus));
    changes.extend(asked.min_runtime_ms.map(|ms| Change::MinRuntime(Span::from_millis(ms))));
    if let Some(text) = &asked.turn {
        changes.push(Change::Turn(match text.as_str() {
            "first" => Turn::First,
            "normal" => Turn::Normal,
            "last" => Turn::Last,
            _ => return Err(proto::Error::bad("turn", "it is first, normal or last")),
        }));
    }
    Ok(changes)
}

/// Returns the answer.
#[must_use]
pub fn view(scene: Scene<'_>, answer: &WhatIf, changes: &[Change]) -> v1::WhatIfView {
    let job = scene.state().jobs.get(&answer.job);
    v1::WhatIfView {
        schema: "what-if/v1".to_owned(),
        as_of: scene.as_of(),
        job: answer.job.get(),
        name: job.map(|job| job.name.to_string()).unwrap_or_default(),
        changes: changes.iter().map(|change| said(change, &answer.shape)).collect(),
        effect: answer.has_effect(),
        sentence: sentence(scene, answer),
        now: Some(side(scene, &answer.now)),
        then: Some(side(scene, &answer.then)),
    }
}

fn said(change: &Change, shape: &Shape) -> String {
    match change {
        Change::Gpus(gpus) if shape.nodes > 1 => {
            format!("{gpus} GPUs ({} x {})", shape.nodes, shape.gpus_per_node)
        }
        Change::Gpus(gpus) => format!("{gpus} GPUs"),
        Change::GpuType(Some(wanted)) => format!("GPUs of type {wanted}"),
        Change::GpuType(None) => "GPUs of any type".to_owned(),
        Change::Cluster(Some(cluster)) => format!("cluster {cluster}"),
        Change::Cluster(None) => "any cluster".to_owned(),
        Change::MinRuntime(Span::ZERO) => "free tier".to_owned(),
        Change::MinRuntime(span) => format!("minimum runtime {span}"),
        Change::Turn(turn) => {
            let word = match turn {
                Turn::First => "first",
                Turn::Normal => "normal",
                Turn::Last => "last",
            };
            format!("turn {word}")
        }
        Change::NodeBack(node) => format!("{node} back"),
        Change::Share(budget, share) => format!("{budget} with a share of {share}"),
        Change::Cap(cap) => format!("a cap of {cap}"),
    }
}

fn sentence(scene: Scene<'_>, answer: &WhatIf) -> String {
    let first = |why: &scheduler_core::explain::Explanation| {
        why.reasons.first().map_or_else(String::new, |reason| reason.sentence.clone())
    };
    match (&answer.now, &answer.then) {
        (Then::Starts { .. }, Then::Starts { .. }) => "no effect, because it starts now as it is".to_owned(),
        (Then::Waits(_), Then::Starts { victims, start }) => {
            let on: Vec<String> =
                start.on.iter().map(|(node, _)| words::node_name(scene.state(), *node)).collect();
            match victims.len() {
                0 => format!("starts now, on {}", on.join(", ")),
                n => format!("gets {} now; {n} would give way to it", on.join(", ")),
            }
        }
        (Then::Starts { .. }, Then::Waits(then)) => {
            format!("would wait, though it starts now: {}", first(then))
        }
        (Then::Waits(_), Then::Waits(then)) if answer.has_effect() => {
            format!("would still wait, elsewhere in line or for another time: {}", first(then))
        }
        (Then::Waits(_), Then::Waits(then)) => format!("no effect, because {}", first(then)),
    }
}

fn side(scene: Scene<'_>, of: &Then) -> v1::WhatIfSide {
    match of {
        Then::Starts { start, .. } => v1::WhatIfSide {
            starts: true,
            on: placed(scene, start),
            victims: explain::victims(scene.state(), start),
            ..v1::WhatIfSide::default()
        },
        Then::Waits(why) => v1::WhatIfSide {
            reasons: why.reasons.iter().map(explain::reason_view).collect(),
            place: why.place.as_ref().map(|place| place.place),
            earliest_at: why.earliest.map(Timestamp::as_millis),
            ..v1::WhatIfSide::default()
        },
    }
}

fn placed(scene: Scene<'_>, start: &Start) -> Vec<v1::PlacedOn> {
    let on = start.on.iter().map(|(node, slots)| v1::PlacedOn {
        node: words::node_name(scene.state(), *node),
        slots: slots.iter().map(|slot| u32::from(slot.get())).collect(),
    });
    on.collect()
}
