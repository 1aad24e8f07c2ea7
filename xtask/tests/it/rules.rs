//! Each rule finds what it is for, and lets its exceptions be.

use std::collections::BTreeSet;

use xtask::rules::metadata::{Dependency, Metadata, Package};
use xtask::rules::{Finding, Text, dependencies, docs, layers, paths, pure, tidy, words};

/// Checks that `findings` are, in order, on `lines` and about `words`.
fn found(findings: &[Finding], expected: &[(usize, &str)]) {
    let listed: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings.len(), expected.len(), "{listed:#?}");
    for (finding, (line, word)) in findings.iter().zip(expected) {
        assert_eq!(finding.line, *line, "{finding}");
        assert!(finding.what.contains(word), "{finding} is not about {word}");
    }
}

#[test]
fn a_long_file_and_a_long_function_are_found() {
    let line = "    let a = 1;\n";
    let exact = format!("fn f() {{\n{}}}\n", line.repeat(98));
    found(&tidy::lengths(&Text::new("a.rs", &exact)), &[]);
    let long = format!("fn f() {{\n{}}}\n", line.repeat(99));
    found(&tidy::lengths(&Text::new("a.rs", &long)), &[(1, "101 lines")]);
    found(&tidy::lengths(&Text::new("a.rs", &"// a\n".repeat(601))), &[(0, "601 lines")]);
}

#[test]
fn a_banned_call_is_found_where_it_is_banned() {
    let calls = |path: &str, text: &str| tidy::banned_calls(&Text::new(path, text));
    let clock = "fn a() { let t = std::time::SystemTime::now(); }\n";
    found(&calls("server/src/leader.rs", clock), &[(1, "SystemTime::now")]);
    found(&calls("server/src/clock.rs", clock), &[]);
    found(&calls("server/tests/it/main.rs", clock), &[]);
    found(&calls("cli/src/queue.rs", "fn a() { std::process::exit(1) }\n"), &[(1, "process::exit")]);
    let sleep = "fn a() { std::thread::sleep(d) }\n";
    found(&calls("server/tests/it/main.rs", sleep), &[(1, "thread::sleep")]);
    found(&calls("server/src/a.rs", sleep), &[]);
    found(&calls("server/src/a.rs", "fn a() { b().unwrap() }\n"), &[(1, ".unwrap()")]);
    found(&calls("server/src/a.rs", "#[cfg(test)]\nmod tests { fn a() { b().unwrap() } }\n"), &[]);
    found(&calls("server/src/a.rs", "fn a() { todo!() } // unimplemented!\n"), &[(1, "todo!")]);
    found(&calls("server/tests/it/main.rs", "#[ignore = \"slow\"]\nfn a() {}\n"), &[(1, "#[ignore")]);
}

#[test]
fn a_watched_value_borrowed_twice_in_one_statement_is_found() {
    let check = |text: &str| tidy::borrowed_twice(&Text::new("server/src/a.rs", text));
    let twice = "fn a() {\n    View {\n        one: self.last.borrow().a,\n        two: self.last.borrow().b,\n    }\n}\n";
    found(&check(twice), &[(4, "self.last.borrow()")]);
    found(&check("fn a() { let a = *x.borrow(); let b = *x.borrow(); }\n"), &[]);
    found(&check("fn a() { f(x.borrow().a, y.borrow().a) }\n"), &[]);
}

#[test]
fn the_core_without_no_std_or_with_a_clock_a_float_or_a_hash_map_is_found() {
    let check = |text: &str| pure::check("core", &[Text::new("core/src/lib.rs", text)]);
    found(&check("#![no_std]\nextern crate alloc;\n"), &[]);
    found(&check("extern crate alloc;\n"), &[(0, "no_std")]);
    let bad = "#![no_std]\nuse std::time::Instant;\nfn a(x: f64) -> HashMap<u8, u8> {}\n";
    found(&check(bad), &[(2, "std"), (2, "Instant"), (3, "f64"), (3, "HashMap")]);
    found(&check("#![no_std]\n#[cfg(test)]\nmod tests { extern crate std; }\n"), &[]);
}

#[test]
fn a_misleading_word_is_found_in_text_and_not_in_code() {
    let check = |path: &str, text: &str| words::check(&Text::new(path, text));
    found(&check("server/src/a.rs", "fn quota() { say(\"over QUOTA\") } // urgent\n"), &[(1, "quota")]);
    found(&check("raft-store/src/a.rs", "fn a() { say(\"priority\") }\n"), &[(1, "priority")]);
    found(&check("chaos-tests/src/a.rs", "fn a() { say(\"priority\") }\n"), &[]);
    found(&check("cli/src/a.rs", "/// Jobs that were evicted.\nstruct A;\n"), &[(1, "evicted")]);
    found(&check("cli/src/a.rs", "fn a() { say(\"there is no --priority\") }\n"), &[]);
    found(&check("docs/a.md", "fine\nbest-effort work\n"), &[(2, "best-effort")]);
}

#[test]
fn a_path_of_one_machine_is_found() {
    let path = ["/ro", "ot/x"].concat();
    let check = |text: String| paths::check(&Text::new("docs/a.md", &text));
    found(&check(format!("see `{path}`\n")), &[(1, "path of one machine")]);
    found(&check(format!("see target{path}\n")), &[]);
}

#[test]
fn a_dead_link_and_a_shown_command_are_found() {
    let page = "[a](b.md) [c](../README.md#x) [d](https://example.org)\n\n```\n$ bursar job show 4190   # one job\n\
                $ bursar drain node-1 --reason \"two words\" | cat\ncargo xtask dev tour\n```\n$ bursar outside\n";
    let texts = [Text::new("docs/a.md", page), Text::new("README.md", "")];
    found(&docs::dead_links(&texts), &[(1, "b.md")]);
    let shown: Vec<_> =
        docs::commands(&texts).into_iter().map(|s| (s.line, s.program, s.arguments.join("|"))).collect();
    assert_eq!(
        shown,
        [
            (4, "bursar", "job|show|4190".into()),
            (5, "bursar", "drain|node-1|--reason|two words".into()),
            (6, "cargo xtask", "dev|tour".to_owned()),
        ]
    );
}

#[test]
fn a_shown_command_or_flag_that_does_not_exist_is_found() {
    let page = "```\n$ bursar job show 4190 --json\n$ bursar job shew 4190\n$ bursar submit a.yaml -- python3 --fast\n\
                $ bursar job show 1 --jsonl\n$ bursar frob\n```\n";
    let shown = docs::commands(&[Text::new("docs/a.md", page)]);
    let help = |path: &[String]| {
        let text = match path.join(" ").as_str() {
            "" => "Usage\n\nCommands:\n  submit  Submits\n  job     Shows\n\nOptions:\n  -h, --help\n",
            "job" => "Commands:\n  show  One job,\n        submit included\n",
            "job show" => "Options:\n      --json  as JSON\n",
            "submit" => "Options:\n  -h, --help\n",
            _ => return None,
        };
        Some(text.to_owned())
    };
    let findings = docs::unknown(&shown, help);
    found(&findings, &[(3, "subcommand `shew`"), (5, "flag `--jsonl`"), (6, "subcommand `frob`")]);
}

fn package(name: &str, version: &str, dependencies: &[(&str, Option<&str>, &str)]) -> Package {
    let dependencies = dependencies
        .iter()
        .map(|(name, kind, req)| Dependency {
            name: (*name).into(),
            kind: kind.map(String::from),
            req: (*req).into(),
        })
        .collect();
    let id = format!("{name} {version}");
    Package { id, name: name.into(), version: version.into(), license: Some("MIT".into()), dependencies }
}

fn graph(packages: &[Package], ours: &[&str]) -> Metadata {
    let ids = packages.iter().filter(|p| ours.contains(&p.name.as_str())).map(|p| p.id.clone());
    Metadata { workspace_members: ids.collect::<BTreeSet<_>>(), packages: packages.to_vec() }
}

#[test]
fn an_arrow_that_is_not_in_the_table_is_found() {
    let check = |package: Package| {
        let others = ["scheduler-core", "proto", "server", "xtask"];
        let others = others.into_iter().filter(|name| *name != package.name);
        let mut packages: Vec<_> = others.map(|name| self::package(name, "0.1.0", &[])).collect();
        packages.push(package);
        let names: Vec<_> = packages.iter().map(|p| p.name.as_str()).collect();
        layers::check(&graph(&packages, &names))
    };
    found(&check(package("server", "0.1.0", &[("proto", None, "*"), ("xtask", Some("dev"), "*")])), &[]);
    found(&check(package("server", "0.1.0", &[("xtask", None, "*")])), &[(0, "must not use `xtask`")]);
    found(&check(package("proto", "0.1.0", &[("server", Some("dev"), "*")])), &[(0, "tests must not use")]);
    found(&check(package("server", "0.1.0", &[("sled", None, "*")])), &[(0, "confined to raft-store")]);
    found(&check(package("scheduler-core", "0.1.0", &[("serde", None, "*")])), &[(0, "`serde`")]);
    found(&check(package("helper", "0.1.0", &[])), &[(0, "not in the layer table")]);
}

#[test]
fn a_licence_a_loose_pin_and_a_duplicate_are_found() {
    for fine in ["MIT", "MIT OR GPL-3.0", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
        assert!(dependencies::is_permissive(fine), "{fine}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-2.0", "(MIT OR GPL-3.0) AND LGPL-3.0", "MIT OR", ""] {
        assert!(!dependencies::is_permissive(bad), "{bad}");
    }
    let mut copyleft = package("a", "1.0.0", &[]);
    copyleft.license = Some("AGPL-3.0".into());
    let mut silent = package("b", "1.0.0", &[]);
    silent.license = None;
    found(&dependencies::licences(&graph(&[copyleft, silent], &[])), &[(0, "AGPL"), (0, "no licence")]);

    let loose = package("raft-store", "0.1.0", &[("sled", None, "^0.34.7")]);
    let twice = [package("sled", "0.34.7", &[]), package("sled", "1.0.0", &[]), loose];
    let graph = graph(&twice, &["raft-store"]);
    found(&dependencies::pins(&graph), &[(0, "more than once"), (0, "pinned with `=`")]);
    let duplicates = dependencies::duplicates(&graph);
    assert!(duplicates.iter().any(|finding| finding.place == "sled"), "{duplicates:?}");
}
