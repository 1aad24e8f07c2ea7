use shim::format::Status;

use crate::support::Case;

#[test]
fn an_exit_code_is_kept() {
    for code in [0, 1, 37, 255] {
        let case = Case::new(&format!("exit {code}"));
        case.launch();
        let exit = case.exit();
        assert_eq!((exit.status, exit.launch, exit.asked), (Status::Code(code), None, None));
        assert!(exit.started_ms.is_some_and(|started| started <= exit.ended_ms));
        case.emptied();
    }
}

#[test]
fn a_signal_is_not_an_exit_code() {
    let case = Case::new("kill -SEGV $$");
    case.launch();
    assert_eq!(case.exit().status, Status::Signal(libc::SIGSEGV));
    case.emptied();
}

#[test]
fn streams_are_files_of_the_job_and_the_environment_is_the_specs_alone() {
    let mut case = Case::new("echo out; echo err >&2; echo $HOME.$PATH.$USER; pwd");
    case.spec.env.push(b"HOME=/nowhere".to_vec());
    case.spec.directory = b"/proc".to_vec();
    case.launch();
    case.emptied();
    assert_eq!(case.text("job/stdout"), "out\n/nowhere./usr/bin:/bin.\n/proc\n");
    assert_eq!(case.text("job/stderr"), "err\n");
}

#[test]
fn an_output_file_gets_both_streams() {
    let mut case = Case::new("echo out; echo err >&2");
    case.spec.output = Some(case.path().join("log").into_os_string().into_encoded_bytes());
    case.launch();
    case.emptied();
    assert_eq!(case.text("log"), "out\nerr\n");
}

#[test]
fn a_script_runs_with_its_arguments() {
    for script in ["#!/bin/sh\necho $1; exit 3\n", "echo $1; exit 3\n"] {
        let mut case = Case::new("");
        case.spec.argv = vec![b"hello".to_vec()];
        case.spec.script = Some(script.as_bytes().to_vec());
        case.launch();
        assert_eq!(case.exit().status, Status::Code(3));
        assert_eq!(case.text("job/stdout"), "hello\n");
        case.emptied();
    }
}

#[test]
fn what_is_left_of_an_ended_attempt_is_ended_too() {
    // One child in the session, one daemon that left session and parent, one with an environment of its own.
    let left = "sleep 1000 & setsid sleep 1000 & (setsid env -i /bin/sleep 1000 &) ; echo ready; exit 5";
    let case = Case::new(left);
    case.launch();
    let exit = case.exit();
    assert_eq!((exit.status, exit.asked), (Status::Code(5), None));
    case.emptied();
}
