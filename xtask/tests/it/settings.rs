//! The page of settings names the settings there are.

use std::collections::BTreeSet;

use xtask::rules::repository_texts;
use xtask::rules::source::Source;

#[test]
fn page_of_settings_and_code_name_the_same() {
    let texts = repository_texts().unwrap();
    let text = |path: &str| texts.iter().find(|text| text.path == path).unwrap();
    let code = Source::scan(text("scheduler-core/src/settings.rs")).code;
    let (_, body) = code.split_once("pub struct Settings {").unwrap();
    let (body, _) = body.split_once('}').unwrap();
    let fields: BTreeSet<&str> = body
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    let page = &text("docs/operate/settings.md").text;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let shown: BTreeSet<&str> = rows.map(|(name, _)| name).collect();
    assert!(!fields.is_empty());
    assert_eq!(fields, shown);
}
