//! What the pages promise: commands that exist, links that lead somewhere.

use std::collections::BTreeSet;

use super::{Finding, Text};

/// A command shown in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The page.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The program: `bursar` or `cargo xtask`.
    pub program: &'static str,
    /// Its arguments, without comments.
    pub arguments: Vec<String>,
}

/// Returns every command of ours that the pages show: in fenced blocks, lines of `$ bursar …` and `cargo xtask …`.
pub fn commands(texts: &[Text]) -> Vec<Shown> {
    let pages = texts.iter().filter(|text| text.path.ends_with(".md"));
    pages.flat_map(commands_of).collect()
}

fn commands_of(page: &Text) -> Vec<Shown> {
    let mut shown = Vec::new();
    let mut is_fenced = false;
    for (line, text) in (1..).zip(page.text.lines()) {
        let text = text.trim();
        if text.starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        let command = text.strip_prefix("$ ").unwrap_or(text);
        let program = if text.starts_with("$ bursar ") {
            "bursar"
        } else if command.starts_with("cargo xtask ") {
            "cargo xtask"
        } else {
            continue;
        };
        if is_fenced {
            let arguments = arguments(&command[program.len()..]);
            shown.push(Shown { path: page.path.clone(), line, program, arguments });
        }
    }
    shown
}

/// Splits a shown command line: quotes hold words together, `#` begins a comment, a shell operator ends it.
fn arguments(line: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c.is_whitespace() => {
                if matches!(word.as_str(), "#" | "|" | "&&" | "&" | ">" | "2>") {
                    return arguments;
                }
                if !word.is_empty() {
                    arguments.push(std::mem::take(&mut word));
                }
            }
            (None, c) => word.push(c),
        }
    }
    arguments
}

/// Whether a command with others below it is one itself, with arguments of its own.
fn takes_arguments(help: &str) -> bool {
    help.lines().any(|line| line.trim_end() == "Arguments:")
}

/// Returns the shown commands that `help` does not know: no such subcommand, or no such flag on it.
///
/// `help` answers what `PROGRAM SUBCOMMANDS… --help` prints, or `None` if that fails.
pub fn unknown(shown: &[Shown], mut help: impl FnMut(&[String]) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for command in shown {
        let mut path: Vec<String> = Vec::new();
        let mut text = help(&path).unwrap_or_default();
        let mut words = command.arguments.iter().peekable();
        while let Some(word) = words.peek().filter(|word| subcommands(&text).contains(word.as_str())) {
            path.push((*word).clone());
            words.next();
            text = help(&path).unwrap_or_default();
        }
        let mut add = |what: String| findings.push(Finding::new(&command.path, command.line, what));
        let is_group = !subcommands(&text).is_empty() && !takes_arguments(&text);
        match words.peek() {
            Some(word) if is_group && !word.starts_with('-') => {
                add(format!("`{} {}` has no subcommand `{word}`", command.program, path.join(" ")));
            }
            _ => {
                let flags = words.take_while(|word| *word != "--").filter(|word| word.starts_with('-'));
                let missing = flags.filter(|flag| !knows(&text, flag.split('=').next().unwrap_or(flag)));
                missing.for_each(|flag| add(format!("`{}` has no flag `{flag}`", path.join(" "))));
            }
        }
    }
    findings
}

/// Returns the subcommands that a help text lists below `Commands:`.
fn subcommands(help: &str) -> BTreeSet<&str> {
    let listed = help.lines().skip_while(|line| line.trim() != "Commands:").skip(1);
    listed
        .take_while(|line| line.starts_with(' ') || line.is_empty())
        // Names are indented by two; what is indented deeper continues a description.
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

fn knows(help: &str, flag: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
    let starts = |before: &str| before.is_empty() || before.ends_with([' ', '\n', '[']);
    help.match_indices(flag).any(|(at, _)| starts(&help[..at]) && ends(&help[at + flag.len()..]))
}

/// Returns relative links of the pages that lead to no file.
pub fn dead_links(texts: &[Text]) -> Vec<Finding> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for text in texts {
        let mut path = text.path.as_str();
        known.insert(path.into());
        while let Some((folder, _)) = path.rsplit_once('/') {
            known.insert(folder.into());
            path = folder;
        }
    }
    let pages = texts.iter().filter(|text| text.path.ends_with(".md"));
    pages.flat_map(|page| dead_links_of(page, &known)).collect()
}

fn dead_links_of(page: &Text, known: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(page.text.lines()) {
        for rest in line.split("](").skip(1) {
            let Some((link, _)) = rest.split_once(')') else { continue };
            let target = link.split('#').next().unwrap_or("");
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !resolve(&page.path, target).is_some_and(|path| known.contains(&path)) {
                findings.push(Finding::new(&page.path, number, format!("`{target}` leads to no file")));
            }
        }
    }
    findings
}

/// Resolves `target` against the folder of `page`, or returns `None` if it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
