//! What the pages show can be typed.

use std::collections::HashMap;
use std::process::Command;

use xtask::built::bursar;
use xtask::rules::docs::{Shown, commands, unknown};
use xtask::rules::repository_texts;

fn shown(program: &str) -> Vec<Shown> {
    let texts = repository_texts().expect("the repository can be read");
    commands(&texts).into_iter().filter(|shown| shown.program == program).collect()
}

#[test]
fn every_xtask_command_shown_in_a_page_exists() {
    let help = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for shown in shown("cargo xtask") {
        let name = shown.arguments.first().unwrap();
        let exists = help.lines().any(|line| line.split_whitespace().next() == Some(name));
        assert!(exists, "{}:{}: no `cargo xtask {name}`", shown.path, shown.line);
    }
}

/// A name in a page that reads like a test's: several words.
fn is_name_of_a_test(word: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    word.bytes().all(is_of_name) && word.matches('_').count() > 3
}

#[test]
fn every_test_that_a_page_or_a_planted_mistake_names_exists() {
    let texts = repository_texts().expect("the repository can be read");
    let is_there = |name: &str| {
        let head = format!("fn {name}(");
        texts.iter().any(|text| text.path.ends_with(".rs") && text.text.contains(&head))
    };
    let page = texts.iter().find(|text| text.path == "docs/evidence.md").expect("it is kept there");
    let named: Vec<&str> =
        page.text.split('`').skip(1).step_by(2).filter(|word| is_name_of_a_test(word)).collect();
    assert!(named.len() > 60, "{} tests are named", named.len());
    let missing: Vec<&&str> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
    for planted in xtask::commands::PLANTED {
        let name = planted.law.rsplit("::").next().unwrap();
        assert!(is_there(name), "{}: no test {name}", planted.mutant);
    }
}

#[test]
fn an_unknown_command_fails_and_lists_those_there_are() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("frobnicate").output().unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("unknown command") && message.contains("bench NAME"), "{message}");
}

#[test]
fn every_bursar_command_and_flag_shown_in_a_page_exists() {
    let mut known = HashMap::new();
    let findings =
        unknown(&shown("bursar"), |path| known.entry(path.to_vec()).or_insert_with(|| help(path)).clone());
    let listed: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(listed.is_empty(), "{}", listed.join("\n"));
}

fn help(path: &[String]) -> Option<String> {
    let output = Command::new(bursar()).args(path).arg("--help").output().expect("bursar starts");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
