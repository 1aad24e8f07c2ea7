//! The bill: what preemptions cost.

use proto::v1;
use scheduler_core::decision::Basis;
use scheduler_core::report::{Bills, By, Key, Lost, Row};
use scheduler_core::state::State;
use scheduler_core::unit::Span;

use super::{Scene, cost, words};

/// Returns what a bill is grouped by.
#[must_use]
pub fn by(text: &str) -> Option<By> {
    Some(match text {
        "" | "cause" => By::Cause,
        "tier" => By::Tier,
        "budget" => By::Budget,
        "user" => By::User,
        "size" => By::Size,
        "basis" => By::Basis,
        _ => return None,
    })
}

fn by_word(by: By) -> &'static str {
    match by {
        By::Cause => "cause",
        By::Tier => "tier",
        By::Budget => "budget",
        By::User => "user",
        By::Size => "size",
        By::Basis => "basis",
    }
}

/// Returns a bill grouped by `by`; `known` is the same one grouped by how the age is known.
#[must_use]
pub fn view(scene: Scene<'_>, by: By, bills: &Bills, known: &Bills) -> v1::BillView {
    let state = scene.state();
    // What was delivered is known for the window; of a longer time no part of it is told.
    let is_known = bills.since >= scene.now.minus(state.meta.settings.window);
    let can_tell = is_known && matches!(by, By::Tier | By::Budget);
    let largest = bills.biggest.as_ref();
    v1::BillView {
        schema: "bill/v1".to_owned(),
        as_of: scene.as_of(),
        since_at: bills.since.as_millis(),
        by: by_word(by).to_owned(),
        rows: bills.rows.iter().map(|row| row_view(state, row, can_tell)).collect(),
        total: Some(line("total".to_owned(), &bills.total, is_known)),
        wasted: bills.total.wasted,
        resume_median_ms: bills.total.restart.map(Span::as_millis),
        largest: largest.map(|largest| cost::view(largest.attempt, largest.ended_at, &largest.bill)),
        by_basis: [Basis::Reported, Basis::Declared, Basis::Unknown]
            .into_iter()
            .map(|basis| {
                let row = known.rows.iter().find(|row| row.keys == [Key::Basis(basis)]);
                let lost = row.map(|row| row.lost).unwrap_or_default();
                line(words::basis(basis).to_owned(), &lost, false)
            })
            .collect(),
        reach: None,
    }
}

fn row_view(state: &State, row: &Row, can_tell: bool) -> v1::BillLine {
    let keys: Vec<String> = row.keys.iter().map(|key| key_word(state, key)).collect();
    line(keys.join(", "), &row.lost, can_tell)
}

fn key_word(state: &State, key: &Key) -> String {
    match key {
        Key::Cause(cause) => words::bill_cause(*cause).to_owned(),
        Key::Tier(tier) => words::tier(*tier).to_owned(),
        Key::Budget(budget) => words::budget_path(state, *budget),
        Key::User(user) => user.to_string(),
        Key::Size(size) => size.as_str().to_owned(),
        Key::Basis(basis) => words::basis(*basis).to_owned(),
    }
}

fn line(key: String, lost: &Lost, can_tell: bool) -> v1::BillLine {
    v1::BillLine {
        key,
        preemptions: lost.preemptions,
        lost_gpu_ms: lost.lost.get(),
        delivered_gpu_ms: can_tell.then(|| lost.delivered.get()),
        lost_ppm: lost.ppm().filter(|_| can_tell).map(|ppm| u32::try_from(ppm).unwrap_or(u32::MAX)),
    }
}
