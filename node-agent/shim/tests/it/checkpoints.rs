use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

use shim::format::{self, Account, Saves, Status, Stop};
use shim::report::REPORT_MAX;

use crate::support::{Case, kill, preempt};

const WAITS: &str = "echo ready; while :; do sleep 1000 & wait; done";

fn saved(case: &Case) -> u64 {
    case.until("a checkpoint", || case.saves().saved_ms)
}

fn send(case: &Case, datagram: &[u8]) -> std::io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(datagram, case.path().join(format::SOCKET))
}

fn replace(case: &Case, content: &[u8]) {
    let job = case.path().join(format::JOB);
    std::fs::write(job.join("new"), content).expect("it is written");
    std::fs::rename(job.join("new"), job.join(format::CHECKPOINT)).expect("it is renamed");
}

/// Sends a checkpoint that has to arrive after all that was done before, and returns when it did.
fn settled(case: &Case) -> Saves {
    let before = case.saves().saved_ms;
    case.until("the socket", || send(case, b"{\"step\":9}").ok());
    case.until("the last report", || Some(case.saves()).filter(|saves| saves.saved_ms > before))
}

#[test]
fn a_checkpoint_after_the_notice_ends_the_grace_and_one_before_it_does_not() {
    let case = Case::told(
        "cd \"$JOB\"; echo '{\"step\":1}' > checkpoint; trap 'echo {} > c; mv c checkpoint' USR1; trap 'exit 7' TERM; \
         echo ready; while :; do sleep 1000 & wait; done",
    );
    case.launch();
    case.said("ready");
    let before = saved(&case);
    case.stop(&preempt(600_000));
    let exit = case.exit();
    assert_eq!((exit.status, exit.noticed), (Status::Code(7), true));
    assert!(exit.saved_ms.unwrap() > before && exit.saved_ms.unwrap() <= exit.ended_ms);
    case.emptied();
}

#[test]
fn reports_come_by_socket_and_file_and_are_stamped_by_the_shim() {
    let case = Case::told(WAITS);
    let earliest = shim::sys::boot_ms();
    case.launch();
    case.said("ready");
    send(&case, b"{\"resumed\": true}").unwrap();
    let signed = case.until("the sign", || case.saves().signed_ms);
    assert_eq!(case.saves().saved_ms, None, "a sign is no checkpoint");
    send(&case, b"{\"step\": 5, \"finished\": 99999999999999, \"path\": \"/c/5\"}").unwrap();
    let first = saved(&case);
    replace(&case, b"{\"step\": 6}");
    let second = case.until("the second", || case.saves().saved_ms.filter(|saved| *saved > first));
    assert!(earliest <= signed && signed <= first && second <= shim::sys::boot_ms());
    assert_eq!(case.saves().signed_ms, Some(signed), "the first sign stays the first");
    kill(case.record().main.pid);
    assert_eq!(case.exit().saved_ms, Some(second));
    case.emptied();
    assert!(!case.path().join(format::SOCKET).exists());
}

#[test]
fn hostile_reports_harm_nothing_and_say_nothing() {
    let case = Case::told(WAITS);
    case.launch();
    case.said("ready");
    let job = case.path().join(format::JOB);
    let file = job.join(format::CHECKPOINT);
    let looked_at = |case: &Case| {
        let inode = std::fs::symlink_metadata(&file).unwrap().ino();
        case.until("a look", || case.saves().file.filter(|seen| seen.inode == inode).map(drop));
    };
    let too_long = format!("{{\"a\":\"{}\"}}", "x".repeat(REPORT_MAX));
    for garbage in
        [b"not json".as_slice(), b"[1]", b"{\"a\":", &[0; 64], b"", b"\xff\xfe", too_long.as_bytes()]
    {
        send(&case, garbage).unwrap();
    }
    replace(&case, b"{\"resumed\":");
    looked_at(&case);
    // A file of a gigabyte that takes no room, a FIFO that nobody writes to, a link to a good report, a directory.
    std::fs::File::create(job.join("new")).unwrap().set_len(1 << 30).unwrap();
    std::fs::rename(job.join("new"), &file).unwrap();
    looked_at(&case);
    let fifo = std::ffi::CString::new(job.join("fifo").into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: a valid C string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    std::fs::rename(job.join("fifo"), &file).unwrap();
    looked_at(&case);
    std::fs::write(job.join("good"), "{}").unwrap();
    std::os::unix::fs::symlink("good", job.join("link")).unwrap();
    std::fs::rename(job.join("link"), &file).unwrap();
    looked_at(&case);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    looked_at(&case);
    let saves = case.saves();
    assert_eq!((saves.saved_ms, saves.signed_ms), (None, None), "none of it is a checkpoint");
    settled(&case);
    kill(case.record().main.pid);
    case.emptied();
}

#[test]
fn a_flood_of_datagrams_is_drunk_and_stops_nothing() {
    let case = Case::told(WAITS);
    case.launch();
    case.said("ready");
    let socket = UnixDatagram::unbound().unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut taken = 0;
    let until = shim::sys::boot_ms() + 1_500;
    while shim::sys::boot_ms() < until {
        taken += usize::from(socket.send_to(b"{\"step\":1}", case.path().join(format::SOCKET)).is_ok());
    }
    assert!(taken > 100, "only {taken} were taken");
    case.stop(&Stop { kill_after_ms: 1, ..preempt(0) });
    while case.bytes(format::EXIT).is_none() && shim::sys::boot_ms() < until + 20_000 {
        let _ = socket.send_to(b"{\"step\":1}", case.path().join(format::SOCKET));
    }
    assert!(case.exit().noticed);
    case.emptied();
}

#[test]
fn a_marker_newer_than_all_before_is_a_checkpoint() {
    let mut case = Case::told(
        "cd \"$JOB\"; echo ready; while [ ! -e go ]; do sleep 0.02; done; mkdir c/2; echo > c/2/done; sleep 1000",
    );
    let job = case.path().join(format::JOB);
    std::fs::create_dir_all(job.join("c/1")).unwrap();
    std::fs::write(job.join("c/1/done"), "").unwrap();
    case.spec.directory = job.clone().into_os_string().into_encoded_bytes();
    case.spec.checkpoint_glob = Some(b"c/*/done".to_vec());
    if is_root() {
        // As another account, which everything of the job belongs to.
        let account = Account { uid: 65_534, gid: 65_533, groups: vec![65_533] };
        for path in [job.clone(), job.join("c"), job.join("c/1")] {
            std::os::unix::fs::chown(path, Some(account.uid), Some(account.gid)).unwrap();
        }
        case.spec.account = Some(account);
    }
    case.launch();
    case.said("ready");
    case.until("the first scan", || case.saves().marker);
    assert_eq!(case.saves().saved_ms, None, "what was there before is of an attempt before");
    std::fs::write(job.join("go"), "").unwrap();
    let stamped = saved(&case);
    assert!(stamped <= shim::sys::boot_ms());
    // A shim that takes over takes it for no new one.
    kill(case.record().shim.pid);
    case.until("the nurse has it", || (case.shim("--nurse") == 0).then_some(()));
    std::fs::write(job.join("c/1/done"), "again").unwrap();
    let second = case.until("the second", || case.saves().saved_ms.filter(|saved| *saved > stamped));
    assert!(second <= shim::sys::boot_ms());
    kill(case.record().main.pid);
    case.exit();
    case.emptied();
}

#[test]
fn a_marker_after_the_notice_ends_the_grace() {
    let mut case = Case::told(
        "cd \"$JOB\"; trap 'echo > c-1.done' USR1; trap 'exit 7' TERM; echo ready; while :; do sleep 1000 & wait; done",
    );
    case.spec.directory = case.path().join(format::JOB).into_os_string().into_encoded_bytes();
    case.spec.checkpoint_glob = Some(b"c-*.done".to_vec());
    case.launch();
    case.said("ready");
    case.until("the first scan", || case.saves().marker);
    case.stop(&preempt(600_000));
    assert_eq!(case.exit().status, Status::Code(7));
    case.emptied();
}

#[test]
fn progress_outlives_the_shim_and_reports_reach_the_one_after_it() {
    let case = Case::told(WAITS);
    case.launch();
    case.said("ready");
    replace(&case, b"{}");
    let first = saved(&case);
    kill(case.record().shim.pid);
    case.until("the nurse has it", || (case.shim("--nurse") == 0).then_some(()));
    case.stop(&preempt(600_000));
    case.until("the notice", || case.phase().filter(|phase| phase.noticed));
    assert_eq!(case.saves().saved_ms, Some(first), "the report before it is not taken for a new one");
    let second = settled(&case).saved_ms.unwrap();
    assert!(second > first);
    let exit = case.exit();
    assert_eq!((exit.noticed, exit.saved_ms), (true, Some(second)));
    case.emptied();
}

#[test]
fn the_shim_stays_small() {
    let case = Case::told(WAITS);
    case.launch();
    case.said("ready");
    settled(&case);
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", case.record().shim.pid)).unwrap();
    let kib = |name: &str| -> u64 {
        let line = smaps.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let own = kib("Private_Dirty:");
    println!("the shim's own memory: {own} KiB, anonymous {} KiB", kib("Anonymous:"));
    assert!(own < 2_048, "{own} KiB of its own");
    kill(case.record().main.pid);
    case.emptied();
}

fn is_root() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::geteuid() == 0 }
}
