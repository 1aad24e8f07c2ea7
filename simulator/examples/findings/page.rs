//! The page in parts: each is made on its own and kept until it is made again, and prose takes its figures from the tables.

use std::path::Path;

use anyhow::{Context as _, Result};

/// What stands before and after the parts, written by people who looked at them.
const BEFORE: &str = include_str!("before.md");
const AFTER: &str = include_str!("after.md");

/// Where figures are put into prose: `{{first heading of a table|row|column}}`.
const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// The page's parts, in their order.
pub struct Page {
    parts: Vec<(String, Option<String>)>,
}

impl Page {
    /// Takes the parts of these names that a page has already; none of them where there is no page.
    pub fn read(path: &Path, names: &[String]) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let parts = names.iter().map(|name| (name.clone(), between(&text, name)));
        Ok(Self { parts: parts.collect() })
    }

    /// Replaces a part.
    pub fn put(&mut self, name: &str, text: String) {
        for (known, part) in &mut self.parts {
            if known == name {
                *part = Some(text.clone());
            }
        }
    }

    /// Writes the page.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut body = String::new();
        for (name, part) in &self.parts {
            let text = part.as_deref().unwrap_or("\nNot run yet.\n");
            body.push_str(&format!("{}{text}{}", begin(name), end(name)));
        }
        let text = format!("{BEFORE}{body}{}", filled(AFTER, &body));
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn begin(name: &str) -> String {
    format!("\n<!-- {name} -->\n")
}

fn end(name: &str) -> String {
    format!("<!-- end of {name} -->\n")
}

fn between(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&begin(name))?;
    rest.split_once(&end(name)).map(|(part, _)| part.to_owned())
}

/// Puts figures into prose. One that no table has is said, and left as it stands.
fn filled(prose: &str, body: &str) -> String {
    let mut page = String::new();
    let mut rest = prose;
    while let Some((text, after)) = rest.split_once(OPEN) {
        page.push_str(text);
        let Some((place, after)) = after.split_once(CLOSE) else { break };
        let found = match place.split('|').collect::<Vec<_>>().as_slice() {
            [table, row, column] => cell(body, table, row, column),
            _ => None,
        };
        page.push_str(&found.unwrap_or_else(|| {
            eprintln!("no table has `{place}`");
            format!("({place}: not run)")
        }));
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Returns a cell of the first table with this first heading.
fn cell(body: &str, table: &str, row: &str, column: &str) -> Option<String> {
    let mut lines = body.lines().skip_while(|line| cells(line).first() != Some(&table));
    let at = cells(lines.next()?).iter().position(|heading| *heading == column)?;
    let rows = lines.take_while(|line| line.starts_with('|')).map(cells);
    let mut found = rows.filter(|cells| cells.first().is_some_and(|first| is_row(first, row)));
    found.next().and_then(|cells| cells.get(at).map(|cell| (*cell).to_owned()))
}

fn is_row(first: &str, row: &str) -> bool {
    first == row || first.strip_suffix(" (default)") == Some(row)
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}
