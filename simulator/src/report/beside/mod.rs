//! One page about two runs: their figures beside each other, in one file, without a script.
//!
//! Made from figures alone, so that two runs of which only these were kept can be compared too.

mod bars;

use std::fmt::Write as _;

use super::figures::{FIGURES, Value};
use super::page::{STYLE, escaped, filled};
use super::table::figures;
use super::words;
use crate::measure::{Known, Measures};

const FRAME: &str = include_str!("beside.html");

/// Returns the page about two runs.
#[must_use]
pub fn beside(one: &Measures, two: &Measures) -> String {
    let runs = [one.clone(), two.clone()];
    let table = figures(&runs);
    let name = |at: usize| escaped(table.headers.get(at).map_or("", String::as_str));
    let title = format!("{} · {} beside {}", escaped(&one.run.scenario), name(1), name(2));
    let notes: String = table.notes.iter().map(|note| format!("<li>{}</li>", escaped(note))).collect();
    let parts = [
        ("{{title}}", title),
        ("{{headline}}", escaped(&table.title)),
        (
            "{{notes}}",
            if notes.is_empty() { String::new() } else { format!("<ul id=\"notes\">{notes}</ul>") },
        ),
        ("{{one}}", name(1)),
        ("{{two}}", name(2)),
        ("{{delivery}}", delivery(one, two)),
        ("{{waits}}", waits(one, two)),
        ("{{figures}}", figure_rows(one, two)),
        ("{{style}}", STYLE.to_owned()),
    ];
    filled(FRAME, &parts)
}

fn figure_rows(one: &Measures, two: &Measures) -> String {
    let mut html = String::new();
    for figure in FIGURES {
        let (before, after) = ((figure.value)(one), (figure.value)(two));
        let (key, name, meaning) = (figure.key, escaped(figure.name), escaped(figure.meaning));
        let cells = [before.shown(), after.shown(), change(&before, &after)];
        let cells: String =
            cells.iter().map(|cell| format!("<td class=\"n\">{}</td>", escaped(cell))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            html,
            "<tr id=\"figure-{key}\"><th scope=\"row\">{name}</th>{cells}<td>{meaning}</td></tr>"
        );
    }
    html
}

/// Returns what changed from one value to another; nothing where one of them is not known or only as a bound.
fn change(before: &Value, after: &Value) -> String {
    let is_bound = |value: &Value| matches!(value, Value::Time(Some(time)) if time.is_at_least);
    let by = after.number() - before.number();
    if by.is_nan() || is_bound(before) || is_bound(after) {
        return String::new();
    }
    let sign = if by < 0.0 { "−" } else { "+" };
    let size = by.abs();
    let shown = match before {
        Value::Ratio(_) => format!("{:.1}", size * 100.0),
        Value::Times(_) => format!("{size:.2}"),
        Value::Time(_) => words::span(super::figures::whole(size)),
        Value::GpuTime(_) => words::hours(super::figures::whole(size)),
        Value::Count(_) | Value::Of(..) | Value::Job(_) => words::grouped(super::figures::whole(size)),
    };
    let is_none = shown.chars().all(|c| matches!(c, '0' | '.' | 's'));
    if is_none { "=".to_owned() } else { format!("{sign}{shown}") }
}

fn delivery(one: &Measures, two: &Measures) -> String {
    let ratio = |of: &Measures, budget: &str| {
        of.delivery.leaves.iter().find(|leaf| leaf.budget == budget).and_then(|leaf| leaf.period_ratio)
    };
    let mut budgets: Vec<&str> = one.delivery.leaves.iter().map(|leaf| leaf.budget.as_str()).collect();
    let others = two.delivery.leaves.iter().map(|leaf| leaf.budget.as_str());
    let others: Vec<&str> = others.filter(|budget| !budgets.contains(budget)).collect();
    budgets.extend(others);
    let bar = |of: &Measures, budget: &str| {
        let ratio = ratio(of, budget);
        bars::Bar { part: ratio, shown: Value::Ratio(ratio).shown() }
    };
    let rows = budgets
        .iter()
        .map(|budget| bars::Row { name: (*budget).to_owned(), bars: [bar(one, budget), bar(two, budget)] });
    bars::svg("delivered of owed, by leaf", &rows.collect::<Vec<_>>(), &[(1.0, "100%")])
}

fn waits(one: &Measures, two: &Measures) -> String {
    let mut sizes: Vec<&str> = Vec::new();
    for waits in one.waits.iter().chain(&two.waits).filter(|waits| waits.of == "funded") {
        if !sizes.contains(&waits.gpus.as_str()) {
            sizes.push(&waits.gpus);
        }
    }
    let bar = |of: &Measures, size: &str| {
        let wait: Option<Known> = of.waits_of("funded", size).and_then(|waits| waits.p90);
        bars::Bar { part: wait.map(|wait| bars::of_wait(wait.ms)), shown: Value::Time(wait).shown() }
    };
    let rows = sizes
        .iter()
        .map(|size| bars::Row { name: format!("{size} GPUs"), bars: [bar(one, size), bar(two, size)] });
    let marks = [(60_000, "1m"), (3_600_000, "1h"), (86_400_000, "1d")];
    let marks = marks.map(|(ms, name)| (bars::of_wait(ms), name));
    bars::svg("p90 of waits, by size", &rows.collect::<Vec<_>>(), &marks)
}
