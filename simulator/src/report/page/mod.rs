//! One page about one run: everything in one file, no request to anywhere, readable from a mail.
//!
//! The text, the figures and their definitions are written here; pictures, and the tables behind them, are drawn from
//! data embedded as JSON by the scripts beside this file. Names come from traces that nobody here wrote: they are
//! escaped in the text, and the scripts put them in as text alone.

mod data;
mod thin;

use std::fmt::Write as _;

use super::figures::FIGURES;
use super::table::{Table, figures};
use crate::measure::{Measures, measure};
use crate::record::Record;

const FRAME: &str = include_str!("page.html");
pub(super) const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 4] = [
    include_str!("base.js"),
    include_str!("timeline.js"),
    include_str!("charts.js"),
    include_str!("tables.js"),
];

/// Returns the page about a run.
///
/// # Errors
///
/// When a number has no place in JSON; records have none such.
pub fn page(record: &Record) -> Result<String, serde_json::Error> {
    let measures = measure(record);
    let data = serde_json::to_string(&data::of(record, &measures))?;
    let title = title(&measures);
    let parts = [
        ("{{title}}", escaped(&title)),
        ("{{headline}}", escaped(&figures(std::slice::from_ref(&measures)).title)),
        ("{{cards}}", cards(&measures)),
        ("{{figures}}", figure_rows(&measures)),
        ("{{style}}", STYLE.to_owned()),
        ("{{script}}", SCRIPTS.concat()),
        // In JSON `<` stands in strings alone, where it may be written so: no name can end the element.
        ("{{data}}", data.replace('<', "\\u003c")),
    ];
    Ok(filled(FRAME, &parts))
}

/// Puts each part in its place, in one pass: what is put in is not looked through again.
pub(super) fn filled(frame: &str, parts: &[(&str, String)]) -> String {
    let mut page =
        String::with_capacity(frame.len() + parts.iter().map(|(_, part)| part.len()).sum::<usize>());
    let mut rest = frame;
    while let Some(at) = rest.find("{{") {
        page.push_str(&rest[..at]);
        rest = &rest[at..];
        let part = parts.iter().find(|(place, _)| rest.starts_with(place));
        let (length, text) = part.map_or((2, "{{"), |(place, text)| (place.len(), text.as_str()));
        page.push_str(text);
        rest = &rest[length..];
    }
    page.push_str(rest);
    page
}

fn title(measures: &Measures) -> String {
    let run = &measures.run;
    let mut title = format!("{} · {}", run.scenario, run.policy);
    for setting in &run.variant {
        title.push_str(" · ");
        title.push_str(setting);
    }
    title
}

/// The figures that stand at the top.
const CARDS: [&str; 8] = [
    "owed_mean",
    "owed_worst",
    "occupancy",
    "debug_p90_ms",
    "wait_large_p90_ms",
    "head_longest_ms",
    "preemptions_per_1000_gpu_h",
    "lost_gpu_h",
];

fn cards(measures: &Measures) -> String {
    let mut html = String::new();
    for figure in FIGURES.iter().filter(|figure| CARDS.contains(&figure.key)) {
        let (name, value) = (escaped(figure.name), escaped(&(figure.value)(measures).shown()));
        let meaning = escaped(figure.meaning);
        // Writing to a string cannot fail.
        let _ = write!(html, "<div><dt>{name}</dt><dd><b>{value}</b> <small>{meaning}</small></dd></div>");
    }
    html
}

fn figure_rows(measures: &Measures) -> String {
    let mut html = String::new();
    for figure in FIGURES {
        let (name, value) = (escaped(figure.name), escaped(&(figure.value)(measures).shown()));
        let (key, meaning) = (figure.key, escaped(figure.meaning));
        let row = format!(
            "<tr id=\"figure-{key}\"><th scope=\"row\">{name}</th><td class=\"n\">{value}</td><td>{meaning}</td></tr>\n"
        );
        html.push_str(&row);
    }
    html
}

/// Returns the notes of a table as a list of lines, for places that show no table.
pub(super) fn notes(table: &Table) -> Vec<String> {
    table.notes.clone()
}

/// Returns text that is text in HTML too, within an element and within a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_not_looked_through_again() {
        let parts = [("{{a}}", "{{b}}".to_owned()), ("{{b}}", "two".to_owned())];
        assert_eq!(filled("<{{a}} {{b}} {{c}}>", &parts), "<{{b}} two {{c}}>");
    }

    #[test]
    fn names_are_text() {
        assert_eq!(escaped("<b a=\"1\" c='2'>&"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
    }
}
