//! The page of settings names the settings there are.

use std::collections::BTreeSet;

use xtask::rules::source::Source;
use xtask::rules::{Text, repository_texts};

fn text(path: &str) -> Text {
    let texts = repository_texts().expect("the repository can be read");
    texts.into_iter().find(|text| text.path == path).unwrap_or_else(|| panic!("no {path}"))
}

/// Returns the names of the fields of `structure` in the source at `path`.
fn fields(path: &str, structure: &str) -> BTreeSet<String> {
    let code = Source::scan(&text(path)).code;
    let (_, body) = code.split_once(&format!("struct {structure} {{")).expect("the structure is there");
    let (body, _) = body.split_once("\n}").expect("it ends");
    let lines = body.lines().map(|line| line.trim().trim_start_matches("pub "));
    let fields: BTreeSet<String> =
        lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned()).collect();
    assert!(!fields.is_empty());
    fields
}

/// Returns the keys that a configuration names, in force or commented out.
fn keys(path: &str) -> BTreeSet<String> {
    let lines = text(path).text;
    let lines = lines.lines().map(|line| line.trim_start_matches("# "));
    let keys = lines.filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.to_owned());
    keys.filter(|key| !key.contains(' ')).collect()
}

#[test]
fn page_of_settings_and_code_name_the_same() {
    let page = text("docs/operate/settings.md").text;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let shown: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(fields("scheduler-core/src/settings.rs", "Settings"), shown);
}

#[test]
fn example_configuration_of_a_replica_names_every_key() {
    assert_eq!(fields("server/src/config.rs", "Config"), keys("deploy/server.toml"));
}
