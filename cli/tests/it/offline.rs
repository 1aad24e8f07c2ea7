use super::check;

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn help_explains_codes_and_commands_without_a_network() {
    let home = home();
    check(home.path(), &["help", "B1203"], 0, "minimum runtime longer than the time limit");
    check(home.path(), &["help", "codes"], 0, "B1901");
    check(home.path(), &["help", "budget", "apply"], 0, "--reason");
    check(home.path(), &["help", "sumbit"], 2, "did you mean `bursar help submit`?");
    check(home.path(), &["help"], 0, "submit");
    check(home.path(), &["version"], 0, "bursar ");
    check(home.path(), &["-o", "json", "version"], 0, "\"schema\": \"version/v1\"");
    check(home.path(), &["completion", "bash"], 0, "complete");
}

#[test]
fn usage_faults_end_with_2_and_those_of_run_with_125() {
    let home = home();
    check(home.path(), &["sumbit"], 2, "submit");
    check(home.path(), &["queue", "--topp", "3"], 2, "--top");
    check(home.path(), &["run", "--budget", "a"], 125, "CMD");
    check(home.path(), &["run", "--budget", "a", "--min-runtime", "-1h", "--", "x"], 125, "negative");
    check(home.path(), &["submit", "--budget", "a", "--min-runtime", "1e99", "--", "x"], 2, "error[B1002]");
    check(home.path(), &["submit", "--budget", "a", "--priority", "high", "--", "x"], 2, "--turn");
    check(home.path(), &["run", "--priority=9", "--budget", "a", "--", "x"], 125, "there is no --priority");
    check(home.path(), &["job", "show", "x"], 2, "is not a job");
}

#[test]
fn words_about_jobs_and_nodes_are_checked_before_anybody_is_asked() {
    let home = home();
    check(home.path(), &["job", "hold", "4190.1"], 2, "is an attempt; a job is meant here");
    check(home.path(), &["job", "realease", "4190"], 2, "release");
    check(home.path(), &["node", "cordon", "node-17"], 2, "a cordon needs a reason");
    check(home.path(), &["node", "drain", "node-17"], 2, "--reason");
    check(home.path(), &["node", "drain", "node-17", "--reason", " "], 2, "the reason is empty");
    let both = ["node", "drain", "n", "--reason", "r", "--now", "--deadline", "2h"];
    check(home.path(), &both, 2, "cannot be used with");
    check(home.path(), &["bill", "--by", "teem"], 2, "cause");
    check(home.path(), &["explain", "Node_17"], 2, "is no job, attempt, decision");
    check(home.path(), &["explain", "B1203"], 0, "minimum runtime longer than the time limit");
    check(home.path(), &["plan", "absent.yaml"], 1, "cannot read absent.yaml");
    check(home.path(), &["plan", "--budget", "a", "--priority", "high", "--", "x"], 2, "--turn");
}

#[test]
fn a_checkpoint_is_reported_from_inside_a_job_only() {
    let home = home();
    check(home.path(), &["checkpoint", "--step", "12", "--path", "c"], 2, "error[B1007]: not inside a job");
    check(home.path(), &["checkpoint"], 2, "--step");
    check(home.path(), &["checkpoint", "--resumed", "--path", "c"], 2, "cannot be used with");
    let told = home.path().join("told");
    let report = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bursar"));
        command.arg("checkpoint").args(args).current_dir(home.path());
        command.env_remove("BURSAR_CHECKPOINT_SOCKET").env("BURSAR_CHECKPOINT_FILE", &told);
        assert!(command.output().expect("bursar runs").status.success());
        std::fs::read_to_string(&told).expect("reported")
    };
    let path = home.path().canonicalize().expect("there").join("c");
    assert_eq!(
        report(&["--step", "12", "--path", "c", "--bytes", "7"]),
        format!("{{\"step\":12,\"path\":{path:?},\"bytes\":7}}")
    );
    assert_eq!(report(&["--resumed"]), "{\"resumed\":true}");
}

#[test]
fn nothing_to_speak_to_says_what_to_do() {
    let home = home();
    check(home.path(), &["queue"], 2, "no control plane is selected");
    check(home.path(), &["--context", "lab", "queue"], 2, "no context `lab`");
    check(home.path(), &["--server", "127.0.0.1:1", "queue"], 5, "error[B1104]");
    check(home.path(), &["--server", "localhost", "queue"], 2, "is not a replica's address");
    check(home.path(), &["dev", "kill-leader"], 4, "error[B1111]");
}

#[test]
fn no_replica_reachable_ends_with_6() {
    let home = home();
    let token = home.path().join("token");
    std::fs::write(&token, "t\n").expect("written");
    let token = token.to_str().expect("text");
    // Port 1 of loopback refuses: nothing listens there.
    check(home.path(), &["context", "add", "lab", "--servers", "127.0.0.1:1", "--token-file", token], 0, "");
    check(home.path(), &["--patience", "300ms", "queue"], 6, "no replica can be reached (127.0.0.1:1)");
    check(home.path(), &["context", "list"], 0, "lab");
    check(home.path(), &["context", "use", "lba"], 2, "did you mean `lab`?");
}

#[test]
fn the_printed_example_and_schema_are_whole() {
    let home = home();
    check(home.path(), &["submit", "--example"], 0, "min_runtime");
    check(home.path(), &["submit", "--schema"], 0, "additionalProperties");
}

#[test]
fn faults_in_a_file_point_to_its_line() {
    let home = home();
    std::fs::write(home.path().join("job.yaml"), "budget: a\ncommand: [x]\nprio: 1\n").expect("written");
    check(home.path(), &["submit", "job.yaml"], 3, "job.yaml:3:1");
    check(home.path(), &["submit", "absent.yaml"], 1, "nothing was submitted");
}
