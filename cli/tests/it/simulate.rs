//! Simulations from the command line; no control plane is there.

use std::path::Path;

use super::check;

const SMALL: &str = "
name: small
about: Two machines, a day.
length: 1d
nodes: [{ count: 2, gpus: 4 }]
budgets:
  - { name: a, share: 60 }
  - { name: b, share: 40 }
jobs:
  made:
    - { budget: a, count: 12, until: 12h, sizes: [{ gpus: 1 }, { gpus: 4 }], runs: 2h, varies: 1.5 }
    - { budget: b, count: 12, until: 12h, sizes: [{ gpus: 1 }, { gpus: 8 }], runs: 1h, varies: 1.5 }
";

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(home.path().join("small.yaml"), SMALL).expect("a scenario");
    home
}

#[test]
fn a_run_shows_its_figures_and_writes_them_and_its_page() {
    let home = home();
    let at = |name: &str| home.path().join(name).display().to_string();
    let (file, page, csv) = (at("small.yaml"), at("small.html"), at("small.csv"));
    let run = ["simulate", "run", &file, "--html", &page, "--csv", &csv];
    check(home.path(), &run, 0, "owed delivered, mean");
    let text = |path: &str| std::fs::read_to_string(Path::new(path)).expect("it was written");
    assert!(text(&page).contains("<html") && text(&page).contains("small"));
    assert!(text(&csv).starts_with("scenario,policy,variant,seed,jobs"));
    check(home.path(), &["-o", "json", "simulate", "run", &file], 0, "\"schema\": \"bursar.simulate/v1\"");
    check(home.path(), &["simulate", "report", &file, "--html", &at("again.html")], 0, "");
    assert_eq!(text(&page), text(&at("again.html")), "the same seed is the same page");
}

#[test]
fn a_comparison_has_a_row_for_each_combination() {
    let home = home();
    let file = home.path().join("small.yaml").display().to_string();
    let swept =
        ["-o", "jsonl", "simulate", "compare", &file, "--set", "cap=8h,2h", "--policy", "bursar,fifo"];
    let out = check(home.path(), &swept, 0, "\"policy\":\"fifo\"");
    assert_eq!(out.lines().filter(|line| line.starts_with('{')).count(), 4, "{out}");
    let page = home.path().join("both.html").display().to_string();
    let two = ["simulate", "compare", &file, "--policy", "bursar,fifo", "--html", &page];
    check(home.path(), &two, 0, "Direction is reliable, exact size is not.");
    let written = std::fs::read_to_string(&page).expect("it was written");
    assert!(written.contains("small · bursar beside fifo"), "{}", &written[..600]);
    let three = ["simulate", "compare", &file, "--seeds", "3", "--html", &page];
    check(home.path(), &three, 2, "these are 3");
    let seeds = ["simulate", "compare", &file, "--seeds", "2"];
    check(home.path(), &seeds, 0, "Direction is reliable, exact size is not.");
}

#[test]
fn what_ships_is_listed_and_printed_and_what_is_wrong_is_said() {
    let home = home();
    let file = home.path().join("small.yaml").display().to_string();
    check(home.path(), &["simulate", "scenarios"], 0, "week-of-a-lab");
    check(home.path(), &["simulate", "scenarios", "large-gang"], 0, "name: large-gang");
    check(home.path(), &["simulate", "scenarios", "--schema"], 0, "\"$schema\"");
    check(home.path(), &["simulate", "run", "weak-of-a-lab"], 1, "did you mean `week-of-a-lab`?");
    check(home.path(), &["simulate", "run", &file, "--policy", "fif"], 2, "did you mean `fifo`?");
    check(home.path(), &["simulate", "run", &file, "--set", "capp=8h"], 3, "there is no such setting");
    check(home.path(), &["simulate", "run", &file, "--set", "cap=8h,4h"], 2, "bursar simulate compare");
    check(home.path(), &["simulate", "run", &file, "--set", "cap"], 2, "KEY=VALUE");
    let broken = home.path().join("broken.yaml");
    std::fs::write(&broken, SMALL.replace("count: 2", "cuont: 2")).expect("a scenario");
    check(home.path(), &["simulate", "run", &broken.display().to_string()], 3, "cuont");
    check(home.path(), &["simulate", "trace", "absent.csv"], 1, "absent.csv");
    let trace = home.path().join("jobs.csv");
    std::fs::write(&trace, "submit,duration,gpus,user\n0,60,1,u\n30,600,8,v\n60,x,1,u\n").expect("a trace");
    check(
        home.path(),
        &["simulate", "trace", &trace.display().to_string(), "--gpus", "8"],
        0,
        "largest job, GPUs",
    );
}
