//! Tables: columns two spaces apart, no lines, numbers to the right.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement};

use super::text::plain;

/// A table being made.
#[derive(Debug)]
pub struct Table {
    table: comfy_table::Table,
    aligned: Vec<CellAlignment>,
}

impl Table {
    /// Makes a table from its headings; one that begins with `>` has its column to the right.
    pub fn new(headings: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let aligned: Vec<CellAlignment> = headings
            .iter()
            .map(|text| if text.starts_with('>') { CellAlignment::Right } else { CellAlignment::Left })
            .collect();
        table.set_header(cells(headings.iter().map(|text| text.trim_start_matches('>')), &aligned));
        let columns: Vec<usize> = (0..headings.len()).collect();
        for n in columns {
            if let Some(column) = table.column_mut(n) {
                column.set_padding((0, 2));
            }
        }
        Self { table, aligned }
    }

    /// Adds a row; text of others is made harmless.
    pub fn row<T: AsRef<str>>(&mut self, texts: impl IntoIterator<Item = T>) {
        let texts: Vec<String> = texts.into_iter().map(|text| plain(text.as_ref())).collect();
        self.table.add_row(cells(texts.iter().map(String::as_str), &self.aligned));
    }

    /// Returns the text, each line with its end.
    pub fn render(&self) -> String {
        let lines = self.table.lines();
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

fn cells<'a>(texts: impl Iterator<Item = &'a str>, aligned: &[CellAlignment]) -> Vec<Cell> {
    texts.zip(aligned).map(|(text, align)| Cell::new(text).set_alignment(*align)).collect()
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_stand_two_spaces_apart() {
        let mut table = Table::new(&[">#", "NAME", ">GPUS"]);
        table.row(["1", "eval", "8"]);
        table.row(["12", "漢", "128"]);
        assert_eq!(table.render(), " #  NAME  GPUS\n 1  eval     8\n12  漢     128\n");
    }
}
