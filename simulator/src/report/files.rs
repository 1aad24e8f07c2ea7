//! Figures for machines: JSON and CSV.

use super::figures::FIGURES;
use crate::measure::Measures;

/// Returns runs as a JSON array, one run an element, by the schema that each names.
///
/// # Errors
///
/// When a number has no place in JSON; figures have none such.
pub fn json(runs: &[Measures]) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(runs)
}

/// Returns runs as CSV, one a line, with a header of keys. The unit is last in a key; ratios are of 1, a lower bound has
/// `>` before it, what is not known is empty.
#[must_use]
pub fn csv(runs: &[Measures]) -> String {
    let names = ["scenario", "policy", "variant", "seed"];
    let header = names.into_iter().chain(FIGURES.iter().map(|figure| figure.key));
    let mut lines = header.collect::<Vec<_>>().join(",");
    lines.push('\n');
    for run in runs {
        let of = &run.run;
        let named = [of.scenario.clone(), of.policy.clone(), of.variant.join(" "), of.seed.to_string()];
        let values = FIGURES.iter().map(|figure| (figure.value)(run).raw());
        let cells: Vec<String> = named.into_iter().chain(values).map(|cell| quoted(&cell)).collect();
        lines.push_str(&cells.join(","));
        lines.push('\n');
    }
    lines
}

/// Quotes a cell where it needs it. One that a spreadsheet would take for a formula stands after an apostrophe.
fn quoted(cell: &str) -> String {
    let is_formula =
        cell.starts_with(['=', '+', '@', '\t', '\r']) || (cell.starts_with('-') && cell.len() > 1);
    let cell = if is_formula { format!("'{cell}") } else { cell.to_owned() };
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("-"), "-");
        assert_eq!(quoted(">12"), ">12");
    }

    #[test]
    fn a_line_has_a_cell_for_each_key() {
        let csv = csv(&[Measures::default()]);
        let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [FIGURES.len() + 4; 2]);
    }
}
