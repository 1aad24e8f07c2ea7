use std::os::unix::fs::PermissionsExt;

use shim::format::{self, Account, LaunchFailure, Status, Step};

use crate::support::{Case, cancel};

fn failed(case: &Case) -> (LaunchFailure, Status) {
    case.launch();
    let exit = case.exit();
    case.emptied();
    assert_eq!(exit.started_ms, None);
    (exit.launch.expect("the launch fails"), exit.status)
}

#[test]
fn a_program_that_does_not_exist_is_127() {
    for name in ["no-such-program", "/no/such/program"] {
        let mut case = Case::new("");
        case.spec.argv = vec![name.as_bytes().to_vec()];
        let failure = LaunchFailure { step: Step::Program, errno: libc::ENOENT };
        assert_eq!(failed(&case), (failure, Status::Code(127)));
    }
}

#[test]
fn a_program_that_is_not_executable_is_126() {
    let mut case = Case::new("");
    let program = case.path().join("program");
    std::fs::write(&program, "x").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o600)).unwrap();
    case.spec.argv = vec![program.into_os_string().into_encoded_bytes()];
    let failure = LaunchFailure { step: Step::Program, errno: libc::EACCES };
    assert_eq!(failed(&case), (failure, Status::Code(126)));
}

#[test]
fn a_missing_directory_and_an_impossible_output_name_their_step() {
    let mut case = Case::new("");
    case.spec.directory = b"/no/such/directory".to_vec();
    let failure = LaunchFailure { step: Step::Directory, errno: libc::ENOENT };
    assert_eq!(failed(&case), (failure, Status::Code(127)));
    let mut case = Case::new("");
    let link = case.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    case.spec.output = Some(link.into_os_string().into_encoded_bytes());
    let failure = LaunchFailure { step: Step::Output, errno: libc::ELOOP };
    assert_eq!(failed(&case), (failure, Status::Code(126)));
}

#[test]
fn an_attempt_is_launched_once() {
    let case = Case::new("echo run; exec sleep 1000");
    case.launch();
    case.said("run");
    assert_eq!(case.shim("--attempt"), 10, "a living shim has the attempt");
    crate::support::kill(case.record().main.pid);
    assert_eq!(case.exit().status, Status::Signal(libc::SIGKILL));
    case.emptied();
    case.until("the lock is free", || (case.shim("--attempt") == 11).then_some(()));
    assert_eq!(case.text("job/stdout"), "run\n");
}

#[test]
fn a_stop_that_is_there_before_the_launch_prevents_it() {
    let case = Case::new("echo run");
    case.stop(&cancel(0, 0));
    case.launch();
    let exit = case.exit();
    assert_eq!((exit.started_ms, exit.asked.as_deref()), (None, Some("cancel")));
    assert!(case.bytes(format::RECORD).is_none());
    assert_eq!(case.text("job/stdout"), "");
}

#[test]
fn the_record_names_the_living_main_process() {
    let case = Case::new("exec sleep 1000");
    case.launch();
    let record = case.record();
    assert!(shim::procs::is_alive(record.main) && shim::procs::is_alive(record.shim));
    assert_eq!(record.boot, shim::procs::boot_id().unwrap());
    let parent = shim::procs::process(record.main.pid).unwrap().parent;
    assert_eq!(parent, record.shim.pid);
}

#[test]
fn a_job_runs_as_its_account_and_owns_its_files() {
    if !nix_is_root() {
        println!("not available: dropping to an account needs root");
        return;
    }
    let mut case = Case::new("id -u; id -g; id -G; cat \"$SPEC\" >&2");
    let job = case.path().join(format::JOB);
    std::os::unix::fs::chown(&job, Some(65_534), Some(65_533)).unwrap();
    case.spec.account = Some(Account { uid: 65_534, gid: 65_533, groups: vec![65_533, 65_532] });
    case.spec.env.push(format!("SPEC={}", case.path().join(format::SPEC).display()).into_bytes());
    case.launch();
    case.emptied();
    assert_eq!(case.text("job/stdout"), "65534\n65533\n65533 65532\n");
    assert!(case.text("job/stderr").contains("denied"), "the spec is not the job's to read");
}

fn nix_is_root() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::geteuid() == 0 }
}
