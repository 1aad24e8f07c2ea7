use std::os::unix::process::ExitStatusExt as _;

/// The whole tour: three replicas, two agents, real jobs; each of its lines is a promise.
#[test]
fn the_tour_finds_everything_as_it_should_be() {
    let _alone = xtask::cluster_lock();
    let home = tempfile::tempdir().expect("a temporary folder");
    let (shim, library) = (xtask::built::shim(), xtask::built::fake_nvml());
    let (shim, library) = (shim.to_str().expect("text"), library.to_str().expect("text"));
    let output =
        super::bursar(home.path(), &["dev", "--shim", shim, "--fake-nvml", library, "tour", "--rounds", "2"]);
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {:?}\n{out}\n{err}", output.status.code(), output.status.signal());
}

/// The story of a preemption goes as it is told.
#[test]
fn the_preemption_of_the_demo_takes_its_course() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        // Straight to the terminal: the harness keeps what a test prints.
        eprintln!("not available: there is no python3 here, and the demo's job is a Python script");
        return;
    }
    let _alone = xtask::cluster_lock();
    let home = tempfile::tempdir().expect("a temporary folder");
    let (shim, library) = (xtask::built::shim(), xtask::built::fake_nvml());
    let (shim, library) = (shim.to_str().expect("text"), library.to_str().expect("text"));
    let output = super::bursar(home.path(), &["dev", "--shim", shim, "--fake-nvml", library, "preempt-demo"]);
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{out}\n{err}", output.status.code());
    assert!(out.contains("was PREEMPTED") && out.contains("resumed at step"), "{out}");
}
