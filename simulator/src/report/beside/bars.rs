//! Two bars a row, as SVG: the first run filled, the second an outline, the value beside each.

use std::fmt::Write as _;

use crate::measure::number::{count, real};
use crate::report::page::escaped;

/// The longest wait that a bar shows: thirty days.
const WAIT_MOST_MS: u64 = 30 * 86_400_000;

const NAMES: f64 = 190.0;
const PLOT: f64 = 620.0;
const VALUES: f64 = 90.0;
const HIGH: f64 = 11.0;
const ROW: f64 = 34.0;
const TOP: f64 = 18.0;

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    /// How long it is, 0 to 1; none where nothing is known.
    pub part: Option<f64>,
    /// What stands beside it.
    pub shown: String,
}

/// Two bars with their name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// What they are of.
    pub name: String,
    /// Of the first run and of the second.
    pub bars: [Bar; 2],
}

/// Returns how long the bar of a wait is.
pub(super) fn of_wait(ms: u64) -> f64 {
    let log = |ms: u64| (real(ms.max(1000)) / 1000.0).ln();
    (log(ms) / log(WAIT_MOST_MS)).min(1.0)
}

/// Draws rows, with marks at parts of the whole.
pub(super) fn svg(label: &str, rows: &[Row], marks: &[(f64, &str)]) -> String {
    let height = TOP + ROW * real(count(rows)) + 4.0;
    let width = NAMES + PLOT + VALUES;
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">",
        escaped(label)
    );
    for (part, name) in marks {
        let x = NAMES + PLOT * part;
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{height}\" stroke-dasharray=\"4 3\"/>\
             <text class=\"dim\" x=\"{x:.1}\" y=\"12\" text-anchor=\"middle\">{}</text>",
            escaped(name)
        );
    }
    let mut top = TOP + 4.0;
    for row in rows {
        let _ = write!(svg, "<text x=\"0\" y=\"{:.1}\">{}</text>", top + HIGH + 4.0, escaped(&row.name));
        for (at, (bar, class)) in row.bars.iter().zip(["one", "two"]).enumerate() {
            let y = if at == 0 { top } else { top + HIGH + 3.0 };
            let long = PLOT * bar.part.unwrap_or(0.0);
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{NAMES}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{HIGH}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                NAMES + long + 6.0,
                y + HIGH - 1.5,
                escaped(&bar.shown)
            );
        }
        top += ROW;
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_as_long_as_its_logarithm() {
        assert!(of_wait(0).abs() < 1e-9 && of_wait(1000).abs() < 1e-9);
        assert!((of_wait(WAIT_MOST_MS) - 1.0).abs() < 1e-9);
        assert!((of_wait(u64::MAX) - 1.0).abs() < 1e-9);
        assert!(of_wait(60_000) < of_wait(3_600_000));
    }

    #[test]
    fn names_are_text_and_what_nobody_knows_has_no_bar() {
        let bar = |part| Bar { part, shown: "-".to_owned() };
        let row = Row { name: "<b>".to_owned(), bars: [bar(Some(0.5)), bar(None)] };
        let svg = svg("x", &[row], &[]);
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>"));
        assert!(svg.contains("width=\"310.0\"") && svg.contains("width=\"0.0\""));
    }
}
